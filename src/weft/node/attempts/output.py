"""Output from a node's files to a store that other machines read: while attempts run, and the rest at their ends.

It reads files and has a connection of its own, so a slow store slows no task; it reads at most a mebibyte at a time
and sends within a budget per second, so memory and the network are bounded. Nothing is sent of a stream that the
attempt's report carries whole.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from weft.executors.output import StreamName, output_path
from weft.executors.protocol import Launch
from weft.node.ports import LinkLost, Ship
from weft.store.shipment import CHUNK_MAX, Chunk, Shipment

EVERY_S = 0.5
RETRY_S = 1.0
SHIPMENT_MAX = 2**20
WAITING_MAX = 10_000  # ended attempts whose output was not sent yet; the oldest is given up for the next
STREAMS: tuple[StreamName, ...] = ("stdout", "stderr")
FILELESS = ("inline",)  # kinds of tasks whose output is the application's own


class ShippedStream(msgspec.Struct):
    """One output file, as far as it was sent."""

    session: str
    task_id: int
    attempt: int
    name: StreamName
    path: str
    cap: int
    sent: int = 0
    ended: bool = False  # nothing more is written to the file
    gone: bool = False  # nothing more is to be sent


class OutputShipper:
    def __init__(
        self, ship: Ship, clock: Callable[[], float], log: Callable[[str, dict[str, Any]], None], rate: int
    ) -> None:
        self._ship = ship
        self._clock = clock
        self._log = log
        self._rate = rate
        self.session = ""  # that begins attempts now
        self._running: dict[tuple[int, int], tuple[ShippedStream, ...]] = {}
        self._ended: deque[ShippedStream] = deque()
        self._turn = 0  # whose turn it is among the running: each gets its share of the budget
        self._budget = 0.0
        self._counted = clock()
        self._unsent: list[
            tuple[ShippedStream, int, Chunk]
        ] = []  # sent, and not known to be stored: said again as it was
        self._warned = False  # that the store does not take it; once, until it does again
        self._sending = asyncio.Lock()

    # -- what the worker says ----------------------------------------------------------------------------

    def began(self, launch: Launch) -> None:
        if launch.kind in FILELESS:
            return
        self._running[(launch.task_id, launch.attempt)] = tuple(
            ShippedStream(
                self.session, launch.task_id, launch.attempt, name,
                output_path(launch.output_dir, launch.task, launch.attempt, name), launch.output_max,
            )
            for name in STREAMS
        )  # fmt: skip

    def ended(self, task_id: int, attempt: int, result: dict[str, Any] | None) -> None:
        """`result` is what its report carries."""
        for stream in self._running.pop((task_id, attempt), ()):
            if result is not None and carries_whole(result, stream.name):
                stream.gone = True
                continue
            stream.ended = True
            if len(self._ended) >= WAITING_MAX:
                given_up = self._ended.popleft()
                given_up.gone = True
                self._log("output was not sent: too much of it waits", {"task": given_up.task_id})
            self._ended.append(stream)

    def forget(self) -> None:
        """The session is over: the store would refuse what its running attempts still write."""
        for streams in self._running.values():
            for stream in streams:
                stream.gone = True
        self._running.clear()

    # -- sending -----------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            while await self._send_some():
                pass

    async def flush(self, seconds: float) -> None:
        """Send what ended attempts have left, whatever the budget, for at most so long."""
        try:
            async with asyncio.timeout(seconds):
                while self._ended or self._unsent:
                    self._budget = float(SHIPMENT_MAX)
                    if not await self._send_some():
                        await asyncio.sleep(RETRY_S / 10)
        except TimeoutError:
            self._log("some output was not sent in time", {"streams": len(self._ended)})

    async def _send_some(self) -> bool:
        """One shipment; True if there may be another at once."""
        async with self._sending:
            self._count_budget()
            if not self._unsent:
                if self._budget < 1 or not (self._running or self._ended):
                    return False
                streams = self._in_turn()
                self._unsent = await asyncio.to_thread(_gather, streams, min(SHIPMENT_MAX, int(self._budget)))
                self._unsent = [entry for entry in self._unsent if not entry[0].gone]
            if not self._unsent:
                self._drop_gone()
                return False
            return await self._send_gathered()

    async def _send_gathered(self) -> bool:
        shipment = Shipment([chunk for _, _, chunk in self._unsent])
        try:
            refused = set(await self._ship(shipment))
        except LinkLost as error:
            if not self._warned:
                self._log("output could not be sent yet", {"error": str(error)})
            self._warned = True
            await asyncio.sleep(RETRY_S)
            return False
        self._warned = False
        for stream, sent, chunk in self._unsent:
            stream.sent = sent
            if (stream.task_id, stream.attempt) in refused or chunk.size is not None:
                stream.gone = True
            self._budget -= len(chunk.data)
        if refused:
            self._log("output was refused: its attempts are not this session's any more", {"attempts": len(refused)})
        self._unsent = []
        self._drop_gone()
        return True

    def _count_budget(self) -> None:
        now = self._clock()
        self._budget = min(self._rate, self._budget + (now - self._counted) * self._rate)
        self._counted = now

    def _in_turn(self) -> list[ShippedStream]:
        """Those that have ended first, then the running ones, beginning with another one each time."""
        running = [stream for streams in self._running.values() for stream in streams if not stream.gone]
        self._turn = (self._turn + 1) % max(1, len(running))
        return [*self._ended, *running[self._turn :], *running[: self._turn]]

    def _drop_gone(self) -> None:
        while self._ended and self._ended[0].gone:
            self._ended.popleft()
        if any(stream.gone for stream in self._ended):
            self._ended = deque(stream for stream in self._ended if not stream.gone)


def carries_whole(result: dict[str, Any], stream: str) -> bool:
    """The report's text is the stream, byte for byte."""
    return stream in result and not result.get(f"{stream}Truncated") and not result.get(f"{stream}Escaped")


