"""`why` answers in each situation a task can be in, from what the scheduler itself looks at."""

from typing import Any

import msgspec
import pytest

from tests.core.driver import Engine
from tests.core.scenarios.situation import situation
from weft.core import commands as c
from weft.core.explain import NodeView, explain
from weft.core.placement.eligibility import NodeFacts

SHELL = NodeFacts(("inline", "shell"), {"zone": "eu"}, "alpha")


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    made.node("a")
    return made


def submit(engine: Engine, tasks: dict[str, Any], **more: Any) -> str:
    return engine.submit({"name": "w", "tasks": tasks, **more})


def why(engine: Engine, run_id: str, task: str, *nodes: NodeFacts) -> tuple[str, list[str]]:
    return explain(situation(engine, run_id, task, nodes))


WORK = {"inline": "work"}


def test_open_needs_are_named_with_their_states(engine: Engine) -> None:
    run = submit(engine, {"a": WORK, "b": WORK, "c": {**WORK, "needs": ["a", "b"]}})
    engine.exchange("a", want=1)
    answer, evidence = why(engine, run, "c")
    assert answer == "it waits for a, b"
    assert evidence == ["a is running", "b is queued", "when: all_success"]
    engine.finish("a", "a", want=0)
    assert why(engine, run, "c")[0] == "it waits for b"


def test_many_open_needs_are_cut_short(engine: Engine) -> None:
    tasks: dict[str, Any] = {f"n{i}": WORK for i in range(30)}
    run = submit(engine, {**tasks, "last": {**WORK, "needs": list(tasks)}})
    answer, evidence = why(engine, run, "last")
    assert answer == "it waits for n0, n1, n2 and 27 more"
    assert len(evidence) == 21


def test_no_room_in_the_run(engine: Engine) -> None:
    run = submit(engine, {"a": WORK, "b": WORK}, max_parallel=1)
    answer, evidence = why(engine, run, "b")
    assert answer == "it is ready, but the run may have 1 tasks at a time and has 1"
    assert "max_parallel" in evidence[0]


def test_no_room_in_the_map(engine: Engine) -> None:
    run = submit(engine, {"m": {**WORK, "replicas": 3, "max_parallel": 2}})
    assert why(engine, run, "m.2")[0] == "m may run 2 elements at a time"
    assert why(engine, run, "m")[0] == "3 of its 3 elements have not ended"


def test_a_handler_of_the_whole_run(engine: Engine) -> None:
    run = submit(engine, {"a": WORK, "b": WORK, "end": {**WORK, "when": "always"}})
    assert why(engine, run, "end") == ("it starts after all other tasks; 2 have not ended", ["when: always"])


def test_queued_without_any_node() -> None:
    engine = Engine()
    run = submit(engine, {"a": WORK})
    answer, evidence = why(engine, run, "a")
    assert answer == "no node is running"
    assert "weft worker" in evidence[0]


def test_queued_and_no_node_may_take_it(engine: Engine) -> None:
    needy = {"run": "true", "requires": {"labels": ["gpu", "zone=us"]}}
    run = submit(engine, {"a": needy, "b": {"run": "true", "constraints": {"nodeLabels": ["x", "y"]}}})
    answer, evidence = why(engine, run, "a", SHELL)
    assert (answer, evidence) == ("no live node may take it", ["alpha: it lacks the labels gpu, zone=us"])
    bare = NodeFacts(("inline",), {}, "beta")
    answer, evidence = why(engine, run, "a", bare)
    assert evidence == ["beta: it has no executor for shell tasks; it lacks the labels gpu, zone=us"]


def test_queued_with_others_ahead(engine: Engine) -> None:
    run = submit(engine, {"a": WORK, "b": WORK, "c": WORK})
    answer, evidence = why(engine, run, "c", SHELL, NodeFacts(("shell",), {}, "beta"))
    assert answer == "it is in the queue with 2 ahead of it"
    assert evidence == ["nodes that may take it: alpha", "beta: it has no executor for inline tasks"]
    assert why(engine, run, "a", SHELL)[0] == "it is next in the queue"


