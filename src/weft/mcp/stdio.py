"""Standard input and output: for a client that starts `weft mcp` itself. It ends when its input does, or when told.

Lines are read by a thread of our own: one that waits for a line cannot be cancelled, and a signal must end us all the
same. Standard output belongs to the protocol alone; the SDK turns whatever else would go there to standard error.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from mcp.server.stdio import stdio_server

from weft.api.access.auth import Caller
from weft.api.app_state import AppState
from weft.mcp.server import Context, make_server
from weft.operations.errors import ApiError
from weft.operations.run_scope import RunScope

READ = 64 * 1024


class Lines:
    """Text lines of a file descriptor, until its end or `stop`."""

    def __init__(self, fd: int, bytes_max: int) -> None:
        self._fd = fd
        self._bytes_max = bytes_max
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        threading.Thread(target=self._read, name="weft-stdin", daemon=True).start()

    def stop(self) -> None:
        """On the event loop, or through call_soon_threadsafe."""
        self._queue.put_nowait(None)

    def _read(self) -> None:
        held = bytearray()
        with suppress(OSError):
            while data := os.read(self._fd, READ):
                held += data
                if b"\n" in data:
                    *lines, held = held.split(b"\n")
                    for line in lines:
                        self._tell(line.decode(errors="replace"))
                if len(held) > self._bytes_max:
                    break  # nobody means that: treated as the end
        self._tell(None)

    def _tell(self, line: str | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._queue.put_nowait, line)

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._queue.get()) is not None:
            if line.strip():
                yield line


async def serve(
    state: AppState, lines: Lines, *, read_only: bool = False, scope_of: Callable[[], RunScope | None] | None = None
) -> None:
    """Whoever started us could read the store's file, too: they may do everything. `scope_of`: an attempt's token was
    given, and this says each time what it opens; None: it has ended."""

    async def caller_of(ctx: Context) -> Caller:
        if scope_of is None:
            return Caller("local", "admin")
        scope = await state.off_loop(scope_of)
        if scope is None:
            raise ApiError("unauthorized", "the attempt that this token belongs to has ended")
        return Caller(scope.actor, "viewer", scope)

    server = make_server(state, caller_of, read_only=read_only)
    stdin: Any = lines
    async with stdio_server(stdin=stdin) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
