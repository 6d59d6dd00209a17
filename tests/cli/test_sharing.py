"""Several processes on one store: two runs and a worker at once; logs and events followed from another terminal."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from .conftest import Weft, wait_for

Start = Callable[..., "subprocess.Popen[str]"]
# Each element waits until others have begun: with one slot per process, only three processes together get through.
SHARED = """\
name: shared
tasks:
  together:
    replicas: 2
    run: |
      touch "begun.$WEFT_RUN_ID.$WEFT_INDEX"
      while test "$(ls begun.* | wc -l)" -lt 3; do sleep 0.02; done
"""


def test_two_runs_and_a_worker_share_one_store(tmp_path: Path, start: Start, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text(SHARED)
    worker = start("worker", "--slots", "1", "--name", "helping", "--json")
    assert worker.stderr is not None
    while json.loads(worker.stderr.readline())["message"] != "ready":
        pass
    runs = [start("run", "w.yaml", "--slots", "1", "--json") for _ in range(2)]
    ended = [run.communicate(timeout=40) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ended
    summaries = [json.loads(out.splitlines()[-1]) for out, _ in ended]
    assert [summary["succeeded"] for summary in summaries] == [2, 2]
    nodes = {
        task["node"] for s in summaries for task in look("tasks", s["run"], "--json").json["tasks"] if task["node"]
    }
    assert "helping" in nodes  # the worker took its share
    assert len(nodes) == 2
    attempts = [task["attempt"] for s in summaries for task in look("tasks", s["run"], "--json").json["tasks"]]
    assert max(attempts) == 1
    worker.terminate()
    assert worker.wait(20) == 0
    for summary in summaries:
        assert look("verify", summary["run"]).code == 0


def test_a_run_works_for_itself_only(tmp_path: Path, look: Weft, weft: Weft) -> None:
    (tmp_path / "other.yaml").write_text("- touch other\n")
    assert look("submit", "other.yaml").code == 0
    assert weft("run", "--", "sleep", "0.2").code == 0
    assert not (tmp_path / "other").exists()
    assert [run["state"] for run in look("ls", "--json").json["runs"]] == ["succeeded", "running"]


def test_logs_and_events_are_followed_from_elsewhere(tmp_path: Path, start: Start) -> None:
    (tmp_path / "w.yaml").write_text(
        "tasks:\n"
        "  talks: 'echo first; while ! test -e open; do sleep 0.02; done; printf last'\n"
        "  after: {needs: [talks], run: echo never shown}\n"
    )
    run = start("run", "w.yaml")
    wait_for(lambda: list(tmp_path.glob(".weft/output/*/talks.1.out")))
    logs = start("logs", "last", "talks", "-f")
    events = start("events", "last", "-f", "--json")
    assert logs.stdout is not None
    assert logs.stdout.readline() == "first\n"  # while it still runs
    assert run.poll() is None
    (tmp_path / "open").touch()
    assert logs.communicate(timeout=20)[0] == "last"
    assert logs.returncode == 0
    shown = [json.loads(line)["kind"] for line in events.communicate(timeout=20)[0].splitlines()]
    assert (shown[0], shown[-1]) == ("submitted", "run_finished")
    assert run.wait(20) == 0


def test_a_worker_says_what_it_is_and_stops_when_told(start: Start, tmp_path: Path, look: Weft) -> None:
    worker = start("worker", "--slots", "3", "--label", "gpu", "--label", "zone=eu", "--json")
    assert worker.stderr is not None
    settings = json.loads(worker.stderr.readline())
    assert (settings["message"], settings["slots"], settings["labels"]) == ("settings", 3, {"gpu": "", "zone": "eu"})
    assert json.loads(worker.stderr.readline())["message"] == "ready"
    node = look("nodes", "--json").json["nodes"][0]
    assert (node["pid"], node["slots"], node["alive"]) == (worker.pid, 3, True)
    worker.terminate()
    assert worker.wait(20) == 0
    assert look("nodes", "--json").json["nodes"] == []
