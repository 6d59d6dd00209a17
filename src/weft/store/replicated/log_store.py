"""A SQLite replica of a replicated log, as nodes and people use it: reads are local, and every change is an entry.

Two processes may have it: the node that keeps it up to date (replica.py), and others of the same machine, which
hand their commands to that node (guest.py).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.executors.boot_clock import boottime
from weft.store.etcd.url import EtcdUrl
from weft.store.protocol import LeaseRenewal, StoreBusy, StoreUnusable, Watch
from weft.store.replicated import entry as e
from weft.store.replicated.comparison import Comparison, compare_replicas
from weft.store.replicated.output.copies import ReadOutput
from weft.store.replicated.output.file import StoredPiece
from weft.store.replicated.output.reader import ReplicaReader
from weft.store.shipment import Shipment
from weft.store.sqlite.driver import SqliteStore
from weft.store.sqlite.errors import Explained
from weft.store.sqlite.moved import Moved
from weft.store.sqlite.reader import SqliteReader

REPLICA_FILE = "replica.db"


class LogStore(SqliteStore):
    kind = "etcd"
    on_loop = False  # a commit waits for the network
    takes_output = True
    synchronous = "NORMAL"  # the log is durable: a replica that lost its tail applies it again
    shared = False

    def __init__(self, url: EtcdUrl, directory: Path) -> None:
        self.url = url
        self._late = LateSessions()
        super().__init__(directory / REPLICA_FILE)
        self.name = url.shown
        self._explained = Explained(self.name)

    def send(self, commands: Sequence[e.Sent]) -> list[Any]:
        """What came of each command: its reply, or an exception that says why there is none."""
        raise NotImplementedError

    def send_one(self, command: Any) -> Any:
        (outcome,) = self.send([e.Sent.of(command)])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def wait_for_head(self) -> None:
        """Until the replica has all that was in the log when this was called."""
        self.send_one(e.Note())

    def compare_replicas(self) -> Comparison:
        """What the replicas of all live nodes hold after one entry."""
        assert self.path is not None
        return compare_replicas(self.send_one, self.path)

    def lags(self) -> dict[str, int]:
        """By session: how many revisions the replica of its node was behind when it was last heard of."""
        rows = self._rows_of(
            "SELECT l.session, max(0, o.revision - 1 - o.applied) FROM log_sessions l"
            " JOIN log_origins o ON o.origin = l.origin"
        )
        return {str(session): int(lag) for session, lag in rows}

    def renew(
        self, session: str, ttl_ms: int, facts: str | None = None, *, own: bool = False
    ) -> tuple[int, int, int] | None:
        return self.renew_each([(session, ttl_ms, facts)])[0]

    def renew_each(self, renewals: Sequence[LeaseRenewal], *, own: bool = False) -> list[tuple[int, int, int] | None]:
        """Of workers that this process serves: in one entry."""
        outcomes = self.send([e.Sent.of(e.Renew(*renewal)) for renewal in renewals])
        for found in outcomes:
            if isinstance(found, Exception):
                raise found
        return [None if found is None else (found[0], found[1], found[2]) for found in outcomes]

    def keep_output(self, shipment: Shipment) -> list[tuple[int, int]]:
        raise NotImplementedError

    def find_output(self, asked: ReadOutput) -> StoredPiece | None:
        """From this machine or from a peer."""
        raise NotImplementedError

    def reader(self) -> SqliteReader:
        plain = super().reader()
        reader = ReplicaReader(plain.connection, self._explained, self.now, shared=False)
        reader.find_output = self.find_output
        return reader

    def watch(self, *, late: bool = False) -> Watch:
        found = super().watch(late=late)
        if not late:
            return found
        expires = dict(self._rows_of("SELECT session, expires_at FROM leases"))
        return found._replace(late=self._late.of(found.late, expires, self.clock.now()))

    def check_writable(self, *, write: bool) -> None:
        if write:
            self.wait_for_head()

    def answers(self) -> bool:
        try:
            self.wait_for_head()
        except StoreBusy:
            return False
        return True

    def moved(self) -> Moved | None:
        return None

    def set_moved_if_alone(self, mark: Moved | None, was: Moved | None) -> bool:
        raise StoreUnusable(f"{self.name}: what a replicated log holds cannot be moved elsewhere")

    def downgrade(self, schema: int) -> None:
        raise StoreUnusable(f"{self.name}: the tables of a replicated log have the version that its entries name")

    def _rows_of(self, sql: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._writer.execute(sql).fetchall()


class LateSessions:
    """Sessions whose leases have passed by the log's time, and by the clock of this machine too: a node whose clock
    runs too fast, and takes the log's time along, ends no session of others."""

    def __init__(self, here_s: Callable[[], float] = boottime) -> None:
        self._here_s = here_s
        self._seen: dict[str, tuple[int, float]] = {}  # expires_at, and until when it lasts here

    def of(self, late: Sequence[str], expires: dict[str, int], now_ms: int) -> tuple[str, ...]:
        here = self._here_s()
        for session, at in expires.items():
            if self._seen.get(session, (None, 0.0))[0] != at:
                self._seen[session] = (at, here + max(0, at - now_ms) / 1000)
        self._seen = {session: seen for session, seen in self._seen.items() if session in expires}
        return tuple(session for session in late if session not in expires or self._seen[session][1] <= here)
