"""The output of attempts, wherever they ran: from their files beside a store that is a file, else from the store.

A piece says what comes next: more at once, more while the attempt runs, more that its node is still sending, nothing
because that is all, nothing because the rest was lost with the node, or nothing because the nodes that have the rest
do not answer.
"""

import os
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from weft.executors.output import StreamName, output_path
from weft.operations.reading.runs import task_position
from weft.store.shipment import CHUNK_MAX

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

Then = Literal["more", "running", "sending", "whole", "lost", "away"]


class Piece(msgspec.Struct, frozen=True):
    """Bytes from `at` on. What lies between the offset that was asked for and `at` was cut out of the middle."""

    at: int
    data: bytes
    then: Then
    node: str | None = None  # that has, or had, the rest
    pushed: bool = False  # the rest comes here by itself: to look again costs nothing

    @property
    def next(self) -> int:
        return self.at + len(self.data)


class AttemptOutput(Protocol):
    """One stream of one attempt."""

    def read(self, offset: int, limit: int = CHUNK_MAX) -> Piece: ...
    def over(self) -> None:
        """The attempt has ended: from now on, what there is is asked for, not waited for."""

    def close(self) -> None: ...


class FileOutput:
    """A file is opened when it is there. It says nothing of the attempt: what it holds is all there is by now."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    @property
    def there(self) -> bool:
        return self._fd >= 0 or os.access(self._path, os.F_OK)

    def read(self, offset: int, limit: int = CHUNK_MAX) -> Piece:
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return Piece(offset, b"", "whole")
        size = os.fstat(self._fd).st_size
        if offset >= size:
            return Piece(offset, b"", "whole")
        try:
            start = os.lseek(self._fd, offset, os.SEEK_DATA)
            end = os.lseek(self._fd, start, os.SEEK_HOLE)
        except OSError:
            start, end = offset, size  # no holes known to this filesystem, or nothing but a hole is left
        data = os.pread(self._fd, min(limit, end - start), start)
        return Piece(start, data, "more" if data else "whole")

    def over(self) -> None:
        pass

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class StoredOutput:
    """Chunks that the node sent, and what its report carries."""

    def __init__(
        self, access: "StoreAccess", run_no: int, pos: int, idx: int, attempt: int, stream: StreamName
    ) -> None:
        self._access = access
        self._place = (run_no, pos, idx, attempt, stream)
        self._stream = stream

    def read(self, offset: int, limit: int = CHUNK_MAX) -> Piece:
        piece = self._chunk(offset, limit)
        if piece is not None:
            return piece
        rows = self._access.read("output_state", *self._place)
        if not rows:
            return Piece(offset, b"", "whole")  # there is no such attempt
        size, outcome, result, node, gone = rows[-1]
        if size is not None:  # all was sent: perhaps between the two looks
            piece = self._chunk(offset, limit)
            if piece is None:
                return Piece(offset, b"", "away" if offset < size else "whole", node)
            return piece
        if outcome is None:
            return Piece(offset, b"", "lost" if gone else "running", node)
        text = None if outcome == "lost" else self._reported(result)
        if text is not None:
            data = text.encode()[offset : offset + limit]
            return Piece(offset, data, "more" if data else "whole", node)
        return Piece(offset, b"", "lost" if gone or outcome == "lost" else "sending", node)

    def size(self) -> tuple[int, bool]:
        """(bytes as far as they are known, whether nothing more will come)."""
        rows = self._access.read("output_state", *self._place)
        if not rows:
            return 0, True
        size, outcome, result, _, gone = rows[-1]
        if size is not None:
            return int(size), True
        text = None if outcome in (None, "lost") else self._reported(result)
        if text is not None:
            return len(text.encode()), True
        return int(self._access.read("output_sent", *self._place)[0][0]), bool(gone) or outcome == "lost"

    def _chunk(self, offset: int, limit: int) -> Piece | None:
        for at, data in self._access.read("output_read", *self._place, offset, CHUNK_MAX):
            begin = max(0, offset - at)
            return Piece(at + begin, bytes(data[begin : begin + limit]), "more")
        return None

    def _reported(self, result: str | None) -> str | None:
        """The whole stream, if the report has it."""
        if result is None:
            return ""  # it was never started
        body = msgspec.json.decode(result)
        if body.get(f"{self._stream}Truncated") or body.get(f"{self._stream}Escaped"):
            return None
        return str(body.get(self._stream, ""))

    def over(self) -> None:
        pass

    def close(self) -> None:
        pass


def open_output(
    access: "StoreAccess", run_no: int, run_id: str, task: str, attempt: int, stream: StreamName
) -> AttemptOutput:
    """Files are the truth beside a store that is one; what has none there came from another store, or from a worker
    that has none."""
    file = FileOutput(output_path(str(access.output_root / run_id), task, attempt, stream))
    pos, idx = task_position(access, run_no, task)
    stored = StoredOutput(access, run_no, pos, idx, attempt, stream)
    if access.store.takes_output or (not file.there and (stored.size()[0] or _of_worker(access, run_no, pos, idx))):
        return stored
    return file


def _of_worker(access: "StoreAccess", run_no: int, pos: int, idx: int) -> bool:
    return bool(access.read("task_of_worker", run_no, pos, idx))
