"""^C once and twice, signals in pipes, and cancel from elsewhere: exit codes, messages, and nothing left running."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from .conftest import Weft, wait_for
from .screens import Screen

Start = Callable[..., "subprocess.Popen[str]"]
GRACE_S = 5.0

# Both say who they are first, so that the test can see whether anything is left of them.
STUBBORN = """\
name: stubborn
tasks:
  holds: {run: "trap '' TERM; echo $$ >> pids; while :; do sleep 0.1; done"}
  next: {needs: [holds], run: "true"}
"""
POLITE = """\
tasks:
  a: "echo $$ >> pids; while ! test -e open; do sleep 0.02; done; echo a >> journal"
  b: {needs: [a], run: echo b >> journal}
"""


def pids(directory: Path) -> list[int]:
    try:
        return [int(line) for line in (directory / "pids").read_text().split()]
    except FileNotFoundError:
        return []


def running(directory: Path) -> list[int]:
    from weft.demo.journal import is_running

    return [pid for pid in pids(directory) if is_running(pid)]


def test_control_c_once_lets_running_tasks_end(tmp_path: Path, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text(POLITE)
    screen = Screen(["run", "w.yaml"], tmp_path, 80)
    screen.until(lambda s: "▸ a" in s.text and bool(pids(tmp_path)))
    screen.process.sendintr()
    screen.until(lambda s: "stopping" in s.text)
    (tmp_path / "open").touch()
    assert screen.to_the_end() == 130
    run = re.search(r"weft resume (\w+)", screen.text)
    assert run is not None
    assert not screen.seen.cursor.hidden
    assert (tmp_path / "journal").read_text() == "a\n"  # what ran has ended, what needs it has not begun
    states = {t["name"]: t["state"] for t in look("tasks", run[1], "--json").json["tasks"]}
    assert states == {"a": "succeeded", "b": "queued"}


def test_control_c_twice_kills_and_costs_no_attempt(tmp_path: Path, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text(STUBBORN)
    screen = Screen(["run", "w.yaml"], tmp_path, 80)
    screen.until(lambda s: "▸ holds" in s.text and bool(pids(tmp_path)))
    screen.process.sendintr()
    screen.until(lambda s: "stopping" in s.text)
    began = time.monotonic()
    screen.process.sendintr()
    assert screen.to_the_end() == 130
    assert time.monotonic() - began < GRACE_S
    assert "weft resume" in screen.text
    assert running(tmp_path) == []
    holds = look("tasks", "last", "--json").json["tasks"][0]
    assert (holds["state"], holds["failures"], holds["lost"]) == ("queued", 0, 0)
    assert look("nodes", "--json").json["nodes"] == []


def test_terminate_in_a_pipe_drains_within_its_time(tmp_path: Path, start: Start, weft: Weft) -> None:
    (tmp_path / "w.yaml").write_text(STUBBORN.replace("trap '' TERM; ", ""))
    process = start("run", "w.yaml", "--drain", "100ms")
    wait_for(lambda: pids(tmp_path))
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert "handed back" in err
    assert "weft resume" in err
    assert running(tmp_path) == []
    (tmp_path / "w.yaml").unlink()  # a run keeps the definition it began with
    process = start("resume", "last")
    wait_for(lambda: len(pids(tmp_path)) == 2)
    assert weft("cancel", "last").code == 0
    assert process.wait(20) == 1


def test_a_run_goes_on_after_its_node_was_killed(tmp_path: Path, start: Start, weft: Weft) -> None:
    (tmp_path / "w.yaml").write_text(POLITE)
    process = start("run", "w.yaml")
    wait_for(lambda: pids(tmp_path))
    process.kill()
    process.wait()
    wait_for(lambda: not running(tmp_path))
    (tmp_path / "open").touch()
    began = time.monotonic()
    done = weft("resume", "last")
    assert done.code == 0
    assert time.monotonic() - began < 10  # not the lease's 30 s
    assert "lost its node" in done.err
    assert (tmp_path / "journal").read_text() == "a\nb\n"


def test_cancel_from_another_terminal_waits_until_nothing_runs(tmp_path: Path, start: Start, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text(STUBBORN.replace("holds: {", "holds: {grace: 200ms, "))
    process = start("run", "w.yaml")
    wait_for(lambda: pids(tmp_path))
    done = look("cancel", "last", "--reason", "wrong branch")
    assert done.code == 0
    assert running(tmp_path) == []
    assert "is cancelled" in done.out
    assert "holds: cancelled" in done.out
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "cancelled" in err
    assert look("show", "last", "--json").json["run"]["reason"] == "wrong branch"
    again = look("cancel", "last")
    assert (again.code, "already" in again.out) == (0, True)


def test_cancel_one_task(tmp_path: Path, start: Start, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text("on_failure: continue\n" + POLITE.replace("b: {needs: [a], ", "b: {"))
    process = start("run", "w.yaml")
    wait_for(lambda: pids(tmp_path))
    assert look("cancel", "last", "a", "--json").json["state"] == "cancelled"
    assert running(tmp_path) == []
    process.communicate(timeout=20)
    states = {t["name"]: t["state"] for t in look("tasks", "last", "--json").json["tasks"]}
    assert states == {"a": "cancelled", "b": "succeeded"}


def test_cancel_of_a_run_whose_node_is_gone_ends_at_once(tmp_path: Path, start: Start, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text(POLITE)
    process = start("run", "w.yaml")
    wait_for(lambda: pids(tmp_path))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert look("cancel", "last", "--json").json["state"] == "cancelled"


HANDLED = """
timeout: 60s
tasks:
  long: {run: "echo $$ >> pids; exec sleep 60", grace: 200ms}
  deploy: {needs: [long], run: touch deployed}
  clean: {when: always, run: echo clean >> journal}
"""


def test_handlers_run_after_a_cancel(tmp_path: Path, start: Start, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text(HANDLED)
    process = start("run", "w.yaml")
    wait_for(lambda: pids(tmp_path))
    done = look("cancel", "last")
    assert (done.code, "is cancelled" in done.out) == (0, True)
    process.communicate(timeout=20)
    assert process.returncode == 1
    assert (tmp_path / "journal").read_text() == "clean\n"
    assert not (tmp_path / "deployed").exists()


def test_handlers_that_no_node_runs_are_named_and_skipped_with_now(tmp_path: Path, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text(HANDLED)
    look("submit", "w.yaml")
    waits = look("cancel", "last")
    assert "is running" in waits.out
    assert "--now" in waits.err
    assert look("cancel", "last", "--now", "--json").json["state"] == "cancelled"
    refused = look("cancel", "last", "long", "--now")
    assert (refused.code, "--now is for a whole run" in refused.err) == (2, True)


def test_handlers_run_when_the_run_s_timeout_has_passed(tmp_path: Path, weft: Weft, look: Weft) -> None:
    alarm = "  alarm: {when: on_failure, run: echo alarm >> journal}\n"
    (tmp_path / "w.yaml").write_text(HANDLED.replace("timeout: 60s", "timeout: 300ms", 1) + alarm)
    assert weft("run", "w.yaml").code == 1
    assert sorted((tmp_path / "journal").read_text().split()) == ["alarm", "clean"]
    run = look("show", "last", "--json").json["run"]
    assert (run["state"], run["reason"]) == ("failed", "the run's timeout passed")
    assert look("verify", "last").code == 0
