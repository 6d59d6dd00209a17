"""Waits, rule by rule: for a signal, for a while, until a time. They hold no slot; each signal is applied once."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.core.driver import Engine
from tests.core.scenarios.situation import situation
from weft.core import commands as c
from weft.core.explain import explain
from weft.core.expressions.run_names import Ended, tasks_view

WORK = {"inline": "work"}


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    made.node("a")
    return made


def submit(engine: Engine, wait: dict[str, Any], first: bool = True, **more: Any) -> str:
    """A run of first → hold → after; without `first` the wait is reached at once."""
    tasks: dict[str, Any] = {"first": WORK} if first else {}
    tasks |= {"hold": {"wait": wait, "needs": list(tasks)}, "after": {**WORK, "needs": ["hold"]}}
    run = engine.submit({"name": "w", "tasks": {**tasks, **more}})
    engine.check(run)
    return run


def signal(engine: Engine, run: str, name: str = "go", data: Any = None, reject: str | None = None) -> c.Reply:
    text = None if data is None else json.dumps(data)
    reply: c.Reply = engine.commit(c.Signal(run, name, text, reject))
    engine.check(run)
    return reply


def exchange(engine: Engine, run: str, *finished: str, wait_ms: int = 0, **more: Any) -> None:
    engine.time_ms += wait_ms
    engine.exchange("a", [engine.report("a", name, **more) for name in finished])
    engine.check(run)


def output(engine: Engine, run: str) -> Any:
    workflow = engine.workflows[run]
    ends = [Ended(*row) for row in engine.store.ends_at(engine.run_no(run), [workflow.position["hold"]])]
    return tasks_view(ends, workflow)["hold"]["output"]


def kinds(engine: Engine, run: str) -> list[str]:
    return [kind for kind, _, _ in engine.history(run)]


@pytest.mark.parametrize("data", [None, 0, "", "ada", [1, {"a": None}], {"by": "ada"}])
@pytest.mark.parametrize("early", [False, True])
def test_a_signal_before_and_after_its_wait_is_reached(engine: Engine, data: Any, early: bool) -> None:
    run = submit(engine, {"signal": "go"})
    exchange(engine, run)
    if early:
        assert signal(engine, run, data=data).changed == 0
        assert engine.states(run)["hold"] == "pending"
    exchange(engine, run, "first")
    if not early:
        assert engine.states(run)["hold"] == "waiting"
        assert signal(engine, run, data=data).changed == 1
    exchange(engine, run)
    assert engine.states(run) == {"first": "succeeded", "hold": "succeeded", "after": "running"}
    assert output(engine, run) == data
    exchange(engine, run, "after")
    assert engine.run(run).state == "succeeded"


@pytest.mark.parametrize("early", [False, True])
def test_a_rejection_fails_the_wait_with_its_reason(engine: Engine, early: bool) -> None:
    run = submit(engine, {"signal": "go"})
    exchange(engine, run)
    if early:
        signal(engine, run, reject="too risky")
    exchange(engine, run, "first")
    if not early:
        signal(engine, run, reject="too risky")
    assert engine.states(run) == {"first": "succeeded", "hold": "failed", "after": "cancelled"}
    assert engine.task(run, "hold").reason == "rejected: too risky"
    assert engine.run(run).state == "failed"


def test_said_twice_it_is_applied_once(engine: Engine) -> None:
    run = submit(engine, {"signal": "go"}, first=False)
    assert not signal(engine, run, data={"a": 1}).existing
    assert signal(engine, run, data={"a": 1}).existing
    for other in ({"data": {"a": 2}}, {}, {"reject": "no"}):
        with pytest.raises(c.Refused, match="has come already") as caught:
            signal(engine, run, **other)
        assert caught.value.code == "conflict"
    assert (kinds(engine, run).count("signalled"), kinds(engine, run).count("answered")) == (1, 1)


def test_said_again_after_it_ended_the_run(engine: Engine) -> None:
    run = engine.submit({"name": "w", "tasks": {"hold": {"wait": {"signal": "go"}}}})
    signal(engine, run, data=1)
    assert engine.run(run).state == "succeeded"
    assert signal(engine, run, data=1).existing
    with pytest.raises(c.Refused, match="has come already"):
        signal(engine, run, data=2)


def test_a_run_that_is_over_takes_no_signal(engine: Engine) -> None:
    run = submit(engine, {"signal": "go"}, first=False)
    engine.commit(c.CancelRun(run))
    with pytest.raises(c.Refused, match="has been cancelled"):
        signal(engine, run)
    assert "signalled" not in kinds(engine, run)


def test_an_unknown_signal_lists_those_that_are_known(engine: Engine) -> None:
    run = submit(engine, {"signal": "go"}, other={"wait": {"signal": "be"}}, pause={"wait": {"for": "1s"}})
    with pytest.raises(c.Refused) as caught:
        signal(engine, run, "gone")
    assert caught.value.message == f"run {run} knows no signal 'gone'; it waits for be, go"
    assert caught.value.code == "not_found"
    with pytest.raises(c.Refused, match="there is no run"):
        signal(engine, "nope")


def test_why_names_the_signal_and_the_time(engine: Engine) -> None:
    run = submit(engine, {"signal": "go", "timeout": "10s"}, pause={"wait": {"for": "1m"}}, first=False)
    engine.time_ms += 2_500
    assert explain(situation(engine, run, "hold")) == (
        "it waits for the signal 'go'",
        [f"weft signal {run} go answers it", "in 7.5 s its timeout passes, and it fails"],
    )
    assert explain(situation(engine, run, "pause"))[0] == "it waits; it goes on in 57.5 s"


@pytest.mark.parametrize(("given", "state", "value"), [
    ({}, "failed", None), ({"default": {"by": "nobody"}}, "succeeded", {"by": "nobody"}),
    ({"default": None}, "succeeded", None), ({"default": False}, "succeeded", False),
])  # fmt: skip
def test_a_signal_that_does_not_come_in_time(engine: Engine, given: dict[str, Any], state: str, value: Any) -> None:
    run = submit(engine, {"signal": "go", "timeout": "10s", **given}, first=False)
    exchange(engine, run, wait_ms=9_999)
    assert engine.states(run)["hold"] == "waiting"
    exchange(engine, run, wait_ms=1)
    assert engine.states(run)["hold"] == state
    assert output(engine, run) == value
    if state == "failed":
        assert engine.task(run, "hold").reason == "the signal 'go' did not come in time"


def test_a_late_signal_changes_nothing(engine: Engine) -> None:
    run = submit(engine, {"signal": "go", "timeout": "1s", "default": 1}, first=False)
    exchange(engine, run, wait_ms=1_000)
    assert signal(engine, run, data=2).changed == 0
    assert output(engine, run) == 1


def moment(ms: int, zone: str = "+00:00") -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None).isoformat() + zone


@pytest.mark.parametrize(("wait", "due_in_ms"), [
    ({"for": "2s"}, 2_000), ({"for": 0.5}, 500), ({"for": "${{ 1 + 1 }}s"}, 2_000), ({"for": "${{ 1.5 }}"}, 1_500),
    ({"for": "${{ run.name === 'w' ? '1m' : '1s' }}"}, 60_000), ({"until": moment(1_005_000)}, 5_000),
    ({"until": moment(1_005_000, "")}, 5_000), ({"until": moment(1_005_000 + 7_200_000, "+02:00")}, 5_000),
    ({"until": "${{ '1970-01-01T00:16:' + '50Z' }}"}, 10_000),
])  # fmt: skip
def test_for_a_while_and_until_a_time(engine: Engine, wait: dict[str, Any], due_in_ms: int) -> None:
    run = submit(engine, wait, first=False)
    reply = engine.exchange("a")
    assert reply.wake_in_ms == due_in_ms
    exchange(engine, run, wait_ms=due_in_ms - 1)
    assert engine.states(run)["hold"] == "waiting"
    exchange(engine, run, wait_ms=1)
    assert engine.states(run) == {"hold": "succeeded", "after": "running"}


def test_a_time_that_has_passed_holds_nothing_up(engine: Engine) -> None:
    run = submit(engine, {"until": "1969-12-31"}, first=False)
    exchange(engine, run)
    assert engine.states(run) == {"hold": "succeeded", "after": "running"}


@pytest.mark.parametrize(("wait", "said"), [
    ({"for": "${{ [1] }}"}, "for: a duration is needed"), ({"for": "${{ true }}"}, "for: a duration is needed"),
    ({"for": "${{ 'soon' }}"}, "not a duration"), ({"for": "${{ 0 - 1 }}"}, "cannot be negative"),
    ({"until": "${{ 'tomorrow' }}"}, "'tomorrow' is no time"), ({"until": "${{ 5 }}"}, "'5' is no time"),
    ({"until": "${{ inputs.nothing.x }}"}, "wait: "), ({"for": "${{ context.gone }}"}, "wait: "),
])  # fmt: skip
def test_what_is_no_time_fails_the_wait_with_the_reason(engine: Engine, wait: dict[str, Any], said: str) -> None:
    tasks = {"hold": {"wait": wait}}
    run = engine.submit({"name": "w", "inputs": {"nothing": {"type": "object", "default": {}}}, "tasks": tasks})
    engine.check(run)
    assert engine.states(run)["hold"] == "failed"
    assert said in (engine.task(run, "hold").reason or "")


def test_waits_hold_no_slot(engine: Engine) -> None:
    """With room for one attempt, in the node and in the run, others run while it waits."""
    tasks = {"hold": {"wait": {"signal": "go"}}, "b": WORK, "c": {**WORK, "needs": ["b"]}}
    run = engine.submit({"name": "w", "max_parallel": 1, "tasks": tasks})
    engine.check(run)
    assert engine.run(run).active == 1
    assert [claim.pos for claim in engine.exchange("a", want=1).claims] == [1]
    exchange(engine, run, "b")
    exchange(engine, run, "c")
    assert engine.states(run) == {"hold": "waiting", "b": "succeeded", "c": "succeeded"}
    signal(engine, run)
    assert engine.run(run).state == "succeeded"


@pytest.mark.parametrize("what", ["task", "run"])
def test_cancelled_while_it_waits(engine: Engine, what: str) -> None:
    run = submit(engine, {"signal": "go", "timeout": "10s"}, first=False)
    engine.commit(c.CancelTask(run, "hold") if what == "task" else c.CancelRun(run))
    engine.check(run)
    assert engine.states(run)["hold"] == "cancelled"
    assert engine.run(run).state == "cancelled" if what == "run" else engine.run(run).state in ("cancelled", "failed")
    exchange(engine, run, wait_ms=20_000)
    assert engine.states(run)["hold"] == "cancelled"


def test_halted_while_it_waits(engine: Engine) -> None:
    run = engine.submit({"name": "w", "tasks": {"bad": WORK, "hold": {"wait": {"signal": "go"}}}})
    exchange(engine, run)
    engine.finish("a", "bad", "failed")
    engine.check(run)
    assert (engine.states(run)["hold"], engine.run(run).state) == ("cancelled", "failed")


def test_a_resumed_run_waits_again_and_takes_the_kept_signal(engine: Engine) -> None:
    run = submit(engine, {"signal": "go"})
    exchange(engine, run)
    signal(engine, run, data="yes")
    engine.finish("a", "first", "failed")
    engine.check(run)
    assert engine.run(run).state == "failed"
    engine.commit(c.Resume(run))
    exchange(engine, run)
    exchange(engine, run, "first")
    exchange(engine, run)
    assert engine.states(run) == {"first": "succeeded", "hold": "succeeded", "after": "running"}
    assert output(engine, run) == "yes"


def test_a_condition_is_asked_before_a_wait(engine: Engine) -> None:
    run = engine.submit({"name": "w", "tasks": {"hold": {"wait": {"signal": "go"}, "if": "run.name === 'other'"}}})
    engine.check(run)
    assert engine.states(run)["hold"] == "skipped"
