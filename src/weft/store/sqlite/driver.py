"""A store in one SQLite file: opening it, its pragmas, and one writer at a time."""

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from weft.core.rows import BackfillRow, HandleRow, MemoRow, TriggerRow
from weft.store.loads import backfills_and_triggers, notices_due, orphaned, triggers
from weft.store.private_files import DIRECTORY_MODE, create_private, tighten
from weft.store.protocol import (
    PATIENCE_MS,
    LeaseRenewal,
    Look,
    OutboxLook,
    StoreBusy,
    StoreGone,
    StoreMoved,
    Watch,
)
from weft.store.shipment import Shipment
from weft.store.sqlite.clock import Clock, StoreClock
from weft.store.sqlite.errors import Explained
from weft.store.sqlite.migrate import check, latest, migrate, version
from weft.store.sqlite.moved import Moved, moved, set_moved_if_alone
from weft.store.sqlite.output import keep_output
from weft.store.sqlite.reader import SqliteReader
from weft.store.sqlite.remembered import RememberedRows
from weft.store.sqlite.statements import SQL
from weft.store.sqlite.transaction import SqliteTransaction
from weft.store.sqlite.turnstile import Turnstile

NUMBER_MAX = 2**63 - 1
_WRITE_CHECK = (
    "INSERT INTO meta (key, value) VALUES ('write_check', '') ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)


def _connect(path: str, synchronous: str) -> apsw.Connection:
    connection = apsw.Connection(path, statementcachesize=200)
    connection.set_busy_timeout(PATIENCE_MS)
    # One plan per statement, for good. Without it SQLite prepares a statement anew whenever a bound value that it
    # looked at while planning changes: measured, 85 instead of 8 µs for an empty look at the schedule.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(f"PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -16000; PRAGMA wal_autocheckpoint = 1000")
    return connection


class SqliteStore:
    """`path` None: in memory, for tests and simulation (one process, no turnstile)."""

    kind = "sqlite"
    library = f"SQLite {apsw.sqlite_lib_version()}"
    takes_output = False  # all its nodes are on one machine, and whoever asks reads their files
    on_loop = True  # a commit is short, and beside a busy Python thread 30 times longer than on its own
    synchronous = "FULL"
    shared = True  # other processes may write to the file, too

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.log: Callable[[str], None] = lambda text: None
        self.patience_ms = PATIENCE_MS
        self.name = "memory" if path is None else str(path)
        self._lock = threading.Lock()
        self._turnstile: Turnstile | None = None
        self._renewal: apsw.Connection | None = None
        self._renewal_turn: Turnstile | None = None  # its own: a flock belongs to an open file, not to a thread
        self._renewal_lock = threading.Lock()
        self._data_version = 0
        self.remembered = RememberedRows()
        self._opened: dict[str, tuple[int, int]] = {}  # the files that are written: device and inode
        self.clock: Clock
        self._explained = Explained(self.name)
        with self._explained:
            self._open()

    def _open(self) -> None:
        if self.path is not None:
            self.path.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            if self.path.exists():  # look before anything is written
                self._look()
            else:
                with suppress(OSError):  # where there are no links, SQLite makes it, and it is tightened
                    create_private(self.path)
            if self.shared:
                self._turnstile = Turnstile(self.path.parent)
        self._writer = _connect(":memory:" if self.path is None else str(self.path), self.synchronous)
        if self.path is not None:
            for suffix in ("", "-wal", "-shm"):  # those that SQLite makes later get the mode of the first
                tighten(Path(f"{self.path}{suffix}"))
            self._writer.execute("PRAGMA journal_mode = WAL")
        self._take_turn(wait=True)
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                if check(self._writer, self.name) != latest():
                    migrate(self._writer)
                self.clock = StoreClock.of(self._writer)
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # a full disk has ended it already
                    self._writer.execute("ROLLBACK")
                raise
        finally:
            self._end_turn()
        if self.path is not None:
            self._opened = {
                file: identity for file in (self.name, f"{self.name}-wal") if (identity := _identity(file))
            }

    def _refuse_if_gone(self) -> None:
        """Before every COMMIT, for 3 µs: SQLite itself goes on writing to a file that nobody can find any more."""
        for file, identity in self._opened.items():
            if _identity(file) != identity:
                raise StoreGone(
                    f"the store {self.name} was moved or deleted while it was in use. What was done here since then"
                    " is not stored: put the store back, or start again with a new one"
                )

    def _look(self) -> None:
        reader = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            reader.set_busy_timeout(PATIENCE_MS)
            check(reader, self.name)
        finally:
            reader.close()

    def _take_turn(self, *, wait: bool) -> bool:
        """This process's turn, then this machine's."""
        if not self._lock.acquire(blocking=wait):
            return False
        try:
            mine = self._turnstile is None or self._entered(self._turnstile, wait=wait)
        except BaseException:
            self._lock.release()
            raise
        if not mine:
            self._lock.release()
        return mine

    def _end_turn(self) -> None:
        try:
            if self._turnstile is not None:
                self._turnstile.leave()
        finally:
            self._lock.release()

    def _entered(self, turnstile: Turnstile, *, wait: bool) -> bool:
        if turnstile.enter(self.patience_ms / 1000 if wait else 0.0):
            return True
        if not wait:
            return False
        holder = turnstile.holder()
        who = "another process" if holder is None else f"process {holder}"
        raise StoreBusy(
            f"{self.name}: {who} has held its lock for more than {self.patience_ms / 1000:g} s."
            " If it was stopped, let it go on, or end it"
        )

    @contextmanager
    def transaction(self, *, wait: bool = True, marked: bool = False) -> Iterator[SqliteTransaction | None]:
        """`marked`: also when what it holds was moved."""
        with self._explained:
            if not self._take_turn(wait=wait):
                yield None
                return
            try:
                self._begin()
                if not self.remembered.begin(self._writer) and not marked:
                    self._refuse_if_moved()  # a mark is a commit: without one since our last, there is none
                    self.remembered.go_on(self._writer)
                yield SqliteTransaction(self._writer, self.clock.now(), self.remembered)
                self._refuse_if_gone()
                self._writer.execute("COMMIT")
                self.remembered.committed(self._writer)
            except BaseException as error:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                if isinstance(error, apsw.Error):  # the cause of this one, perhaps
                    self._refuse_if_gone()
                raise
            finally:
                self._end_turn()

    def _begin(self) -> None:
        """SQLITE_BUSY_SNAPSHOT: a cursor is alive on this connection and keeps it in an old snapshot, in which it can
        never write. The turn is ours, so that no other writer is meant: a new connection takes its place."""
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        except apsw.BusyError as error:
            code: int = getattr(error, "extendedresult", apsw.SQLITE_BUSY)
            if self.path is None or code != apsw.SQLITE_BUSY_SNAPSHOT:
                raise
            self._writer.close(True)
            self._writer = _connect(str(self.path), self.synchronous)
            self.remembered = RememberedRows()  # another connection counts its own versions
            self._writer.execute("BEGIN IMMEDIATE")

    def check_writable(self, *, write: bool) -> None:
        with self.transaction():
            if write:
                self._writer.execute(_WRITE_CHECK)

    def _refuse_if_moved(self) -> None:
        """A store that was copied must not go on beside its copy."""
        mark = moved(self._writer)
        if mark is not None:
            raise StoreMoved(f"{self.name} {mark.description}")

    def moved(self) -> Moved | None:
        with self._explained, self._lock:
            return moved(self._writer)

    def set_moved_if_alone(self, mark: Moved | None, was: Moved | None) -> bool:
        """False: some session has not ended, or the mark is not what it was thought to be."""
        with self.transaction(marked=True):
            return set_moved_if_alone(self._writer, mark, was)

    def _for_renewals(self) -> apsw.Connection:
        if self.path is None:
            return self._writer
        if self._renewal is None:
            self._refuse_if_gone()  # a connection would make a new file
            self._renewal = _connect(str(self.path), self.synchronous)
            self._renewal_turn = Turnstile(self.path.parent)
        return self._renewal

    def renew(
        self, session: str, ttl_ms: int, facts: str | None = None, *, own: bool = False
    ) -> tuple[int, int, int] | None:
        return self.renew_each([(session, ttl_ms, facts)], own=own)[0]

    def renew_each(self, renewals: Sequence[LeaseRenewal], *, own: bool = False) -> list[tuple[int, int, int] | None]:
        with self._explained, self._renewal_lock:
            connection = self._for_renewals()
            if self._renewal_turn is not None:
                self._entered(self._renewal_turn, wait=True)
            try:
                self._refuse_if_gone()
                live = self._renew(connection, renewals)
            finally:
                if self._renewal_turn is not None:
                    self._renewal_turn.leave()
            out: list[tuple[int, int, int] | None] = []
            for (session, _, _), alive in zip(renewals, live, strict=True):
                rows = list(connection.execute(SQL["held_digest"], (session,))) if alive else []
                out.extend((int(number), int(count), int(checksum)) for number, count, checksum in rows)
                if not rows:
                    out.append(None)
            return out

    def _renew(self, connection: apsw.Connection, renewals: Sequence[LeaseRenewal]) -> list[bool]:
        """Which of them are live. Many in one transaction: each would be a commit of its own."""
        now, live = self.clock.now(), []
        together = len(renewals) > 1 and not connection.in_transaction
        if together:
            connection.execute("BEGIN IMMEDIATE")
        try:
            for session, ttl_ms, facts in renewals:
                live.append(bool(connection.execute(SQL["lease_renew_if_live"], (session, ttl_ms, now)).fetchall()))
                if facts is not None and live[-1]:
                    connection.execute(SQL["node_facts_set_if_live"], (session, now, facts))
            if together:
                connection.execute("COMMIT")
        except BaseException:
            if together and connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return live

    def look(self, session: str, demands: list[str], known_demands: int) -> Look:
        with self._explained, self._lock:
            parameters = (session, json.dumps(demands), known_demands, self.clock.now())
            ((worthwhile, wake_in_ms, led),) = list(self._writer.execute(SQL["look"], parameters))
        return Look(bool(worthwhile), wake_in_ms, bool(led))

    def keep_output(self, shipment: Shipment) -> list[tuple[int, int]]:
        with self.transaction():
            return keep_output(self._writer, shipment)

    @property
    def busy(self) -> bool:
        """This process's connection is in use; a moment later that may be different."""
        return self._lock.locked()

    def settled_event(self) -> int:
        return NUMBER_MAX  # there is one writer: numbers appear in their order

    def changed_by_others(self) -> bool:
        """True if a connection other than the writer has committed since the last call."""
        if not self._lock.acquire(blocking=False):
            return True
        try:
            version = int(self._writer.pragma("data_version"))  # Connection.data_version() counts our own commits too
        finally:
            self._lock.release()
        changed, self._data_version = version != self._data_version, version
        return changed

    def _rows(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Outside of a transaction, and all at once: see SqliteTransaction._all."""
        with self._explained, self._lock:
            return self._writer.execute(SQL[name], parameters).fetchall()

    def live_sessions(self) -> list[tuple[str, bool]]:
        """(session, its lease has passed), of all sessions that have not ended."""
        return [(id, bool(late)) for id, late in self._rows("sessions_live", self.clock.now())]

    def placing_waits(self) -> bool:
        """There are tasks whose node has to be picked, or that may have to be taken back from one."""
        with self._explained, self._lock:
            return bool(self._writer.execute(SQL["placing_waits"]).get)

    def due_triggers(self) -> tuple[int, int | None, bool, list[TriggerRow]]:
        with self._explained, self._lock:
            now = self.clock.now()
            rows = self._writer.execute(SQL["triggers_due"], (now,)).fetchall()
            later: list[Any] = self._writer.execute(SQL["triggers_next"]).fetchall()
            ((next_ms, follows),) = later
            return now, next_ms, bool(follows), triggers(rows)

    def backfills_to_step(self, limit: int) -> list[tuple[BackfillRow, TriggerRow]]:
        return backfills_and_triggers(self._rows("backfills_to_step", limit))

    def outbox(self, term: int, limit: int) -> OutboxLook:
        ((now, late, checks, pending),) = self._rows("outbox_look", self.clock.now())
        starts = triggers(self._rows("triggers_to_check", now)) if checks else []
        due = notices_due(self._rows("notifications_due", now, term, limit)) if pending else []
        return OutboxLook(now, bool(late), starts, due)

    def ends_to_follow(self, limit: int) -> list[tuple[Any, ...]]:
        rows = self._rows("ends_to_follow", limit, self.settled_event())
        return [(trigger, *row[-4:]) for trigger, row in zip(triggers([row[:-4] for row in rows]), rows, strict=True)]

    def triggers_behind(self, lag: int) -> tuple[int, list[TriggerRow]]:
        with self._explained, self._lock:
            newest = int(self._writer.execute(SQL["event_newest"]).get)
            rows = self._writer.execute(SQL["triggers_behind"], (newest - lag,)).fetchall()
        return newest, triggers(rows)

    def watch(self, *, late: bool = False) -> Watch:
        leaders = self._rows("leader_left", self.clock.now())
        leader, left_ms = leaders[0] if leaders else (None, 0)
        live = self.live_sessions() if late else []
        return Watch(leader, left_ms, len(live), tuple(id for id, passed in live if passed))

    def orphans(self, engines: list[str], limit: int) -> list[tuple[HandleRow, bool]]:
        return orphaned(self._rows("handles_orphaned", json.dumps(engines), limit))

    def run_facts(self, run_nos: list[int], *, wait: bool = True) -> list[tuple[Any, ...]]:
        return self._rows("run_facts", json.dumps(run_nos))

    def ends_at(self, run_no: int, positions: list[int]) -> list[tuple[Any, ...]]:
        """Like the need `Ends`, outside of a transaction: ended tasks no longer change."""
        return self._rows("ends_at", run_no, json.dumps(positions))

    def context_of(self, run_no: int) -> dict[str, Any]:
        rows = self._rows("context_of_run", run_no)
        return {key: json.loads(value) for key, value, _, _ in rows}

    def cached(self, keys: list[str]) -> list[MemoRow]:
        """Results kept for `cache` that have not expired."""
        return [MemoRow(*row) for row in self._rows("memos_cached", json.dumps(keys), self.clock.now())]

    def array_of(self, run_no: int, pos: int, generation: int) -> Any:
        return json.loads(self._rows("array_of_map", run_no, pos, generation)[0][0])

    def answers(self) -> bool:
        return True  # a file; who cannot have it within the busy timeout is told so

    def reader(self) -> SqliteReader:
        """A connection for reading; each thread needs its own."""
        if self.path is None:
            return SqliteReader(self._writer, self._explained, self.now, shared=True)
        with self._explained:
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY, statementcachesize=100)
            connection.set_busy_timeout(PATIENCE_MS)
        return SqliteReader(connection, self._explained, self.now, shared=False)

    def now(self) -> int:
        return self.clock.now()

    @property
    def schema(self) -> int:
        with self._lock:
            return version(self._writer)

    def downgrade(self, schema: int) -> None:
        with self.transaction():
            migrate(self._writer, schema)

    def size_bytes(self) -> int:
        if self.path is None:
            return 0
        return sum(file.stat().st_size for file in (self.path, Path(f"{self.path}-wal")) if file.exists())

    def wakeups(self) -> None:
        """It has none of its own: a file beside it does."""

    def close(self) -> None:
        with self._lock:
            self._writer.close()
            if self._renewal is not None:
                self._renewal.close()
            if self._renewal_turn is not None:
                self._renewal_turn.close()
            if self._turnstile is not None:
                self._turnstile.close()


def _identity(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino
