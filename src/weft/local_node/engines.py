"""The engines of a node: container engines and Kubernetes clusters. Their executors are imported when they are first
asked for: most runs need none."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from weft.core.workflow import Workflow
from weft.executors.protocol import Ended, Handle, Launch, RemoteExecutor, StopReason

if TYPE_CHECKING:
    from weft.config import Config
    from weft.executors.shell.executor import ShellExecutor

ENGINE_KINDS: Final = ("container", "kubernetes")  # of tasks that every node has executors for, if it has the engine


class EngineOnDemand:
    """A remote executor that is made by its first check."""

    def __init__(self, kind: str, make: Callable[[], RemoteExecutor], *, takes_slot: bool) -> None:
        self.kinds = frozenset({kind})
        self.takes_slot = takes_slot
        self._make = make
        self._made: RemoteExecutor | None = None
        self._trusted_until: float | None = None

    @property
    def _executor(self) -> RemoteExecutor:
        if self._made is None:
            raise RuntimeError("its engine has not been checked")
        return self._made

    async def open(self) -> None:
        """Nothing to do before the first check."""

    async def check(self) -> str | None:
        if self._made is None:
            made = self._make()
            await made.open()
            if self._trusted_until is not None:
                made.trust(self._trusted_until)
            self._made = made
        return await self._made.check()

    @property
    def engine(self) -> str | None:
        return None if self._made is None else self._made.engine

    def handle(self, launch: Launch) -> Handle:
        return self._executor.handle(launch)

    def start(self, launch: Launch, on_ended: Ended) -> None:
        self._executor.start(launch, on_ended)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        if self._made is not None:
            self._made.stop(task_id, attempt, reason, grace_s)

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        return None if self._made is None else self._made.started(task_id, attempt, accepted)

    def trust(self, until: float) -> None:
        self._trusted_until = until
        if self._made is not None:
            self._made.trust(until)

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        return await self._executor.remove(handles)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


def engines(socket: str | None, answer_max: int, shell: "ShellExecutor | None" = None) -> dict[str, EngineOnDemand]:
    """By kind. `socket`: of the container engine, else it is looked for; `shell`: its spawner removes the containers
    of a node that is killed."""

    def container() -> RemoteExecutor:
        from weft.executors.container.executor import ContainerExecutor

        return ContainerExecutor(socket, wills=shell, answer_max=answer_max)

    def kubernetes() -> RemoteExecutor:
        from weft.executors.kubernetes.executor import KubernetesExecutor

        return KubernetesExecutor()

    made = {"container": container, "kubernetes": kubernetes}
    return {kind: EngineOnDemand(kind, made[kind], takes_slot=kind == "container") for kind in ENGINE_KINDS}


def engines_down(config: "Config", workflows: Iterable[Workflow]) -> dict[str, str]:
    """Of the engines that these workflows need: why this process could not use them, by kind."""
    kinds = sorted({task.kind for workflow in workflows for task in workflow.tasks if task.kind in ENGINE_KINDS})
    return asyncio.run(_check(config, kinds)) if kinds else {}


async def _check(config: "Config", kinds: list[str]) -> dict[str, str]:
    found = {}
    made = engines(config.container_socket, config.artifact_max)
    for kind in kinds:
        why = await made[kind].check()
        if why is not None:
            found[kind] = why
        await made[kind].close()
    return found
