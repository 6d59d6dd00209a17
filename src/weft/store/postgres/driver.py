"""A store in a PostgreSQL database: its connections, one for writing, one for renewals and wake-ups, one per thread
that reads; one for output while there is any.

A connection that is lost is made anew when it is next needed; whoever was waiting hears StoreBusy and says it again.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from weft.core.rows import BackfillRow, HandleRow, MemoRow, TriggerRow
from weft.store.loads import backfills_and_triggers, notices_due, orphaned, triggers
from weft.store.postgres.errors import SERVER_MIN, server_error
from weft.store.postgres.horizon import Horizon
from weft.store.postgres.migrate import check, latest, migrate, version
from weft.store.postgres.notify import Notifier
from weft.store.postgres.output import keep_output
from weft.store.postgres.reader import PostgresReader
from weft.store.postgres.statements import Statement, statements
from weft.store.postgres.transactions.transaction import CLOCK, COMMIT, FixedClock, PostgresTransaction, limits
from weft.store.postgres.url import PostgresUrl
from weft.store.postgres.wire import REPLY_MAX_S, SHOWN_AS, Wire, connect
from weft.store.protocol import (
    PATIENCE_MS,
    LeaseRenewal,
    Look,
    OutboxLook,
    StoreBusy,
    StoreError,
    StoreSlow,
    StoreUnusable,
    Watch,
)
from weft.store.shipment import Shipment

PROBE_CONNECT_S = 2  # libpq knows no less
PROBE_REPLY_S = 1.0
OUTPUT_IDLE_S = 10.0
MOMENT_S = 0.01  # for a reply to a transaction that does not wait
SECOND = "weft lease"  # as pg_stat_activity shows it
_WRITE_CHECK = (
    Statement("UPDATE meta SET value = value WHERE key = ''"),  # no row: refused all the same where it is read-only
    Statement("INSERT INTO meta (key, value) VALUES ('write_check', '') ON CONFLICT (key) DO UPDATE SET value = ''"),
)
_SIZE = Statement("SELECT pg_database_size(current_database())")


class PostgresStore:
    kind = "postgresql"
    path: Path | None = None  # it is no file, and its nodes may be on any machine
    takes_output = True
    on_loop = False  # a commit waits for the network: on an event loop's own thread no longer than a moment

    def __init__(self, url: str) -> None:
        address = PostgresUrl(url)
        self.name = address.shown  # never the password
        try:
            self._url, prepare = address.for_libpq()
        except ValueError as error:
            raise StoreUnusable(f"{self.name}: {error}") from None
        self.clock: FixedClock | None = None  # a test's; else the server's
        self.log: Callable[[str], None] = lambda text: None
        self.patience_ms = PATIENCE_MS
        self._lock = threading.Lock()
        self._wire: Wire | None = None
        self._second_lock = threading.Lock()
        self._second: Wire | None = None
        self._single = False  # it has been said that there is no second connection
        self._output_lock = threading.Lock()
        self._output: Wire | None = None
        self._output_at = 0.0  # when it was last used
        self._probe_lock = threading.Lock()
        self._probe: Wire | None = None
        self._readers: list[PostgresReader] = []
        self._horizon_lock = threading.Lock()
        self._horizon: Horizon | None = None
        #: It may hand each transaction to another server connection, unless whoever wrote the URL knows better.
        behind = self._open()
        self._direct = not behind
        self.pooled = behind and prepare is not True
        self._prepare = not self.pooled if prepare is None else prepare

    def _open(self) -> bool:
        """Whether a pooler stands between: it gives us a process number that is not the server's."""
        with connect(self._url, self.name) as connection:
            server = connection.info.server_version
            if server < SERVER_MIN * 10_000:
                raise StoreUnusable(
                    f"{self.name} is PostgreSQL {server // 10_000}; Weft needs {SERVER_MIN} or newer. Update it"
                )
            if connection.info.parameter_status("server_encoding") != "UTF8":
                raise StoreUnusable(f"{self.name} is not in UTF8. Make a database with ENCODING 'UTF8'")
            self.library = f"PostgreSQL {server // 10_000}.{server % 10_000}"
            try:
                self.schema = check(connection, self.name)
                if self.schema != latest():
                    migrate(connection, self.name)
                    self.schema = version(connection, self.name)
                ((served_by,),) = connection.execute("SELECT pg_backend_pid()").fetchall()
            except psycopg.Error as error:
                raise server_error(self.name, error.sqlstate or "", str(error)) from None
            return bool(served_by != connection.info.backend_pid)

    # -- writing -----------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[PostgresTransaction | None]:
        if not self._lock.acquire(blocking=wait):
            yield None
            return
        try:
            if not wait and (self._wire is None or self._wire.lost or self._wire.behind):
                yield None
                return
            wire = self._wire = self._usable(self._wire)
            wire.moment_s = None if wait else MOMENT_S
            transaction = PostgresTransaction(wire, self.clock, self.patience_ms)
            try:
                yield transaction
                transaction.commit()
            except BaseException:
                wire.roll_back()
                raise
            finally:
                wire.moment_s = None
        finally:
            self._lock.release()

    def renew(
        self, session: str, ttl_ms: int, facts: str | None = None, *, own: bool = False
    ) -> tuple[int, int, int] | None:
        return self.renew_each([(session, ttl_ms, facts)], own=own)[0]

    def renew_each(self, renewals: Sequence[LeaseRenewal], *, own: bool = False) -> list[tuple[int, int, int] | None]:
        self._close_output_if_idle()
        try:
            with self._on_second() as wire:
                self._single = False
                return self._renew(wire, renewals)
        except StoreBusy as error:
            gone = self._second is None or self._second.lost
            if own or not gone or self._wire is None or self._wire.lost:
                raise
            if not self._single:
                self.log(f"{error}. Leases are renewed between exchanges, on the connection that is left")
                self._single = True
        with self._lock:
            wire = self._wire = self._usable(self._wire)
            try:
                return self._renew(wire, renewals)
            except BaseException:
                wire.roll_back()
                raise

    def _renew(self, wire: Wire, renewals: Sequence[LeaseRenewal]) -> list[tuple[int, int, int] | None]:
        """One transaction in one round trip. It waits for a lock no longer than others, whatever holds it."""
        now = None if self.clock is None else self.clock.now()
        sql = statements()
        wire.settle(limits(self.patience_ms), limits(self.patience_ms, lasting=True))
        sent = 0
        for session, ttl_ms, facts in renewals:
            wire.send(sql["lease_renew_if_live"], session, ttl_ms, now)
            if facts is not None:
                wire.send(sql["node_facts_set_if_live"], session, now, facts)
            wire.send(sql["held_digest"], session)
            sent += 2 if facts is None else 3
        wire.send(COMMIT)
        results = iter(wire.sync()[-1 - sent : -1])
        out: list[tuple[int, int, int] | None] = []
        for _, _, facts in renewals:
            renewed = wire.rows(next(results))
            if facts is not None:
                next(results)
            digests = wire.rows(next(results))
            number, count, checksum = digests[0] if renewed and digests else (None, 0, 0)
            out.append(None if number is None else (int(number), int(count), int(checksum)))
        return out

    @contextmanager
    def _on_second(self) -> Iterator[Wire]:
        """The second connection, for one round trip: renewals, LISTEN and NOTIFY share it. What hangs there is given
        up well within a lease."""
        with self._second_lock:
            if self._second is None or self._second.lost:
                self._second = self._connected(reply_max_s=2 * self.patience_ms / 1000 + 1, shown_as=SECOND)
            try:
                yield self._second
            except BaseException:
                self._second.roll_back()
                raise

    def look(self, session: str, demands: list[str], known_demands: int) -> Look:
        now = None if self.clock is None else self.clock.now()
        ((worthwhile, wake_in_ms, led),) = self._ask(statements()["look"], session, demands, known_demands, now)
        return Look(worthwhile, wake_in_ms, led)

    def _close_output_if_idle(self) -> None:
        """A node without work has no connection for its output."""
        if self._output is None or not self._output_lock.acquire(blocking=False):
            return
        try:
            if time.monotonic() - self._output_at > OUTPUT_IDLE_S:
                self._output.close()
                self._output = None
        finally:
            self._output_lock.release()

    def keep_output(self, shipment: Shipment) -> list[tuple[int, int]]:
        with self._output_lock:
            self._output_at = time.monotonic()
            wire = self._output = self._usable(self._output)
            try:
                return keep_output(wire, shipment, self.patience_ms)
            except BaseException:
                wire.roll_back()
                raise

    def _usable(self, wire: Wire | None) -> Wire:
        if wire is not None:
            wire.catch_up()
        return self._connected() if wire is None or wire.lost else wire

    def _connected(self, *, reply_max_s: float = REPLY_MAX_S, shown_as: str = SHOWN_AS) -> Wire:
        return Wire(
            self._url, self.name, prepare=self._prepare, direct=self._direct, misplaced=self._misplaced,
            reply_max_s=reply_max_s, shown_as=shown_as,
        )  # fmt: skip

    def _misplaced(self) -> None:
        """One connection has met a pooler: no other has to."""
        self._prepare = False

    # -- reading -----------------------------------------------------------------------------------------

    def _ask(self, statement: Statement, *parameters: Any) -> list[tuple[Any, ...]]:
        """On the connection for writing: what a node reads between its exchanges."""
        return self._ask_all((statement, *parameters))[0]

    def _ask_all(self, *asked: tuple[Any, ...]) -> list[list[tuple[Any, ...]]]:
        """Several statements with their parameters, in one transaction and one round trip."""
        with self._lock:
            wire = self._wire = self._usable(self._wire)
            return self._asked(wire, *asked)

    def _asked(self, wire: Wire, *asked: tuple[Any, ...]) -> list[list[tuple[Any, ...]]]:
        wire.settle_for_good(limits(self.patience_ms, lasting=True))
        for statement, *parameters in asked:
            wire.send(statement, *parameters)
        return [wire.rows(result) for result in wire.sync()]

    def _ask_now(self, statement: Statement, *parameters: Any) -> list[tuple[Any, ...]]:
        """StoreSlow: the connection is in use, or there was no answer within a moment."""
        wire = self._wire
        if wire is None or not self._lock.acquire(blocking=False):
            raise StoreSlow(f"{self.name}: another one is at it")
        try:
            if wire is not self._wire or wire.lost or wire.behind:
                raise StoreSlow(f"{self.name}: another one is at it")
            wire.moment_s = MOMENT_S
            return self._asked(wire, (statement, *parameters))[0]
        finally:
            wire.moment_s = None
            self._lock.release()

    def now(self) -> int:
        return int(self._ask(CLOCK)[0][0]) if self.clock is None else self.clock.now()

    def answers(self) -> bool:
        """Within three seconds, on a connection of its own: the others may wait for something."""
        with self._probe_lock:
            try:
                if self._probe is None or self._probe.lost:
                    self._probe = Wire(
                        self._url, self.name, prepare=False, connect_s=PROBE_CONNECT_S, reply_max_s=PROBE_REPLY_S
                    )
                self._probe.ask(CLOCK)
                return True
            except StoreError:
                return False

    def check_writable(self, *, write: bool) -> None:
        self._ask(_WRITE_CHECK[write])

    @property
    def busy(self) -> bool:
        return True  # a read waits for the network, as a commit does

    def live_sessions(self) -> list[tuple[str, bool]]:
        """(session, its lease has passed), of all sessions that have not ended."""
        rows = self._ask(statements()["sessions_live"], None if self.clock is None else self.clock.now())
        return [(id, bool(late)) for id, late in rows]

    def watch(self, *, late: bool = False) -> Watch:
        now = None if self.clock is None else self.clock.now()
        sql = statements()
        sessions = [(sql["sessions_live"], now)] if late else []
        leaders, *found = self._ask_all((sql["leader_left"], now), *sessions)
        leader, left_ms = leaders[0] if leaders else (None, 0)
        live = found[0] if late else []
        return Watch(leader, left_ms, len(live), tuple(id for id, passed in live if passed))

    def due_triggers(self) -> tuple[int, int | None, bool, list[TriggerRow]]:
        fixed = None if self.clock is None else self.clock.now()
        sql = statements()
        clock, due, later = self._ask_all((CLOCK,), (sql["triggers_due"], fixed), (sql["triggers_next"],))
        ((next_ms, follows),) = later
        return clock[0][0] if fixed is None else fixed, next_ms, follows, triggers(due)

    def backfills_to_step(self, limit: int) -> list[tuple[BackfillRow, TriggerRow]]:
        return backfills_and_triggers(self._ask(statements()["backfills_to_step"], limit))

    def outbox(self, term: int, limit: int) -> OutboxLook:
        fixed, sql = None if self.clock is None else self.clock.now(), statements()
        ((now, late, checks, pending),) = self._ask(sql["outbox_look"], fixed)
        starts = triggers(self._ask(sql["triggers_to_check"], now)) if checks else []
        due = notices_due(self._ask(sql["notifications_due"], now, term, limit)) if pending else []
        return OutboxLook(now, late, starts, due)

    def ends_to_follow(self, limit: int) -> list[tuple[Any, ...]]:
        rows = self._ask(statements()["ends_to_follow"], limit, self.settled_event())
        return [(trigger, *row[-4:]) for trigger, row in zip(triggers([row[:-4] for row in rows]), rows, strict=True)]

    def triggers_behind(self, lag: int) -> tuple[int, list[TriggerRow]]:
        newest = self.settled_event()
        rows = self._ask(statements()["triggers_behind"], newest - lag)
        return newest, triggers(rows)

    def placing_waits(self) -> bool:
        return bool(self._ask(statements()["placing_waits"])[0][0])

    def orphans(self, engines: list[str], limit: int) -> list[tuple[HandleRow, bool]]:
        return orphaned(self._ask(statements()["handles_orphaned"], engines, limit))

    def run_facts(self, run_nos: list[int], *, wait: bool = True) -> list[tuple[Any, ...]]:
        """Mostly an exchange has read them just before."""
        facts = {} if self._wire is None else self._wire.facts
        found = [facts.pop(no, None) for no in run_nos]
        known = [row for row in found if row is not None]
        if len(known) == len(run_nos):
            return known
        return (self._ask if wait else self._ask_now)(statements()["run_facts"], json.dumps(run_nos))

    def ends_at(self, run_no: int, positions: list[int]) -> list[tuple[Any, ...]]:
        return self._ask(statements()["ends_at"], run_no, json.dumps(positions))

    def context_of(self, run_no: int) -> dict[str, Any]:
        rows = self._ask(statements()["context_of_run"], run_no)
        return {key: json.loads(value) for key, value, _, _ in rows}

    def cached(self, keys: list[str]) -> list[MemoRow]:
        """Results kept for `cache` that have not expired."""
        rows = self._ask(statements()["memos_cached"], keys, self.now())
        return [MemoRow(*row) for row in rows]

    def array_of(self, run_no: int, pos: int, generation: int) -> Any:
        return json.loads(self._ask(statements()["array_of_map"], run_no, pos, generation)[0][0])

    def settled_event(self) -> int:
        """The number up to which no event can appear any more."""
        with self._horizon_lock:
            if self._horizon is None:
                self._horizon = Horizon(self._ask)
        return self._horizon.settled()

    def reader(self) -> PostgresReader:
        """A connection for reading; each thread needs its own."""
        reader = PostgresReader(self._connected)
        self._readers.append(reader)
        return reader

    def downgrade(self, schema: int) -> None:
        with connect(self._url, self.name) as connection:
            migrate(connection, self.name, schema)

    def size_bytes(self) -> int:
        return int(self._ask(_SIZE)[0][0])

    def changed_by_others(self) -> bool:
        return True  # its wake-ups tell; nothing here counts commits

    # -- wake-ups ----------------------------------------------------------------------------------------

    def wakeups(self) -> Notifier:
        return Notifier(self._on_second, lambda text: self.log(text), listens=not self.pooled)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()
        with self._lock:
            if self._wire is not None:
                self._wire.close()
        with self._second_lock:
            if self._second is not None:
                self._second.close()
        with self._output_lock:
            if self._output is not None:
                self._output.close()
        with self._probe_lock:
            if self._probe is not None:
                self._probe.close()
