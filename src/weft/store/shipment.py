"""Output on its way from a node to the store: one batch, applied as a whole and, when its reply was lost, once."""

import msgspec

CHUNK_MAX = 256 * 1024  # bytes of one chunk
FILES = "files"  # the stream of the files that an attempt keeps


class Chunk(msgspec.Struct, frozen=True):
    """Bytes of an attempt's stream, from `at` on."""

    task_id: int
    attempt: int
    session: str  # that ran the attempt: the store takes nothing of an attempt from anybody else
    stream: str
    at: int
    data: bytes = b""
    drop: tuple[int, int] | None = None  # chunks within these bytes are removed first
    size: int | None = None  # the stream has ended, and had so many bytes: nothing follows


class Shipment(msgspec.Struct, frozen=True):
    chunks: list[Chunk]

    def attempts(self) -> list[tuple[int, int, str]]:
        """(task, attempt, session), each once, ascending."""
        return sorted({(chunk.task_id, chunk.attempt, chunk.session) for chunk in self.chunks})

    def without(self, held: set[tuple[int, int]]) -> list[tuple[int, int]]:
        """Attempts that are not among these."""
        return [(task, attempt) for task, attempt, _ in self.attempts() if (task, attempt) not in held]
