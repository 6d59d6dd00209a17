"""weft run in pipes: what it prints where, its exit codes, its inputs, its refusals."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import BRANCHES, Weft, wait_for

Start = Callable[..., "subprocess.Popen[str]"]
LINE = re.compile(r"^\d\d:\d\d:\d\d  (\S+)  (.+)$")


def write(directory: Path, text: str, name: str = "w.yaml") -> str:
    (directory / name).write_text(text)
    return name


def test_one_line_per_change_and_a_summary(weft: Weft, tmp_path: Path) -> None:
    done = weft("run", write(tmp_path, BRANCHES))
    assert done.code == 1
    assert done.out == ""
    assert "\x1b" not in done.err
    changes = [match.groups() for match in map(LINE.match, done.err.splitlines()) if match]
    ends = {task: what for task, what in changes if not what.startswith("running")}
    assert ends["good"].startswith("succeeded")
    assert ends["bad"].startswith("failed") and ends["bad"].endswith("exit code 3")  # noqa: PT018
    assert ends["after_bad"] == "skipped  bad failed"
    assert ends["poor"].startswith("dead letter")
    assert "│ it broke" in done.err  # the end of what failed
    summary = done.err[done.err.index("✗ branches failed") :]
    assert "5 succeeded, 1 failed, 1 dead letter, 1 skipped; 1 task tried more than once" in summary
    assert re.search(r"weft logs \w{12} bad", summary)
    assert re.search(r"weft resume \w{12}", summary)


def test_a_chain_streams_its_output(weft: Weft, tmp_path: Path) -> None:
    done = weft("run", write(tmp_path, "- echo out; echo err >&2\n- printf 'no newline'\n"))
    assert done.code == 0
    assert done.out == "out\nno newline"
    assert "err\n" in done.err


def test_logs_prefixes_lines_with_their_task(weft: Weft, tmp_path: Path) -> None:
    text = "tasks: {a: 'printf \"1\\n2\"', long_name: {needs: [a], run: 'echo 3'}}"
    done = weft("run", "--logs", write(tmp_path, text))
    assert done.out.splitlines() == ["a         │ 1", "a         │ 2", "long_name │ 3"]


def test_output_is_handed_on_byte_for_byte(tmp_path: Path) -> None:
    command = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 5000)"
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "--", sys.executable, "-c", command],
        cwd=tmp_path, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == bytes(range(256)) * 5000


def test_json_is_one_event_per_line_and_the_summary_last(weft: Weft, tmp_path: Path) -> None:
    done = weft("run", "--json", write(tmp_path, BRANCHES))
    assert done.code == 1
    *events, summary = done.lines
    assert {event["type"] for event in events} == {"event"}
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    assert events[0]["kind"] == "submitted"
    assert events[-1]["kind"] == "run_finished"
    assert summary["type"] == "summary"
    assert (summary["state"], summary["total"], summary["tried_again"]) == ("failed", 8, 1)
    assert {failure["task"] for failure in summary["failures"]} == {"bad", "poor"}


def test_one_command_with_any_arguments(weft: Weft) -> None:
    words = ["a b", "*", "$HOME", "--json", "-x", "", "ü", "${{ x }}", "$${{"]
    done = weft("run", "--", "printf", "%s|", *words)
    assert (done.code, done.out) == (0, "|".join(words) + "|")
    assert weft("run", "--", "false").code == 1


def test_a_command_that_is_not_there_fails_its_task(weft: Weft) -> None:
    done = weft("run", "--", "no-such-command-anywhere")
    assert done.code == 127
    assert "no-such-command-anywhere" in done.err


def test_a_definition_from_standard_input(weft: Weft) -> None:
    assert weft("run", "-", input=b"- echo from stdin\n").out == "from stdin\n"
    assert weft("run", "-", input=b'{"tasks": {"a": "true"}}').code == 0


def test_a_bad_definition_names_its_line_and_stores_nothing(look: Weft, tmp_path: Path) -> None:
    done = look("run", write(tmp_path, "tasks:\n  a: {needs: [b], run: x}\n  b: {needs: [a], rnu: y}\n"))
    assert done.code == 2
    assert "w.yaml:3:" in done.err
    assert "did you mean" in done.err
    assert not (tmp_path / ".weft").exists()
    assert [error["line"] for error in look("run", "w.yaml", "--json").json["error"]["errors"]]


INPUTS = """\
inputs:
  day: {type: string}
  count: {type: integer, default: 3}
