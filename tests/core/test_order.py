"""Order within a run: the longest path first, at no cost to other runs."""

import random
from itertools import pairwise
from typing import Any

import pytest

from tests.core.driver import Engine
from weft.core import commands as c
from weft.core.graph import HEAD_START_MS, head_starts, levels_of, longest_paths, successors_of

WORK = {"inline": "work"}


def chain(name: str, length: int) -> dict[str, Any]:
    return {f"{name}{i}": {**WORK, "needs": [f"{name}{i - 1}"] if i else []} for i in range(length)}


def fan(name: str, width: int) -> dict[str, Any]:
    return {f"{name}{i}": dict(WORK) for i in range(width)}


def submit(engine: Engine, tasks: dict[str, Any], **more: Any) -> str:
    return engine.submit({"name": "w", "tasks": tasks, **more})


def played(engine: Engine, slots: int = 1, task_ms: int = 60_000, most: int = 10_000) -> list[str]:
    """The names of all tasks in the order in which a node of so many slots starts them; each takes as long."""
    engine.node("n", ttl_ms=10**12)
    started = [engine.name(claim) for claim in engine.exchange("n", want=slots).claims]
    while engine.held["n"] and len(started) < most:
        engine.time_ms += task_ms
        reports = [engine.report("n", name) for name in list(engine.held["n"])]
        started += [engine.name(claim) for claim in engine.exchange("n", reports, want=slots).claims]
    return started


@pytest.mark.parametrize(
    ("needs", "lengths"),
    [
        ([[], [0], [1]], [3, 2, 1]),
        ([[], [0], [0], [0]], [2, 1, 1, 1]),
        ([[], [0], [0], [1, 2], [2]], [3, 2, 2, 1, 1]),
        ([[], []], [1, 1]),
        ([], []),
    ],
    ids=["chain", "fan", "diamond", "flat", "empty"],
)
def test_paths_in_tasks(needs: list[list[int]], lengths: list[int]) -> None:
    successors = successors_of(needs)
    assert longest_paths(successors, levels_of(needs, successors)) == lengths


def test_paths_are_those_of_a_naive_search() -> None:
    """Whatever the graph, and in whatever order the document names its tasks."""
    chance = random.Random(7)
    for _ in range(50):
        size = chance.randrange(1, 12)
        order = chance.sample(range(size), size)
        needs = [
            [other for other in range(size) if order[other] < order[pos] and chance.random() < 0.3]
            for pos in range(size)
        ]
        successors = successors_of(needs)
        took = [chance.randrange(1, 9) for _ in range(size)]

        def naive(pos: int, successors: list[list[int]] = successors, took: list[int] = took) -> int:
            return took[pos] + max((naive(after) for after in successors[pos]), default=0)

        assert longest_paths(successors, levels_of(needs, successors), took) == [naive(pos) for pos in range(size)]


