"""Attempts on a real Podman: an executor for one test, and what its containers look like from outside."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.executors.attempts import Attempts, ends
from tests.executors.container.podman import IMAGE, Podman
from weft.executors.container.executor import ContainerExecutor
from weft.executors.protocol import Launch, Outcome


class ContainerAttempts(Attempts):
    def __init__(self, directory: Path, executor: ContainerExecutor, run_id: str) -> None:
        super().__init__(directory, "container", executor, secrets.token_hex(8))
        self.executor = executor
        self.run_id = run_id
        self.said: list[str] = []  # by progress

    def start(
        self, run: str | list[str] | None = None, container: dict[str, Any] | None = None, **changes: Any
    ) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        """`run` is a text for the shell or a list of words; `changes` are fields of the launch, or `spec`."""
        spec: dict[str, Any] = {"container": {"image": IMAGE, "network": "none", **(container or {})}}
        if run is not None:
            spec["run" if isinstance(run, str) else "argv"] = run
        spec |= changes.pop("spec", {})
        launch = self.launch_of(
            spec, {"run_id": self.run_id, "cwd": str(self.directory), "progress": self._progress, **changes}
        )
        if launch.handle is None:
            launch = msgspec.structs.replace(launch, handle=self.executor.handle(launch))
        return self.begin(launch)

    async def run(self, run: str | list[str] | None = None, within_s: float = 60, **changes: Any) -> Outcome:
        return await ends(self.start(run, **changes)[1], within_s)

    def _progress(self, task_id: int, attempt: int, text: str) -> None:
        self.said.append(text)

    def output(self, launch: Launch, suffix: str = "out") -> bytes:
        path = Path(launch.output_dir) / f"{launch.task}.{launch.attempt}.{suffix}"
        return path.read_bytes() if path.exists() else b""

    async def until_output(self, launch: Launch, text: bytes, within_s: float = 30) -> None:
        await until(lambda: text in self.output(launch), within_s)


class Containers:
    def __init__(self, podman: Podman, directory: Path, run_id: str) -> None:
        self.podman = podman
        self.directory = directory
        self.run_id = run_id

    @asynccontextmanager
    async def executor(self, **options: Any) -> AsyncIterator[ContainerAttempts]:
        executor = ContainerExecutor(self.podman.socket, **options)
        await executor.open()
        assert await executor.check() is None
        try:
            yield ContainerAttempts(self.directory, executor, self.run_id)
        finally:
            await executor.close()

    def left(self) -> list[str]:
        """Names of this test's containers, those that have ended, too."""
        found = self.podman.containers().items()
        return [name for name, one in found if (one.get("Labels") or {}).get("weft.run") == self.run_id]


async def until(what: Callable[[], bool], within_s: float = 30) -> None:
    end = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < end, "it never came"
        await asyncio.sleep(0.02)
