"""Seeded stories of nodes that have replicas of a log: `python -m tests.simulation 20000007` tells one of them.

A few seeds are played with every change, chosen for what happens in them; `make soak` plays hundreds.
"""

import itertools

import pytest

from tests.simulation.scenario import play
from tests.simulation.test_simulation import expect
from tests.simulation.world import ON_LOG
from weft.store.replicated import applier

SEEDS = [ON_LOG + number for number in (3, 6, 7, 16, 24, 28, 30)]


def test_nodes_with_replicas_keep_the_invariants() -> None:
    logs = [world.log for world in map(play, SEEDS) if world.log is not None]
    assert len(logs) == len(SEEDS)
    assert sum(log.repeated for log in logs) > 20, "appends without a reply, made again"
    assert sum(log.snapshots for log in logs) > 2, "replicas that the log has left behind"
    assert sum(log.returned for log in logs) > 5, "nodes that continue with their replica"
    assert sum(log.cut_off_tails for log in logs) > 2, "of those, after a power cut"


def test_a_seed_on_a_log_replays_exactly() -> None:
    one, two = play(SEEDS[0]), play(SEEDS[0])
    assert one.story == two.story
    assert (one.commits, one.loop.steps) == (two.commits, two.loop.steps)


def test_the_simulation_finds_entries_that_are_applied_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applier, "is_repeated", lambda connection, entry, revision: False)
    expect("repeated", SEEDS)


def test_the_simulation_finds_times_that_replicas_do_not_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry's time is what its origin wrote down, not when it is applied."""
    ticks = itertools.count()
    monkeypatch.setattr(applier, "time_of", lambda connection, entry, last: max(last, entry.time) + next(ticks) % 2)
    expect("replica", SEEDS)
