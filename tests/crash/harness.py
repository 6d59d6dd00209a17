"""A place where nodes are killed: a store, a definition whose tasks write a journal of their own, and the checks.

The journal is the witness that does not depend on the engine: each attempt appends a line when its process begins.
Every process started here carries a mark in its environment, handed down to whatever it starts: so that what is left
of a dead node can be found without asking it.
"""

import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from weft.client.local import StoreConnection
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore

LEFT_MAX_S = 5.0  # so long may anything of a killed node live on, on a busy machine
STARTUP_MAX_S = 30.0  # a Python process on a machine that is busy with other tests


class Place:
    def __init__(self, directory: Path, tasks: dict[str, list[str]], work: str = "true", head: str = "") -> None:
        """`tasks`: name -> what it needs; each writes its line and then does `work`."""
        self.directory = directory
        self.tasks = tasks
        self.mark = uuid.uuid4().hex
        self.journal = directory / "journal"
        self.journal.touch()
        lines = ["name: crash", head, "tasks:"]
        for name, needs in tasks.items():
            run = f"echo $WEFT_TASK $WEFT_ATTEMPT >> journal; {work}"
            lines.append(f"  {name}: {{needs: [{', '.join(needs)}], run: '{run}'}}")
        self.file = directory / "crash.yaml"
        self.file.write_text("\n".join(lines) + "\n")
        self.started: list[subprocess.Popen[bytes]] = []

    # -- processes -----------------------------------------------------------------------------------------

    def start(self, *words: str, module: str = "weft", **env: str) -> "subprocess.Popen[bytes]":
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join([root, *filter(None, [kept.get("PYTHONPATH")])])
        environment = {**kept, "PYTHONPATH": path, "CRASH_MARK": self.mark, **env}
        log = (self.directory / "log").open("ab")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *words], cwd=self.directory, env=environment,
                stdin=subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip
        self.started.append(process)
        return process

    def weft(self, *words: str, **env: str) -> int:
        return self.wait(self.start(*words, **env))

    def wait(self, process: "subprocess.Popen[bytes]", timeout_s: float = 60) -> int:
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {timeout_s} s:\n{self.log()}") from None

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def marked(self) -> list[int]:
        """Processes that carry our mark and are not zombies."""
        found = []
        needle = f"CRASH_MARK={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    if needle in (entry / "environ").read_bytes():  # a zombie's is empty
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def all_gone(self, since: float) -> None:
        """Nothing that we started lives on."""
        while left := self.marked():
            if time.monotonic() > since + LEFT_MAX_S:
                names = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ") for pid in left]
                raise AssertionError(f"{len(left)} processes are left after {LEFT_MAX_S} s: {names}")
            time.sleep(0.01)

    # -- the journal ---------------------------------------------------------------------------------------

    def lines(self) -> list[tuple[str, int]]:
        words = [line.split() for line in self.journal.read_text().splitlines()]
        return [(name, int(number)) for name, number in words]

    def wait_for(self, lines: int, process: "subprocess.Popen[bytes] | None" = None) -> bool:
        """Until the journal has that many lines; False if the process ended before."""
        deadline = time.monotonic() + STARTUP_MAX_S
        while len(self.lines()) < lines:
            if process is not None and process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"the journal stays at {self.lines()}\n{self.log()}"
            time.sleep(0.005)
        return True

    def log(self) -> str:
        return (self.directory / "log").read_text()[-4000:]

    # -- the store -----------------------------------------------------------------------------------------

    def connection(self) -> StoreConnection:
        return StoreConnection(StoreAccess(SqliteStore(self.directory / ".weft" / "weft.db")))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        connection = self.connection()
        try:
            assert isinstance(connection.store, SqliteStore)
            return connection.store.reader().query(sql)
        finally:
            connection.close()

    def check(self) -> None:
        """Nothing is lost, nothing was applied or begun twice, and the events tell the same as the tables."""
        connection = self.connection()
        try:
            run = connection.run("last")
            assert (run.state, run.succeeded) == ("succeeded", len(self.tasks)), self.story(connection)
            verified = connection.verify("last")
            assert verified.ok, f"{verified.differences}\n{self.story(connection)}"
        finally:
            connection.close()
        won = self.rows(
            "SELECT t.pos, count(*), max(a.attempt) = t.attempt FROM all_attempts a JOIN tasks t ON t.id = a.task_id"
            " WHERE a.outcome = 'succeeded' GROUP BY t.pos ORDER BY t.pos"
        )
        assert won == [(pos, 1, 1) for pos in range(len(self.tasks))], "each task has one success, its last attempt"
        begun = Counter(self.lines())
        assert {name for name, _ in begun} == set(self.tasks), "every task ran"
        assert max(begun.values()) == 1, f"an attempt was begun twice: {begun.most_common(3)}"
        last = {name: max(number for who, number in begun if who == name) for name in self.tasks}
        winners = dict(self.rows("SELECT t.pos, t.attempt FROM tasks t"))
        assert [last[name] for name in self.tasks] == [winners[pos] for pos in range(len(self.tasks))], (
            "nothing ran after its success"
        )

    def story(self, connection: StoreConnection) -> str:
        events = connection.events("last", limit=500)
        shown = "\n".join(f"{e.kind:12} {e.task or '':12} {e.session or '':18} {e.data}" for e in events)
        return f"{shown}\n\nthe journal: {self.lines()}\n\n{self.log()}"


def diamond(width: int) -> dict[str, list[str]]:
    """One, then `width` beside each other, then one."""
    middle = [f"m{i}" for i in range(width)]
    return {"first": [], **{name: ["first"] for name in middle}, "last": middle}
