"""A run as it was after any of its events: seeks in any order say what a plain replay of the events says."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Running, until
from weft.core.history import checkpoints
from weft.core.history.replay import Replay
from weft.core.rows import WHOLE
from weft.core.states import TERMINAL
from weft.operations.graph.reading import LETTERS
from weft.operations.history import cluster_timeline

PLAYED: dict[str, Any] = {
    "name": "played",
    "on_failure": "continue",
    "tasks": {
        "first": "true",
        "part": {"needs": ["first"], "replicas": 5, "max_parallel": 2, "run": "test $WEFT_INDEX != 3"},
        "again": {"run": "exit 4", "retry": {"max": 1, "backoff": "1ms"}},
        "ask": {"needs": ["first"], "wait": {"signal": "go"}},
        "after": {"needs": ["part", "ask"], "run": "true"},
        "handler": {"when": "on_failure", "run": "sleep 0.05"},
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("history"), node=True)
    yield made
    made.close()


@pytest.fixture(scope="module")
def run(server: Running) -> str:
    """In two generations."""
    made = server.submit(PLAYED)
    until(lambda: server.connection.task(made, "ask").state == "waiting")
    server.connection.signal(made, "go")
    server.ended(made)
    server.connection.resume(made)
    server.ended(made)
    return made


def plain(server: Running, run: str) -> Iterator[tuple[int, Replay]]:
    """After each event, by the simplest way: all of them from the first."""
    events = server.connection.events(run, limit=1000)
    workflow = server.connection.workflow(run)
    for count in range(1, len(events) + 1):
        replay = Replay(workflow, False)
        for event in events[:count]:
            place = None if event.task is None else workflow.place(event.task)
            replay.apply(event.kind, place, event.data)
        replay.settle()
        yield events[count - 1].seq, replay


def test_seeks_in_any_order(server: Running, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "EVERY_MIN", 3)
    monkeypatch.setattr(checkpoints, "COPIES_MAX", 4)
    monkeypatch.setattr(checkpoints, "NEAR", 2)
    wanted = list(plain(server, run))
    assert len(wanted) > 25
    order = list(enumerate(wanted))
    random.Random(1).shuffle(order)
    for nth, (seq, replay) in order:
        found = server.get(f"/v1/runs/{run}/states?event={seq}&times=true").json
        states = [replay.tasks[(pos, WHOLE)].state for pos in range(6)]
        assert found["states"] == "".join(LETTERS[one] for one in states), (seq, states)  # type: ignore[index]
        assert (found["state"], found["generation"]) == (replay.state, replay.generation)
        past = found["past"]
        assert (past["event"]["number"], past["total"]) == (nth + 1, len(wanted))
        assert past["previous"] == (wanted[nth - 1][0] if nth else None)
        assert past["next"] == (wanted[nth + 1][0] if nth + 1 < len(wanted) else None)
        elements = server.get(f"/v1/runs/{run}/tasks/part/states?event={seq}").json
        count = replay.tasks[(1, WHOLE)].elements
        assert elements["elements"] == count
        assert elements["states"] == "".join(LETTERS[replay.tasks[(1, n)].state] for n in range(count or 0))  # type: ignore[index]


def test_the_last_event_is_now(server: Running, run: str) -> None:
    last = server.connection.last_event(run)
    then = server.get(f"/v1/runs/{run}/states?event={last}&times=true").json
    now = server.get(f"/v1/runs/{run}/states?times=true").json
    for name in ("states", "attempts", "generation", "state", "elements"):
        assert then[name] == now[name], name
    ran = [pos for pos, at in enumerate(then["began"]) if at is not None]
    assert ran == [0, 1, 2, 3, 5], "one was skipped"
    assert [then["ended"][pos] for pos in ran] == [now["ended"][pos] for pos in ran]
    for pos, (a, b) in enumerate(zip(then["began"], now["began"], strict=True)):
        assert a == b or pos == 3, "a wait has no attempt"  # its row says nothing of when it began
    assert server.get(f"/v1/runs/{run}/tasks/part/states").json["states"] == "sssfs"
    rows = {task.name: task for task in server.connection.all_tasks(run)}
    for task in server.connection.run_at(run, last).tasks:
        row = rows[task.name]
        assert (task.state, task.attempt, task.generation) == (row.state, row.attempt, row.generation), task.name
        assert task.finished_at == row.finished_at or task.state in ("skipped", "cancelled"), task.name


def test_numbers_between_events_and_before_all(server: Running, run: str) -> None:
    first = server.connection.events(run, limit=1)[0].seq
    assert server.get(f"/v1/runs/{run}/at/{first - 1}").code == "not_found"
    assert server.get(f"/v1/runs/{run}/at/{2**61}").json["past"]["next"] is None
    assert server.get(f"/v1/runs/{run}/at/{first}?task=after").json["tasks"][0]["state"] == "pending"
    assert server.get(f"/v1/runs/{run}/at/{first}?task=part.0").code == "not_found"
    page = server.get(f"/v1/runs/{run}/at/{first}?limit=4").json
    assert [task["name"] for task in page["tasks"]] == ["first", "part", "again", "ask"]
    rest = server.get(f"/v1/runs/{run}/at/{first}?limit=4&cursor={page['next']}").json
    assert ([task["name"] for task in rest["tasks"]], rest["next"]) == (["after", "handler"], None)
    assert page["run"]["state"] == "running"
    assert page["run"]["finished_at"] is None


def test_why_as_it_was(server: Running, run: str) -> None:
    events = server.connection.events(run, limit=1000)
    at = {(event.kind, event.task): event.seq for event in reversed(events)}

    def why(task: str, seq: int) -> tuple[str, list[str]]:
        (found,) = server.connection.why(run, task, seq)
        return found.summary, found.details

    begun = at[("submitted", None)]
    assert why("first", begun)[0] == "it is ready, and in the queue"
    assert why("first", begun)[1][0] == "here ran 0 of 4"
    assert "what was before it in the queue" in why("first", begun)[1][1]
    taken = at[("assigned", "part.0")]
    kinds = [event.kind for event in events if event.seq <= taken]
    ran = kinds.count("assigned") - kinds.count("finished")
    assert ran > 0
    assert why("part.1", taken)[1][0] == f"here ran {ran} of 4"
    assert why("after", begun) == (
        "it waits for part, ask",
        ["part is pending", "ask is pending", "when: all_success"],
    )
    assert why("ask", at[("waiting", "ask")])[0] == "it waits for the signal 'go'"
    assert "elements have not ended" in why("part", at[("expanded", "part")])[0]
    assert why("part.4", at[("expanded", "part")])[0] == "part may run 2 elements at a time"
    assert why("handler", begun)[0].startswith("it starts after all other tasks")
    assert why("again", server.connection.last_event(run))[0].startswith("it used up its retries")
    assert {one.task for one in server.connection.why(run, None, begun)} == {*PLAYED["tasks"]}


def test_the_timeline_has_all_attempts(server: Running, run: str) -> None:
    found = server.get(f"/v1/runs/{run}/timeline").json
    names = list(PLAYED["tasks"])
    spans = list(zip(found["generation"], found["pos"], found["idx"], found["attempt"], strict=True))
    for name in names:
        wanted = [one.attempt for one in server.connection.attempts(run, name)]
        if name not in ("part", "ask"):
            assert [attempt for _, pos, idx, attempt in spans if names[pos] == name and idx < 0] == wanted
    assert sum(idx >= 0 for _, _, idx, _ in spans) == 6, "five elements, and one of them again"
    assert [one["generation"] for one in found["generations"]] == [1, 2]
    assert all(began <= ended for began, ended in zip(found["began"], found["ended"], strict=True))
    assert all(ready <= began for ready, began in zip(found["ready"], found["began"], strict=True))
    assert len(found["nodes"]) == 1
    assert names[found["path"][-1]] == "handler", "it waits for all others"
    assert [found["slack"][pos] for pos in found["path"]] == [0] * len(found["path"])
    assert max(found["slack"]) > 0
    assert found["slack"][names.index("after")] == -1, "it was skipped"
    letters = {letter: state for state, letter in LETTERS.items()}
    assert {letters[one] for one in found["states"]} <= TERMINAL


def test_the_numbers_of_events(server: Running, run: str) -> None:
    found = server.get(f"/v1/runs/{run}/history").json
    assert found["events"] == [event.seq for event in server.connection.events(run, limit=1000)]
    assert (found["every"], found["total"]) == (1, len(found["events"]))
    assert [one["kind"] for one in found["notable"] if one["kind"] in ("resumed", "run_finished")] == [
        "run_finished", "resumed", "run_finished",
    ]  # fmt: skip
    assert any(one["task"] == "part.3" for one in found["notable"])


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    quiet = Running(tmp_path, node=False)
    try:
        run = quiet.submit({"name": "slow", "tasks": {"a": "true", "b": {"needs": ["a"], "run": "true"}}})
        first = quiet.connection.last_event(run)
        assert quiet.get(f"/v1/runs/{run}/states?event={first}").json["states"] == "qp"
        quiet.connection.cancel(run, None, "enough")
        assert quiet.get(f"/v1/runs/{run}/states?event={first}").json["states"] == "qp"
        then = quiet.get(f"/v1/runs/{run}/states?event={2**60}").json
        assert (then["states"], then["state"]) == ("cc", "cancelled")
    finally:
        quiet.close()


def test_what_ran_where(server: Running, run: str) -> None:
    other = server.submit({"name": "other", "tasks": {"long": "sleep 60"}})
    until(lambda: server.connection.task(other, "long").started_at)
    found = server.get("/v1/timeline").json
    spans = {
        (found["runs"][of], task): (ended, state)
        for of, task, ended, state in zip(found["run"], found["task"], found["ended"], found["states"], strict=True)
    }
    assert spans[(other, "long")] == (0, "r")
    assert spans[(run, "first")] == (server.connection.task(run, "first").finished_at, "s")
    assert spans[(run, "part.3")][1] == "f"
    assert (run, "part") not in spans, "no node runs it: its elements are"
    assert found["began"] == sorted(found["began"])
    assert found["since"] <= found["now"] - 300_000
    assert [mark["term"] for mark in found["marks"] if mark["kind"] == "leader_elected"] == [1]
    assert found["nodes"] == [node.node for node in server.connection.nodes()]
    server.connection.cancel(other, None, "the test is over")
    server.ended(other)


def test_more_than_is_shown(server: Running, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_timeline, "SPANS_MAX", 3)
    found = server.get("/v1/timeline").json
    assert len(found["task"]) == 3
    assert found["since"] == min(found["ended"])
