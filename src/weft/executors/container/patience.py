"""Asks the engine for one attempt until it answers: with a bounded backoff, and a line of progress meanwhile."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

from weft.executors.container.client import EngineClient, EngineRefused, EngineUnreachable
from weft.executors.protocol import Launch

BACKOFF_S = (0.05, 2.0)  # between two requests: first, most
T = TypeVar("T")


class PatientEngine:
    """The container of one attempt, as its engine shows it."""

    def __init__(self, client: EngineClient, name: str, launch: Launch) -> None:
        self.client = client
        self.name = name
        self.path = f"/containers/{quote(name)}"
        self._launch = launch
        self._silent_since: float | None = None
        self._said = ""

    async def answered(self, request: Callable[[], Awaitable[T]], check: Callable[[], None] | None = None) -> T:
        """The answer to the request, however long it takes. `check` may raise before each try, to give up."""
        wait_s = BACKOFF_S[0]
        while True:
            if check is not None:
                check()
            try:
                answer = await request()
            except EngineUnreachable as error:
                self._no_answer(error)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, BACKOFF_S[1])
                continue
            if self._silent_since is not None:
                self._silent_since = None
                self.say("")
            return answer

    async def ask(self, method: str, path: str, body: Any = None, check: Callable[[], None] | None = None) -> Any:
        """Raises EngineRefused."""
        return await self.answered(lambda: self.client.ask(method, path, body), check)

    def _no_answer(self, error: EngineUnreachable) -> None:
        if self._silent_since is None:
            self._silent_since = time.time()
        since = time.strftime("%H:%M:%S", time.gmtime(self._silent_since))
        self.say(f"the engine does not answer since {since} UTC: {error}")

    def say(self, text: str) -> None:
        """What the attempt waits for; empty: nothing."""
        if self._launch.progress is not None and text != self._said:
            self._said = text
            self._launch.progress(self._launch.task_id, self._launch.attempt, text)

    async def inspect(self) -> dict[str, Any] | None:
        """None: there is no such container."""
        return await self.answered(lambda: inspect(self.client, self.path))

    async def remove(self, *, kill: bool) -> None:
        """Until the engine says that the container does not exist. `kill`: it may be running; Podman alone would let
        it ignore SIGTERM for ten seconds."""
        wait_s = BACKOFF_S[0]
        if kill:
            with suppress(EngineRefused):
                await self.ask("POST", f"{self.path}/kill?signal=SIGKILL")
        while True:
            with suppress(EngineRefused):
                await self.ask("DELETE", f"{self.path}?force=1&v=1")
            if await self.inspect() is None:
                return
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, BACKOFF_S[1])


async def inspect(client: EngineClient, path: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = await client.ask("GET", f"{path}/json")
    except EngineRefused as error:
        if error.status == 404:
            return None
        raise EngineUnreachable(error.message) from None
    return found


async def remove_now(client: EngineClient, name: str) -> dict[str, str] | None:
    """Remove the container of an attempt that is over; its labels, if it was there. Raises EngineUnreachable if the
    engine does not say that it is gone. A container without Weft's labels only has the name: it is left alone."""
    path = f"/containers/{quote(name)}"
    found = await inspect(client, path)
    if found is None:
        return None
    labels: dict[str, str] = found.get("Config", {}).get("Labels") or {}
    if "weft.run" not in labels:
        return None
    for method, request in (("POST", f"{path}/kill?signal=SIGKILL"), ("DELETE", f"{path}?force=1&v=1")):
        with suppress(EngineRefused):
            await client.ask(method, request)
    if await inspect(client, path) is not None:
        raise EngineUnreachable("it is still there")
    return labels
