"""Time that runs out, on real processes: of a task, and of a whole run."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.harness import Place


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path


@pytest.mark.parametrize(
    ("head", "state", "reason"),
    [
        ("timeout: 400ms", "failed", "the run's timeout passed"),
        ("defaults: {timeout: 400ms}", "failed", "timed out after 0.4 s"),
        ("timeout: 400ms\ndefaults: {timeout: 1h}", "failed", "the run's timeout passed"),
    ],
)
def test_what_ran_out_of_time_is_stopped_and_says_whose_time_it_was(
    directory: Path, head: str, state: str, reason: str
) -> None:
    place = Place(directory, {"long": [], "after": ["long"]}, work="exec sleep 60", head=head)
    try:
        assert place.weft("run", "crash.yaml") == 1, place.log()
        place.all_gone(time.monotonic())
        control = place.control()
        run, task = control.run("last"), control.task("last", "long")
        assert run.state == "failed"
        assert (task.state, task.reason, task.attempt) == (state, reason, 1)
        assert control.task("last", "after").state == "cancelled"
        assert reason in (run.reason or "")
        assert control.verify("last").ok
        control.close()
    finally:
        place.close()
