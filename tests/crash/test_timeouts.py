"""Time that runs out, on real processes: of a task, and of a whole run."""

import time
from pathlib import Path

import pytest

from tests.crash.harness import Place

RUN = "timeout: 4s"  # counted from the submission: the task has to start within it on a busy machine too


@pytest.mark.parametrize(
    ("head", "state", "task_reason", "run_reason"),
    [
        (RUN, "cancelled", "cancelled while it ran", "the run's timeout passed"),
        (
            RUN + "\ndefaults: {timeout: 1h}",
            "cancelled",
            "cancelled while it ran",
            "the run's timeout passed",
        ),
        ("defaults: {timeout: 400ms}", "failed", "timed out after 0.4 s", "long: timed out after 0.4 s"),
    ],
)
def test_what_ran_out_of_time_is_stopped_and_says_whose_time_it_was(
    tmp_path: Path, head: str, state: str, task_reason: str, run_reason: str
) -> None:
    place = Place(tmp_path, {"long": [], "after": ["long"]}, work="exec sleep 60", head=head)
    try:
        assert place.weft("run", "crash.yaml") == 1, place.log()
        place.all_gone(time.monotonic())
        connection = place.connection()
        run, task = connection.run("last"), connection.task("last", "long")
        assert (run.state, run.reason) == ("failed", run_reason)
        assert (task.state, task.reason, task.attempt) == (state, task_reason, 1)
        assert connection.task("last", "after").state == "cancelled"
        assert connection.verify("last").ok
        connection.close()
    finally:
        place.close()
