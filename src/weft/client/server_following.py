"""Events and output of a run, or events of the whole cluster, as a server streams them.

A stream is started after the last event, or the last byte, that was returned (Last-Event-ID), and messages that
repeat something are left out. So a stream may break off, begin late or lag behind: meanwhile the server is asked.
"""

import base64
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.client.event_stream_reader import EventStreamReader
from weft.client.following import PollingSource
from weft.client.http_connection import HttpConnection, path_of
from weft.executors.output import StreamName
from weft.operations.reading.output.attempts import AttemptOutput, Piece
from weft.operations.replies import EventInfo
from weft.operations.resources.streams import stream_events, stream_run_events, stream_task_output
from weft.store.shipment import CHUNK_MAX

if TYPE_CHECKING:
    from weft.client.remote import ServerConnection

OUTPUTS_MAX: Final = 32  # streamed at once: each is a connection and a thread. The others are asked for
OUTPUT_EVERY_S: Final = 0.5
HINTED_EVERY_S: Final = 0.1


class ServerSource(PollingSource):
    poll_max_s = 0.5

    def __init__(
        self, connection: "ServerConnection", wire: HttpConnection, run_id: str | None, filters: dict[str, Any]
    ) -> None:
        super().__init__(connection, run_id)
        self._wire = wire
        # A stream has no filter but `kinds`: with others, its messages only say when to ask.
        self._hinted = any(value is not None for name, value in filters.items() if name != "kinds")
        path = path_of(stream_events.path, {})
        if run_id is not None:
            path = path_of(stream_run_events.path, {"run": run_id})
        kinds = [("kind", kind) for kind in filters.get("kinds") or ()]
        self._news = threading.Event()
        self._stream = EventStreamReader(wire, path, kinds, self._news.set)
        self._outputs: list[StreamedOutput] = []

    def received(self, after: int, limit: int) -> list[EventInfo] | None:
        if self._hinted:
            return None
        found: list[EventInfo] = []
        live = self._stream.live
        while len(found) < limit and (data := self._stream.take()) is not None:
            event = msgspec.json.decode(data, type=EventInfo)
            if event.seq > after:
                found.append(event)
                after = event.seq
        return found if found or live else None

    def open_output(self, task: str, attempt: int, stream: StreamName) -> AttemptOutput:
        assert self._run_id is not None
        opened = StreamedOutput(
            self, super().open_output(task, attempt, stream), (self._run_id, task, attempt, stream)
        )
        self._outputs.append(opened)
        return opened

    def wait(self, after: int, poll_s: float, most_s: float) -> None:
        self._stream.start(str(after))
        if not self._stream.live:
            most_s = poll_s
        elif any(not output.live for output in self._outputs):
            most_s = min(most_s, OUTPUT_EVERY_S)
        if self._hinted:
            time.sleep(min(HINTED_EVERY_S, most_s))  # what the filters leave out is news, too
            self._stream.drop()
        if self._news.wait(most_s):
            self._news.clear()

    def close(self) -> None:
        self._stream.close()
        for output in list(self._outputs):
            output.close()

    def stream_of_output(self, run_id: str, task: str, attempt: int, stream: StreamName) -> EventStreamReader | None:
        """None: too many are read already."""
        if sum(output.streamed for output in self._outputs) >= OUTPUTS_MAX:
            return None
        target = path_of(stream_task_output.path, {"run": run_id, "task": task, "stream": stream})
        return EventStreamReader(self._wire, target, [("attempt", attempt)], self._news.set)

    def forget(self, output: "StreamedOutput") -> None:
        if output in self._outputs:
            self._outputs.remove(output)


class _Printed(msgspec.Struct):
    offset: int
    next: int
    text: str | None = None
    base64: str | None = None

    @property
    def data(self) -> bytes:
        return base64.b64decode(self.base64) if self.base64 is not None else (self.text or "").encode()


class StreamedOutput:
    """Asked for at first: most attempts are over before a stream would be worth its connection."""

    def __init__(self, source: ServerSource, asked: AttemptOutput, of: tuple[str, str, int, StreamName]) -> None:
        self._source = source
        self._asked = asked
        self._of = of
        self._asked_in_vain = 0
        self._over = False
        self._stream: EventStreamReader | None = None

    @property
    def streamed(self) -> bool:
        return self._stream is not None

    @property
    def live(self) -> bool:
        return self._stream is not None and self._stream.live

    def read(self, offset: int, limit: int = CHUNK_MAX) -> Piece:
        if self._stream is not None:
            live = self._stream.live and not self._over
            piece = self._pushed_piece(self._stream, offset, limit)
            if piece is not None:
                return piece
            if live:
                return Piece(offset, b"", "sending", pushed=True)
        piece = self._asked.read(offset, limit)
        if piece.then == "sending":
            self._asked_in_vain += 1
            if self._asked_in_vain > 1:
                self._begin(piece.next)
        return piece

    def _begin(self, offset: int) -> None:
        self._stream = self._stream or self._source.stream_of_output(*self._of)
        if self._stream is not None:
            self._stream.start(f"{self._of[2]}.{offset}")

    def _pushed_piece(self, stream: EventStreamReader, offset: int, limit: int) -> Piece | None:
        while (message := stream.take()) is not None:
            printed = msgspec.json.decode(message, type=_Printed)
            if printed.next <= offset:
                continue
            begin = max(0, offset - printed.offset)
            data = printed.data[begin : begin + limit]
            if printed.offset + begin + len(data) < printed.next:
                stream.give_back(message)
            return Piece(printed.offset + begin, data, "more")
        return None

    def over(self) -> None:
        self._over = True

    def close(self) -> None:
        self._source.forget(self)
        if self._stream is not None:
            self._stream.close()
            self._stream = None
