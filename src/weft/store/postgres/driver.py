"""A store in a PostgreSQL database: its connections, one for writing, one for leases, one for output, one per
thread that reads.

A connection that is lost is made anew when it is next needed; whoever was waiting hears StoreBusy and says it again.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from weft.core.rows import RecordRow, TriggerRow
from weft.store.postgres.errors import SERVER_MIN, server_error
from weft.store.postgres.horizon import Horizon
from weft.store.postgres.migrate import check, latest, migrate, version
from weft.store.postgres.notify import Notifier
from weft.store.postgres.output import keep_output
from weft.store.postgres.reader import PostgresReader
from weft.store.postgres.statements import Statement, statements
from weft.store.postgres.transaction import CLOCK, Clock, PostgresTransaction
from weft.store.postgres.url import PostgresUrl
from weft.store.postgres.wire import Wire, connect
from weft.store.protocol import PATIENCE_MS, StoreError, StoreUnusable
from weft.store.shipment import Shipment

PROBE_CONNECT_S = 2  # libpq knows no less
PROBE_REPLY_S = 1.0
_SIZE = Statement("SELECT pg_database_size(current_database())")


class PostgresStore:
    kind = "postgresql"
    path: Path | None = None  # it is no file, and its nodes may be on any machine
    takes_output = True
    on_loop = False  # a commit waits for the network: never on an event loop's own thread

    def __init__(self, url: str) -> None:
        address = PostgresUrl(url)
        self.name = address.shown  # never the password
        try:
            self._url, prepare = address.for_libpq()
        except ValueError as error:
            raise StoreUnusable(f"{self.name}: {error}") from None
        self.clock: Clock | None = None  # a test's; else the server's
        self.say: Callable[[str], None] = lambda text: None
        self.patience_ms = PATIENCE_MS
        self._lock = threading.Lock()
        self._wire: Wire | None = None
        self._renewal_lock = threading.Lock()
        self._renewal: Wire | None = None
        self._output_lock = threading.Lock()
        self._output: Wire | None = None
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
            wire = self._wire = self._usable(self._wire)
            transaction = PostgresTransaction(wire, self.clock, self.patience_ms)
            try:
                yield transaction
                transaction.commit()
            except BaseException:
                wire.roll_back()
                raise
        finally:
            self._lock.release()

    def renew(self, session: str, ttl_ms: int, facts: str | None = None) -> bool:
        now = None if self.clock is None else self.clock.now()
        with self._renewal_lock:
            wire = self._renewal = self._usable(self._renewal)
            alive = bool(wire.ask(statements()["lease_renew_if_live"], session, ttl_ms, now))
            if alive and facts is not None:
                wire.ask(statements()["node_facts_set"], session, now, facts)
            return alive

    def held_digest(self, session: str) -> tuple[int, int, int] | None:
        """(last exchange number, how many attempts it holds, their checksum)."""
        with self._renewal_lock:
            wire = self._renewal = self._usable(self._renewal)
            for number, count, checksum in wire.ask(statements()["held_digest"], session):
                return int(number), int(count), int(checksum)
        return None

    def keep_output(self, shipment: Shipment) -> list[tuple[int, int]]:
        with self._output_lock:
            wire = self._output = self._usable(self._output)
            try:
                return keep_output(wire, shipment, self.patience_ms)
            except BaseException:
                wire.roll_back()
                raise

    def _usable(self, wire: Wire | None) -> Wire:
        return self._connected() if wire is None or wire.lost else wire

    def _connected(self) -> Wire:
        return Wire(self._url, self.name, prepare=self._prepare, direct=self._direct, misplaced=self._misplaced)

    def _misplaced(self) -> None:
        """One connection has met a pooler: no other has to."""
        self._prepare = False

    # -- reading -----------------------------------------------------------------------------------------

    def _ask(self, statement: Statement, *parameters: Any) -> list[tuple[Any, ...]]:
        """On the connection for writing: what a node reads between its exchanges."""
        with self._lock:
            wire = self._wire = self._usable(self._wire)
            return wire.ask(statement, *parameters)

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

    @property
    def busy(self) -> bool:
        return True  # a read waits for the network, as a commit does

    def live_sessions(self) -> list[tuple[str, bool]]:
        """(session, its lease has passed), of all sessions that have not ended."""
        rows = self._ask(statements()["sessions_live"], self.now())
        return [(id, bool(late)) for id, late in rows]

    def leader_left_ms(self) -> tuple[str | None, int]:
        """(the session that leads, how long others must leave it at that)."""
        for _, session, expires_at, lease_until in self._ask(statements()["leader"]):
            if session is not None and lease_until is not None:
                return str(session), max(0, min(expires_at, lease_until) - self.now())
        return None, 0

    def due_triggers(self) -> tuple[int, int | None, list[TriggerRow]]:
        now = self.now()
        rows = self._ask(statements()["triggers_due"], now)
        return now, self._ask(statements()["triggers_next"])[0][0], [TriggerRow(*row) for row in rows]

    def ends_to_follow(self, limit: int) -> list[tuple[Any, ...]]:
        rows = self._ask(statements()["ends_to_follow"], limit, self.settled_event())
        return [(TriggerRow(*row[:-4]), *row[-4:]) for row in rows]

    def triggers_behind(self, lag: int) -> tuple[int, list[TriggerRow]]:
        newest = self.settled_event()
        rows = self._ask(statements()["triggers_behind"], newest - lag)
        return newest, [TriggerRow(*row) for row in rows]

    def placing_waits(self) -> bool:
        return bool(self._ask(statements()["placing_waits"])[0][0])

    def run_facts(self, run_nos: list[int]) -> list[tuple[Any, ...]]:
        return self._ask(statements()["run_facts"], json.dumps(run_nos))

    def ends_at(self, run_no: int, positions: list[int]) -> list[tuple[Any, ...]]:
        return self._ask(statements()["ends_at"], run_no, json.dumps(positions))

    def context_of(self, run_no: int) -> dict[str, Any]:
        rows = self._ask(statements()["context_of_run"], run_no)
        return {key: json.loads(value) for key, value, _, _ in rows}

    def cached(self, keys: list[str]) -> list[RecordRow]:
        """Results kept for `cache` that have not expired."""
        rows = self._ask(statements()["records_cached"], json.dumps(keys), self.now())
        return [RecordRow(*row) for row in rows]

    def array_of(self, run_no: int, pos: int, generation: int) -> Any:
        return json.loads(self._ask(statements()["array_of_map"], run_no, pos, generation)[0][0])

    def settled_event(self) -> int:
        """The number up to which no event can appear any more."""
        with self._horizon_lock:
            if self._horizon is None:
                self._horizon = Horizon(self.reader().ask)
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
        return Notifier(lambda: connect(self._url, self.name), lambda text: self.say(text), listens=not self.pooled)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()
        with self._lock:
            if self._wire is not None:
                self._wire.close()
        with self._renewal_lock:
            if self._renewal is not None:
                self._renewal.close()
        with self._output_lock:
            if self._output is not None:
                self._output.close()
        with self._probe_lock:
            if self._probe is not None:
                self._probe.close()
