"""A replica that another process of this machine keeps up to date: read here, changed through that process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from weft.store.etcd.url import EtcdUrl
from weft.store.protocol import PATIENCE_MS, StoreUnusable
from weft.store.replicated import entry as e
from weft.store.replicated.local_socket import CommandClient
from weft.store.replicated.log_clock import LogClock
from weft.store.replicated.log_store import LogStore
from weft.store.replicated.output.copies import ReadOutput
from weft.store.replicated.output.file import StoredPiece
from weft.store.replicated.tables import standing
from weft.store.shipment import Shipment
from weft.store.sqlite.migrate import check, latest
from weft.store.sqlite.transaction import SqliteTransaction


class GuestStore(LogStore):
    def __init__(self, url: EtcdUrl, directory: Path) -> None:
        self._client = CommandClient(directory)
        super().__init__(url, directory)

    def _open(self) -> None:
        assert self.path is not None
        self._writer = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY, statementcachesize=100)
        self._writer.set_busy_timeout(PATIENCE_MS)
        if check(self._writer, self.name) != latest():
            raise StoreUnusable(f"{self.name} belongs to a node of another version of Weft. Use that version")
        self.clock = _GuestClock(self._writer)

    @contextmanager
    def transaction(self, *, wait: bool = True, marked: bool = False) -> Iterator[SqliteTransaction]:
        """To read in: nothing is ever written to a replica but by its node."""
        with self._explained, self._lock:
            self._writer.execute("BEGIN")
            try:
                yield SqliteTransaction(self._writer, self.clock.now(), self.remembered)
            finally:
                self._writer.execute("ROLLBACK")

    def send(self, commands: Sequence[e.Sent]) -> list[Any]:
        return self._client.send(commands, self.patience_ms / 1000)

    def keep_output(self, shipment: Shipment) -> list[tuple[int, int]]:
        return [(task, attempt) for task, attempt in self.send_one(e.KeepOutput(shipment))]

    def find_output(self, asked: ReadOutput) -> StoredPiece | None:
        found = self.send_one(asked)
        return None if found is None else StoredPiece(*found)

    def close(self) -> None:
        self._client.close()
        super().close()


class _GuestClock(LogClock):
    """By what the replica's node writes down with every entry."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        super().__init__()

    def now(self) -> int:
        at = standing(self._connection)
        return LogClock(at.time_ms, at.at_ms, at.boot).now()
