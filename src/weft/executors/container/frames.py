"""Output of a container as the engine sends it: frames of stdout and stderr in one stream, and, where it is read from
the engine's log, entries that begin with a timestamp.

The API has no offsets. What is received while a container is attached is counted, byte for byte; when the connection
was lost, the log is read from its start and as many bytes are left out. From then on entries are known by their
timestamps: the next connection asks for those `since` the last one, and leaves out what it has of them. (Following
the log from the beginning was tried: Podman 4.3 needs 90 s for 25 million short lines where attaching takes 11, and
stops 250 ms after the container's end although it has not sent all of them.)
"""

from collections.abc import Iterator

_HEADER_BYTES = 8
_TIMESTAMP_BYTES_MAX = 64
STREAMS = (1, 2)  # stdout, stderr


class OutputFrames:
    """Splits the stream into the payloads of its frames. It holds less than a header."""

    __slots__ = ("_head", "_left", "_stream")

    def __init__(self) -> None:
        self._head = b""
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes, bool]]:
        """(stream, payload or a part of it, whether the frame is complete)."""
        view = memoryview(data)
        while view:
            if not self._left:
                need = _HEADER_BYTES - len(self._head)
                self._head += bytes(view[:need])
                view = view[need:]
                if len(self._head) < _HEADER_BYTES:
                    return
                self._stream, self._left = self._head[0], int.from_bytes(self._head[4:], "big")
                self._head = b""
                continue
            part = bytes(view[: self._left])
            view = view[len(part) :]
            self._left -= len(part)
            yield self._stream, part, self._left == 0


class LogPosition:
    """How far the log of one stream was taken: `mark` is the timestamp of the last entry, `before` the bytes of all
    entries with earlier ones, `taken` the bytes of all."""

    __slots__ = ("before", "mark", "taken")

    def __init__(self, taken: int = 0) -> None:
        self.mark = ""
        self.before = 0
        self.taken = taken


class LogEntries:
    """One reading of the log, from `since` on: gives what was not taken yet, and moves the positions."""

    def __init__(self, positions: dict[int, LogPosition]) -> None:
        self._positions = positions
        # Where this reading is: an entry before the mark was taken; of those at and after it, `taken` - `before`.
        self._at = {stream: position.before for stream, position in positions.items()}
        self._marks = {stream: position.mark for stream, position in positions.items()}
        self._head = b""
        self._stamp: str | None = None  # of the entry that is being read

    def feed(self, stream: int, part: bytes, complete: bool) -> bytes:
        if stream not in self._positions:
            return b""
        if self._stamp is None:
            self._head += part
            stamp, space, part = self._head.partition(b" ")
            if not space:
                if complete or len(self._head) > _TIMESTAMP_BYTES_MAX:
                    self._head = b""
                return b""
            self._head, self._stamp = b"", comparable(stamp.decode("ascii", "replace"))
        new = self._new(stream, self._stamp, part)
        if complete:
            self._stamp = None
        return new

    def _new(self, stream: int, stamp: str, part: bytes) -> bytes:
        position = self._positions[stream]
        if stamp < self._marks[stream]:
            return b""
        at = self._at[stream]
        self._at[stream] = at + len(part)
        if stamp > position.mark:
            position.mark, position.before = stamp, at
        skip = max(0, position.taken - at)
        position.taken = max(position.taken, at + len(part))
        return part[skip:]


def comparable(stamp: str) -> str:
    """A timestamp that sorts as text: Docker's have nanoseconds with zeros, Podman's only seconds."""
    seconds, _, fraction = stamp.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<9}"


def since(positions: dict[int, LogPosition]) -> str | None:
    """The parameter for the next reading: a second before the earliest mark, as Unix time; None: from the start. The
    log is in the order of time, so that the entries of a stream without a mark are all later."""
    marks = [position.mark for position in positions.values() if position.mark]
    if not marks:
        return None
    from datetime import datetime

    earliest = min(marks).partition(".")[0]
    at = datetime.fromisoformat(earliest if earliest[-6:-5] in "+-" else earliest + "+00:00")
    return str(int(at.timestamp()) - 1)
