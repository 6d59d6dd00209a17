"""A plugin for Weft with two types of tasks: `greeting`, which one async function does, and `mailbox`, which another
program does and which outlives the node that asked for it."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

import msgspec

from weft.plugins import AsyncAttempt, AsyncExecutor, AttemptFailed, Handle, Launch, PolledExecutor, RemoteState


class Greeting(msgspec.Struct):
    to: str
    times: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    pause_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class GreetingExecutor(AsyncExecutor):
    """tasks: {hello: {type: greeting, spec: {to: "World"}}}"""

    schema = Greeting

    async def run(self, spec: Greeting, attempt: AsyncAttempt) -> Any:
        if not spec.to.strip():
            raise AttemptFailed("there is nobody to greet", cause="Nobody", retryable=False)
        for _ in range(spec.times):
            attempt.print(f"Hello, {spec.to}!")
            await asyncio.sleep(spec.pause_s)
        return {"greeted": spec.to, "times": spec.times}


class Letter(msgspec.Struct):
    text: str


class MailboxExecutor(PolledExecutor):
    """tasks: {order: {type: mailbox, spec: {text: "two coffees"}}}

    The service is a directory, $MAILBOX, that another program empties. It takes a letter by renaming `inbox/NAME` to
    `taken/NAME`, writes the answer into it, and renames it to `done/NAME`. A letter that it has taken is cancelled by
    a file `cancel/NAME`: the program stops its work and removes `taken/NAME`.
    """

    schema = Letter
    poll_s = 0.1
    poll_max_s = 2.0

    async def connect(self) -> str:
        if "MAILBOX" not in os.environ:
            raise LookupError("$MAILBOX is not set")
        self._root = Path(os.environ["MAILBOX"])
        for name in ("held", "inbox", "taken", "done", "cancel"):
            (self._root / name).mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError), (self._root / "id").open("x") as file:
            file.write(os.urandom(8).hex())
        return "mailbox " + (self._root / "id").read_text()

    async def create(self, handle: Handle, spec: Letter, launch: Launch) -> None:
        (self._root / "held" / handle.name).write_text(spec.text)

    async def begin(self, handle: Handle) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._root / "held" / handle.name).rename(self._root / "inbox" / handle.name)

    async def look(self, handle: Handle) -> RemoteState | None:
        # In the order in which a letter goes: one that moves meanwhile is found in a later place.
        for place in ("held", "inbox"):
            if (self._root / place / handle.name).exists():
                return RemoteState("waiting", note="the letter is in the mailbox")
        if (self._root / "taken" / handle.name).exists():
            return RemoteState("running")
        try:
            return RemoteState("ended", ok=True, output=(self._root / "done" / handle.name).read_text())
        except FileNotFoundError:
            return None

    async def discard(self, handle: Handle) -> None:
        for place in ("held", "inbox", "done"):
            (self._root / place / handle.name).unlink(missing_ok=True)
        cancel = self._root / "cancel" / handle.name
        if (self._root / "taken" / handle.name).exists():
            cancel.touch()
        else:
            cancel.unlink(missing_ok=True)
