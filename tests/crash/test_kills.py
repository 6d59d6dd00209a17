"""Kills at any moment, under load; and nodes that are stopped longer than their lease lasts."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.harness import STARTUP_MAX_S, Place, diamond
from tests.pausing import pause


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Any]:
    made: list[Place] = []

    def make(*given: Any, **more: Any) -> Place:
        made.append(Place(tmp_path, *given, **more))
        return made[-1]

    yield make
    for place in made:
        place.close()


def test_kills_under_load(places: Any) -> None:
    """SIGKILL again and again, 50 to 500 ms after the node has begun to work; a new one takes over each time."""
    place: Place = places(diamond(200), work="sleep 0.1")
    rng = random.Random(5)
    node = place.start("run", "crash.yaml", "--slots", "8")
    kills = 0
    while kills < 8:
        if not place.wait_for(len(place.lines()) + 3, node):
            break
        time.sleep(rng.uniform(0.05, 0.5))
        node.kill()
        node.wait()
        place.all_gone(time.monotonic())
        kills += 1
        node = place.start("resume", "last", "--slots", "8")
    assert place.wait(node) == 0, place.log()
    assert kills >= 3, "the run was over too soon to be a test"
    place.check()


def test_a_second_worker_takes_over_at_once(places: Any) -> None:
    """Its session's lock is free, so nobody waits for the lease of 30 s."""
    place: Place = places(diamond(12), work="sleep 0.2")
    first = place.start("worker", "--slots", "4")
    assert place.weft("submit", "crash.yaml") == 0, place.log()
    place.wait_for(2, first)
    second = place.start("worker", "--slots", "4")
    place.wait_for(5)
    connection = place.connection()
    killed_at = connection.now()
    first.kill()
    first.wait()
    deadline = time.monotonic() + STARTUP_MAX_S
    while not connection.run("last").finished and time.monotonic() < deadline:
        time.sleep(0.02)
    connection.close()
    second.send_signal(signal.SIGTERM)
    assert place.wait(second) == 0, place.log()
    place.check()
    for (at,) in place.rows("SELECT at FROM events WHERE kind = 'lost'"):
        assert at - killed_at <= 15_000, "expired by its lock, not by its lease"


def _until(what: Any, seconds: float = STARTUP_MAX_S) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def test_a_node_stopped_past_its_lease_has_no_say(places: Any) -> None:
    """SIGSTOP while its task runs; the task ends well meanwhile, but nobody can report it. After the lease another
    node has run the task, and what the first one says on SIGCONT changes nothing."""
    place: Place = places({"only": []}, work="while [ ! -e go ]; do sleep 0.02; done")
    stopped = place.start("stopped", "2.0", module="tests.crash.node_child")
    assert place.weft("submit", "crash.yaml") == 0, place.log()
    place.wait_for(1, stopped)
    pause(stopped.pid, place.directory / ".weft" / "weft.db")
    (place.directory / "go").touch()
    other = place.start("other", "2.0", module="tests.crash.node_child")
    _until(lambda: place.rows("SELECT state FROM runs") == [("succeeded",)])
    before = place.rows("SELECT task_id, attempt, outcome, session FROM all_attempts ORDER BY attempt")
    stopped.send_signal(signal.SIGCONT)
    _until(lambda: len(place.rows("SELECT id FROM sessions WHERE node = 'stopped'")) >= 2)
    for node in (stopped, other):
        assert node.stdin is not None
        node.stdin.close()
        assert place.wait(node) == 0, place.log()
    place.check()
    assert [row[2] for row in before] == ["lost", "succeeded"]
    assert place.rows("SELECT task_id, attempt, outcome, session FROM all_attempts ORDER BY attempt") == before
    assert place.lines() == [("only", 1), ("only", 2)]
    sessions = place.rows("SELECT node, state FROM sessions ORDER BY started_at, rowid")
    assert ("stopped", "dead") in sessions, "the old session is never extended: it began a new one"


def test_what_a_stopped_node_runs_is_killed_when_its_lease_ends(places: Any) -> None:
    """The spawner sees to it, though the node itself cannot move."""
    place: Place = places({"only": []}, work="exec sleep 60")
    node = place.start("stopped", "1.0", module="tests.crash.node_child")
    assert place.weft("submit", "crash.yaml") == 0, place.log()
    place.wait_for(1, node)
    _until(lambda: len(_sleepers(place)) == 1)
    (pid,) = _sleepers(place)
    node.send_signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    _until(lambda: pid not in _sleepers(place))
    assert time.monotonic() - stopped_at <= 1.0 + 4.0, "the lease, and what a busy machine takes"
    node.kill()  # SIGKILL works on a stopped process too
    node.wait()
    place.all_gone(time.monotonic())


def _sleepers(place: Place) -> list[int]:
    found = []
    for pid in place.marked():
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\x0060"):
                found.append(pid)
        except OSError:
            continue
    return found


def test_an_escaped_grandchild_dies_with_the_node(places: Any) -> None:
    """setsid and ignored signals: killing the group would not be enough."""
    place: Place = places({"only": []}, work='setsid sh -c "trap : TERM HUP INT; exec sleep 60" & exec sleep 60')
    node = place.start("run", "crash.yaml")
    place.wait_for(1, node)
    _until(lambda: len(_sleepers(place)) == 2)
    os.kill(node.pid, signal.SIGKILL)
    node.wait()
    place.all_gone(time.monotonic())
