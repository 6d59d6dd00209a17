"""The agent executor of a node, imported when the first agent starts: most runs have none."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.executors.protocol import Ended, Launch, StopReason
from weft.executors.shell.executor import ShellExecutor

if TYPE_CHECKING:
    from weft.executors.agent.executor import AgentExecutor


class AgentOnDemand:
    kinds = frozenset({"agent"})

    def __init__(self, shell: ShellExecutor, program: Sequence[str], store: Path | None, answer_max: int) -> None:
        """`store` is the file of the store, if it is one."""
        self._shell = shell
        self._program = program
        self._store = None if store is None else str(store)
        self._answer_max = answer_max
        self._made: AgentExecutor | None = None

    async def open(self) -> None:
        """Nothing to do before the first attempt."""

    def start(self, launch: Launch, on_ended: Ended) -> None:
        if self._made is None:
            from weft.executors.agent.executor import AgentExecutor

            self._made = AgentExecutor(self._shell, self._program, store=self._store, answer_max=self._answer_max)
        self._made.start(launch, on_ended)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        if self._made is not None:
            self._made.stop(task_id, attempt, reason, grace_s)

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        return accepted

    def trust(self, until: float) -> None:
        """Its attempts are processes of the shell executor, which is trusted itself."""

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()
