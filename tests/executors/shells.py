"""A shell executor for tests."""

import asyncio
import secrets
from pathlib import Path
from typing import Any

from tests.executors.attempts import Attempts
from weft.executors.protocol import Launch, Outcome
from weft.executors.shell.executor import ShellExecutor

CHILDREN = Path(__file__).parent / "children"


class Shell(Attempts):
    """`async with Shell(tmp_path) as shell: outcome = await shell.run("echo hello")`"""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.executor = ShellExecutor(workdir=str(directory), **options)
        super().__init__(directory, "shell", self.executor, secrets.token_hex(8))

    async def __aenter__(self) -> "Shell":
        await self.executor.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.executor.close()
        self.assert_nothing_left()

    def launch(self, spec: dict[str, Any], **changes: Any) -> Launch:
        changes["env"] = {**changes.get("env", {}), "MARK": self.mark}
        return self.launch_of(spec, changes)

    def start(self, what: str | dict[str, Any], **changes: Any) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        return self.begin(self.launch({"run": what} if isinstance(what, str) else what, **changes))

    async def run(self, what: str | dict[str, Any], **changes: Any) -> Outcome:
        return await asyncio.wait_for(self.start(what, **changes)[1], 60)
