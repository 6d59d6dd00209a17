"""A shell executor for tests, and ways to see which processes are there.

Every process of a test carries a mark of that test in its environment, so that what is left of it can be found
in /proc, and nothing else is ever touched.
"""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.executors.protocol import Launch, Outcome
from weft.executors.shell import ShellExecutor

CHILDREN = Path(__file__).parent / "children"


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


class Shell:
    """`async with Shell(tmp_path) as shell: outcome = await shell.run("echo hello")`"""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        self.output_dir = str(directory / "output")
        self.mark = secrets.token_hex(8)
        self.executor = ShellExecutor(workdir=str(directory), **options)
        self.outcomes: list[Outcome] = []
        self._last_task = 0

    async def __aenter__(self) -> "Shell":
        await self.executor.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.executor.close()
        left = processes_with(self.mark)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"{len(left)} processes outlived close()"

    def launch(self, spec: dict[str, Any], **changes: Any) -> Launch:
        self._last_task += 1
        fields: dict[str, Any] = {
            "task_id": self._last_task,
            "attempt": 1,
            "run_id": "r",
            "task": f"t{self._last_task}",
            "kind": "shell",
            "spec": spec,
            "env": {},
            "cwd": None,
            "output_dir": self.output_dir,
            "output_max": 8 << 20,
        }
        fields.update(changes)
        fields["env"] = {**fields["env"], "MARK": self.mark}
        return Launch(**fields)

    def start(self, what: str | dict[str, Any], **changes: Any) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        launch = self.launch({"run": what} if isinstance(what, str) else what, **changes)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def ended(outcome: Outcome) -> None:
            self.outcomes.append(outcome)
            future.set_result(outcome)  # raises if reported twice

        self.executor.start(launch, ended)
        return launch, future

    async def run(self, what: str | dict[str, Any], **changes: Any) -> Outcome:
        return await asyncio.wait_for(self.start(what, **changes)[1], 60)

    def stop(self, launch: Launch, reason: Any = "cancel", grace_s: float = 10.0) -> None:
        self.executor.stop(launch.task_id, launch.attempt, reason, grace_s)

    async def until_file(self, name: str) -> str:
        """Wait for a command to have written a file, and return its text."""
        path = self.directory / name
        end = time.monotonic() + 30
        while not path.exists() or not path.stat().st_size:
            assert time.monotonic() < end, f"{name} never appeared"
            await asyncio.sleep(0.005)
        return path.read_text()
