"""Attempts on a fake Cloud Run."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.executors.cloud_run.fake_service import TOKEN, FakeService, serving
from weft.executors.cloud_run.attempt import Pace
from weft.executors.cloud_run.executor import CloudRunExecutor
from weft.executors.protocol import Handle, Launch, Outcome

FAST = Pace(first=0.05, most=0.1, again=0.05, settle=1.0)


class CloudRun:
    """A node's executor, and the service that it asks."""

    def __init__(self, directory: Path, service: FakeService) -> None:
        self.directory = directory
        self.service = service
        (directory / "token").write_text(f"{TOKEN}\n")
        self.executor = self.another()
        self.said: list[str] = []
        self._last = 0

    def another(self) -> CloudRunExecutor:
        return CloudRunExecutor(self.service.url, str(self.directory / "token"), FAST)

    def launch(self, seconds: float = 0.0, exit_code: int = 0, **changes: Any) -> Launch:
        self._last += 1
        env = {"FAKE_SECONDS": str(seconds), "FAKE_EXIT": exit_code, "TEXT": {"a": 1}}
        spec = {"project": "p", "region": "r", "job": "j", "overrides": {"env": env, **changes.pop("overrides", {})}}
        launch = Launch(
            self._last, 1, "r", f"t{self._last}", "cloud_run", {"cloud_run": {**spec, **changes.pop("spec", {})}},
            {"WEFT_TASK": f"t{self._last}", "OTHER": "of the workflow"}, None, str(self.directory / "out"), 1 << 20,
        )  # fmt: skip
        launch.progress = lambda task, attempt, text: self.said.append(text)
        for name, value in changes.items():
            setattr(launch, name, value)
        return launch

    def begin(self, launch: Launch, executor: CloudRunExecutor | None = None) -> "asyncio.Future[Outcome]":
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        used = executor or self.executor
        if launch.handle is None:
            launch.handle = used.handle(launch)
        used.start(launch, future.set_result)  # raises if it is reported twice
        return future

    async def run(self, seconds: float = 0.0, exit_code: int = 0, **changes: Any) -> Outcome:
        return await asyncio.wait_for(self.begin(self.launch(seconds, exit_code, **changes)), 30)

    def handle(self, launch: Launch) -> Handle:
        assert launch.handle is not None
        return launch.handle

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.01)


Story = Callable[[CloudRun], Awaitable[None]]


@pytest.fixture
def tell(tmp_path: Path) -> Callable[[Story], None]:
    async def run(story: Story) -> None:
        async with serving() as service, asyncio.timeout(60):
            cloud = CloudRun(tmp_path, service)
            await cloud.executor.open()
            assert await cloud.executor.check() is None
            try:
                await story(cloud)
            finally:
                await cloud.executor.close()

    return lambda story: asyncio.run(run(story))
