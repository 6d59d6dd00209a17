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
