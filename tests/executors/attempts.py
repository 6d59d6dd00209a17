"""What tests of all executors that start processes share: attempts with outcomes to wait for, and ways to see which
processes are there.

Every process of a test carries a mark of that test in its environment, so that what is left of it can be found
in /proc, and nothing else is ever touched.
"""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.executors.protocol import Executor, Launch, Outcome


def processes_with(mark: str) -> list[int]:
    """Live processes whose environment holds the mark."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                environment = Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if f"MARK={mark}".encode() in environment:
                found.append(int(entry))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] not in "ZX"
    except OSError:
        return False


def eventually(what: Callable[[], bool], within_s: float) -> bool:
    """For facts about other processes, which send no events."""
    end = time.monotonic() + within_s
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


async def ends(future: "asyncio.Future[Outcome]", within_s: float = 30) -> Outcome:
    return await asyncio.wait_for(future, within_s)


class Attempts:
    """Starts attempts of one kind on one executor, and keeps their outcomes."""

    def __init__(self, directory: Path, kind: str, executor: Executor, mark: str) -> None:
        self.directory = directory
        self.output_dir = str(directory / "output")
        self.mark = mark
        self.outcomes: list[Outcome] = []
        self._kind = kind
        self._executor = executor
        self._last_task = 0

    def launch_of(self, spec: dict[str, Any], changes: dict[str, Any]) -> Launch:
        self._last_task += 1
        fields: dict[str, Any] = {
            "task_id": self._last_task,
            "attempt": 1,
            "run_id": "r",
            "task": f"t{self._last_task}",
            "kind": self._kind,
            "spec": spec,
            "env": {},
            "cwd": None,
            "output_dir": self.output_dir,
            "output_max": 8 << 20,
            **changes,
        }
        return Launch(**fields)

    def begin(self, launch: Launch) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def ended(outcome: Outcome) -> None:
            self.outcomes.append(outcome)
            future.set_result(outcome)  # raises if reported twice

        self._executor.start(launch, ended)
        return launch, future

    def stop(self, launch: Launch, reason: Any = "cancel", grace_s: float = 10.0) -> None:
        self._executor.stop(launch.task_id, launch.attempt, reason, grace_s)

    async def until_file(self, name: str) -> str:
        """Wait for an attempt to have written a file, and return its text."""
        path = self.directory / name
        end = time.monotonic() + 30
        while not path.exists() or not path.stat().st_size:
            assert time.monotonic() < end, f"{name} never appeared"
            await asyncio.sleep(0.005)
        return path.read_text()

    def assert_nothing_left(self) -> None:
        left = processes_with(self.mark)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"{len(left)} processes outlived close()"


class NodeProcess:
    """A node in a process of its own, which all that it starts carries the mark of."""

    def __init__(self, program: Path, *arguments: str) -> None:
        self.mark = secrets.token_hex(8)
        self.process = subprocess.Popen(
            [sys.executable, str(program), *arguments],
            env={**os.environ, "MARK": self.mark},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.lines = self.process.stdout

    def __enter__(self) -> "NodeProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.lines.close()
        assert eventually(self.nothing_left, 5)

    def nothing_left(self) -> bool:
        """But for the node itself."""
        return not [pid for pid in processes_with(self.mark) if pid != self.process.pid]

    def assert_killed_leaves_nothing(self) -> None:
        """The promise of two seconds."""
        self.process.kill()
        assert eventually(lambda: not processes_with(self.mark), 2), len(processes_with(self.mark))

    def assert_stopped_loses_its_lease(self, gone: Callable[[], bool], within_s: float, count: int) -> None:
        """SIGSTOP past the trust: what it runs is killed, and it says so when it goes on."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            assert eventually(gone, within_s)
        finally:
            self.process.send_signal(signal.SIGCONT)
        ended = [self.lines.readline().split() for _ in range(count)]
        assert all(line[0] == "ended" and line[2] == "lease" for line in ended), ended