def test_between_two_tries(engine: Engine) -> None:
    run = submit(engine, {"a": {**WORK, "retry": {"max": 3, "backoff": "10s", "jitter": 0}}})
    engine.exchange("a")
    engine.finish("a", "a", "failed", error="connection refused")
    engine.time_ms += 2_500
    answer, evidence = why(engine, run, "a")
    assert answer == "it is tried again in 7.5 s"
    assert evidence == ["attempt 1 failed: connection refused", "1 of 3 retries used"]


def test_running_and_asked_to_stop(engine: Engine) -> None:
    run = submit(engine, {"a": WORK})
    engine.exchange("a")
    engine.time_ms += 1_500
    assert why(engine, run, "a") == ("it is running on a, attempt 1, for 1.5 s", [])
    engine.commit(c.CancelTask(run, "a"))
    assert why(engine, run, "a")[1] == ["it has been asked to stop (cancel)"]


def test_waiting_for_the_sweep(engine: Engine) -> None:
    """More than one transaction's worth of tasks: the rest is about to be cancelled."""
    tasks: dict[str, Any] = {"first": WORK, "slow": WORK}
    tasks |= {f"t{i}": {**WORK, "needs": ["slow"]} for i in range(2500)}
    run = submit(engine, tasks)
    engine.exchange("a")
    engine.commit(c.CancelRun(run, "no longer wanted"))
    assert why(engine, run, "t2400") == (
        "the run was stopped; it is about to be cancelled", ["no longer wanted"],
    )  # fmt: skip
    halted = submit(engine, tasks)
    engine.exchange("a")
    engine.finish("a", "first", "failed", error="exit code 3")
    answer, evidence = why(engine, halted, "t2400")
    assert answer == "the run was halted by a failure; it is about to be cancelled"
    assert evidence == ["first: exit code 3"]


def test_ends(engine: Engine) -> None:
    run = submit(
        engine,
        {
            "good": WORK, "bad": WORK, "dead": {**WORK, "retry": {"max": 1, "backoff": "1s", "jitter": 0}},
            "after": {**WORK, "needs": ["bad", "good"]}, "gone": WORK,
        },
        on_failure="continue",
    )  # fmt: skip
    engine.commit(c.CancelTask(run, "gone"))
    engine.exchange("a")
    engine.exchange("a", [engine.report("a", "good"), engine.report("a", "bad", "failed", error="exit code 2")])
    engine.finish("a", "dead", "failed", error="exit code 7")
    engine.time_ms += 1_000
    engine.exchange("a")
    engine.finish("a", "dead", "failed", error="exit code 7")
    assert why(engine, run, "good") == ("it succeeded", [])
    assert why(engine, run, "bad")[0] == "exit code 2"
    assert why(engine, run, "dead")[0] == "it used up its retries: exit code 7"
    assert why(engine, run, "gone")[0] == "cancelled by request"
    assert why(engine, run, "after") == ("bad failed", ["bad is failed", "when: all_success"])


def test_a_success_after_a_retry_has_no_bad_word(engine: Engine) -> None:
    run = submit(engine, {"a": {**WORK, "retry": {"max": 1, "backoff": "1s", "jitter": 0}}})
    engine.exchange("a")
    engine.finish("a", "a", "failed", error="exit code 1")
    engine.time_ms += 1_000
    engine.exchange("a")
    engine.finish("a", "a")
    assert why(engine, run, "a") == ("it succeeded", [])


def test_a_waiting_task_says_so(engine: Engine) -> None:
    run = submit(engine, {"a": WORK})
    seen = situation(engine, run, "a")
    seen.task = msgspec.structs.replace(seen.task, state="waiting")
    assert explain(seen)[0] == "it waits for a signal or a time"


def test_places_have_names(engine: Engine) -> None:
    run = submit(engine, {"m": {**WORK, "replicas": 2}})
    workflow = engine.workflows[run]
    assert (workflow.tasks[0].called(-1), workflow.tasks[0].called(1)) == ("m", "m.1")


# -- placement ---------------------------------------------------------------------------------------------------


def queued(engine: Engine, task: dict[str, Any], *nodes: NodeView, **more: Any) -> tuple[str, list[str]]:
    run = submit(engine, {"t": {**WORK, **task}}, **more)
    return explain(msgspec.structs.replace(situation(engine, run, "t"), nodes=nodes))


