"""Each story of an attempt runs on every cluster: the fake one, and in `make test-kubernetes` a real one."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.executors.kubernetes.clusters import CLUSTERS, Cluster

Story = Callable[[Cluster], Awaitable[None]]


@pytest.fixture(params=CLUSTERS)
def tell(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., None]:
    """On the fake and on the real one."""

    def run(story: Story, **options: Any) -> None:
        asyncio.run(_run(story, tmp_path, request.param == "real", options))

    return run


@pytest.fixture
def tell_fake(tmp_path: Path) -> Callable[..., None]:
    """What only a fake can do: break off, answer late, forget."""

    def run(story: Story, **options: Any) -> None:
        asyncio.run(_run(story, tmp_path, False, options))

    return run


async def _run(story: Story, directory: Path, real: bool, options: dict[str, Any]) -> None:
    async with Cluster(directory, real, **options) as cluster:
        await story(cluster)
