"""watch and logs: runs that others work on, the last lines of tasks, and times before lines."""

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Weft, wait_for

Start = Callable[..., "subprocess.Popen[str]"]


def test_watch_follows_a_run_to_its_end_and_has_its_exit_code(weft: Weft, start: Start, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "tasks: {a: 'until test -e go; do sleep 0.02; done', b: {needs: [a], run: exit 3}}"
    )
    run = weft("submit", "w.yaml").out.strip()
    worker = start("worker", "--slots", "2")
    wait_for(lambda: weft("tasks", run, "--json", "--state", "running").json["tasks"])
    watching = start("watch", run)
    assert watching.stderr is not None
    assert run in watching.stderr.readline()  # it follows now: what comes next it must show
    (tmp_path / "go").touch()
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 1, err
    assert "b  failed" in err
    assert "failed in" in err
    assert weft("watch", run).code == 1
    done = weft("watch", run, "--json")
    assert (done.code, done.lines[-1]["state"]) == (1, "failed")
    worker.send_signal(signal.SIGTERM)
    worker.wait(30)


def test_an_interrupt_only_stops_watching(weft: Weft, start: Start, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks: {a: 'true', b: 'true'}")
    run = weft("submit", "w.yaml").out.strip()
    watching = start("watch", run)
    assert watching.stderr is not None
    while run not in (line := watching.stderr.readline()):
        assert line, "it ended"
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert f"run {run} goes on" in err
    assert weft("show", run, "--json").json["run"]["finished_at"] is None
    assert weft("watch", "zzzz").code == 3


def test_decisions_of_people_are_shown(weft: Weft, start: Start, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks: {a: 'true', b: 'true', c: {needs: [a, b], run: 'true'}}")
    run = weft("submit", "w.yaml").out.strip()
    watching = start("watch", run)
    assert watching.stderr is not None
    while run not in (line := watching.stderr.readline()):
        assert line, "it ended"
    for words in (("pause", run, "--reason", "no disk"), ("unpause", run), ("skip", run, "c", "--reason", "no data"),
                  ("mark", run, "a", "b", "--succeeded")):  # fmt: skip
        assert weft(*words).code == 0, words
    _, err = watching.communicate(timeout=60)
    for text in ("the run  paused  no disk", "the run  unpaused", "c  skipped  no data", "a  succeeded  marked by"):
        assert text in err, err


def test_the_last_lines_of_each_task(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks: {a: seq 100, b: 'seq 3; printf end'}")
    assert weft("run", "w.yaml").code == 0
    assert weft("logs", "last", "a", "--tail", "2").out == "99\n100\n"
    assert weft("logs", "last", "b", "--tail", "2").out == "3\nend"
    assert weft("logs", "last", "b", "--tail", "0").out == ""
    assert weft("logs", "last", "a", "--tail", "2", "-f").out == "99\n100\n"
    assert re.findall(r"\w+$", weft("logs", "last", "--tail", "1").out, re.MULTILINE) == ["100", "end"]
    assert weft("logs", "last", "--tail", "-1").code == 2
    assert weft("logs", "last", "a", "--tail", "1", "--json").lines == [
        {"task": "a", "stream": "stdout", "encoding": "utf-8", "data": "100\n"}
    ]


def test_times_before_lines(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks: {a: echo one, b: echo two}")
    assert weft("run", "w.yaml").code == 0
    stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "
    assert re.fullmatch(rf"{stamp}one\n", weft("logs", "last", "a", "--timestamps").out)
    assert re.fullmatch(rf"{stamp}a .* one\n{stamp}b .* two\n", weft("logs", "last", "--timestamps").out)
    began = weft("show", "last", "a", "--json").json["task"]["started_at"]
    assert weft("logs", "last", "a", "--timestamps", "--json").lines[0]["at"] == began


def test_elements_stand_where_their_task_does(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks:\n  first: {map: [x, y], run: 'echo ${{ item }}'}\n  second: echo z\n")
    assert weft("run", "w.yaml").code == 0
    assert re.findall(r"\w$", weft("logs", "last").out, re.MULTILINE) == ["x", "y", "z"]