def _gather(streams: list[ShippedStream], budget: int) -> list[tuple[ShippedStream, int, Chunk]]:
    """(stream, how far it is sent then, chunk): at most one chunk of each, within the budget. Reads files."""
    out = []
    for stream in streams:
        if budget <= 0:
            break
        try:
            found = _next_chunk(stream, min(budget, CHUNK_MAX))
        except FileNotFoundError:  # a file gets its name when something was written to it
            found = (0, _chunk(stream, 0, b"", size=0)) if stream.ended and not stream.sent else None
            stream.gone = stream.ended and found is None
        except OSError:
            stream.gone, found = True, None
        if found is not None:
            out.append((stream, *found))
            budget -= len(found[1].data)
    return out


def _next_chunk(stream: ShippedStream, most: int) -> tuple[int, Chunk] | None:
    """What is to be sent next. Of a file that is over its cap the first half of the cap and the last half stay; the
    middle is being punched out while it grows, so until it has ended nothing beyond its first half is read."""
    if not stream.ended and os.stat(stream.path).st_size == stream.sent:
        return None
    fd = os.open(stream.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        head = stream.cap // 2
        at, drop = stream.sent, None
        if size < at:  # the command has truncated its own output: what it writes since then counts
            at, drop = 0, (0, 2**62)
        over = size > stream.cap
        end = size
        if over and at < head:
            end = head
        elif over and not stream.ended:
            return None
        elif over and at < size - (stream.cap - head):
            at, drop = size - (stream.cap - head), (head, size - (stream.cap - head))
        elif over and at <= stream.cap:  # it was sent up to here before it grew over the cap
            drop = (head, size - (stream.cap - head))
        elif at < head:
            end = min(end, head)  # chunks meet there, so that those of the middle can be dropped
        data = os.pread(fd, min(most, end - at), at)
        if not over and not stream.ended and at + len(data) > head and os.fstat(fd).st_size > stream.cap:
            return None  # it may have been punched while it was read
    finally:
        os.close(fd)
    sent = at + len(data)
    ended = size if stream.ended and sent >= size else None
    if not data and ended is None and drop is None:
        return None
    return sent, _chunk(stream, at, data, drop, ended)


def _chunk(
    stream: ShippedStream, at: int, data: bytes, drop: tuple[int, int] | None = None, size: int | None = None
) -> Chunk:
    return Chunk(stream.task_id, stream.attempt, stream.session, stream.name, at, data, drop, size)
