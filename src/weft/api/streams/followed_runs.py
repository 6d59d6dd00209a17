"""What can be followed: the events of a run, those of the whole cluster, what a task prints."""

import base64
from collections.abc import Callable

import msgspec

from weft.api.streams.hub import ANYWAY_S, Found, Position, StreamPiece
from weft.client.verbs import Connection
from weft.core.states import TERMINAL
from weft.executors.output import StreamName
from weft.operations.replies import EventInfo

PAGE = 200
PART_BYTES = 16 * 1024
OUTPUT_EVERY_S = 0.1  # files grow without a hint


def sent(id: str, data: object, event: str | None = None) -> bytes:
    """One message of a stream (text/event-stream). JSON has no line breaks of its own."""
    name = b"" if event is None else b"event: " + event.encode() + b"\n"
    return name + b"id: " + id.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


def sent_event(event: EventInfo) -> bytes:
    return sent(str(event.seq), event)


class Events:
    """`run` None: of the whole cluster, which never ends. Positions are numbers of events."""

    every_s = ANYWAY_S

    def __init__(
        self, connection: Connection, run: str | None, encode: Callable[[EventInfo], bytes] = sent_event
    ) -> None:
        self._connection = connection
        self._run = run
        self._encode = encode

    def read(self, at: Position) -> Found:
        run = (
            None if self._run is None else self._connection.run(self._run)
        )  # first: what follows its end is read then
        events = self._connection.events(self._run, after=at[0], limit=PAGE)
        pieces = [StreamPiece((event.seq,), event.kind, self._encode(event), event.run_id) for event in events]
        ended = None
        if run is not None and run.finished and len(events) < PAGE and self._all_shown(run.generation):
            ended = "finished"
        return Found(pieces, pieces[-1].at if pieces else at, ended, len(events) == PAGE)

    def _all_shown(self, generation: int) -> bool:
        """PostgreSQL shows an event a little after its transaction. Each generation ends with one `run_finished`."""
        return len(self._connection.events(self._run, kinds=["run_finished"], limit=generation)) >= generation


class Printed(msgspec.Struct, omit_defaults=True):
    """Bytes that an attempt printed: as text, or, where they are none, in Base64."""

    attempt: int
    offset: int
    next: int
    text: str | None = None
    base64: str | None = None


def sent_output(attempt: int, offset: int, end: int, data: bytes) -> bytes:
    return sent(f"{attempt}.{end}", _printed(attempt, offset, end, data))


class Output:
    """What a task prints, attempt after attempt until it has ended; or one attempt. Positions are (attempt, byte)."""

    every_s = OUTPUT_EVERY_S

    def __init__(
        self,
        connection: Connection,
        run: str,
        task: str,
        stream: StreamName,
        only: int | None,
        encode: Callable[[int, int, int, bytes], bytes] = sent_output,
    ) -> None:
        self._connection = connection
        self._encode = encode
        self._run = run
        self._task = task
        self._stream = stream
        self._only = only

    def read(self, at: Position) -> Found:
        task = self._connection.task(self._run, self._task)
        over = task.state in TERMINAL or task.held is not None
        attempt, offset = at
        if attempt == 0:
            if task.attempt == 0:
                return Found([], at, "finished" if over else None)
            attempt = 1
        part = self._connection.read_output(
            self._run, self._task, attempt, self._stream, offset=offset, limit=PART_BYTES
        )
        data = part.data if part.ended and part.next >= part.size else _whole_characters(part.data)
        if data:
            end = part.offset + len(data)
            piece = StreamPiece((attempt, end), "output", self._encode(attempt, part.offset, end, data))
            return Found([piece], piece.at, more=True)
        offset = min(offset, part.size)  # whatever somebody claims to have seen
        if not part.ended:
            return Found([], (attempt, offset))
        if self._only is not None:
            return Found([], (attempt, offset), "finished")
        if task.attempt > attempt:
            return Found([], (attempt + 1, 0), more=True)
        return Found([], (attempt, offset), "finished" if over else None)


def _printed(attempt: int, offset: int, end: int, data: bytes) -> Printed:
    try:
        return Printed(attempt, offset, end, text=data.decode())
    except UnicodeDecodeError:
        return Printed(attempt, offset, end, base64=base64.b64encode(data).decode())


def _whole_characters(data: bytes) -> bytes:
    """Without a character at the end of which the rest is still to come."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
            return data[:-back] if needed > back else data
    return data
