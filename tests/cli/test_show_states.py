"""`weft show` of a run that goes on counts all of its tasks; a task that was marked does not look as if it ran."""

from pathlib import Path

from tests.cli.conftest import Weft, weft

__all__ = ["weft"]
DEFINITION = """
name: release
tasks:
  build: {wait: {signal: built}}
  part: {needs: [build], map: [1, 2], run: "true"}
  check: {needs: [build], run: "true"}
"""


def test_every_task_is_counted_and_marks_are_seen(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_text(DEFINITION)
    assert weft("submit", "release.yaml").code == 0
    assert "tasks    3: 1 waiting, 2 pending" in weft("show", "last").out
    assert weft("mark", "last", "check", "--succeeded", "--reason", "seen by Ann").code == 0
    shown = weft("show", "last").out
    assert "tasks    3: 1 succeeded, 1 waiting, 1 pending" in shown
    (line,) = (line for line in shown.splitlines() if "check" in line)
    assert line.split()[:5] == ["✓", "check", "succeeded", "by", "hand"]
    (line,) = (line for line in weft("tasks", "last").out.splitlines() if "check" in line)
    assert line.split() == ["check", "succeeded", "by", "hand", "seen", "by", "Ann"]
    one = weft("show", "last", "check").out
    assert "by hand  seen by Ann" in one
    assert "by hand: nothing ran" in one
    assert "marked as succeeded: seen by Ann" in weft("why", "last", "check").out


def test_a_task_that_was_tried_again_counts_from_its_first_try(weft: Weft, tmp_path: Path) -> None:
    """Its last attempt alone did not make the run as long as it was."""
    again = "{run: 'sleep 0.3; test $WEFT_ATTEMPT = 2', retry: {max: 1, backoff: 500ms}}"
    after = "{needs: [again], run: 'true'}"
    (tmp_path / "w.yaml").write_text(f"tasks: {{again: {again}, other: sleep 0.6, after: {after}}}\n")
    assert weft("run", "w.yaml").code == 0
    path = weft("show", "last", "--json").json["critical_path"]
    assert path["tasks"][0] == "again"
    assert path["took_ms"] >= 1100


def test_a_run_that_no_node_works_on_says_so(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks: {a: 'true'}\n")
    run = weft("submit", "w.yaml", "--json").json["run"]
    assert f"no node works: start one with weft worker, or go on here with weft resume {run}" in weft("show", run).out
    weft("resume", run)
    assert "no node works" not in weft("show", run).out
    done = weft("logs", run, "a")
    assert (done.code, done.out, done.err) == (0, "", "a printed nothing\n")
