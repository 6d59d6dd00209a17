"""A run, or the whole cluster, followed on a server: by its streams, and by asking wherever none is read.

Positions are those of what was handed on here: the number of an event, a byte of an attempt's output. A stream goes
on after them (Last-Event-ID), a question asks for what follows them, and what comes both ways is left out the second
time. So a stream may break off, begin late or lag behind at any moment, and nothing is lost or told twice.
"""

import base64
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.client.event_stream_reader import EventStreamReader
from weft.client.http_connection import HttpConnection, path_of
from weft.executors.output import StreamName
from weft.operations.reading.attempt_output import AttemptOutput, Piece
from weft.operations.replies import EventInfo
from weft.operations.resources.streams import stream_events, stream_run_events, stream_task_output
from weft.store.shipment import CHUNK_MAX

if TYPE_CHECKING:
    from weft.client.remote import RemoteControl

OUTPUTS_MAX: Final = 32  # streamed at once: each is a connection and a thread. The others are asked for
OUTPUT_EVERY_S: Final = 0.5


class Streamed:
    def __init__(
        self, control: "RemoteControl", wire: HttpConnection, run_id: str | None, after: int, filters: dict[str, Any]
    ) -> None:
        self._control = control
        self._wire = wire
        self._run_id = run_id
        self._at = after
        self._filters = {name: value for name, value in filters.items() if value is not None}
        self._hinted = not self._filters.keys() <= {"kinds"}  # a stream knows no other filter: it says when to ask
        path = path_of(stream_events.path, {})
        if run_id is not None:
            path = path_of(stream_run_events.path, {"run": run_id})
        kinds = [("kind", kind) for kind in self._filters.get("kinds", ())]
        self._news = threading.Event()
        self._stream = EventStreamReader(wire, path, kinds, self._news.set)
        self._asks = False
        self._outputs: list[StreamedOutput] = []

    def events(self, limit: int) -> list[EventInfo]:
        found: list[EventInfo] = []
        if not self._asks and not self._hinted:
            live = self._stream.live
            while len(found) < limit and (data := self._stream.take()) is not None:
                event = msgspec.json.decode(data, type=EventInfo)
                if event.seq > self._at:
                    found.append(event)
                    self._at = event.seq
            if found or live:
                return found
        found = self._control.events(self._run_id, after=self._at, limit=limit, **self._filters)
        if found:
            self._at = found[-1].seq
        return found

    def open_output(self, task: str, attempt: int, stream: StreamName) -> AttemptOutput:
        assert self._run_id is not None
        opened = StreamedOutput(self, self._control, self._run_id, task, attempt, stream)
        self._outputs.append(opened)
        return opened

    def wait(self, pace_s: float, most_s: float) -> None:
        self._asks = False
        if pace_s <= 0:
            return
        self._stream.start(str(self._at))
        if not self._stream.live:
            most_s = pace_s
        elif any(not output.live for output in self._outputs):
            most_s = min(most_s, OUTPUT_EVERY_S)
        if self._hinted:
            time.sleep(pace_s)  # what the filters leave out is news, too
            self._stream.drop()
        if self._news.wait(most_s):
            self._news.clear()

    def catch_up(self) -> None:
        self._asks = True

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

    def __init__(
        self,
        followed: Streamed,
        control: "RemoteControl",
        run_id: str,
        task: str,
        attempt: int,
        stream: StreamName,
    ) -> None:
        self._followed = followed
        self._of = (run_id, task, attempt, stream)
        self._asked = control.open_output(*self._of)
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
        self._stream = self._stream or self._followed.stream_of_output(*self._of)
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
        self._followed.forget(self)
        if self._stream is not None:
            self._stream.close()
            self._stream = None