tasks: {a: "true"}
"""


def test_inputs_all_errors_at_once(look: Weft, tmp_path: Path) -> None:
    done = look("run", write(tmp_path, INPUTS), "--input", "count=many", "--input", "dya=x")
    assert done.code == 2
    assert "whole number" in done.err
    assert "no input 'dya'" in done.err
    assert "'day' (string) is missing" in done.err
    assert not (tmp_path / ".weft").exists()


def test_inputs_are_kept_and_may_come_from_files(weft: Weft, look: Weft, tmp_path: Path) -> None:
    (tmp_path / "day").write_text("monday")
    assert weft("run", write(tmp_path, INPUTS), "-i", "day=@day", "-i", "count=5").code == 0
    assert look("show", "last", "--json").json["run"]["inputs"] == {"day": "monday", "count": 5}
    assert look("run", "w.yaml", "-i", "day=@nowhere").code == 2


def test_a_key_makes_one_run(weft: Weft, look: Weft, tmp_path: Path) -> None:
    write(tmp_path, "- echo ran >> journal\n")
    assert [weft("run", "w.yaml", "--key", "k").code for _ in range(2)] == [0, 0]
    assert (tmp_path / "journal").read_text() == "ran\n"
    write(tmp_path, "- echo other >> journal\n")
    done = look("run", "w.yaml", "--key", "k")
    assert done.code == 2
    assert "belongs to run" in done.err


def test_what_no_node_can_take_is_refused_at_once(weft: Weft, look: Weft, tmp_path: Path) -> None:
    write(tmp_path, "tasks: {a: {run: 'true', requires: {labels: [gpu]}}}")
    done = look("run", "w.yaml")
    assert done.code == 2
    assert "lacks the label gpu" in done.err
    assert look("ls", "--json").json["runs"] == []
    assert weft("run", "w.yaml", "--label", "gpu").code == 0


def test_tasks_start_beside_their_definition(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", "- pwd\n")
    assert weft("run", "sub/w.yaml").out.strip() == str((tmp_path / "sub").resolve())
    assert weft("run", "--", "pwd", env={"WEFT_WORKDIR": str(tmp_path / "sub")}).out.strip().endswith("/sub")


def test_slots_bound_what_runs_at_a_time(weft: Weft, tmp_path: Path) -> None:
    """Each element takes a lock that nobody else may hold: two at a time would fail."""
    write(tmp_path, "tasks: {a: {replicas: 6, run: 'mkdir lock && sleep 0.02 && rmdir lock'}}")
    assert weft("run", "w.yaml", "--slots", "1").code == 0
    assert weft("run", "w.yaml", "--max-parallel", "1", "--slots", "8").code == 0


def test_resume_runs_only_what_did_not_succeed(weft: Weft, look: Weft, tmp_path: Path) -> None:
    write(tmp_path, "tasks: {a: 'echo a >> journal', b: {needs: [a], run: 'echo b >> journal; test -e go'}}")
    assert weft("run", "w.yaml").code == 1
    (tmp_path / "go").touch()
    done = weft("resume", "last")
    assert done.code == 0
    assert (tmp_path / "journal").read_text() == "a\nb\nb\n"
    assert "a  running" not in done.err  # only what is new is told
    again = look("resume", "last")
    assert (again.code, "nothing left to do" in again.err) == (0, True)


def test_rerun_is_a_new_run(weft: Weft, look: Weft, tmp_path: Path) -> None:
    write(tmp_path, "- echo again >> journal\n")
    assert weft("run", "w.yaml").code == 0
    (tmp_path / "w.yaml").unlink()
    assert weft("rerun", "last").code == 0
    assert (tmp_path / "journal").read_text() == "again\nagain\n"
    assert len(look("ls", "--json").json["runs"]) == 2


def test_dead_letters_are_listed_and_retried(weft: Weft, look: Weft, tmp_path: Path) -> None:
    write(
        tmp_path, "tasks: {a: {run: test -e go, retry: {max: 1, backoff: 1ms}}, b: {needs: [a], run: echo b > done}}"
    )
    assert weft("run", "w.yaml").code == 1
    assert [task["name"] for task in look("dead", "list", "--json").json["tasks"]] == ["a"]
    assert look("dead", "retry", "last", "b").code == 2
    (tmp_path / "go").touch()
    assert weft("dead", "retry", "last", "a").code == 0
    assert (tmp_path / "done").exists()
    assert "no dead letters" in look("dead", "list").err


def test_init_writes_a_workflow_that_runs(weft: Weft, look: Weft, tmp_path: Path) -> None:
    assert look("init").code == 0
    assert look("validate", "workflow.yaml").code == 0
    done = weft("run", "workflow.yaml", "--logs", "-i", "who=you; exit 1")
    assert (done.code, "hello  │ Hello, you; exit 1" in done.out) == (0, True)
    before = (tmp_path / "workflow.yaml").read_text()
    assert look("init").code == 2
    assert look("init", "no/such/dir/w.yaml").code == 2
    assert (tmp_path / "workflow.yaml").read_text() == before


def test_a_reader_that_goes_away_does_not_stop_the_run(tmp_path: Path) -> None:
    """`head` leaves after a line; the run goes on to its end, and says how it came out."""
    write(tmp_path, "- seq 1 200000\n- echo done > done\n")
    script = f"set -o pipefail; {sys.executable} -m weft run w.yaml | head -n 1"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert (tmp_path / "done").exists()


def test_a_reader_that_pauses_does_not_hold_up_the_tasks(start: Start, tmp_path: Path) -> None:
    """A pager that nobody scrolls must not cost the node its lease."""
    write(tmp_path, "- seq 1 300000\n- touch done\n")
    process = start("run", "w.yaml")
    wait_for(lambda: (tmp_path / "done").exists())
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out == "".join(f"{number}\n" for number in range(1, 300_001))  # all of it, before the summary
    assert "✓ w succeeded" in err


def test_prune_removes_runs_and_their_output(weft: Weft, look: Weft, tmp_path: Path) -> None:
    assert weft("run", "--", "echo", "hello").code == 0
    output = tmp_path / ".weft" / "output"
    assert len(list(output.iterdir())) == 1
    assert look("prune", "--older", "1d", "--json").json == {"removed": [], "kept": []}
    assert len(look("prune", "--older", "0s", "--json").json["removed"]) == 1
    assert list(output.iterdir()) == []
    assert look("ls", "--json").json["runs"] == []


@pytest.mark.parametrize("no_color", [True, False])
def test_color_in_pipes_only_when_forced(weft: Weft, no_color: bool) -> None:
    done = weft("run", "--", "true", env={"FORCE_COLOR": "1", **({"NO_COLOR": "1"} if no_color else {})})
    assert ("\x1b[32m" in done.err) is not no_color


def test_an_ascii_terminal_gets_ascii(weft: Weft) -> None:
    done = weft("run", "--", "false", env={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert done.code == 1
    assert done.err.isascii()
    assert "x false failed" in done.err


def test_submit_says_when_nobody_works(
    look: Weft, start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    write(tmp_path, "- echo x > done\n")
    done = look("submit", "w.yaml")
    assert done.code == 0
    assert "no live worker" in done.err
    worker = start("worker", "--json")
    assert worker.stderr is not None
    while json.loads(worker.stderr.readline())["message"] != "ready":
        pass
    assert look("submit", "w.yaml", "--json").json["workers"] == 1
    assert look("events", "last", "-f").code == 0  # until the worker has finished it
    assert (tmp_path / "done").exists()
    worker.terminate()
    assert worker.wait(20) == 0
