"""A stream of server-sent events to one reader, from where it stands until it goes, or nothing more can come.

A comment is sent when nothing else was for a while, so that a broken connection is noticed; then the reader's token
is looked at again, too. The last message says why it ends: `event: end`. What is waited for at `send` is only this
reader's own connection.
"""

import asyncio
import contextlib
from collections.abc import Callable, Hashable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from weft.api.access.auth import Gate, bearer
from weft.api.app_state import AppState
from weft.api.streams.followed_runs import sent
from weft.api.streams.hub import READERS_MAX, RETRY_S, Found, Position, Source, StreamPiece, Topic
from weft.operations.declare import RANK
from weft.operations.errors import ApiError, NotFound
from weft.operations.resources.streams import EVENT_STREAM
from weft.store.protocol import StoreError

SEND_BYTES = 16 * 1024


class EventStream(Response):
    def __init__(
        self,
        request: Request,
        state: AppState,
        key: Hashable,
        source: Source,
        at: Position,
        wanted: Callable[[StreamPiece], bool] = lambda piece: True,
    ) -> None:
        super().__init__(media_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._request = request
        self._state = state
        if self._state.hub.readers >= READERS_MAX:
            raise ApiError("too_many_readers", f"{READERS_MAX:,} streams are read already", "end some of them")
        self._key = key
        self._source = source
        self._at = at
        self._wanted = wanted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        hub = self._state.hub
        with hub.joined(self._key, self._source, self._state.off_loop) as (topic, wake):
            gone = asyncio.create_task(_gone(receive, wake))
            try:
                why = await self._tell(topic, wake, gone, send)
            finally:
                gone.cancel()
        if why is not None:
            data = {"reason": why, "last": ".".join(map(str, self._at))}
            await send({"type": "http.response.body", "body": sent(data["last"], data, "end"), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _tell(self, topic: Topic, wake: asyncio.Event, gone: "asyncio.Task[None]", send: Send) -> str | None:
        """Why it ended; None: there is nobody to be told."""
        await send(_body(b": here\n\n"))  # so that the reader knows that it is heard
        while True:
            wake.clear()
            if gone.done():
                return None
            if self._state.stopping.is_set():
                return "stopping"
            try:
                found = await topic.after(self._at)
            except NotFound:
                return "gone"
            except (StoreError, ApiError):
                await asyncio.sleep(RETRY_S)
                continue
            await self._send(found, gone, send)
            if found.pieces or found.more:
                continue
            if found.ended is not None:
                return found.ended
            if not await self._news(wake):
                await send(_body(b":\n\n"))
                if not await self._still_may():
                    return "unauthorized"

    async def _send(self, found: Found, gone: "asyncio.Task[None]", send: Send) -> None:
        """In portions: what a connection holds that nobody reads from is bounded. The position goes along."""
        portion = bytearray()
        for piece in found.pieces:
            if self._wanted(piece):
                portion += piece.data
            if len(portion) >= SEND_BYTES:
                await send(_body(bytes(portion)))
                portion.clear()
                self._at = piece.at
                if gone.done() or self._state.stopping.is_set():
                    return
        if portion:
            await send(_body(bytes(portion)))
        self._at = max(self._at, found.at)

    async def _news(self, wake: asyncio.Event) -> bool:
        try:
            async with asyncio.timeout(self._state.heartbeat_s):
                await wake.wait()
        except TimeoutError:
            return False
        return True

    async def _still_may(self) -> bool:
        gate: Gate = self._state.gate
        with contextlib.suppress(StoreError):  # it could not be asked: it was fine a moment ago
            try:
                caller = await gate.caller(bearer(self._request), self._request)
            except ApiError as trouble:
                return trouble.problem.status == 503
            return caller is not None and RANK[caller.role] >= RANK["viewer"]
        return True


def _body(data: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def _gone(receive: Receive, wake: asyncio.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    wake.set()
