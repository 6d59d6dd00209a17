"""Streams: everything once and in order, from where one stopped, to any number of readers, however slow some are."""

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.api.conftest import CHAIN, WAIT_S, Running, until
from weft.api.access.token_gate import Tokens
from weft.api.streams import hub as hub_module
from weft.api.streams.followed_runs import _whole_characters
from weft.operations.errors import NotFound

RETRIED = {
    "name": "retried",
    "tasks": {"a": {"run": "echo try $WEFT_ATTEMPT; test $WEFT_ATTEMPT = 2", "retry": {"max": 1, "backoff": "10ms"}}},
}


class Message(NamedTuple):
    id: str
    event: str
    data: Any


class Reader:
    """Reads one stream as a program would: messages, and how many comments came between."""

    def __init__(self, server: Running, path: str, token: str | None = None, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        self._connection.request("GET", path, headers=sent)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.comments = 0
        if self.status == 200:
            server.close_with_me(self)
        else:
            self.close()

    def __iter__(self) -> Iterator[Message]:
        assert self.status == 200, self.status
        assert self._answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        while line := self._answer.readline():
            text = line.decode().rstrip("\n")
            if text.startswith(":"):
                self.comments += 1
            elif text:
                name, _, value = text.partition(": ")
                fields[name] = value
            elif fields:
                yield Message(fields["id"], fields.get("event", "message"), json.loads(fields["data"]))
                fields = {}
        self.close()

    def take(self, count: int) -> list[Message]:
        messages = iter(self)
        return [next(messages) for _ in range(count)]

    def close(self) -> None:
        self._connection.close()


def shown(messages: list[Message]) -> list[int]:
    return [message.data["seq"] for message in messages if message.event == "message"]


def happened(server: Running, run: str | None = None) -> list[int]:
    return [event.seq for event in server.connection.events(run)]


def readers(server: Running) -> int:
    return int(server.app.state.hub.readers)


def test_a_run_is_told_from_its_beginning_to_its_end(server: Running) -> None:
    run = server.submit(CHAIN)
    messages = list(Reader(server, f"/v1/runs/{run}/events/stream"))
    assert shown(messages) == happened(server, run)
    assert [message.id for message in messages[:-1]] == [str(seq) for seq in shown(messages)]
    assert messages[-2].data["kind"] == "run_finished"
    assert messages[-1] == Message(messages[-2].id, "end", {"reason": "finished", "last": messages[-2].id})
    assert list(Reader(server, f"/v1/runs/{run}/events/stream")) == messages, "and so it is to whoever comes later"
    until(lambda: readers(server) == 0)


def test_going_on_from_the_last_id_tells_the_rest_and_nothing_twice(server: Running) -> None:
    run = server.submit(CHAIN)
    server.ended(run)
    path = f"/v1/runs/{run}/events/stream"
    everything = list(Reader(server, path))
    for at in range(len(everything) - 2):
        again = list(Reader(server, path, Last_Event_ID=everything[at].id))
        assert again == everything[at + 1 :]
    assert Reader(server, path, Last_Event_ID=everything[-1].id).status == 204, (
        "nothing can follow: do not come again"
    )
    assert shown(list(Reader(server, f"{path}?after={everything[1].id}"))) == shown(everything[2:])
    for wrong in ("x", "-1", "1.5", "9" * 17):
        assert Reader(server, path, Last_Event_ID=wrong).status == 422


def test_kinds_can_be_chosen_and_the_end_is_told_all_the_same(server: Running) -> None:
    run = server.submit(CHAIN)
    messages = list(Reader(server, f"/v1/runs/{run}/events/stream?kind=finished"))
    assert [message.data["kind"] for message in messages[:-1]] == ["finished", "finished"]
    assert messages[-1].data["reason"] == "finished"


def test_the_cluster_is_told_from_now_on(server: Running) -> None:
    server.ended(server.submit(CHAIN))
    last = server.connection.last_event()
    reader = Reader(server, "/v1/events/stream")
    until(lambda: readers(server) == 1)
    run = server.submit(CHAIN)
    server.ended(run)
    expected = [seq for seq in happened(server) if seq > last]
    assert shown(reader.take(len(expected))) == expected
    reader.close()
    behind = Reader(server, "/v1/events/stream", Last_Event_ID=str(last))
    assert shown(behind.take(len(expected))) == expected
    behind.close()
    until(lambda: readers(server) == 0)


def test_many_readers_share_one_poller(quiet: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty that follow one run cost the store as much as one."""
    run = quiet.submit(CHAIN)
    followers = [Reader(quiet, f"/v1/runs/{run}/events/stream") for _ in range(50)]
    firsts = [follower.take(1) for follower in followers]
    assert all(first == firsts[0] for first in firsts)
    hub = quiet.app.state.hub
    (topic,) = hub._topics.values()
    until(lambda: topic._floor is not None)
    asked = 0
    read = quiet.connection.events

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        return read(*given, **more)

    monkeypatch.setattr(quiet.connection, "events", counted)
    quiet.post(f"/v1/runs/{run}/cancel")
    rest = [list(follower) for follower in followers]
    assert all(messages == rest[0] for messages in rest)
    assert rest[0][-1].data["reason"] == "finished"
    assert asked < 25, "a few reads for all of them"


def test_a_slow_reader_reads_from_the_store_and_slows_nobody(quiet: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes nothing while thousands of events pass; memory keeps few of them; and yet it gets each once."""
    monkeypatch.setattr(hub_module, "KEPT_BYTES", 8 * 1024)
    run = quiet.submit({"name": "w", "tasks": {"a": {"run": "true"}}})
    slow = socket.create_connection(("127.0.0.1", quiet.port), timeout=WAIT_S)
    slow.sendall(b"GET /v1/events/stream?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    fast = Reader(quiet, "/v1/events/stream?after=0")
    until(lambda: readers(quiet) == 2)
    for _ in range(25):  # 10 MB: more than the kernel takes for a connection that nobody reads from
        quiet.connection.cancel(run, reason="x" * 130_000)
        run = quiet.submit({"name": "w", "tasks": {"a": {"run": "true"}}})
    expected = happened(quiet)
    assert shown(fast.take(len(expected))) == expected, "it did not wait for the slow one"
    fast.close()
    topics = quiet.app.state.hub._topics
    (topic,) = topics.values()
    assert topic._bytes <= 8 * 1024
    text, last = bytearray(), f"id: {expected[-1]}\n".encode()
    while last not in text[-300_000:]:
        text += slow.recv(1 << 20)
    slow.close()
    numbers = [int(line[4:]) for line in _unchunked(bytes(text)).splitlines() if line.startswith(b"id: ")]
    assert numbers == expected
    until(lambda: readers(quiet) == 0)


def _unchunked(text: bytes) -> bytes:
    at = text.index(b"\r\n\r\n") + 4
    parts = []
    while (end := text.find(b"\r\n", at)) >= 0:
        size = int(text[at:end], 16)
        parts.append(text[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(parts)


def test_output_is_told_as_it_comes_through_all_attempts(server: Running, tmp_path: Path) -> None:
    wait = "echo one; while [ ! -e go ]; do sleep 0.01; done; printf 'zwei \\303'; sleep 0.2; printf '\\274\\n'"
    run = server.submit({"name": "w", "tasks": {"a": {"run": wait}}})
    until(lambda: server.connection.task(run, "a").attempt)
    reader = iter(Reader(server, f"/v1/runs/{run}/tasks/a/output/stdout/stream"))
    first = next(reader)
    assert first.data == {"attempt": 1, "offset": 0, "next": 4, "text": "one\n"}
    assert first.id == "1.4"
    (tmp_path / "go").touch()
    rest = list(reader)
    assert "".join(message.data["text"] for message in rest[:-1]) == "zwei ü\n"
    assert rest[-1].data == {"reason": "finished", "last": "1.12"}
    path = f"/v1/runs/{run}/tasks/a/output/stdout/stream"
    again = list(Reader(server, path, Last_Event_ID="1.4"))
    assert "".join(message.data["text"] for message in again[:-1]) == "zwei ü\n"
    assert Reader(server, path, Last_Event_ID="1.12").status == 204
    assert Reader(server, path, Last_Event_ID=f"1.{10**15}").status == 204
    for wrong in ("1", "x.y"):
        assert Reader(server, path, Last_Event_ID=wrong).status == 422
    assert Reader(server, path, Last_Event_ID="2.0").status == 404, "there is no second attempt"
    assert Reader(server, path + "?attempt=2").status == 404
    assert Reader(server, path.replace("/a/", "/nobody/")).status == 404


def test_output_of_a_task_that_is_tried_again(server: Running) -> None:
    run = server.submit(RETRIED)
    until(lambda: server.connection.task(run, "a").attempt)
    server.ended(run)
    path = f"/v1/runs/{run}/tasks/a/output/stdout/stream"
    messages = list(Reader(server, path, Last_Event_ID="1.0"))
    assert [(m.data["attempt"], m.data["text"]) for m in messages[:-1]] == [(1, "try 1\n"), (2, "try 2\n")]
    only = list(Reader(server, path + "?attempt=1"))
    assert [m.data.get("text") for m in only] == ["try 1\n", None]


def test_bytes_that_are_no_text_arrive_as_they_are(server: Running) -> None:
    import base64

    run = server.submit({"name": "w", "tasks": {"a": {"run": "head -c 50000 /dev/urandom | tee copy"}}})
    server.ended(run)
    messages = list(Reader(server, f"/v1/runs/{run}/tasks/a/output/stdout/stream"))[:-1]
    data = b"".join(
        base64.b64decode(m.data["base64"]) if "base64" in m.data else m.data["text"].encode() for m in messages
    )
    assert data == (server.directory / "copy").read_bytes()
    assert [m.data["offset"] for m in messages[1:]] == [m.data["next"] for m in messages[:-1]]


def test_a_character_is_never_cut() -> None:
    text = "aüb€c𝄞".encode()
    for end in range(len(text) + 1):
        kept = _whole_characters(text[:end])
        assert kept.decode() == text[:end].decode(errors="ignore")
    assert _whole_characters(b"\xff") == b"\xff"
    assert _whole_characters(b"\x80\x80\x80\x80") == b"\x80\x80\x80\x80"


def test_heartbeats_come_and_a_revoked_token_ends_the_stream(serving: Callable[..., Running], tmp_path: Path) -> None:
    from weft.client.local import StoreConnection
    from weft.operations.access import StoreAccess
    from weft.store.sqlite.driver import SqliteStore

    connection = StoreConnection(StoreAccess(SqliteStore(tmp_path / ".weft" / "weft.db")))
    made = connection.create_token("x", "viewer")
    server = serving(node=False, connection=connection, gate=Tokens(connection.token_holder))
    server.app.state.heartbeat_s = 0.02
    assert Reader(server, "/v1/events/stream").status == 401
    reader = Reader(server, "/v1/events/stream", made.token)
    until(lambda: readers(server) == 1)
    connection.revoke_token(made.id)
    messages = list(reader)
    assert reader.comments > 2
    assert [message.data["kind"] for message in messages[:-1]] == ["token_revoked"]
    assert messages[-1].data["reason"] == "unauthorized"


def test_streams_end_with_a_marker_when_the_server_stops(quiet: Running) -> None:
    run = quiet.submit(CHAIN)
    followers = [Reader(quiet, f"/v1/runs/{run}/events/stream"), Reader(quiet, "/v1/events/stream?after=0")]
    until(lambda: readers(quiet) == 2)
    quiet.stop_streams()
    for follower in followers:
        *before, last = list(follower)
        assert last.event == "end"
        assert last.data["reason"] == "stopping"
        assert last.id == (before[-1].id if before else last.data["last"])


def test_a_removed_run_ends_its_streams(quiet: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its poller finds no run any more, and whoever has to read for himself does not either."""
    run = quiet.submit(CHAIN)
    reader = iter(Reader(quiet, f"/v1/runs/{run}/events/stream"))
    next(reader)
    (topic,) = quiet.app.state.hub._topics.values()
    until(lambda: topic._floor is not None)

    def gone(ref: str) -> None:
        raise NotFound(f"there is no run {ref}")

    monkeypatch.setattr(quiet.connection, "run", gone)
    quiet.connection.set_pool("p", 1)
    quiet.submit(CHAIN)
    assert list(reader)[-1].data["reason"] == "gone"


def test_readers_that_go_away_leave_nothing_behind(quiet: Running) -> None:
    for _ in range(20):
        reader = Reader(quiet, "/v1/events/stream")
        reader.close()
    until(lambda: readers(quiet) == 0)
    until(lambda: not quiet.app.state.hub._topics)
    until(lambda: quiet.connection.link.committer.committed is None)


def test_there_is_a_bound_on_readers(quiet: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.api.streams import topic_reader

    monkeypatch.setattr(topic_reader, "READERS_MAX", 2)
    held = [Reader(quiet, "/v1/events/stream") for _ in range(2)]
    until(lambda: readers(quiet) == 2)
    assert Reader(quiet, "/v1/events/stream").status == 503
    for one in held:
        one.close()
    until(lambda: readers(quiet) == 0)
