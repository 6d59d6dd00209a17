"""SIGKILL at each named place in the node, several times over: then it resumes, and nothing is lost or done twice."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import test_once
from tests.crash.harness import Place, diamond
from tests.postgres import test_copy
from weft.node.points import POINTS

#: A place, and the how-many-eth time it is reached that is the last.
CRASHES = [
    ("submit.committed", 1),
    ("exchange.before_commit", 1),
    ("exchange.before_commit", 3),
    ("exchange.before_commit", 6),
    ("exchange.committed", 1),
    ("exchange.committed", 2),
    ("exchange.committed", 5),
    ("attempt.before_start", 1),
    ("attempt.before_start", 4),
    ("attempt.ended", 1),
    ("attempt.ended", 3),
    ("attempt.ended", 8),
]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, diamond(6), work="sleep 0.03")
    yield made
    made.close()


def test_every_place_is_tried() -> None:
    fires = {"fire.before_commit", "fire.committed"}  # tests/cluster/test_triggers.py
    notified = {"notify.sent"}  # tests/notifications/test_delivery.py
    moved = {"move.marked", "move.kept"}  # tests/replicated/test_copy.py
    elsewhere = {"submit.before_commit", *notified, *test_once.CRASHES, *test_copy.POINTS, *fires, *moved}
    assert {name for name, _ in CRASHES} | elsewhere == set(POINTS)


@pytest.mark.parametrize(("point", "time_no"), CRASHES, ids=[f"{name}-{count}" for name, count in CRASHES])
def test_a_crash_loses_nothing(place: Place, point: str, time_no: int) -> None:
    code = place.weft("run", "crash.yaml", "--slots", "3", WEFT_CRASH_AT=f"{point}:{time_no}")
    died = time.monotonic()
    assert code == -signal.SIGKILL, f"the place was not reached\n{place.log()}"
    place.all_gone(died)
    assert place.weft("resume", "last", "--slots", "3") == 0, place.log()
    place.check()
    place.all_gone(time.monotonic())
    _went_on_at_once(place)


def _went_on_at_once(place: Place) -> None:
    """By the store's clock: from the begin of the session that resumed it to the first task that it took."""
    session, began = place.rows("SELECT id, started_at FROM sessions ORDER BY started_at DESC LIMIT 1")[0]
    ((first,),) = place.rows(f"SELECT min(at) FROM events WHERE session = '{session}' AND kind = 'assigned'")
    assert first - began <= 5000, "not the lease's 30 s"


def test_a_crash_before_the_submission_is_stored_leaves_nothing(place: Place) -> None:
    assert place.weft("run", "crash.yaml", WEFT_CRASH_AT="submit.before_commit") == -signal.SIGKILL
    place.all_gone(time.monotonic())
    assert place.rows("SELECT count(*) FROM runs") == [(0,)]
    assert place.rows("SELECT count(*) FROM events") == [(0,)]
    assert place.lines() == []
    assert place.weft("run", "crash.yaml") == 0, place.log()
    place.check()


def test_crashes_in_a_row(place: Place) -> None:
    """Every session dies after a few exchanges; each leaves a little more done."""
    code = place.weft("run", "crash.yaml", "--slots", "3", WEFT_CRASH_AT="exchange.before_commit:3")
    deaths = 0
    while code == -signal.SIGKILL:
        deaths += 1
        assert deaths < 30, place.log()
        code = place.weft("resume", "last", "--slots", "3", WEFT_CRASH_AT="exchange.before_commit:4")
    assert code == 0, place.log()
    assert deaths > 1
    place.check()
