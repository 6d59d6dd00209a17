"""Who follows what. One poller for each followed thing, shared by all who read it.

A poller keeps the newest pieces in memory, encoded once; a reader is only a position. One that stands within them is
served from memory. One that fell behind them, because its connection is slow, or that begins earlier, reads for
itself from the store, a page at a time and no faster than it can send. Nobody waits for a reader: neither the poller
nor a task. What a reader costs is its connection.

Pollers look when this process has committed something, and now and then for what others did: hints may be lost.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar

from weft.operations.errors import ApiError, NotFound
from weft.store.protocol import StoreError

T = TypeVar("T")
Position = tuple[int, ...]  # ordered within one followed thing
OffLoop = Callable[[Callable[[], T]], Awaitable[T]]
Listen = Callable[[Callable[[], None]], Callable[[], None]]

LOG = logging.getLogger("weft.api")
KEPT_BYTES = 256 * 1024  # of each followed thing, in memory
READERS_MAX = 2000
LOOK_S = 0.25  # for what other processes committed
LOOK_LEAST_S = 0.05
RETRY_S = 1.0
PACE_S = 0.05
#: Telling a reader takes about 0.1 ms of this process. A thousand of them hear twice a second of what has gathered,
#: not twenty times: measured beside a working node, 700 tasks/s became 50 without this.
PAUSE_EACH_S = 0.0005
#: Without any hint. PostgreSQL shows an event only when nothing before it can appear any more: later than its hint.
ANYWAY_S = 5.0


class StreamPiece(NamedTuple):
    at: Position  # where a reader stands after it
    kind: str
    data: bytes  # as it goes over the wire
    run: str | None = None  # of an event: whose it is


class Found(NamedTuple):
    pieces: list[StreamPiece]
    at: Position  # where to go on
    ended: str | None = None  # nothing will follow, and why
    more: bool = False  # ask again at once


class Source(Protocol):
    """What is followed. Asked in a thread."""

    every_s: float  # look so often, whatever the hints say

    def read(self, at: Position) -> Found: ...


class Topic:
    """One followed thing, with its readers."""

    def __init__(self, source: Source, off_loop: "OffLoop[Found]") -> None:
        self.source = source
        self._off_loop = off_loop
        self._recent: deque[StreamPiece] = deque()
        self._bytes = 0
        self._floor: Position | None = None  # whoever stands here or later finds all that follows in memory
        self._head: Position = ()
        self._poked = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None
        self.ended: str | None = None
        self.readers: set[asyncio.Event] = set()

    async def after(self, at: Position) -> Found:
        """What follows this position: from memory, else from the store."""
        if self._floor is None or at < self._floor:
            found = await self._off_loop(lambda: self.source.read(at))
            if self._floor is None and not found.more and found.ended is None:
                self._begin(found.at)
            return found
        pieces = []
        for piece in reversed(self._recent):  # most readers lack only the last few
            if piece.at <= at:
                break
            pieces.append(piece)
        pieces.reverse()
        return Found(pieces, max(at, self._head), self.ended)

    def _begin(self, at: Position) -> None:
        """The first reader has read all there is: from here on it is polled for all of them."""
        self._floor = self._head = at
        self._polling = asyncio.create_task(self._poll())

    def poke(self) -> None:
        self._poked.set()

    def wake(self) -> None:
        for reader in self.readers:
            reader.set()

    def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()

    async def _poll(self) -> None:
        burst = 0  # bytes at a stretch: what pours out must not take this process's time from its node
        while self.ended is None:
            try:
                found = await self._off_loop(lambda: self.source.read(self._head))
            except NotFound:
                self.ended = "gone"
            except (StoreError, ApiError):
                await asyncio.sleep(RETRY_S)  # readers keep their connection, and it goes on by itself
                continue
            except Exception as error:
                LOG.error("a stream cannot be read", exc_info=error)
                self.ended = "error"
            else:
                burst += self._keep(found)
                if found.more and burst < KEPT_BYTES:
                    continue
            if self.ended is not None:
                self.wake()
                return
            if burst:
                await asyncio.sleep(max(PACE_S if burst >= KEPT_BYTES else 0.0, len(self.readers) * PAUSE_EACH_S))
            if burst < KEPT_BYTES:
                await self._hint()
            burst = 0

    async def _hint(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.source.every_s):
                await self._poked.wait()
        self._poked.clear()

    def _keep(self, found: Found) -> int:
        size = sum(len(piece.data) for piece in found.pieces)
        self._recent += found.pieces
        self._bytes += size
        while self._bytes > KEPT_BYTES:
            oldest = self._recent.popleft()
            self._bytes -= len(oldest.data)
            self._floor = oldest.at
        self._head, self.ended = found.at, found.ended
        if found.pieces:
            self.wake()
        return size


class Hub:
    """`newest` is the number of the store's last event; `listen` calls back, in any thread, after this process has
    committed."""

    def __init__(self, newest: Callable[[], int], off_loop: "OffLoop[int]", listen: Listen | None = None) -> None:
        self._newest = newest
        self._off_loop = off_loop
        self._listen = listen
        self._topics: dict[Hashable, Topic] = {}
        self._looking: asyncio.Task[None] | None = None
        self._hint = asyncio.Event()
        self._hinted = False
        self.readers = 0

    @contextmanager
    def joined(
        self, key: Hashable, source: Source, off_loop: "OffLoop[Found]"
    ) -> Iterator[tuple[Topic, asyncio.Event]]:
        """The followed thing, and what is set when it has news."""
        topic = self._topics.get(key)
        if topic is None or topic.ended is not None:
            topic = self._topics[key] = Topic(source, off_loop)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        wake = asyncio.Event()
        topic.readers.add(wake)
        self.readers += 1
        try:
            yield topic, wake
        finally:
            self.readers -= 1
            topic.readers.discard(wake)
            if not topic.readers:
                topic.close()
                if self._topics.get(key) is topic:
                    del self._topics[key]
            if not self._topics and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    def wake_all(self) -> None:
        for topic in self._topics.values():
            topic.wake()

    async def _look(self) -> None:
        """Poke the pollers when there are new events. One small read for all of them."""
        stop = None if self._listen is None else self._listen(self._hear(asyncio.get_running_loop()))
        known = -1
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._hint.wait()
                self._hint.clear()
                self._hinted = False
                with contextlib.suppress(StoreError, ApiError):
                    newest = await self._off_loop(self._newest)
                    if newest != known:
                        known = newest
                        for topic in list(self._topics.values()):
                            topic.poke()
                await asyncio.sleep(max(LOOK_LEAST_S, len(self._topics) * PAUSE_EACH_S))
        finally:
            if stop is not None:
                stop()

    def _hear(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        def heard() -> None:
            if not self._hinted:  # in a thread that has better things to do
                self._hinted = True
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._hint.set)

        return heard
