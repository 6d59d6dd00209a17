"""A whole store as the beginning of a log: the first replica is filled, and every other one fetches it as a snapshot.

Killed at any point, the same copy goes on: etcd holds the copy's mark before the replica is in its place, and a log
with a mark is begun by nobody without the replica.
"""

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from weft.store.etcd.log import EtcdLog, LogFull, LogSilent
from weft.store.etcd.url import EtcdUrl
from weft.store.protocol import StoreBusy, StoreUnusable
from weft.store.replicated.care import COMPACTED
from weft.store.replicated.log_clock import civil_ms
from weft.store.replicated.log_store import REPLICA_FILE
from weft.store.replicated.replica import SEED
from weft.store.replicated.tables import ReplicaPosition, make_tables, set_standing, standing
from weft.store.sqlite.driver import SqliteStore
from weft.store.sqlite.errors import Explained
from weft.store.sqlite.reader import SqliteReader

FILLING = "filling.db"
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'log_%'"


class LogFilling:
    """What client/move/store_copy.py fills, on this machine: start a node here first."""

    def __init__(self, url: EtcdUrl, root: Path) -> None:
        self.name = url.shown
        self._etcd = EtcdLog(url)
        self._directory = root / url.directory_name
        self._replica = self._directory / REPLICA_FILE

    def copied(self) -> str | None:
        """The mark of the copy that began this log, if it was made here."""
        if not self._replica.exists():
            return None
        connection = apsw.Connection(str(self._replica), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            mark = connection.execute("SELECT value FROM meta WHERE key = 'copied_from'").get
            revision = standing(connection).revision
        finally:
            connection.close()
        if mark is None:
            return None
        with self._answering():
            self._begin_after(revision)
        return str(mark)

    def check_empty(self) -> None:
        with self._answering():
            if self._etcd.head() or self._etcd.get(SEED) is not None or self._replica.exists():
                raise StoreUnusable(f"{self.name} is in use: it has entries already. Name another prefix's etcd")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._directory / FILLING
        for suffix in ("", "-wal", "-shm"):
            Path(f"{file}{suffix}").unlink(missing_ok=True)
        SqliteStore(file).close()
        self._connection = apsw.Connection(str(file))
        try:
            with Explained(self.name), self._connection:
                yield
            with self._answering():
                revision = self._claim()
            with self._connection:
                make_tables(self._connection)
                at = ReplicaPosition(revision, civil_ms(), 0, "", secrets.token_hex(6))
                set_standing(self._connection, at)
            self._connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._connection.close()
        os.replace(file, self._replica)
        with self._answering():
            self._begin_after(revision)

    def begin(self) -> None:
        """It is new, and nobody else has it."""

    def tables(self) -> list[str]:
        rows: list[Any] = self._connection.execute(f"{_TABLES} ORDER BY name").fetchall()
        return [name for (name,) in rows]

    def columns(self, table: str) -> list[str]:
        return [str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({table})").fetchall()]

    def count(self, table: str) -> int:
        rows: list[Any] = self._connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(rows[0][0])

    def put(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        places = ", ".join("?" * len(columns))
        self._connection.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", (tuple(row) for row in rows)
        )

    def finish(self, mark: str, term: int, last_run: int) -> None:
        """Numbers and terms go on where the other store ended."""
        self._mark = mark
        for key, value in (("runs", last_run), ("copied_from", mark)):
            self._connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
        self._connection.execute("UPDATE leadership SET term = ? WHERE one = 1", (term,))

    @contextmanager
    def reader(self) -> Iterator[SqliteReader]:
        yield SqliteReader(self._connection, Explained(self.name), civil_ms, shared=True)

    def _claim(self) -> int:
        """The revision after which the log begins. Raises if another copy, or a node, has begun it."""
        self._etcd.put_if_absent(SEED, self._mark.encode())
        if self._etcd.get(SEED) != self._mark.encode() or self._etcd.head():
            raise StoreUnusable(f"{self.name} is in use: something else has begun this log meanwhile")
        return self._etcd.revision()

    def _begin_after(self, revision: int) -> None:
        """A replica without what was filled asks for a snapshot: what is before is not in the log."""
        if int(self._etcd.get(COMPACTED) or b"0") < revision:
            self._etcd.put(COMPACTED, str(revision).encode())
        self._etcd.compact(revision)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (LogSilent, LogFull) as error:
            raise StoreBusy(f"{self.name}: {error}") from None
