"""An agent executor for tests, whose program is a scripted one."""

import asyncio
import json
import secrets
import sys
from pathlib import Path
from typing import Any

from tests.executors.attempts import Attempts
from weft.executors.agent.executor import AgentExecutor
from weft.executors.protocol import Launch, Outcome, Usage
from weft.executors.run_as import User
from weft.executors.shell.executor import ShellExecutor

SCRIPTED = str(Path(__file__).with_name("scripted_agent.py"))
PROGRAM = (sys.executable, SCRIPTED)


def script(*actions: list[Any], **more: Any) -> str:
    return json.dumps({"do": actions, **more})


class Agents(Attempts):
    """`async with Agents(tmp_path) as agents: outcome = await agents.run(["answer", "yes"])`"""

    def __init__(
        self, directory: Path, program: tuple[str, ...] = PROGRAM, user: User | None = None, **options: Any
    ) -> None:
        self.shell = ShellExecutor(workdir=str(directory), user=user)
        self.executor = AgentExecutor(self.shell, program, **options)
        self.spent: list[Usage] = []
        super().__init__(directory, "agent", self.executor, secrets.token_hex(8))

    async def __aenter__(self) -> "Agents":
        await self.shell.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.executor.close()
        await self.shell.close()
        self.assert_nothing_left()

    def launch(self, agent: dict[str, Any], **changes: Any) -> Launch:
        env = {"MARK": self.mark, "AGENT_HOME": str(self.directory), "FLED": str(self.directory / "fled")}
        changes["env"] = {**env, **changes.get("env", {})}
        changes.setdefault("spent", lambda task_id, attempt, usage: self.spent.append(usage))
        changes.setdefault("cwd", str(self.directory))
        return self.launch_of({"agent": agent}, changes)

    def start(
        self, *actions: list[Any], agent: dict[str, Any] | None = None, resumed: Any = None, **changes: Any
    ) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        more = {} if resumed is None else {"resumed": resumed}
        return self.begin(self.launch({"prompt": script(*actions, **more), **(agent or {})}, **changes))

    async def run(self, *actions: list[Any], **changes: Any) -> Outcome:
        return await asyncio.wait_for(self.start(*actions, **changes)[1], 60)

    def stdout(self, task: str, attempt: int = 1) -> str:
        return (Path(self.output_dir) / f"{task}.{attempt}.out").read_text()
