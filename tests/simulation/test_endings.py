"""Every story ends: a node leaves in time, and what goes round in circles fails with what happened so far."""

import asyncio

import pytest

from tests.simulation import __main__ as simulation
from tests.simulation import loop as loops
from tests.simulation.loop import SimulatedLoop
from tests.simulation.scenario import play
from tests.simulation.world import Faults, World


def test_a_drain_ends_when_the_time_left_rounds_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's clock is finer than the loop's: the deadline is ahead for the one, and now for the other."""
    monkeypatch.setattr(loops, "STEPS_MAX", 5000)
    loop = SimulatedLoop(1)
    world = World(1, loop, Faults())
    left_s = 1e-14

    async def story() -> None:
        node, running, _ = world.nodes[world.start_node("n", 1)]
        zero = loop.time()
        node._ports.clock = lambda: loop.time() - zero
        await node.ready()
        assert node._ports.clock() + left_s > node._ports.clock()
        assert loop.time() + left_s == loop.time()
        node._leave_within(left_s)
        await asyncio.wait_for(running, 5)

    try:
        loop.run_until_complete(story())
    finally:
        world.nodes.clear()
        loop.abandon()


def test_a_seed_that_takes_too_many_steps_fails_with_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "STEPS_MAX", 200)
    with pytest.raises(AssertionError, match=r"(?s)seed 7 failed: .* more than 200 steps.*the story:.*n0 starts"):
        play(7)


def test_a_hunt_goes_on_after_a_seed_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails_at_2(seed: int) -> None:
        if seed == 2:
            raise AssertionError("seed 2 failed: the story")

    monkeypatch.setattr(simulation, "play", fails_at_2)
    assert simulation.hunt(0, 45, processes=1) == 1
    printed = capsys.readouterr().out
    assert "seed 2 failed: the story" in printed
    assert "45 of 45 seeds, 1 failed" in printed
    assert printed.endswith("failed: 2\n")
