"""The tasks of a run as lines: events say the same as a load, and the past is what the events say."""

from typing import Any

import pytest

from tests.client.conftest import Place
from tests.tui.conftest import PLAN
from weft.core.history import checkpoints
from weft.core.history.replay import Replay
from weft.operations.replies import TaskInfo
from weft.tui.graph_lines import GraphLine, GraphLines, line_of
from weft.tui.run_history import RunHistory


def looks(lines: Any) -> dict[str, tuple[str, int]]:
    return {line.name: (line.shown_state, line.attempt) for line in lines}


def loaded(store: Place, run: str) -> list[TaskInfo]:
    return list(store.connection.all_tasks(run))


def history_of(store: Place, run: str) -> RunHistory:
    history = RunHistory(store.connection.run(run), store.connection.workflow_of_hash)
    history.add(store.connection.events(run, limit=100_000))
    return history


def played(store: Place) -> str:
    """A run that failed in parts, was retried, and has ended."""
    store.work()
    run = store.submit({**PLAN, "tasks": {k: v for k, v in PLAN["tasks"].items() if k not in ("approve", "load")}})
    assert store.ended(run) == "failed"
    store.connection.resume(run)
    assert store.ended(run) == "failed"
    return run


def test_events_change_lines_as_a_load_does(store: Place) -> None:
    run = store.submit(PLAN)
    lines = GraphLines()
    lines.load(line_of(task) for task in loaded(store, run))
    seq = store.connection.last_event(run)
    store.work()
    store.connection.signal(run, "ok")
    store.ended(run)
    unknown = [event.kind for event in store.connection.events(run, after=seq) if not lines.apply(event)]
    assert set(unknown) <= {"expanded", "run_finished", "assigned", "finished", "halted", "promoted"}, unknown
    after = looks(line_of(task) for task in loaded(store, run))
    shown = looks(lines.by_name.values())
    assert shown == {name: after[name] for name in shown}, "elements come with the next load"
    node = lines.by_name["poor"]
    assert (node.node, node.attempt, node.reason) == ("here", 2, "exit code 4")


def test_counts_follow_the_elements(store: Place) -> None:
    run = store.submit(PLAN)
    store.work()
    store.connection.signal(run, "ok")
    store.ended(run)
    lines = GraphLines()
    lines.load(line_of(task) for task in loaded(store, run))
    (many,) = [line for line in lines.rows() if line.name == "many"]
    assert lines.counts[many.pos] == {"succeeded": 3}
    assert len(lines.rows()) == len(PLAN["tasks"])
    lines.toggle(many)
    assert [line.name for line in lines.rows() if line.idx >= 0] == ["many.0", "many.1", "many.2"]
    assert [line.name for line in lines.rows("many.1")] == ["many.1"]
    assert [line.name for line in lines.rows("dead letter")] == ["poor"]
    assert [line.level for line in lines.rows() if line.first] == [0, 1, 2, 3]


def test_the_past_ends_where_the_run_is(store: Place) -> None:
    run = played(store)
    history = history_of(store, run)
    now = looks(line_of(task) for task in loaded(store, run))
    assert looks(history.at(len(history.events))) == now
    assert history.state_at(len(history.events)) == "failed"
    first = history.at(1)
    assert {line.state for line in first} <= {"pending", "queued"}
    assert history.state_at(1) == "pending"


def test_copies_change_nothing(store: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    run = played(store)
    without = history_of(store, run)
    monkeypatch.setattr(checkpoints, "EVERY_MIN", 2)
    monkeypatch.setattr(checkpoints, "COPIES_MAX", 4)
    monkeypatch.setattr(checkpoints, "NEAR", 1)
    with_copies = history_of(store, run)
    assert 2 <= len(with_copies._kept) <= 4
    assert len(without._kept) == 1
    forward = range(1, len(without.events) + 1)
    for count in [*forward, *reversed(forward), 5, 1, 9]:
        assert with_copies.at(count) == without.at(count), without.events[count - 1]


def test_a_copy_of_a_replay_goes_its_own_way(store: Place) -> None:
    run = played(store)
    workflow = store.connection.workflow(run)
    replay = Replay(workflow, False)
    for event in store.connection.events(run):
        twin = replay.copy()
        before = {place: (task.state, task.attempt) for place, task in twin.tasks.items()}
        replay.apply(event.kind, None if event.task is None else workflow.place(event.task), event.data)
        assert {place: (task.state, task.attempt) for place, task in twin.tasks.items()} == before


def test_a_running_task_of_the_past_has_its_node_and_no_end(store: Place) -> None:
    run = played(store)
    history = history_of(store, run)
    at = next(n for n, event in enumerate(history.events, 1) if event.kind == "assigned" and event.task == "poor")
    (poor,) = [line for line in history.at(at) if line.name == "poor"]
    assert isinstance(poor, GraphLine)
    assert (poor.state, poor.node, poor.finished_at) == ("running", "here", None)
