"""One connection: statements are queued with `send`, and `sync` brings all their results in one round trip.

Below psycopg's cursors, on its libpq wrapper: a cursor costs several times as much Python per statement, and an
exchange has fifteen. Behind a pooler, nothing of a server session is relied upon but prepared statements; where it
misplaces those, they are given up.
"""

import select
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

from weft.core.decision.draft import Draft
from weft.core.rows import TaskRow
from weft.store.postgres.errors import MISPLACED, connect_error, server_error
from weft.store.postgres.statements import Statement
from weft.store.postgres.transactions.known_rows import HELD_MAX, RUNS_MAX, KnownRows
from weft.store.protocol import StoreBusy, StoreSlow

CONNECT_S = 5
SHOWN_AS = "weft"  # in pg_stat_activity
REPLY_MAX_S = 30.0  # above every timeout that the server keeps by itself
#: A half-open connection is noticed within 15 s, also while nothing is sent.
_KEEPALIVES: dict[str, Any] = {
    "keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 3, "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}  # fmt: skip
_ERRORS = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
_BEGIN = Statement("BEGIN")
_ROLLBACK = Statement("ROLLBACK")


def connect(
    url: str, name: str, *, connect_s: int = CONNECT_S, shown_as: str = SHOWN_AS
) -> "psycopg.Connection[Any]":
    try:
        return psycopg.connect(
            url, autocommit=True, connect_timeout=connect_s, client_encoding="utf8", application_name=shown_as,
            **_KEEPALIVES,
        )  # fmt: skip
    except (psycopg.Error, UnicodeError, ValueError) as error:
        raise connect_error(name, str(error)) from None