def test_a_chain_of_100_000_is_ordinary() -> None:
    needs = [[pos - 1] if pos else [] for pos in range(100_000)]
    successors = successors_of(needs)
    found = head_starts(successors, levels_of(needs, successors))
    assert (found[0], found[-1]) == (HEAD_START_MS * 99_999 // 100_000, 0)
    assert all(before >= after for before, after in pairwise(found))


def test_with_one_slot_the_chain_goes_first() -> None:
    """However long its tasks take: each takes the place of a task that has waited for longer."""
    engine = Engine()
    run = submit(engine, {**fan("f", 30), **chain("c", 5)})
    started = played(engine)
    assert started[:5] == ["c0", "c1", "c2", "c3", "f0"], "the last of the chain is worth as much as one of the fan"
    assert len(started) == 35
    engine.check(run)


def test_fifo_is_the_order_of_being_ready() -> None:
    engine = Engine()
    submit(engine, {**fan("f", 5), **chain("c", 3)}, order="fifo")
    assert played(engine) == ["f0", "f1", "f2", "f3", "f4", "c0", "c1", "c2"]


def test_max_parallel_admits_the_longest_path_first() -> None:
    engine = Engine()
    run = submit(engine, {**fan("f", 40), **chain("c", 5)}, max_parallel=1)
    assert played(engine)[:5] == ["c0", "c1", "c2", "c3", "f0"]
    engine.check(run)


def test_priority_goes_before_the_path() -> None:
    engine = Engine()
    tasks = {**fan("f", 3), **chain("c", 3)}
    tasks["f2"]["priority"] = 1
    submit(engine, tasks)
    assert played(engine, task_ms=1000) == ["f2", "c0", "c1", "f0", "f1", "c2"]


def test_a_task_between_others_keeps_its_place() -> None:
    """b0 has a longer path than the fan: what a takes, the fan gives."""
    engine = Engine()
    submit(engine, {**fan("f", 30), **chain("a", 6), **chain("b", 4)})
    assert played(engine)[:9] == ["a0", "a1", "a2", "b0", "a3", "b1", "a4", "b2", "f0"]


def test_two_runs_share_as_if_they_were_fifo() -> None:
    """Of whichever run the places are: those of a run are the same, only who has them differs."""

    def runs(order: str) -> list[int]:
        engine = Engine()
        for _ in range(2):
            submit(engine, {**fan("f", 20), **chain("c", 6)}, order=order)
            engine.time_ms += 2000  # more than a head start
        engine.node("n", ttl_ms=10**12)
        claims = list(engine.exchange("n", want=2).claims)
        of_runs = [claim.run_no for claim in claims]
        while claims:
            engine.time_ms += 60_000
            ended = [c.Report(o.task_id, o.pos, o.idx, o.attempt, "succeeded", started_ago_ms=1) for o in claims]
            claims = list(engine.exchange("n", ended, want=2).claims)
            of_runs += [claim.run_no for claim in claims]
        return of_runs

    fifo, longest = runs("fifo"), runs("longest_path")
    assert len(fifo) == len(longest) == 52
    assert abs(sum(fifo[:26]) - sum(longest[:26])) <= 4, "in the first half each has its share, but for a few places"


def test_a_chain_goes_first_in_its_run_behind_another_run() -> None:
    """No task of its run is a candidate when it becomes ready, so it takes the place of one that is not."""
    engine = Engine()
    submit(engine, {**fan("b", 3), **chain("c", 5)})
    engine.node("n", ttl_ms=10**12)
    engine.exchange("n", want=1)
    engine.submit({"name": "other", "tasks": {"x0": dict(WORK)}}, priority=5)
    engine.time_ms += 90_000
    assert [engine.name(claim) for claim in engine.finish("n", "c0", want=1).claims] == ["x0"]
    assert [engine.name(claim) for claim in engine.finish("n", "x0", want=1).claims] == ["c1"]


def test_durations_of_the_run_before_count() -> None:
    """The first time by the number of tasks, the second time by how long they took; frozen at submission."""
    engine = Engine()
    tasks = {"many0": WORK, "many1": {**WORK, "needs": ["many0"]}, "long": WORK, "short": WORK}
    first = submit(engine, tasks)
    engine.node("n", ttl_ms=10**12)
    assert [engine.name(claim) for claim in engine.exchange("n", want=4).claims] == ["many0", "long", "short"]
    for name, ms in (("many0", 200), ("many1", 200), ("short", 200), ("long", 5000)):
        claim = engine.held["n"].pop(name)
        report = c.Report(claim.task_id, claim.pos, claim.idx, claim.attempt, "succeeded", started_ago_ms=ms)
        engine.exchange("n", [report], want=4)
    assert engine.run(first).state == "succeeded"
    second = submit(engine, tasks)
    assert [engine.task(second, name).head_start for name in tasks] == [40, 0, 960, 0]
    assert engine.name(engine.exchange("n", want=1).claims[0]) == "long"


def test_elements_and_generations_have_the_head_start_of_their_task() -> None:
    engine = Engine()
    tasks = {"m": {**WORK, "replicas": 3}, "end": {**WORK, "needs": ["m"]}, "alone": WORK}
    run = submit(engine, tasks)
    assert [engine.task(run, name).head_start for name in ("m", "m.2", "end")] == [500, 500, 0]
    engine.node("n", ttl_ms=10**12)
    engine.exchange("n")
    for name in ("m.0", "m.1", "m.2"):
        engine.finish("n", name, "failed")
    engine.finish("n", "alone")
    engine.commit(c.Resume(run))
    assert [engine.task(run, name).head_start for name in ("m", "m.2", "end")] == [500, 500, 0]


def test_the_same_commands_make_the_same_order() -> None:
    orders = []
    for _ in range(2):
        engine = Engine()
        submit(engine, {**fan("f", 20), **chain("a", 6), **chain("b", 6)})
        orders.append(played(engine, slots=3))
    assert orders[0] == orders[1]
