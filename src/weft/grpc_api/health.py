"""grpc.health.v1: should this server get requests? The same answer as /readyz, and nobody needs a token for it."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from weft.api.app_state import AppState
from weft.api.health import why_not_ready
from weft.operations.errors import ApiError
from weft.store.protocol import StoreError

LOOK_S: Final = 2.0  # at what is watched
WATCHERS_MAX: Final = 100


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    def __init__(self, state: AppState, services: tuple[str, ...]) -> None:
        self._state = state
        self._services = ("", *services)  # "": the whole server
        self._watchers = 0

    async def Check(self, request: Any, context: Any) -> Any:
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {request.service[:64]!r}")
        return health_pb2.HealthCheckResponse(status=await self._status())

    async def Watch(self, request: Any, context: Any) -> None:
        """Tells the status, and every change of it, until the watcher goes or the server stops."""
        if self._watchers >= WATCHERS_MAX:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{WATCHERS_MAX} watch already")
        self._watchers += 1
        try:
            await self._watch(request.service in self._services, context.write)
        finally:
            self._watchers -= 1

    async def _watch(self, known: bool, write: Callable[[Any], Any]) -> None:
        shown = None
        while True:
            status = await self._status() if known else health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
            if status != shown:
                shown = status
                await write(health_pb2.HealthCheckResponse(status=status))
            try:
                await asyncio.wait_for(self._state.stopping.wait(), LOOK_S)
            except TimeoutError:
                continue
            if known and shown != health_pb2.HealthCheckResponse.NOT_SERVING:
                status = health_pb2.HealthCheckResponse.NOT_SERVING
                await write(health_pb2.HealthCheckResponse(status=status))
            return

    async def _status(self) -> Any:
        try:
            ready = await self._state.off_loop(lambda: why_not_ready(self._state)) is None
        except (StoreError, ApiError):
            ready = False
        kinds = health_pb2.HealthCheckResponse
        return kinds.SERVING if ready else kinds.NOT_SERVING
