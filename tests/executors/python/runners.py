"""A Python executor for tests. What it leaves running is found by a mark in the environment."""

import asyncio
import os
import secrets
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.executors.attempts import Attempts, ends, processes_with
from weft.executors.protocol import Launch, Outcome
from weft.executors.python.executor import PythonExecutor
from weft.executors.shell.executor import ShellExecutor

Story = Callable[["Runners"], Awaitable[None]]


class Runners(Attempts):
    """`async with Runners(tmp_path, source) as runners: outcome = await runners.run("tasks:hello", name="you")`"""

    def __init__(self, directory: Path, source: str = "", **options: Any) -> None:
        mark = secrets.token_hex(8)
        options.setdefault("runners", 1)
        self.shell = ShellExecutor(str(directory), {**os.environ, "MARK": mark}, spawners=1)
        self.executor = PythonExecutor(shell=self.shell, workdir=str(directory), **options)
        super().__init__(directory, "python", self.executor, mark)
        if source:
            self.write("tasks.py", source)

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
        private = self.shell.private._path
        await self.executor.close()
        await self.shell.close()
        self.assert_nothing_left()
        assert private is None or not os.path.exists(private)

    def launch(self, function: str, arguments: dict[str, Any], **changes: Any) -> Launch:
        spec = {"function": function, "with": arguments}
        env = {"WEFT_TASK": f"t{self._last_task + 1}"}
        return self.launch_of(spec, {"env": env, "cwd": str(self.directory), **changes})

    def start_with(
        self, function: str, arguments: dict[str, Any], **changes: Any
    ) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        return self.begin(self.launch(function, arguments, **changes))

    def start(self, function: str, **arguments: Any) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        return self.start_with(f"tasks:{function}", arguments)

    async def run(self, function: str, **arguments: Any) -> Outcome:
        return await ends(self.start(function, **arguments)[1])

    async def be_quick(self) -> None:
        """Quick functions are given ahead to a runner; it takes some until it is known to be quick."""
        for _ in range(40):
            await self.run("me")
        assert all(runner.plain_capacity > 1 for runner in self.executor._pool.runners.values())

    def pids(self) -> list[int]:
        """Of the runners and whatever they started."""
        return [pid for pid in processes_with(self.mark) if pid not in self.shell.spawner_pids]


def with_runners(directory: Path, source: str, story: Story, **options: Any) -> None:
    async def main() -> None:
        async with Runners(directory, source, **options) as runners:
            await story(runners)

    asyncio.run(main())
