"""The run's context: what it begins with, who wins a key, and that a conflict is seen."""

from itertools import permutations
from typing import Any

import pytest

from tests.core.driver import Engine

WORK = {"inline": "work"}


def play(tasks: dict[str, Any], writes: dict[str, dict[str, Any]], order: tuple[str, ...], **more: Any) -> Engine:
    """One run in which tasks end in this order, each writing its keys."""
    engine = Engine()
    engine.node("a")
    run = engine.submit({"name": "w", "tasks": tasks, **more})
    engine.exchange("a")
    for name in order:
        engine.finish("a", name, context=writes.get(name))
        engine.check(run)
    assert engine.run(run).state == "succeeded"
    return engine


def context(engine: Engine) -> dict[str, Any]:
    found: dict[str, Any] = engine.store.context_of(engine.run_no("run-1"))
    return found


def conflicts(engine: Engine) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (data["key"], tuple(data["writers"]))
        for kind, _, data in engine.history("run-1")
        if kind == "context_conflict"
    ]


@pytest.mark.parametrize("order", list(permutations("abc")), ids="".join)
def test_on_one_level_the_last_name_wins_whatever_the_order(order: tuple[str, ...]) -> None:
    tasks = {"b": WORK, "c": WORK, "a": WORK}
    writes = {name: {"who": name, name: True} for name in "abc"}
    engine = play(tasks, writes, order)
    assert context(engine) == {"who": "c", "a": True, "b": True, "c": True}
    assert len(conflicts(engine)) == 2
    assert {key for key, _ in conflicts(engine)} == {"who"}


@pytest.mark.parametrize("order", [("z", "a", "b"), ("a", "z", "b"), ("a", "b", "z")], ids="".join)
def test_a_later_level_wins_over_a_later_name(order: tuple[str, ...]) -> None:
    tasks = {"z": WORK, "a": WORK, "b": {**WORK, "needs": ["a"]}}
    engine = play(tasks, {"z": {"k": "z"}, "b": {"k": "b"}}, order)
    assert context(engine) == {"k": "b"}
    assert conflicts(engine) == [("k", ("b", "z"))]


def test_writers_that_follow_each_other_do_not_conflict() -> None:
    tasks = {"a": WORK, "middle": {**WORK, "needs": ["a"]}, "b": {**WORK, "needs": ["middle"]}}
    engine = play(tasks, {"a": {"n": 1}, "b": {"n": 2}}, ("a", "middle", "b"), context={"n": 0, "m": [1]})
    assert context(engine) == {"n": 2, "m": [1]}
    assert conflicts(engine) == []


def test_what_a_run_begins_with_yields_to_any_writer() -> None:
    engine = play({"a": WORK}, {"a": {"k": None}}, ("a",), context={"k": 1, "other": {"x": 2}})
    assert context(engine) == {"k": None, "other": {"x": 2}}
    assert conflicts(engine) == []


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_elements_go_by_their_index(order: tuple[int, ...]) -> None:
    names = tuple(f"m.{index}" for index in order)
    writes = {name: {"last": name} for name in names}
    engine = play({"m": {**WORK, "map": [10, 20, 30]}}, writes, names)
    assert context(engine) == {"last": "m.2"}
    assert conflicts(engine)


def test_a_failure_writes_nothing() -> None:
    engine = Engine()
    engine.node("a")
    run = engine.submit({"name": "w", "context": {"k": 1}, "tasks": {"a": WORK}})
    engine.exchange("a")
    engine.finish("a", "a", "failed", context={"k": 2})
    engine.check(run)
    assert context(engine) == {"k": 1}


def test_a_condition_sees_what_has_just_been_written() -> None:
    tasks = {"a": WORK, "yes": {**WORK, "needs": ["a"], "if": "context.go && workflow.context.n > 1"}}
    engine = Engine()
    engine.node("a")
    run = engine.submit({"name": "w", "context": {"go": False, "n": 2}, "tasks": tasks})
    engine.exchange("a")
    engine.finish("a", "a", context={"go": True})
    engine.check(run)
    assert engine.states(run)["yes"] == "running"
