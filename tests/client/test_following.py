"""What is followed: the same on a store and through a server, every event and every byte of it once, whatever becomes
of the connection."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from tests.api.conftest import Running, until
from tests.client.conftest import Place
from tests.client.cut import Cut
from weft.authoring.load import load_value
from weft.client.event_stream_reader import EventStreamReader, messages
from weft.client.following import EventFollower
from weft.client.remote import ServerConnection
from weft.client.server_following import ServerSource
from weft.operations.reading.output.attempts import AttemptOutput
from weft.operations.replies import EventInfo

WAITS = {"name": "waits", "tasks": {name: {"wait": {"signal": name}} for name in ("a", "b", "c", "d")}}
PACE_S = 0.01
PRINTS = """\
name: prints
tasks:
  first: {run: "printf '\\\\377\\\\000 Ω'; until [ -e go ]; do sleep 0.02; done; printf 'ΩΩ end\\\\n'"}
"""


def read_until(follower: EventFollower, seq: int) -> list[EventInfo]:
    """All up to this one."""
    found: list[EventInfo] = []
    deadline = time.monotonic() + 30
    while not found or found[-1].seq < seq:
        assert time.monotonic() < deadline, found
        found += follower.events(3)
        follower.wait(0.2)
    return found


def test_every_event_once_in_its_order(place: Place) -> None:
    run = place.submit(WAITS)
    follower = place.connection.follow(run)
    try:
        began = [event.seq for event in read_until(follower, place.store.events(run)[-1].seq)]
        for name in ("a", "b", "c", "d"):
            place.store.signal(run, name)
        last = place.store.events(run)[-1]
        assert last.kind == "run_finished"
        shown = began + [event.seq for event in read_until(follower, last.seq)]
        assert shown == [event.seq for event in place.store.events(run)]
        follower.catch_up()
        assert follower.events(10) == []
    finally:
        follower.close()


def test_filters_are_those_of_events(place: Place) -> None:
    run = place.submit(WAITS)
    for filters in ({"kinds": ["answered", "run_finished"]}, {"task": "b"}, {"task": "b", "kinds": ["answered"]}):
        follower = place.connection.follow(run, **filters)
        for _ in range(3):
            follower.wait(0.05)
        found = follower.events(100)
        assert [e.seq for e in found] == [e.seq for e in place.store.events(run, **filters)], filters
        follower.close()
    follower = place.connection.follow(None, after=0, task="b", kinds=["answered"])
    assert follower.events(10) == []
    place.store.signal(run, "a")
    place.store.signal(run, "b")
    (event,) = read_until(follower, place.store.events(run)[-1].seq)
    assert (event.kind, event.task) == ("answered", "b")
    follower.close()


def test_what_has_happened_is_there_after_catching_up(place: Place) -> None:
    """Whatever a stream still has on its way."""
    run = place.submit(WAITS)
    follower = place.connection.follow(run)
    read_until(follower, place.store.events(run)[-1].seq)
    for name in ("a", "b", "c", "d"):
        place.store.signal(run, name)
        follower.catch_up()
        found = follower.events(100)
        assert found[-1].seq == place.store.events(run)[-1].seq
        follower.wait(0.05)  # the stream brings them, too: nobody hears of them twice
        assert follower.events(100) == []
    follower.close()


def test_pages_go_on_to_the_last_event(place: Place) -> None:
    """Also to those that happen after the end was found out, and before it was returned."""
    run = place.submit(WAITS)
    names = ["a", "b", "c", "d"]

    def ended() -> bool:
        if names:
            place.store.signal(run, names.pop(0))
        return len(names) < 3

    follower = place.connection.follow(run)
    shown = [event.seq for page in follower.pages(ended) for event in page]
    assert shown == [event.seq for event in place.store.events(run)]
    follower.close()
    follower = place.connection.follow(run)
    assert [event.seq for page in follower.pages(lambda: True, 3) for event in page] == shown[:3]
    follower.close()


# -- through a server whose connections break ------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path / "there")
    yield made
    made.close()


@pytest.fixture
def cut(server: Running) -> Iterator[Cut]:
    made = Cut(server.port)
    yield made
    made.close()


@pytest.fixture
def connection(cut: Cut) -> Iterator[ServerConnection]:
    made = ServerConnection(cut.url)
    yield made
    made.close()


def is_live(follower: EventFollower) -> bool:
    source = follower._source
    assert isinstance(source, ServerSource)
    return source._stream.live


def is_told(follower: EventFollower) -> bool:
    """Its stream is read; what comes before is looked for at the old pace."""
    follower.wait(PACE_S)
    return is_live(follower)


def test_nobody_asks_while_a_stream_tells(server: Running, cut: Cut, connection: ServerConnection) -> None:
    run = server.submit(WAITS)
    follower = connection.follow(run)
    began = read_until(follower, server.connection.events(run)[-1].seq)
    until(lambda: is_told(follower))
    asked = len(cut.requests)
    threading.Timer(0.3, lambda: server.connection.signal(run, "a")).start()
    while not (found := follower.events(10)):
        follower.wait(30.0)
    assert found[0].seq > began[-1].seq
    assert len(cut.requests) == asked
    follower.close()


def test_a_stream_that_breaks_is_taken_up_where_it_was(
    server: Running, cut: Cut, connection: ServerConnection
) -> None:
    run = server.submit(WAITS)
    follower = connection.follow(run)
    shown: list[EventInfo] = []
    for name in ("a", "b", "c", "d"):
        until(lambda: is_told(follower))
        cut.cut()
        until(lambda: not is_live(follower))
        server.connection.signal(run, name)
        shown += read_until(follower, server.connection.events(run)[-1].seq)
    assert [e.seq for e in shown] == [e.seq for e in server.connection.events(run)]
    assert len(cut.streams) >= 4
    assert all(b"last-event-id: " in line.lower() for line in cut.streams)
    follower.close()


def test_a_server_that_stops_its_streams_is_asked(server: Running, connection: ServerConnection) -> None:
    run = server.submit(WAITS)
    follower = connection.follow(run)
    until(lambda: is_told(follower))
    server.stop_streams()
    until(lambda: not is_told(follower))
    for name in ("a", "b", "c", "d"):
        server.connection.signal(run, name)
    shown = read_until(follower, server.connection.events(run)[-1].seq)
    assert [e.seq for e in shown] == [e.seq for e in server.connection.events(run)]
    follower.close()


def read_all(follower: EventFollower, output: AttemptOutput, size: int) -> bytes:
    data = b""
    deadline = time.monotonic() + 30
    while len(data) < size:
        assert time.monotonic() < deadline, data
        piece = output.read(len(data))
        assert piece.at == len(data)
        data += piece.data
        follower.wait(0.2)
    return data


def test_output_comes_whole_through_breaks(server: Running, cut: Cut, connection: ServerConnection) -> None:
    (server.directory / "p.yaml").write_text(PRINTS)
    from weft.authoring.load import load_file

    run = server.submit(load_file(server.directory / "p.yaml").document)
    until(lambda: server.connection.task(run, "first").state == "running")
    follower = connection.follow(run)
    output = follower.open_output("first", 1, "stdout")
    assert read_all(follower, output, 5) == b"\xff\0 \xce\xa9"
    for _ in range(3):
        until(lambda: not output.read(5).data and output.live)  # type: ignore[attr-defined]
        cut.cut()
        until(lambda: not output.live)  # type: ignore[attr-defined]
        assert output.read(5).data == b""
    until(lambda: not output.read(5).data and output.live)  # type: ignore[attr-defined]
    asked = len(cut.requests)
    (server.directory / "go").touch()
    data = b""
    while not data:
        follower.wait(30.0)
        data = output.read(5).data
    assert data == "ΩΩ end\n".encode()
    assert not [line for line in cut.requests[asked:] if b"/output/" in line]
    until(lambda: output.read(5 + len(data)).then == "whole")
    follower.close()


def test_the_output_of_an_ended_attempt_is_asked_for(
    server: Running, connection: ServerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stream may lag behind the event of its end, which is not to be shown before what it printed."""
    (server.directory / "p.yaml").write_text(PRINTS)
    from weft.authoring.load import load_file

    run = server.submit(load_file(server.directory / "p.yaml").document)
    follower = connection.follow(run)
    until(lambda: server.connection.task(run, "first").state == "running")
    output = follower.open_output("first", 1, "stdout")
    assert read_all(follower, output, 5) == b"\xff\0 \xce\xa9"
    until(lambda: not output.read(5).data and output.live)  # type: ignore[attr-defined]
    monkeypatch.setattr(EventStreamReader, "take", lambda stream: None)
    (server.directory / "go").touch()
    until(lambda: server.connection.run(run).finished)
    monkeypatch.setattr(output._stream, "live", True)  # type: ignore[attr-defined]
    assert output.read(5).data == b"", "it waits for what it will be shown"
    output.over()
    assert output.read(5).data == "ΩΩ end\n".encode()
    follower.close()


def test_a_client_is_told_of_the_end(server: Running, cut: Cut) -> None:
    with weft.Client(cut.url) as client:
        run = client.start(load_value(WAITS), source=server.directory)
        ends: list[str] = []
        waiting = threading.Thread(target=lambda: ends.append(client.wait(run).state))
        waiting.start()
        until(lambda: server.app.state.hub.readers == 1)
        cut.cut()
        for name in ("a", "b", "c", "d"):
            server.connection.signal(run, name)
        waiting.join(30)
        assert ends == ["succeeded"]


def test_messages_are_read_from_any_parts() -> None:
    text = b': here\n\nid: 1\ndata: {}\n\n:\n\nevent: end\nid: 1\ndata: {"reason":"finished"}\n\n'
    whole = [(b"message", None), (b"message", b"{}"), (b"message", None), (b"end", b'{"reason":"finished"}')]
    for size in (1, 2, 7, len(text)):
        parts = iter([text[i : i + size] for i in range(0, len(text), size)] + [b""])
        assert list(messages(lambda _: next(parts))) == whole  # noqa: B023