class Wire:
    """`connection`: one that somebody has already, inside a transaction perhaps; `leave_pipeline` gives it back.
    `direct`: no pooler is in between. `misplaced` is called when one has lost what was prepared."""

    def __init__(
        self,
        url: str,
        name: str,
        *,
        prepare: bool = True,
        direct: bool = False,
        connection: "psycopg.Connection[Any] | None" = None,
        misplaced: Callable[[], None] = lambda: None,
        connect_s: int = CONNECT_S,
        reply_max_s: float = REPLY_MAX_S,
        shown_as: str = SHOWN_AS,
    ) -> None:
        self.name = name
        self.prepare = prepare
        self._misplaced = misplaced
        self.lost = False
        self.shared = False  # other nodes had a lease when somebody last looked
        self.known: KnownRows | None = None
        self.held: dict[
            int, tuple[TaskRow, int]
        ] = {}  # tasks as exchanges have left them running, and their versions
        self.facts: dict[int, tuple[Any, ...]] = {}  # of runs of which an exchange claimed tasks for the first time
        self._claimed_from: dict[int, None] = {}  # all of those runs, oldest first
        self._refused: dict[int, None] = {}  # runs whose exchanges need more than what is known, oldest first
        self._reply_max_s = reply_max_s
        self._connection = connection or connect(url, name, connect_s=connect_s, shown_as=shown_as)
        self._pg = self._connection.pgconn
        self._direct = direct
        self._settled: Statement | None = None
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()
        self._loader = Transformer(self._connection)
        self._prepared: set[bytes] = set()
        self._sent: list[bytes | None] = []  # for each result to come: the statement that it prepares, or None
        self._syncs = 0  # that were sent, and whose replies were not read yet
        self._results: list[pq.abc.PGresult] = []  # read since the last one that was asked for
        self.moment_s: float | None = None  # no longer than this is waited for a reply: the rest with `catch_up`
        self._owed: list[bytes | None] | None = None  # what was sent, of a reply that did not come within it
        self._poll = select.poll()
        self._socket = self._pg.socket
        self._poll.register(self._socket, select.POLLIN)

    def settle(self, local: Statement, lasting: Statement) -> None:
        """Before a transaction's other statements. Where the server's session is ours alone, it is told only once;
        behind a pooler nothing lasts longer than the transaction."""
        self.settle_for_good(lasting)
        self.send(_BEGIN)
        if not self._direct:
            self.send(local)

    def hold(self, tasks: Sequence[TaskRow], version: int) -> None:
        if len(self.held) > HELD_MAX:
            self.held.clear()
        for task in tasks:
            task.guard = None
            self.held[task.id] = (task, version)

    def refuse(self, run_no: int) -> None:
        self._refused[run_no] = None
        _trim(self._refused)

    def without_facts(self, tasks: Sequence[TaskRow]) -> list[int]:
        """Runs of these tasks whose facts were not read yet."""
        return sorted({task.run_no for task in tasks} - self._claimed_from.keys())

    def learn_facts(self, rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            self.facts[row[0]], self._claimed_from[row[0]] = row, None
        _trim(self.facts)
        _trim(self._claimed_from)

    def foresees(self, draft: Draft) -> bool:
        """Not behind a pooler, where each transaction says what it keeps to, in a statement more."""
        return self._direct and not any(run.no in self._refused for run in draft.dirty_runs)

    def settle_for_good(self, lasting: Statement) -> None:
        """Before any statement is planned."""
        if self._direct and self._settled is not lasting:
            self.ask(lasting)
            self._settled = lasting

    @property
    def server_version(self) -> int:
        return self._pg.server_version

    def send(self, statement: Statement, *parameters: Any) -> None:
        try:
            if not self.prepare:
                self._pg.send_query_params(statement.text, statement.encoded(parameters), None, statement.formats, 1)
            else:
                if statement.key not in self._prepared:
                    self._pg.send_prepare(statement.key, statement.text)
                    self._prepared.add(statement.key)
                    self._sent.append(statement.key)
                self._pg.send_query_prepared(statement.key, statement.encoded(parameters), statement.formats, 1)
        except psycopg.OperationalError as error:
            raise self._broken(str(error)) from None
        self._sent.append(None)

    def hand_over(self) -> None:
        """Let the server begin with what was sent so far; the results come with the next `sync`. Not a mere flush:
        a server that has seen no end of what it was sent waits for it without any timeout, with its locks held."""
        try:
            self._pg.pipeline_sync()
            self._syncs += 1
            self._pg.flush()
        except psycopg.OperationalError as error:
            raise self._broken(str(error)) from None

    def sync(self) -> list[pq.abc.PGresult]:
        """The results of all statements since the last one, in their order; raises what the first failure means."""
        sent, self._sent = self._sent, []
        try:
            self._pg.pipeline_sync()
            self._syncs += 1
            results = self._receive(self.moment_s)
        except psycopg.OperationalError as error:
            raise self._broken(str(error)) from None
        except StoreSlow:
            self._owed = sent
            raise
        except BaseException:  # interrupted: nobody knows which replies are still to come
            self.close()
            raise
        failed = next((r for r in results if r.status in _ERRORS), None)
        if failed is not None:
            self._forget_unprepared(sent, results)
            raise self._failure(failed)
        return [result for key, result in zip(sent, results, strict=True) if key is None]

    def rows(self, result: "pq.abc.PGresult") -> list[tuple[Any, ...]]:
        count = result.ntuples
        if not count:
            return []
        self._loader.set_pgresult(result)
        return self._loader.load_rows(0, count, tuple)

    def ask(self, statement: Statement, *parameters: Any) -> list[tuple[Any, ...]]:
        """One statement in a transaction of its own."""
        self.send(statement, *parameters)
        return self.rows(self.sync()[0])

    @property
    def socket(self) -> int:
        return self._socket

    def notifies(self) -> list[str]:
        """What was sent with NOTIFY since the last call, where this connection has asked to hear it."""
        try:
            self._pg.consume_input()
        except psycopg.OperationalError as error:
            raise self._broken(str(error)) from None
        found = []
        while (notify := self._pg.notifies()) is not None:
            found.append(notify.extra.decode())
        return found

    @property
    def behind(self) -> bool:
        """A reply did not come in its moment, and was not read yet."""
        return self._owed is not None

    def catch_up(self) -> None:
        """Wait for the reply that did not come in its moment, and leave its transaction."""
        sent, self._owed = self._owed, None
        if sent is None or self.lost:
            return
        try:
            self._forget_unprepared(sent, self._receive())
        except psycopg.OperationalError as error:
            raise self._broken(str(error)) from None
        self.roll_back()

    def roll_back(self) -> None:
        """After any failure; a connection that cannot even do that is given up. One that is behind does it when it
        has caught up."""
        if self.behind:
            return
        try:
            if not self.lost and self._sent:
                self._sent = []
                self._pg.pipeline_sync()
                self._syncs += 1
                self._receive()
            if not self.lost and self._pg.transaction_status != pq.TransactionStatus.IDLE:
                self.send(_ROLLBACK)
                self.sync()
        except Exception:
            self.close()

    def leave_pipeline(self) -> None:
        if not self.lost:
            self._pg.exit_pipeline_mode()
            self._pg.nonblocking = 0

    def close(self) -> None:
        self.lost = True
        self._connection.close()

    # -- the parts ---------------------------------------------------------------------------------------

    def _receive(self, moment_s: float | None = None) -> list[pq.abc.PGresult]:
        pg, results = self._pg, self._results
        most_s = self._reply_max_s if moment_s is None else moment_s
        deadline = time.monotonic() + most_s
        unsent = pg.flush()
        while True:
            self._poll.modify(self._socket, select.POLLIN | select.POLLOUT if unsent else select.POLLIN)
            if not self._poll.poll(most_s * 1000) or time.monotonic() > deadline:
                if moment_s is not None:
                    raise StoreSlow(f"{self.name}: no reply within {moment_s * 1000:g} ms")
                raise psycopg.OperationalError(f"no reply within {self._reply_max_s:g} s")
            pg.consume_input()
            if unsent:
                unsent = pg.flush()
            while not pg.is_busy():
                result = pg.get_result()
                if result is None:
                    continue
                if result.status == pq.ExecStatus.PIPELINE_SYNC:
                    self._syncs -= 1
                    if not self._syncs:
                        self._results = []
                        return results
                    continue
                results.append(result)
                if pg.status == pq.ConnStatus.BAD:
                    raise psycopg.OperationalError(result.get_error_message())

    def _failure(self, result: "pq.abc.PGresult") -> Exception:
        code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        text = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
        if code in MISPLACED:
            self.prepare = False
            self._misplaced()
            self.close()
        elif code == "0A000" or code.startswith("57P"):
            self.close()
        return server_error(self.name, code, text or result.get_error_message())

    def _forget_unprepared(self, sent: Sequence[bytes | None], results: Sequence["pq.abc.PGresult"]) -> None:
        for key, result in zip(sent, results, strict=False):
            if key is not None and result.status != pq.ExecStatus.COMMAND_OK:
                self._prepared.discard(key)

    def _broken(self, message: str) -> StoreBusy:
        self.close()
        line = message.strip().splitlines()[0] if message.strip() else "the connection is gone"
        return StoreBusy(f"{self.name}: the connection was lost: {line}")


def _trim(runs: dict[int, Any]) -> None:
    while len(runs) > RUNS_MAX:
        del runs[next(iter(runs))]
