"""Streams of events and of output: whole, resumed, ended for every reason, and no faster than they are read."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.api.conftest import CHAIN, until
from tests.grpc_api.conftest import WAIT_S, GrpcRunning, Refusal
from weft.api.access import token_gate
from weft.api.access.token_gate import Tokens
from weft.api.streams import topic_reader
from weft.client.local import StoreConnection
from weft.grpc_api import weft_pb2 as m
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore

BINARY = {"name": "binary", "tasks": {"a": {"run": "printf 'one\\377\\000two\\303'; echo err >&2"}}}


def readers(server: GrpcRunning) -> int:
    return int(server.app.state.hub.readers)


def end_of(stream: Any) -> Refusal:
    with pytest.raises(grpc.RpcError) as found:
        list(stream)
    return Refusal(found.value)


def test_a_run_is_followed_from_its_beginning_to_its_end(working: GrpcRunning) -> None:
    run = working.submit(CHAIN)
    client = working.rpc()
    events = client.whole("StreamWorkflowEvents", m.StreamWorkflowEventsRequest(run=run))
    known = working.connection.events(run)
    assert [(one.seq, one.kind, one.task, json.loads(one.data_json)) for one in events] == [
        (one.seq, one.kind, one.task or "", one.data) for one in known
    ]
    assert events[-1].kind == "run_finished"
    rest = client.whole("StreamWorkflowEvents", m.StreamWorkflowEventsRequest(run=run, after=events[1].seq))
    assert [one.seq for one in rest] == [one.seq for one in events[2:]]
    ends = client.whole("StreamWorkflowEvents", m.StreamWorkflowEventsRequest(run=run, kind=["run_finished"]))
    assert [one.kind for one in ends] == ["run_finished"]
    assert client.whole("StreamWorkflowEvents", m.StreamWorkflowEventsRequest(run=run, after=events[-1].seq)) == []


def test_output_is_bytes_and_goes_on_where_a_reader_stopped(working: GrpcRunning) -> None:
    run = working.submit(BINARY)
    working.ended(run)
    client = working.rpc()
    parts = client.whole("StreamOutput", m.StreamOutputRequest(run=run, task="a"))
    whole = b"".join(part.data for part in parts)
    assert whole == b"one\xff\x00two\xc3"
    assert (parts[-1].attempt, parts[-1].next) == (1, len(whole))
    after = m.OutputPosition(attempt=1, offset=4)
    rest = client.whole("StreamOutput", m.StreamOutputRequest(run=run, task="a", after=after))
    assert b"".join(part.data for part in rest) == whole[4:]
    errors = client.whole("StreamOutput", m.StreamOutputRequest(run=run, task="a", stream="stderr", attempt=1))
    assert [part.data for part in errors] == [b"err\n"]
    missing = client.refused("StreamOutput", m.StreamOutputRequest(run=run, task="a", attempt=2))
    assert (missing.status, missing.code) == ("NOT_FOUND", "not_found")
    assert client.refused("StreamOutput", m.StreamOutputRequest(run=run, task="a", stream="x")).code == "body"


def test_the_cluster_is_followed_from_now_on(idle: GrpcRunning) -> None:
    idle.submit(CHAIN)
    stream = idle.rpc()("StreamEvents", m.StreamEventsRequest(kind=["submitted"]))
    until(lambda: readers(idle) == 1)
    run = idle.submit(CHAIN)
    assert next(stream).run_id == run
    stream.cancel()
    until(lambda: readers(idle) == 0)


@pytest.fixture
def with_tokens(
    serving_grpc: Callable[..., GrpcRunning], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> GrpcRunning:
    monkeypatch.setattr(token_gate, "BELIEVED_S", 0.0)
    connection = StoreConnection(StoreAccess(SqliteStore(tmp_path / ".weft" / "weft.db")))
    return serving_grpc(node=False, connection=connection, gate=Tokens(connection.token_holder))


def test_a_revoked_token_ends_a_quiet_stream(with_tokens: GrpcRunning) -> None:
    server = with_tokens
    server.app.state.heartbeat_s = 0.05
    made = server.connection.create_token("x", "viewer")
    stream = server.rpc(made.token)("StreamEvents", m.StreamEventsRequest())
    until(lambda: readers(server) == 1)
    server.connection.revoke_token(made.id)
    end = end_of(stream)
    assert (end.status, end.code) == ("UNAUTHENTICATED", "unauthorized")


def test_a_revoked_token_ends_a_stream_that_never_rests(with_tokens: GrpcRunning) -> None:
    """News come more often than heartbeats: the token is looked at all the same."""
    server = with_tokens
    server.app.state.heartbeat_s = 1.0
    made = server.connection.create_token("x", "viewer")
    stream = server.rpc(made.token)("StreamEvents", m.StreamEventsRequest())
    until(lambda: readers(server) == 1)
    ended = threading.Event()

    def busy() -> None:
        size = 1
        while not ended.wait(0.05):
            size += 1
            server.connection.set_pool("p", size)

    worker = threading.Thread(target=busy)
    worker.start()
    try:
        server.connection.revoke_token(made.id)
        assert end_of(stream).status == "UNAUTHENTICATED"
    finally:
        ended.set()
        worker.join(WAIT_S)


def test_streams_end_when_the_server_stops(idle: GrpcRunning) -> None:
    run = idle.submit(CHAIN)
    client = idle.rpc()
    streams = [
        client("StreamWorkflowEvents", m.StreamWorkflowEventsRequest(run=run)),
        client("StreamEvents", m.StreamEventsRequest()),
    ]
    until(lambda: readers(idle) == 2)
    idle.stop_streams()
    for stream in streams:
        end = end_of(stream)
        assert (end.status, end.code) == ("UNAVAILABLE", "not_ready")


def test_readers_that_go_away_leave_nothing_behind(idle: GrpcRunning) -> None:
    client = idle.rpc()
    streams = [client("StreamEvents", m.StreamEventsRequest()) for _ in range(20)]
    until(lambda: readers(idle) == 20)
    for stream in streams[:10]:
        stream.cancel()
    until(lambda: readers(idle) == 10)
    client.close()  # the connection, with the others
    until(lambda: readers(idle) == 0)
    until(lambda: not idle.app.state.hub._topics)


def test_there_is_a_bound_on_readers(idle: GrpcRunning, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reader, "READERS_MAX", 1)
    client = idle.rpc()
    held = client("StreamEvents", m.StreamEventsRequest())
    until(lambda: readers(idle) == 1)
    refused = client.refused("StreamEvents", m.StreamEventsRequest())
    assert (refused.status, refused.code) == ("RESOURCE_EXHAUSTED", "too_many_readers")
    held.cancel()


def test_a_reader_that_takes_nothing_holds_up_nothing(idle: GrpcRunning) -> None:
    """20 MB of output: the server reads what the connection takes, and no more, until the reader goes on."""
    total = 20 * 1024 * 1024
    run = idle.submit({"name": "flood", "tasks": {"a": {"run": "true"}}})
    asked: list[int] = []
    part = b"x" * (16 * 1024)

    def read_output(run: str, task: str, attempt: int, stream: str, offset: int = 0, limit: int = 0) -> Any:
        from weft.operations.replies import OutputPart

        asked.append(offset)
        data = part if offset < total else b""
        return OutputPart(data=data, offset=offset, next=offset + len(data), size=total, ended=True)

    connection = idle.app.state.connection
    task = connection.task(run, "a")
    task.attempt, task.state = 1, "succeeded"
    connection.read_output = read_output  # type: ignore[method-assign, assignment]
    connection.task = lambda run, name: task  # type: ignore[method-assign, assignment]
    stream = idle.rpc()("StreamOutput", m.StreamOutputRequest(run=run, task="a"))
    seen = len(next(stream).data)
    still: list[int] = []
    until(lambda: _same(still, len(asked)))
    assert len(asked) * len(part) < total / 2, "it was read although nobody takes it"
    seen += sum(len(one.data) for one in stream)
    assert seen == total


def _same(seen: list[int], now: int) -> bool:
    """The same forty times in a row."""
    seen.append(now)
    return len(seen) > 40 and len(set(seen[-40:])) == 1
