"""The engines and services of a node: container engines, Kubernetes clusters, HTTP, Cloud Run. Their executors are
imported when they are first asked for: most runs need none."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from weft.core.placement.eligibility import NOT_CHECKED
from weft.core.workflow import Workflow
from weft.executors.protocol import CheckedExecutor, Ended, Executor, Handle, Launch, RemoteExecutor, StopReason

if TYPE_CHECKING:
    from weft.config import Config
    from weft.executors.shell.executor import ShellExecutor
    from weft.node.ports import NodeSettings

#: Of tasks that every node has executors for, if it has the engine, or what else they need.
ENGINE_KINDS: Final = ("container", "kubernetes", "http", "cloud_run")
_SETTLE_S = 15.0
_E = TypeVar("_E", bound=Executor)
_C = TypeVar("_C", bound=CheckedExecutor)


class EngineOptions(msgspec.Struct, frozen=True):
    """Settings of a node, by their names in NodeSettings."""

    container_socket: str | None = None
    artifact_max: int = 64 * 2**20
    http_allow: tuple[str, ...] = ()
    http_private: bool = False
    cloud_run_endpoint: str | None = None
    cloud_run_token_file: str | None = None


class StartedOnDemand(Generic[_E]):
    """An executor that is made by its first start."""

    def __init__(self, kind: str, make: Callable[[], _E], *, takes_slot: bool) -> None:
        self.kinds = frozenset({kind})
        self.takes_slot = takes_slot
        self._make = make
        self._made: _E | None = None
        self._trusted_until: float | None = None

    @property
    def _executor(self) -> _E:
        if self._made is None:
            self._made = self._make()
        return self._made

    async def open(self) -> None:
        """Nothing to do before it is made."""

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

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


class ExecutorOnDemand(StartedOnDemand[_C]):
    """An executor that is made by its first check."""

    @property
    def _executor(self) -> _C:
        if self._made is None:
            raise RuntimeError("its engine has not been checked")
        return self._made

    async def check(self) -> str | None:
        if self._made is None:
            made = self._make()
            await made.open()
            if self._trusted_until is not None:
                made.trust(self._trusted_until)
            self._made = made
        return await self._made.check()


class EngineOnDemand(ExecutorOnDemand[RemoteExecutor]):
    """The same for an executor whose attempts run on an engine."""

    @property
    def engine(self) -> str | None:
        return None if self._made is None else self._made.engine

    def handle(self, launch: Launch) -> Handle:
        return self._executor.handle(launch)

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        return await self._executor.remove(handles)


def engines(options: EngineOptions, shell: "ShellExecutor | None" = None) -> dict[str, ExecutorOnDemand[Any]]:
    """By kind. `shell`: its spawner removes the containers of a node that is killed."""

    def container() -> RemoteExecutor:
        from weft.executors.container.executor import ContainerExecutor

        return ContainerExecutor(options.container_socket, wills=shell, answer_max=options.artifact_max)

    def kubernetes() -> RemoteExecutor:
        from weft.executors.kubernetes.executor import KubernetesExecutor

        return KubernetesExecutor()

    def http() -> CheckedExecutor:
        from weft.executors.http_call.addresses import AddressRules
        from weft.executors.http_call.executor import HttpExecutor

        return HttpExecutor(AddressRules(options.http_allow, options.http_private))

    def cloud_run() -> RemoteExecutor:
        from weft.executors.cloud_run.executor import CloudRunExecutor

        return CloudRunExecutor(options.cloud_run_endpoint, options.cloud_run_token_file)

    remote = {"container": container, "kubernetes": kubernetes, "cloud_run": cloud_run}
    return {
        kind: EngineOnDemand(kind, remote[kind], takes_slot=kind == "container")
        if kind in remote
        else ExecutorOnDemand(kind, http, takes_slot=False)
        for kind in ENGINE_KINDS
    }


def options_of(settings: "Config | NodeSettings") -> EngineOptions:
    """From a configuration, or from the settings of a node: the names are the same."""
    found = {name: getattr(settings, name, None) for name in EngineOptions.__struct_fields__}
    token_file = found.pop("cloud_run_token_file")
    known = {name: value for name, value in found.items() if value is not None}
    return EngineOptions(**known, cloud_run_token_file=None if token_file is None else str(token_file))


def engines_down(config: "Config", workflows: Iterable[Workflow]) -> dict[str, str]:
    """Of the engines that these workflows need: why this process could not use them, by kind."""
    kinds = sorted({task.kind for workflow in workflows for task in workflow.tasks if task.kind in ENGINE_KINDS})
    return asyncio.run(_check(config, kinds)) if kinds else {}


async def _check(config: "Config", kinds: list[str]) -> dict[str, str]:
    found = {}
    made = engines(options_of(config))
    for kind in kinds:
        why = await _settled(made[kind])
        if why is not None:
            found[kind] = why
        await made[kind].close()
    return found


async def _settled(executor: ExecutorOnDemand[Any]) -> str | None:
    """What a check says once it has found out: credentials may take seconds."""
    end = asyncio.get_running_loop().time() + _SETTLE_S
    while True:
        why = await executor.check()
        if why is None or not why.startswith(NOT_CHECKED) or asyncio.get_running_loop().time() >= end:
            return why
