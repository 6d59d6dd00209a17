"""What attempts printed, as far as this machine keeps it: of its own attempts, and copies for other nodes.

It is a SQLite file beside the replica: no entry, no snapshot and no hash has it. A stream is kept from its first
byte on without gaps, but for what was cut out of its middle: a chunk that begins too late is refused.
"""

import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from weft.store.private_files import create_private
from weft.store.protocol import PATIENCE_MS
from weft.store.shipment import CHUNK_MAX, Chunk
from weft.store.sqlite.errors import Explained
from weft.store.sqlite.statements import SQL

_TABLES = """
CREATE TABLE IF NOT EXISTS output_chunks (
  task_id INTEGER NOT NULL, attempt INTEGER NOT NULL, stream TEXT NOT NULL, at INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (task_id, attempt, stream, at)
);
CREATE TABLE IF NOT EXISTS streams (
  task_id  INTEGER NOT NULL, attempt INTEGER NOT NULL, stream TEXT NOT NULL,
  revision INTEGER NOT NULL,  -- of the log, at which its task was there
  lacking  INTEGER NOT NULL,  -- copies on other nodes that were not made when it had ended, or that may be lost
  PRIMARY KEY (task_id, attempt, stream)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS streams_lacking ON streams (task_id) WHERE lacking > 0;
CREATE TABLE IF NOT EXISTS peers (node TEXT PRIMARY KEY) WITHOUT ROWID;  -- that may have copies
"""
_PLACE = "task_id = ? AND attempt = ? AND stream = ?"
_NOTE = """
INSERT INTO streams (task_id, attempt, stream, revision, lacking) VALUES (?, ?, ?, ?, 0) ON CONFLICT DO NOTHING
"""
#: Of tasks that were removed with their runs. A replica that has not come to the revision yet may not know the task.
_UNKNOWN = """
SELECT DISTINCT task_id FROM streams WHERE revision <= ? AND task_id NOT IN (SELECT id FROM replica.tasks)
"""


class StreamPlace(NamedTuple):
    task_id: int
    attempt: int
    stream: str

    @classmethod
    def of(cls, chunk: Chunk) -> "StreamPlace":
        return cls(chunk.task_id, chunk.attempt, chunk.stream)


class StoredPiece(NamedTuple):
    """What there is of a stream from an offset on: its first chunk. `end`: how far the stream is there."""

    end: int
    at: int = 0
    data: bytes = b""


class StreamsFile:
    def __init__(self, path: Path) -> None:
        self._explained = Explained(str(path))
        self._lock = threading.Lock()
        with self._explained:
            create_private(path)
            self._connection = apsw.Connection(str(path))
            self._connection.set_busy_timeout(PATIENCE_MS)
            self._connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
            self._connection.execute(_TABLES)

    def keep(self, chunks: Sequence[Chunk], revision: int, *, gaps: bool = False) -> list[tuple[StreamPlace, int]]:
        """(place, how far it is here) of streams that lack something before their chunk; the others are kept. `gaps`:
        all are kept."""
        lacking = []
        with self._explained, self._lock, self._connection:
            for chunk in chunks:
                place = StreamPlace.of(chunk)
                end = self._end(place)
                if not gaps and chunk.at > end and (chunk.drop is None or chunk.drop[0] > end):
                    lacking.append((place, end))
                    continue
                self._connection.execute(_NOTE, (*place, revision))
                if chunk.drop is not None:
                    self._connection.execute(SQL["output_drop"], (*place, *chunk.drop))
                if chunk.data:
                    self._connection.execute(SQL["output_insert"], (*place, chunk.at, chunk.data))
        return lacking

    def read(self, place: StreamPlace, offset: int) -> StoredPiece | None:
        """None: nothing is known of it here."""
        with self._explained, self._lock:
            if self._connection.execute(f"SELECT 1 FROM streams WHERE {_PLACE}", place).get is None:
                return None
            rows: list[Any] = self._connection.execute(
                f"SELECT at, data FROM output_chunks WHERE {_PLACE} AND at > ? AND at + length(data) > ?"
                " ORDER BY at LIMIT 1",
                (*place, offset - CHUNK_MAX, offset),
            ).fetchall()
            at, data = rows[0] if rows else (0, b"")
            return StoredPiece(self._end(place), at, data)

    def _end(self, place: StreamPlace) -> int:
        rows: list[Any] = self._connection.execute(
            f"SELECT at + length(data) FROM output_chunks WHERE {_PLACE} ORDER BY at DESC LIMIT 1", place
        ).fetchall()
        return int(rows[0][0]) if rows else 0

    def set_lacking(self, place: StreamPlace, copies: int) -> None:
        with self._explained, self._lock:
            self._connection.execute(f"UPDATE streams SET lacking = ? WHERE {_PLACE}", (copies, *place))

    def lacking(self, limit: int) -> list[tuple[StreamPlace, int]]:
        """Streams that have fewer copies than they should have, as far as is known, and their revisions."""
        with self._explained, self._lock:
            rows: list[Any] = self._connection.execute(
                "SELECT task_id, attempt, stream, revision FROM streams WHERE lacking > 0 LIMIT ?", (limit,)
            ).fetchall()
        return [(StreamPlace(*place), revision) for *place, revision in rows]

    def know_peers(self, nodes: Collection[str]) -> None:
        """When one of those that were known before is gone for good, the copies that it may have had are lacking."""
        with self._explained, self._lock, self._connection:
            before = {node for (node,) in self._connection.execute("SELECT node FROM peers")}
            if before == set(nodes):
                return
            if before - set(nodes):
                self._connection.execute("UPDATE streams SET lacking = 1 WHERE lacking = 0")
            self._connection.execute("DELETE FROM peers")
            self._connection.executemany("INSERT INTO peers VALUES (?)", [(node,) for node in sorted(nodes)])

    def remove_unknown(self, replica: Path, revision: int) -> None:
        """What belongs to tasks that the replica, at this revision, does not have any more."""
        with self._explained, self._lock:
            self._connection.execute("ATTACH ? AS replica", (str(replica),))
            try:
                with self._connection:
                    for table in ("output_chunks", "streams"):
                        self._connection.execute(f"DELETE FROM {table} WHERE task_id IN ({_UNKNOWN})", (revision,))
            finally:
                self._connection.execute("DETACH replica")

    def copy_into(self, target: Path) -> None:
        """Into the tables of a store that is a file."""
        with self._explained, self._lock:
            self._connection.execute("ATTACH ? AS target", (str(target),))
            try:
                self._connection.execute(
                    "INSERT OR IGNORE INTO target.output_chunks (task_id, attempt, stream, at, data)"
                    " SELECT task_id, attempt, stream, at, data FROM main.output_chunks"
                )
            finally:
                self._connection.execute("DETACH target")

    def close(self) -> None:
        with self._lock:
            self._connection.close()
