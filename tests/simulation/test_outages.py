"""The store is away for longer than a lease, again and again, while one long task runs."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.simulation.loop import SimulatedLoop
from tests.simulation.world import EXPIRE_S, TTL_S, Faults, World
from weft.core import commands as c
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import document_hash, encode_document
from weft.core.definition.read import read

OUTAGES = 7
LONG_S = 20.0
DOCUMENT: dict[str, Any] = {"name": "w", "tasks": {"long": {"inline": "work"}}}


def play(disturb: Callable[[World], None], seed: int = 1, outages: int = OUTAGES) -> World:
    """One node and one long task; `disturb` is called so often, each time after the task has begun again. With an odd
    seed, renewals need space too."""
    loop = SimulatedLoop(seed)
    world = World(seed, loop, Faults())
    document = read(DOCUMENT).document
    assert document is not None
    hash = document_hash(document)
    world.committer.know(compile_workflow(document, hash))
    world.durations["long"] = LONG_S
    world.commit(c.Submit("run", hash, "w", encode_document(document), "{}"))

    def one(sql: str) -> Any:
        return world.store.reader().execute(sql).get

    def over() -> bool:
        return one("SELECT finished_at FROM runs") is not None

    def begun(nth: int) -> bool:
        return over() or one("SELECT attempt FROM tasks WHERE state = 'running'") == nth

    async def until(condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(200):
            while not condition():
                await asyncio.sleep(0.1)

    async def story() -> None:
        world.start_node("n", 1)
        for nth in range(1, outages + 1):
            await until(partial(begun, nth))
            if over():
                return
            await asyncio.sleep(1.0)
            disturb(world)
        await until(over)

    try:
        loop.run_until_complete(story())
    finally:
        world.nodes.clear()
        loop.abandon()
    return world


def task(world: World) -> tuple[str, int]:
    found: tuple[str, int] = world.store.reader().execute("SELECT state, lost FROM tasks").get
    return found


@pytest.mark.parametrize("fault", ["away", "full"])
def test_outages_longer_than_the_lease_make_no_dead_letter(fault: str) -> None:
    world = play(lambda world: getattr(world, fault)(2 * TTL_S))
    assert task(world) == ("succeeded", OUTAGES), "\n".join(world.story)
    assert len(world.auditor.given_up) == OUTAGES
    shown = [line for line in world.story if "the store did not answer" in line]
    assert len(shown) == OUTAGES, "once for each outage: " + "\n".join(shown)


def test_a_task_that_takes_its_node_down_still_becomes_a_dead_letter() -> None:
    def crash(world: World) -> None:
        (owner,) = world.nodes
        world.crash(owner)
        world.start_node("n", 1)

    world = play(crash)
    assert task(world) == ("dead_letter", 6), "\n".join(world.story)


def test_a_process_that_stood_still_does_not_blame_the_store() -> None:
    def pause(world: World) -> None:
        first = min(world.nodes)
        if len(world.nodes) == 1:
            world.start_node("leader", 0)  # ends the session of the one that stands still
        world.pause(first, 6 * TTL_S)

    world = play(pause)
    assert task(world) == ("dead_letter", 6), "\n".join(world.story)
    assert not world.auditor.given_up


def test_a_renewal_that_fits_keeps_the_attempt_while_there_is_no_space() -> None:
    """A store that answers "no space" has answered: where the renewal itself can be stored, nothing is killed."""
    world = play(lambda world: world.full(2 * TTL_S), seed=2, outages=1)
    assert task(world) == ("succeeded", 0), "\n".join(world.story)


def test_a_dead_leader_delays_no_reclaim() -> None:
    """The node that dies leads, and holds the task; the only other one never leads."""

    def crash_the_leader(world: World) -> None:
        (leader,) = world.nodes
        assert world.leads(leader)
        world.start_node("other", 1, "worker")
        world.crash(leader)

    world = play(crash_the_leader, outages=1)
    assert task(world) == ("succeeded", 1), "\n".join(world.story)
    (died_s,) = [float(line.split()[0]) for line in world.story if "crashes" in line]
    (ended_s,) = [float(line.split()[0]) for line in world.story if "leases have passed" in line]
    assert ended_s - died_s < TTL_S + 2 * EXPIRE_S, "\n".join(world.story)
