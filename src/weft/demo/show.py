"""Runs the demo: a graph of a dozen tasks, kill -9 in the middle of it, resume, and an honest count afterwards."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

from weft.cli.exit_codes import FAILED, OK
from weft.cli.terminal.terminal import Terminal
from weft.demo import journal

SLOTS = 4
LEFT_MAX_S = 2.0
WAIT_MAX_S = 30.0
KILL_AFTER_ENDS = 7  # the last of these is `join`, so that the three `train_…` are running then


class Stage:
    """Where the demo takes place, and how it speaks."""

    def __init__(self, terminal: Terminal, directory: Path) -> None:
        self.terminal = terminal
        self.journal = directory / "journal"
        self.directory = directory
        for name in ("demo.yaml", "task.sh"):
            (directory / name).write_text(
                files("weft.demo").joinpath(name).read_text(encoding="utf-8"), encoding="utf-8"
            )

    def show(self, text: str = "", style: str = "bold") -> None:
        self.terminal.print(self.terminal.paint(text, style))
        self.terminal.stream.flush()

    def rule(self, text: str, style: str) -> None:
        line = self.terminal.sign("empty") * 2
        self.show(f"\n{line} {text} {line}", style)

    def weft(self, *words: str) -> "subprocess.Popen[bytes]":
        self.show(f"$ weft {' '.join(words)}", "dim")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        if self.terminal.color:
            environment["WEFT_COLOR"] = "always"
        command = [sys.executable, "-m", "weft", *words]
        errors = None if sys.stderr.isatty() else self.terminal.stream  # progress and story in one place
        out = self.terminal.stream
        return subprocess.Popen(command, cwd=self.directory, env=environment, stdout=out, stderr=errors)


def show(terminal: Terminal, *, json: bool, ui: bool = False) -> int:
    """The exit code: 0 if everything was as promised."""
    began = time.monotonic()
    if json:
        terminal = Terminal(sys.stderr, "auto", os.environ)
    with tempfile.TemporaryDirectory(prefix="weft-demo-") as directory:
        stage = Stage(terminal, Path(directory))
        stage.show("A dozen tasks, some in parallel. Half way, their node is killed hard.\n")
        facts = _crash(stage)
        if facts is not None:
            _resume(stage, facts)
            facts["took_s"] = round(time.monotonic() - began, 1)
            if ui:
                _look(stage)
    if facts is None:
        return FAILED
    if json:
        from weft.cli.session import json_text

        sys.stdout.write(json_text(facts, indent=2) + "\n")
    good = facts["succeeded"] and facts["kept"] and not facts["left_running"]
    return OK if good else FAILED


def _look(stage: Stage) -> None:
    """The page of the demo's store, until ^C."""
    server = stage.weft("ui", "--port", "0")
    try:
        server.wait()
    except KeyboardInterrupt:
        server.wait(WAIT_MAX_S)


def _crash(stage: Stage) -> dict[str, Any] | None:
    node = stage.weft("run", "demo.yaml", "--slots", str(SLOTS))
    try:
        if not _wait_for_the_middle(stage, node):
            stage.show("the run ended before it could be killed", "red")
            return None
        node.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        node.wait()
    finally:
        if node.poll() is None:
            node.kill()
            node.wait()
    if stage.terminal.can_move:
        stage.terminal.stream.write("\x1b[?25h")  # it died with the cursor hidden
    stage.rule(f"kill -9 {node.pid}", "red")
    open_pids = journal.open_pids(journal.read(stage.journal))
    left = _wait_until_gone(open_pids, killed + LEFT_MAX_S)
    waited = time.monotonic() - killed
    if left:
        stage.show(f"{len(left)} processes of its tasks are still there after {LEFT_MAX_S:g} s", "red")
    else:
        stage.show(
            f"{len(open_pids)} tasks were running; {waited * 1000:.0f} ms later none of their processes is left\n"
        )
    return {"killed_pid": node.pid, "were_running": len(open_pids), "left_running": len(left)}


def _wait_for_the_middle(stage: Stage, node: "subprocess.Popen[bytes]") -> bool:
    deadline = time.monotonic() + WAIT_MAX_S
    while node.poll() is None and time.monotonic() < deadline:
        lines = journal.read(stage.journal)
        ends = sum(1 for line in lines if line.word == "end")
        if ends >= KILL_AFTER_ENDS and len(journal.open_pids(lines)) >= 3:
            time.sleep(0.3)  # for the viewer: that they run should be seen before they die
            return node.poll() is None
        time.sleep(0.02)
    return False


def _wait_until_gone(pids: list[int], deadline: float) -> list[int]:
    while left := [pid for pid in pids if journal.is_running(pid)]:
        if time.monotonic() > deadline:
            return left
        time.sleep(0.01)
    return []


def _resume(stage: Stage, facts: dict[str, Any]) -> None:
    before = _results(stage)
    code = stage.weft("resume", "last").wait()
    after = _results(stage)
    times = journal.begun_times(journal.read(stage.journal))
    once = sorted(task for task, count in times.items() if count == 1)
    more = sorted(task for task, count in times.items() if count > 1)
    kept = all(after.get(task) == result for task, result in before.items())
    rerun_done = [task for task in before if times.get(task) != 1]
    facts.update(
        succeeded=code == 0, executed_once=once, executed_twice=more, finished_before=sorted(before),
        kept=kept and not rerun_done,
    )  # fmt: skip
    _tell(stage, facts)


def _results(stage: Stage) -> dict[str, Any]:
    """Task -> what the store holds of its success."""
    from weft.client.local import StoreConnection
    from weft.operations.access import StoreAccess
    from weft.store.sqlite.driver import SqliteStore

    connection = StoreConnection(StoreAccess(SqliteStore(stage.directory / ".weft" / "weft.db")))
    try:
        done = [task.name for task in connection.all_tasks("last", states=["succeeded"])]
        attempts = {name: connection.attempts("last", name)[-1] for name in done}
        return {name: (a.attempt, a.finished_at, a.result) for name, a in attempts.items()}
    finally:
        connection.close()


def _wrapped(stage: Stage, text: str) -> str:
    return "\n".join(textwrap.wrap(text, stage.terminal.size()[0] - 1, subsequent_indent=" " * 23))


def _tell(stage: Stage, facts: dict[str, Any]) -> None:
    stage.rule("what the tasks wrote down themselves", "cyan")
    once, twice = facts["executed_once"], facts["executed_twice"]
    sign = stage.terminal.sign
    stage.show(_wrapped(stage, f"{sign('ok')} executed once  ({len(once):>2}): {', '.join(once)}"), "green")
    stage.show(
        _wrapped(stage, f"{sign('again')} executed twice ({len(twice):>2}): {', '.join(twice) or 'none'}"), "yellow"
    )
    stage.show("  Those were running when the node died; nobody can know how far they had come.", "dim")
    if facts["kept"]:
        stage.show(f"{sign('ok')} all {len(facts['finished_before'])} finished tasks kept their results", "green")
    else:
        stage.show(f"{sign('bad')} a finished task ran again or lost its result", "red")
    if not facts["succeeded"]:
        stage.show(f"{sign('bad')} the resumed run did not succeed", "red")