def test_each_node_says_why_not(engine: Engine) -> None:
    big = {"memory": 2 * 2**30}
    nodes = (
        NodeView(NodeFacts(("inline",), name="small", memory=2**30)),
        NodeView(NodeFacts(("inline",), name="full", memory=3 * 2**30), held=(big,)),
        NodeView(NodeFacts(("inline",), name="leaving", memory=2**40), draining=True),
        NodeView(NodeFacts(("inline",), name="other", memory=2**40), scope="run-x"),
        NodeView(NodeFacts(("shell",), name="strange", memory=2**40)),
    )
    assert queued(engine, {"requires": big}, *nodes) == (
        "no live node has room for it now",
        [
            "small: it has 1GiB of memory, 2GiB needed",
            "full: 1GiB of memory are free now, 2GiB needed",
            "leaving: it is draining and takes nothing more",
            "other: it works for run run-x only",
            "strange: it has no executor for inline tasks",
        ],
    )
    assert queued(engine, {"requires": big}, *nodes[2:])[0] == "no live node may take it"


def test_a_node_without_a_free_slot(engine: Engine) -> None:
    busy = NodeView(NodeFacts(("inline",), name="busy"), slots=4, running=4)
    free = NodeView(NodeFacts(("inline",), name="free"), slots=4, running=3)
    assert queued(engine, {}, busy, free) == (
        "it is next in the queue",
        ["nodes that may take it: busy, free", "busy: all of its 4 slots are taken"],
    )


def test_a_node_that_only_serves(engine: Engine) -> None:
    serves = NodeView(NodeFacts(("inline",), name="serves"), slots=0)
    works = NodeView(NodeFacts(("inline",), name="works"), slots=4, running=3)
    shown = "serves: it has no slots, and runs nothing"
    assert queued(engine, {}, serves) == ("no node works", [shown, "start one: weft worker, or weft resume RUN"])
    assert queued(engine, {}, serves, works)[1] == ["nodes that may take it: works", shown]
    small = NodeView(NodeFacts(("inline",), name="small", memory=1), slots=1)
    needy = {"requires": {"memory": 2**30}}
    able = NodeView(NodeFacts(("inline",), name="able", memory=2**40), slots=0)
    assert queued(engine, needy, able, small)[0] == "no live node may take it"


def test_as_many_of_a_task_as_a_node_may_run(engine: Engine) -> None:
    requires = {"max_per_node": 2, "of": "w/t"}
    node = NodeView(NodeFacts(("inline",), name="alpha"), held=(requires, requires, {}))
    assert queued(engine, {"requires": {"max_per_node": 2}}, node) == (
        "no live node has room for it now", ["alpha: it runs 2 of this task already (max_per_node)"],
    )  # fmt: skip


def test_full_pools_name_their_holders(engine: Engine) -> None:
    engine.commit(c.SetPool("license", 5))
    run = submit(engine, {"t": {**WORK, "replicas": 6, "pools": "license"}})
    engine.exchange("a")
    assert why(engine, run, "t.5") == (
        f"the pool license is full: 5 of 5 places are held by {run}/t.0, {run}/t.1, {run}/t.2 and 2 more",
        ["nodes that may take it: a"],
    )
    engine.commit(c.SetPool("license", 0))
    assert why(engine, run, "t.5")[0] == "the pool license has no places (weft pools set license SIZE)"


def test_a_workflow_at_its_limit(engine: Engine) -> None:
    first = submit(engine, {"a": WORK}, concurrency=1)
    engine.exchange("a")
    run = submit(engine, {"a": WORK}, concurrency=1)
    assert why(engine, run, "a")[0] == f"workflow w runs 1 of at most 1 tasks at a time (concurrency): {first}/a"


def test_given_to_a_node(engine: Engine) -> None:
    run = submit(engine, {"a": WORK}, placement="scored")
    engine.node("b")
    assert why(engine, run, "a") == (
        "the leader has not picked its node yet (placement: scored)", ["nodes that may take it: a, b"],
    )  # fmt: skip
    engine.commit(c.Place())
    engine.time_ms += 1_500
    assert why(engine, run, "a") == (
        "it was given to a, which alone may take it for 8.5 s", ["b: it was given to another node"],
    )  # fmt: skip
