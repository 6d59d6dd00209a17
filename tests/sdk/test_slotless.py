"""Attempts that only wait for something elsewhere take no slot of their node."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.executors.inline import InlineExecutor

COUNT = 40


def _file(directory: Path, document: dict[str, Any]) -> Path:
    path = directory / "definition.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def _inline_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InlineExecutor, "takes_slot", False, raising=False)


class Together:
    """Ends when so many attempts have begun: all of them must run at a time."""

    def __init__(self, count: int) -> None:
        self.begun = 0
        self._count = count
        self._all = asyncio.Event()

    async def meet(self) -> int:
        self.begun += 1
        if self.begun >= self._count:
            self._all.set()
        async with asyncio.timeout(20):
            await self._all.wait()
        return self.begun


@pytest.mark.usefixtures("_inline_waits")
def test_they_run_beside_the_slots(tmp_path: Path) -> None:
    together = Together(COUNT)

    async def meet() -> int:
        return await together.meet()

    document: dict[str, Any] = {
        "name": "many",
        "tasks": {
            "wait": {"inline": "meet", "replicas": COUNT},
            "slow": {"run": "sleep 0.2"},
            "other": {"run": "true"},
        },
    }
    with weft.open(tmp_path / "weft.db", inline=[meet], slots=1) as client:
        client.finish(client.start(_file(tmp_path, document)))
    assert together.begun == COUNT


@pytest.mark.usefixtures("_inline_waits")
def test_no_more_of_them_are_held_than_the_setting_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_WAITING_SLOTS", "3")
    now, most = 0, 0

    async def count() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1

    document: dict[str, Any] = {"name": "few", "tasks": {"wait": {"inline": "count", "replicas": 20}}}
    with weft.open(tmp_path / "weft.db", inline=[count], slots=8) as client:
        client.finish(client.start(_file(tmp_path, document)))
    assert most == 3
