"""One reader of something that is followed, from where it stands until it goes, or nothing more can come: the same
for streams over HTTP and over gRPC.

Portions are small, and the next one is read when the last has been sent: what is waited for is only this reader's own
connection. The reader's token is looked at again every heartbeat, however much there is to send.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from typing import NamedTuple

from starlette.requests import Request

from weft.api.access.auth import Gate, bearer
from weft.api.app_state import AppState
from weft.api.streams.hub import READERS_MAX, RETRY_S, Found, Position, Source, StreamPiece, Topic
from weft.operations.declare import RANK
from weft.operations.errors import ApiError, NotFound
from weft.store.protocol import StoreError

PORTION_BYTES = 16 * 1024


def everything(piece: StreamPiece) -> bool:
    return True


class Followed(NamedTuple):
    """What a reader follows: readers of one `key` share what was read; `wanted` are the pieces that this one gets."""

    key: Hashable
    source: Source
    at: Position
    wanted: Callable[[StreamPiece], bool] = everything


class TopicReader:
    def __init__(self, state: AppState, request: Request, followed: Followed) -> None:
        """`request` is the one whose token is looked at again."""
        if state.hub.readers >= READERS_MAX:
            raise ApiError("too_many_readers", f"{READERS_MAX:,} streams are read already", "end some of them")
        self._state = state
        self._request = request
        self._followed = followed
        self._wake: asyncio.Event | None = None
        self._left = False
        self.at = followed.at
        self.ended: str | None = None  # why nothing follows; None: the reader has left

    def leave(self) -> None:
        self._left = True
        if self._wake is not None:
            self._wake.set()

    async def portions(self) -> AsyncGenerator[list[StreamPiece], None]:
        """An empty one when the reader has joined, and whenever nothing else came for a while."""
        state = self._state
        with state.hub.joined(self._followed.key, self._followed.source, state.off_loop) as (topic, self._wake):
            yield []
            now = asyncio.get_running_loop().time
            checked = now()
            while not self._left and self.ended is None:
                self._wake.clear()
                found = await self._found(topic)
                if found is None:
                    continue
                for portion in self._portions(found):
                    yield portion
                if not (found.pieces or found.more or self._left):
                    self.ended = self.ended or found.ended
                    if self.ended is None and not await self._news(self._wake):
                        yield []
                if now() - checked >= state.heartbeat_s and self.ended is None:
                    self.ended = None if await self._still_may() else "unauthorized"
                    checked = now()

    async def _found(self, topic: Topic) -> Found | None:
        if self._state.stopping.is_set():
            self.ended = "stopping"
            return None
        try:
            return await topic.after(self.at)
        except NotFound:
            self.ended = "gone"
        except (StoreError, ApiError):
            await asyncio.sleep(RETRY_S)
        return None

    def _portions(self, found: Found) -> Iterator[list[StreamPiece]]:
        """What a connection holds that nobody reads from is bounded. The position goes along."""
        portion: list[StreamPiece] = []
        size = 0
        for piece in found.pieces:
            if self._followed.wanted(piece):
                portion.append(piece)
                size += len(piece.data)
            if size >= PORTION_BYTES:
                yield portion
                self.at = piece.at
                portion, size = [], 0
                if self._left or self._state.stopping.is_set():
                    return
        if portion:
            yield portion
        self.at = max(self.at, found.at)

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
