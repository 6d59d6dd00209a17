"""`weft top` through Textual's own driver: keys go in, and what a person would see comes out as text."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.client.conftest import Place
from weft.client.verbs import Connection
from weft.tui.app import TopApp
from weft.tui.link import TopLink

WAIT_S = 30.0


class View:
    """A person at the screen."""

    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def lines(self) -> list[str]:
        return [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def line(self, word: str) -> str:
        """The first line below the head with this word; empty if there is none."""
        return next((line for line in self.lines[2:] if word in line), "")

    async def row(self, word: str, *shown: str) -> None:
        """The first line with this word shows all of these."""
        await self.until(lambda: all(one in self.line(word) for one in shown), (word, *shown))

    @property
    def head(self) -> str:
        return "\n".join(self.lines[:2])

    async def sees(self, *words: str) -> None:
        await self.until(lambda: all(word in self.text for word in words), words)

    async def sees_no(self, *words: str) -> None:
        await self.until(lambda: not any(word in self.text for word in words), words)

    async def until(self, condition: Callable[[], object], what: object = "") -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not so within {WAIT_S} s:\n{self.text}"
            await self.pilot.pause(0.01)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        names = {":": "colon", "/": "slash", " ": "space", "{": "left_curly_bracket", '"': "quotation_mark"}
        await self.pilot.press(*(names.get(char, char) for char in text))

    async def go(self, place: str) -> None:
        await self.type(f":{place}")
        await self.press("enter")


Watch = Callable[..., None]


def watch(
    connection: Connection, story: Callable[[View], Awaitable[None]], *, run: str | None = None, width: int = 100
) -> None:
    async def play() -> None:
        app = TopApp(TopLink(connection, "here"), run)
        async with app.run_test(size=(width, 30)) as pilot:
            await story(View(app, pilot))

    asyncio.run(play())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Place]:
    """A store within reach, without a node unless the test starts one."""
    made = Place("local", tmp_path)
    yield made
    made.close()


PLAN: dict[str, Any] = {
    "name": "plan",
    "on_failure": "continue",
    "tasks": {
        "extract": {"run": "echo one; echo quietly >&2"},
        "many": {"needs": ["extract"], "replicas": 3, "run": "echo element $WEFT_INDEX"},
        "poor": {"run": "echo tried; exit 4", "retry": {"max": 1, "backoff": "1ms"}},
        "after_poor": {"needs": ["poor"], "run": "true"},
        "never": {"needs": ["extract"], "if": "1 > 2", "run": "true"},
        "approve": {"needs": ["many"], "wait": {"signal": "ok", "timeout": "1h"}},
        "load": {"needs": ["approve"], "run": "true"},
    },
}
