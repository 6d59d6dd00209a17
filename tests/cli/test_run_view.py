"""What the views of a run cost: one read of events and one write for each look at the store."""

import io
import time
from pathlib import Path
from typing import Any, cast

import pytest

from tests.client.conftest import Place
from weft.cli.run_view.following import Options, RunFollower
from weft.cli.run_view.output_sink import Sink
from weft.cli.run_view.text_views import JsonView, LineView, Tails, View
from weft.cli.run_view.tracker import Change
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import clock
from weft.cli.terminal.terminal import Terminal
from weft.client import following
from weft.operations.replies import EventInfo


class WriteRecorder(Sink):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[int, str]] = []

    def put(self, fd: int, data: bytes) -> None:
        self.written.append((fd, data.decode()))


class FixedTail(Tails):
    def __init__(self) -> None:
        pass

    def of(self, change: Change) -> list[str]:
        return ["it broke"] if change.state == "failed" else []


@pytest.fixture
def sink() -> Any:
    made = WriteRecorder()
    yield made
    made.close()


def line_view(sink: Sink) -> LineView:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    return LineView(Terminal(stream, "never", {}), sink, FixedTail())


def test_the_lines_of_a_page_are_one_write(sink: WriteRecorder) -> None:
    changes = [
        Change(1000, "a", "running", 1),
        Change(1999, "b", "running", 1),
        Change(2000, "a", "failed", 1, 1000, "exit code 1"),
        Change(2000, "c, d", "cancelled", count=2),
    ]
    line_view(sink).show([], changes)
    text = (
        f"{clock(1000)}  b  running\n{clock(2000)}  a  failed  1.0 s  exit code 1\n            │ it broke\n"
        f"{clock(2000)}  2 tasks (c, d)  cancelled\n"
    )
    assert sink.written == [(2, text)]


def test_the_values_of_a_page_are_one_write(sink: WriteRecorder) -> None:
    events = [
        EventInfo(seq=n, at=n, run_id="r", kind="assigned", task="a", node=None, session=None, data={})
        for n in (1, 2)
    ]
    JsonView(sink).show(events, [])
    ((fd, text),) = sink.written
    assert fd == 1
    assert [line.partition('"seq": ')[2][0] for line in text.splitlines()] == ["1", "2"]


@pytest.mark.parametrize(("page", "reads"), [(500, 1), (1, 2)], ids=["a page with room", "a full page"])
def test_a_page_with_room_is_the_last_one(
    sink: WriteRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int, reads: int
) -> None:
    """A full one may not be: what follows it is asked for."""
    place = Place("local", tmp_path)
    run = place.submit({"tasks": {"a": "true"}})
    view, session = cast(View, line_view(sink)), cast(CommandSession, None)
    found: list[int] = []
    ask = place.store.events

    def count(ref: str | None, **more: Any) -> list[EventInfo]:
        events = ask(ref, **{**more, "limit": page})
        found.append(len(events))
        return events

    monkeypatch.setattr(place.store, "events", count)
    monkeypatch.setattr("weft.cli.run_view.following.PAGE", page)
    options = Options(logs=False, json=True)
    follower = RunFollower(session, place.store, run, place.store.workflow(run), view, sink, 0, options)
    follower._read_for(following.NOTIFIED_WAIT_MAX_S, time.monotonic)
    place.close()
    assert found == [1, 0][:reads]
