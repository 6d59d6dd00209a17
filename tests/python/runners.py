"""A Python executor for tests. What it leaves running is found by a mark in the environment."""

import asyncio
import os
import secrets
import signal
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.processes.shells import processes_with
from weft.executors.protocol import Launch, Outcome
from weft.executors.python import PythonExecutor
from weft.executors.shell import ShellExecutor

Story = Callable[["Runners"], Awaitable[None]]


class Runners:
    """`async with Runners(tmp_path, source) as runners: outcome = await runners.run("tasks:hello", name="you")`"""

    def __init__(self, directory: Path, source: str = "", **options: Any) -> None:
        self.directory = directory
        self.output_dir = str(directory / "output")
        self.mark = secrets.token_hex(8)
        if source:
            self.write("tasks.py", source)
        options.setdefault("runners", 1)
        self.shell = ShellExecutor(str(directory), {**os.environ, "MARK": self.mark}, spawners=1)
        self.executor = PythonExecutor(shell=self.shell, workdir=str(directory), **options)
        self.outcomes: list[Outcome] = []
        self._last_task = 0

    def write(self, name: str, source: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    async def __aenter__(self) -> "Runners":
        await self.shell.open()
        await self.executor.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        door = self.executor._door
        await self.executor.close()
        await self.shell.close()
        left = processes_with(self.mark)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"{len(left)} processes outlived close()"
        assert door is None or not os.path.exists(door.directory)

    def launch(self, function: str, arguments: dict[str, Any], **changes: Any) -> Launch:
        self._last_task += 1
        fields: dict[str, Any] = {
            "task_id": self._last_task,
            "attempt": 1,
            "run_id": "r",
            "task": f"t{self._last_task}",
            "kind": "python",
            "spec": {"function": function, "with": arguments},
            "env": {"WEFT_TASK": f"t{self._last_task}"},
            "cwd": str(self.directory),
            "output_dir": self.output_dir,
            "output_max": 8 << 20,
        }
        fields.update(changes)
        return Launch(**fields)

    def start_with(
        self, function: str, arguments: dict[str, Any], **changes: Any
    ) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        launch = self.launch(function, arguments, **changes)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def ended(outcome: Outcome) -> None:
            self.outcomes.append(outcome)
            future.set_result(outcome)  # raises if reported twice

        self.executor.start(launch, ended)
        return launch, future

    def start(self, function: str, **arguments: Any) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        return self.start_with(f"tasks:{function}", arguments)

    async def run(self, function: str, **arguments: Any) -> Outcome:
        return await ends(self.start(function, **arguments)[1])

    async def be_quick(self) -> None:
        """Quick functions are given ahead to a runner; it takes some until it is known to be quick."""
        for _ in range(40):
            await self.run("me")
        assert all(runner.room > 1 for runner in self.executor._pool.runners.values())

    def stop(self, launch: Launch, reason: Any = "cancel", grace_s: float = 10.0) -> None:
        self.executor.stop(launch.task_id, launch.attempt, reason, grace_s)

    async def until_file(self, name: str) -> str:
        """Wait for a function to have written a file, and return its text."""
        path = self.directory / name
        end = time.monotonic() + 30
        while not path.exists() or not path.stat().st_size:
            assert time.monotonic() < end, f"{name} never appeared"
            await asyncio.sleep(0.005)
        return path.read_text()

    def pids(self) -> list[int]:
        """Of the runners and whatever they started."""
        return [pid for pid in processes_with(self.mark) if pid not in self.shell.spawner_pids]


async def ends(future: "asyncio.Future[Outcome]", within_s: float = 30) -> Outcome:
    return await asyncio.wait_for(future, within_s)


def with_runners(directory: Path, source: str, story: Story, **options: Any) -> None:
    async def main() -> None:
        async with Runners(directory, source, **options) as runners:
            await story(runners)

    asyncio.run(main())
