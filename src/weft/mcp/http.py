"""Streamable HTTP: the tools at one address of the API's server, behind the same door and with the same tokens.

Every request stands by itself and brings its own token: there are no sessions that somebody could take over, and none
that a restart would end. So there is nothing that a GET could listen to, nor anything to DELETE.

The SDK is loaded by the first request: that takes 0.6 s of processor time, which every start of `weft serve` would
pay otherwise.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from weft.api.access.auth import known_caller
from weft.api.access.request_guard import BODY_MAX
from weft.api.app_state import AppState
from weft.operations.errors import ApiError

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    Manager = StreamableHTTPSessionManager


class Endpoint:
    def __init__(self, state: AppState, *, read_only: bool = False, body_max: int = BODY_MAX) -> None:
        self._state = state
        self._read_only = read_only
        self._body_max = body_max
        self._running: asyncio.Task[None] | None = None
        self._loaded: asyncio.Future[Manager] | None = None
        self._ended = asyncio.Event()

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        yield
        self._ended.set()
        if self._running is not None:
            await self._running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            raise ApiError("method", "this route takes POST alone: it has no sessions", headers={"Allow": "POST"})
        await known_caller(self._state.gate, Request(scope))
        await (await self._manager()).handle_request(scope, receive, send)

    async def _manager(self) -> "Manager":
        if self._loaded is None:
            self._loaded = asyncio.get_running_loop().create_future()
            self._running = asyncio.create_task(self._run(self._loaded))
        return await asyncio.shield(self._loaded)

    async def _run(self, loaded: "asyncio.Future[Manager]") -> None:
        """A task of its own: what the SDK begins must end where it began."""
        try:
            manager = await self._state.off_loop(self._make)
        except Exception as error:
            loaded.set_exception(error)
            return
        async with manager.run():
            loaded.set_result(manager)
            await self._ended.wait()

    def _make(self) -> "Manager":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from weft.mcp.server import caller_of_request, make_server

        server = make_server(self._state, caller_of_request, read_only=self._read_only)
        return StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=self._body_max)
