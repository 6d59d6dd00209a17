"""Mapped tasks, rule by rule: how many elements open, who is let in, what is tolerated, and what is gathered."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.core.driver import Engine
from weft.authoring.load import load_value
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.core.definition.document import encode_document
from weft.core.expressions.run_names import Ended, tasks_view
from weft.core.workflow import Tolerate
from weft.executors.protocol import Launch
from weft.executors.python_functions.attempt_context import context_update
from weft.local_node.factory import make_node, node_settings
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore
from weft.store.sqlite.transaction import SqliteTransaction

LIST = {"inline": "list"}
OVER = "${{ tasks.list.output }}"


def begin(over: Any, after: dict[str, Any] | None = None, **more: Any) -> tuple[Engine, str]:
    """A run whose `list` has given `over`, and whose `m` maps over it."""
    engine = Engine()
    engine.node("a")
    tasks = {"list": LIST, "m": {"inline": "work", "map": OVER, **more}, **(after or {})}
    run = engine.submit({"name": "w", "on_failure": "continue", "tasks": tasks})
    engine.exchange("a")
    step(engine, run, "list", output=over)
    return engine, run


def step(engine: Engine, run: str, task: str, outcome: str = "succeeded", want: int = 100, **more: Any) -> None:
    if "output" in more:
        more["result"] = json.dumps({"output": more.pop("output")})
    engine.finish("a", task, outcome, want, **more)
    engine.check(run)


def gathered(engine: Engine, run: str, task: str = "m") -> Any:
    workflow = engine.workflows[run]
    rows = engine.store.ends_at(engine.run_no(run), [workflow.position[task]])
    return tasks_view([Ended(*row) for row in rows], workflow)[task]["output"]


@pytest.mark.parametrize(("size", "batch", "elements"), [
    (0, None, 0), (1, None, 1), (7, None, 7), (0, 3, 0), (1, 3, 1), (7, 3, 3), (6, 3, 2), (7, 100, 1),
])  # fmt: skip
def test_one_element_for_each_or_for_each_batch(size: int, batch: int | None, elements: int) -> None:
    more: dict[str, Any] = {} if batch is None else {"batch": batch}
    engine, run = begin(list(range(size)), **more)
    assert engine.task(run, "m").elements == elements
    for index in reversed(range(elements)):
        step(engine, run, f"m.{index}", output=index * 10)
    assert engine.states(run)["m"] == "succeeded"
    assert engine.run(run).state == "succeeded"
    assert gathered(engine, run) == [index * 10 for index in range(elements)]


@pytest.mark.parametrize(("value", "kind"), [
    ("text", "text"), ({"a": 1}, "an object"), (None, "null"), (True, "a boolean"), (3, "a number"),
])  # fmt: skip
def test_what_is_no_array_fails_with_the_reason(value: Any, kind: str) -> None:
    engine, run = begin(value, {"after": {"inline": "x", "needs": ["m"]}})
    assert engine.states(run) == {"list": "succeeded", "m": "failed", "after": "skipped"}
    assert engine.task(run, "m").reason == f"map: an array is needed, this is {kind}"


def test_what_cannot_be_worked_out_fails_with_the_reason() -> None:
    engine = Engine()
    engine.node("a")
    run = engine.submit(
        {"name": "w", "tasks": {"list": LIST, "m": {"inline": "x", "map": "${{ tasks.list.output.a }}"}}}
    )
    engine.exchange("a")
    step(engine, run, "list", output={"b": [1]})
    assert engine.states(run)["m"] == "failed"
    assert "'b'" in (engine.task(run, "m").reason or "")


def test_a_literal_list_with_templates_opens_at_once() -> None:
    engine = Engine()
    engine.node("a")
    run = engine.submit({"name": "w", "tasks": {"m": {"inline": "x", "map": [1, "${{ run.name }}", {"k": []}]}}})
    engine.check(run)
    assert list(engine.states(run)) == ["m", "m.0", "m.1", "m.2"]
    assert engine.run(run).total == 3


def test_the_next_task_starts_when_the_last_element_has_ended() -> None:
    engine, run = begin(
        [1, 2], {"gather": {"inline": "x", "if": "tasks.m.output.length === 2 && tasks.m.output[1] === 'b'"}}
    )
    step(engine, run, "m.1", output="b")
    assert engine.states(run)["gather"] == "pending"
    step(engine, run, "m.0")
    assert engine.states(run)["gather"] == "running"
    assert gathered(engine, run) == [None, "b"]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_max_parallel_is_kept_at_every_moment(limit: int) -> None:
    engine, run = begin(list(range(7)), max_parallel=limit)
    done = 0
    while engine.held["a"]:
        states = [state for name, state in engine.states(run).items() if name.startswith("m.")]
        assert len([state for state in states if state in ("queued", "running")]) == min(limit, 7 - done)
        step(engine, run, min(engine.held["a"]))
        done += 1
    assert done == 7
    assert engine.run(run).state == "succeeded"


@pytest.mark.parametrize(("tolerate", "elements", "failures", "state"), [
    (None, 4, 1, "failed"), (1, 4, 1, "succeeded"), (1, 4, 2, "failed"), ("50%", 4, 2, "succeeded"),
    ("50%", 4, 3, "failed"), ("49%", 4, 2, "failed"), ("100%", 3, 3, "succeeded"), (0, 3, 1, "failed"),
])  # fmt: skip
def test_tolerated_failures(tolerate: Any, elements: int, failures: int, state: str) -> None:
    engine, run = begin(list(range(elements)), **({} if tolerate is None else {"tolerate": tolerate}))
    for index in range(elements):
        if f"m.{index}" in engine.held["a"]:
            failed = index < failures
            more = {} if failed else {"output": index}
            step(engine, run, f"m.{index}", "failed" if failed else "succeeded", **more)
    assert engine.states(run)["m"] == state
    if state == "succeeded":
        assert gathered(engine, run) == [None] * failures + list(range(failures, elements))
        assert engine.run(run).state == "succeeded"
    else:
        assert engine.run(run).state == "failed"


def test_shares_are_not_off_by_one() -> None:
    for percent in range(101):
        assert Tolerate(share=percent / 100).of(100) == percent


def test_beyond_what_is_tolerated_unstarted_siblings_are_cancelled() -> None:
    engine, run = begin(list(range(6)), max_parallel=2, tolerate=1)
    step(engine, run, "m.0", "failed", want=0)
    step(engine, run, "m.1", "failed", want=0)
    states = engine.states(run)
    assert [states[f"m.{index}"] for index in range(2, 6)] == ["cancelled"] * 4
    assert (states["m"], engine.task(run, "m.5").reason) == ("failed", "m.1 failed")
    assert engine.task(run, "m").reason == "6 of 6 elements did not succeed"


def test_elements_that_run_may_finish_after_the_map_is_lost() -> None:
    engine, run = begin([1, 2, 3])
    step(engine, run, "m.0", "failed")
    assert engine.states(run)["m"] == "running"
    step(engine, run, "m.1")
    step(engine, run, "m.2")
    states = engine.states(run)
    assert (states["m"], states["m.1"], engine.run(run).state) == ("failed", "succeeded", "failed")


def test_a_cancelled_map_cancels_its_elements() -> None:
    engine, run = begin(list(range(5)), max_parallel=2)
    engine.commit(c.CancelTask(run, "m"))
    engine.check(run)
    for name in list(engine.held["a"]):
        step(engine, run, name, "cancelled")
    states = engine.states(run)
    assert states.pop("list") == "succeeded"
    assert set(states.values()) == {"cancelled"}
    assert len(states) == 6


def test_after_a_resume_old_and_new_outputs_are_gathered_together() -> None:
    engine, run = begin(["x", "y", "z"])
    for name, outcome in (("m.0", "succeeded"), ("m.2", "succeeded"), ("m.1", "failed")):
        more: dict[str, Any] = {"output": name} if outcome == "succeeded" else {}
        step(engine, run, name, outcome, **more)
    engine.commit(c.Resume(run))
    engine.exchange("a")
    assert list(engine.held["a"]) == ["m.1"]
    step(engine, run, "m.1", output="again")
    assert gathered(engine, run) == ["m.0", "again", "m.2"]
    assert engine.run(run).state == "succeeded"


def test_ten_thousand_elements_through_real_nodes(tmp_path: Path) -> None:
    """1 → 10,000 → 1 with items, on a store of its own. An array worked out anew for each element took 8 seconds."""
    size = 10_000
    tasks = {
        "list": {"inline": "list"},
        "double": {"map": OVER, "inline": "double", "env": {"ITEM": "${{ item }}", "AT": "${{ index }}"}},
        "gather": {"inline": "gather", "env": {"COUNT": "${{ tasks.double.output.length }}"}},
    }
    loaded = load_value({"name": "w", "tasks": tasks, "output": "${{ [tasks.gather.output, tasks.double.output] }}"})
    connection = StoreConnection(StoreAccess(SqliteStore(tmp_path / "weft.db")))
    body = encode_document(loaded.document)
    connection.submit(c.Submit("big", loaded.workflow.hash, "w", body, "{}"), loaded.workflow)
    functions = {
        "list": lambda _: [n * 3 for n in range(size)],
        "double": _double,
        "gather": lambda a: a.env["COUNT"],
    }
    began = time.monotonic()

    async def work() -> None:
        node = make_node(connection, node_settings(connection, slots=64, scope="big"), inline=functions)
        working = asyncio.create_task(node.run())
        while not connection.run("big").finished:
            await asyncio.sleep(0.05)
            assert time.monotonic() - began < 50
        node.stop()
        await working

    asyncio.run(work())
    print(f"1 -> {size:,} -> 1 took {time.monotonic() - began:.2f} s")
    count, doubled = connection.output("big")
    assert (count, doubled) == (str(size), [n * 6 for n in range(size)])
    assert connection.verify("big").ok
    assert connection.run("big").succeeded == size + 2
    connection.close()


def _double(launch: Launch) -> int:
    assert int(launch.env["ITEM"]) == int(launch.env["AT"]) * 3
    return int(launch.env["ITEM"]) * 2


def test_elements_on_any_node_see_the_array_that_the_map_opened_with(tmp_path: Path) -> None:
    """Each element overwrites the context that the map was made from, and one node follows another."""
    tasks = {
        "list": {"inline": "list"},
        "each": {
            "needs": ["list"], "map": "${{ context.files }}", "inline": "each", "max_parallel": 1,
            "env": {"ITEM": "${{ item }}"},
        },
    }  # fmt: skip
    loaded = load_value({"name": "w", "tasks": tasks, "output": "${{ tasks.each.output }}"})
    connection = StoreConnection(StoreAccess(SqliteStore(tmp_path / "weft.db")))
    body = encode_document(loaded.document)
    connection.submit(c.Submit("r", loaded.workflow.hash, "w", body, "{}"), loaded.workflow)

    def each(launch: Launch) -> str:
        context_update(files="gone")
        return launch.env["ITEM"]

    async def one_node(until: int) -> None:
        functions = {"list": lambda _: context_update(files=[f"file-{n}" for n in range(6)]), "each": each}
        node = make_node(connection, node_settings(connection, slots=1, scope="r"), inline=functions)
        working = asyncio.create_task(node.run())
        while connection.run("r").succeeded < until:
            await asyncio.sleep(0.005)
        node.stop()
        await working

    for until in (3, 7):
        asyncio.run(one_node(until))
    assert connection.output("r") == [f"file-{n}" for n in range(6)]
    assert connection.context("r") == {"files": "gone"}
    assert connection.verify("r").ok
    with connection.store.transaction() as tx:
        assert isinstance(tx, SqliteTransaction)
        tx._execute("UPDATE arrays SET value = '[]'")
    assert connection.verify("r").differences == [
        "each: what it maps over in generation 1 is not what its event says"
    ]
    connection.close()
