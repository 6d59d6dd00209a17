"""One write transaction on PostgreSQL: everything that a rule asks for at once is one round trip, and so is the end.

Nothing is sent before the first load; the server's clock is read after its locks. Writes and COMMIT travel together,
guarded inside the server (statements.py).
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, Protocol

from weft.core.decision import needs as n
from weft.core.decision.draft import Draft
from weft.core.decision.needs import Need
from weft.store.loads import BY_CLOCK, LOADS, Load, overview, tasks
from weft.store.postgres.statements import PostgresRowsStatement, Statement, combined, rows_statement, statements
from weft.store.postgres.wire import Wire
from weft.store.protocol import PATIENCE_MS, recall
from weft.store.writes import Rows, Write, reply_writes, writes

ROWS_MAX = 1000  # of one statement: each must end within the server's time for one
ROWS_FEW = 4  # written out, row by row, in a statement of their own
ROWS_MANY = 100  # worth a beginning by the server while the rest is still encoded here

#: Of one or two rows (a chain's), these are written by one statement: each is about other rows than the others are.
#: Of more there would be too many combinations, and to plan one costs ten times what it saves.
COMBINED_ROWS, COMBINED_PARTS = 2, 5
COMBINED = frozenset({
    "run_update", "run_update_progress", "tasks_claim_if_queued", "tasks_succeed_if_running",
    "tasks_ready_if_pending", "events_insert",
})  # fmt: skip
COMMIT = Statement("COMMIT")
STATEMENT_MAX_MS = 15_000
#: Planning costs more than most of our statements, so each is planned once per connection. But a plan is made for the
#: table as it is then: a small one PostgreSQL reads whole, and would go on so with a million rows. With pages free
#: and rows dear, the plan that touches the fewest rows wins at any size (tests/postgres/test_plans.py looks).
_PLANS = {
    "plan_cache_mode": "force_generic_plan", "jit": "off", "enable_seqscan": "off", "enable_hashjoin": "off",
    "enable_mergejoin": "off", "seq_page_cost": "0", "random_page_cost": "0", "cpu_tuple_cost": "1",
    "cpu_index_tuple_cost": "1",
}  # fmt: skip
#: Not now(): that is when the transaction began, before it waited for its locks.
CLOCK = Statement("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")


class FixedClock(Protocol):
    def now(self) -> int: ...


@cache
def limits(patience_ms: int, plans: bool = True, lasting: bool = False) -> Statement:
    """What the server keeps to by itself, for one transaction or for as long as the session lasts."""
    values = {
        "lock_timeout": patience_ms, "idle_in_transaction_session_timeout": patience_ms,
        "statement_timeout": STATEMENT_MAX_MS,
    } | (_PLANS if plans else {})  # fmt: skip
    local = "false" if lasting else "true"
    return Statement(
        "SELECT " + ", ".join(f"set_config('{name}', '{value}', {local})" for name, value in values.items())
    )


class PostgresTransaction:
    def __init__(self, wire: Wire, clock: FixedClock | None, patience_ms: int = PATIENCE_MS) -> None:
        self._wire = wire
        self._patience_ms = patience_ms
        self._clock = clock  # a test's
        self._begun = False
        self._now: int | None = None
        self._recalled: tuple[str, str] | None = None  # a command's id and body: is there a reply?
        self._asks: str | None = None  # the session whose exchange it is

    @property
    def now(self) -> int:
        if self._now is None:
            self.load(())
        assert self._now is not None
        return self._now

    # -- loads -------------------------------------------------------------------------------------------

    def load(self, needs: Sequence[Need]) -> tuple[list[Any], ...]:
        """In the order of the needs, which is the order of the locks; then the clock, when it is the first load."""
        self._begin()
        wire = self._wire
        if self._now is None and any(isinstance(need, BY_CLOCK) for need in needs):
            _ = self.now  # these compare with it
        recalled, self._recalled = self._recalled, None
        if recalled is not None:
            self._send("command_reply", recalled[0])
        loads = [self._load(need) for need in needs]
        for load in loads:
            if load is not None:
                wire.send(SQL[load[0]], *load[1])
        first = self._now is None
        if first:
            wire.send(CLOCK)
        results = wire.sync()
        if first:
            ((at,),) = wire.rows(results.pop())
            self._now = at if self._clock is None else self._clock.now()
        begin = len(results) - sum(1 for load in loads if load is not None)
        if recalled is not None:
            recall(wire.rows(results[begin - 1]), *recalled)
        found = iter(results[begin:])
        return tuple([[] if load is None else load[2](wire.rows(next(found))) for load in loads])

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._wire.settle(limits(self._patience_ms), limits(self._patience_ms, lasting=True))

    def _load(self, need: Need) -> Load:
        if isinstance(need, n.BeginExchange):
            self._asks = need.session
            return "exchange_begin", (need.session, need.number), self._overview
        if (
            isinstance(need, n.QueuedTasks) and self._asks is not None and self._wire.shared
            and need.demands and need.root is None and need.limit >= ROWS_MANY
        ):  # fmt: skip
            return "tasks_queued_spread", (need.demands, need.limit, self._asks), tasks
        return LOADS[type(need)](need, self)

    def _overview(self, rows: Rows) -> list[Any]:
        for row in rows:
            self._wire.shared = row[-1]
        return overview(rows)

    def places(self, places: Sequence[tuple[int, int, int]]) -> tuple[Any, ...]:
        return tuple([list(column) for column in zip(*places, strict=True)])

    def _send(self, name: str, *parameters: Any) -> None:
        self._begin()
        self._wire.send(SQL[name], *parameters)

    def document(self, workflow: str) -> bytes:
        self._send("workflow_document", workflow)
        rows = self._wire.rows(self._wire.sync()[-1])
        if not rows:
            raise KeyError(workflow)
        return bytes(rows[0][0])

    def write(self, draft: Draft) -> None:
        """Queued here, sent with COMMIT or with the next load."""
        self._write(writes(draft, self.now))

    def remember(self, command_id: str, body_hash: str) -> None:
        """Asked with the first load: that spares every command a round trip."""
        self._recalled = (command_id, body_hash)

    def keep_reply(self, command_id: str, body_hash: str, reply: str) -> None:
        self._write(reply_writes(command_id, body_hash, reply, self.now))

    def _write(self, all_of_them: Iterable[Write]) -> None:
        self._begin()
        few: list[Write] = []
        for write in all_of_them:
            name, parameters, rows = write
            if name in COMBINED and (rows is None or len(rows) <= COMBINED_ROWS):
                few.append(write)
            elif rows is None:
                self._wire.send(SQL[name], *parameters)
            else:
                self._send_rows(rows_statement(name), parameters, rows)
        self._send_few(few)

    def _send_few(self, few: list[Write]) -> None:
        """In one statement, if they are two to five."""
        parts = tuple([(name, 1 if rows is None else len(rows)) for name, _, rows in few])
        statement = combined(parts) if 1 < len(parts) <= COMBINED_PARTS else None
        if statement is not None:
            self._wire.send(statement, *chain.from_iterable([_flat(write) for write in few]))
            return
        for name, parameters, rows in few:
            if rows is None:
                self._wire.send(SQL[name], *parameters)
            else:
                self._send_rows(rows_statement(name), parameters, rows)

    def _send_rows(self, statement: PostgresRowsStatement, shared: tuple[Any, ...], rows: Rows) -> None:
        """What all rows share, then one array per column."""
        if len(rows) <= ROWS_FEW:
            self._wire.send(statement.of_few(len(rows)), *shared, *chain.from_iterable(rows))
            return
        for at in range(0, len(rows), ROWS_MAX):
            columns = list(zip(*rows[at : at + ROWS_MAX], strict=True))
            if len(rows) < ROWS_MANY:
                self._wire.send(statement, *shared, *columns)
            else:
                self._send_alike(statement, shared, columns)
                self._wire.hand_over()

    def _send_alike(
        self, statement: PostgresRowsStatement, shared: tuple[Any, ...], columns: list[tuple[Any, ...]]
    ) -> None:
        """The first column, mostly an id, is an array in any case: statements count by it."""
        alike = (False, *[column.count(column[0]) == len(column) for column in columns[1:]])
        found = statement.with_alike(alike) if any(alike) else None
        if found is not None:
            columns = [column[0] if same else column for column, same in zip(columns, alike, strict=True)]
        self._wire.send(found or statement, *shared, *columns)

    def commit(self) -> None:
        if self._begun:
            self._wire.send(COMMIT)
            self._wire.sync()


def _flat(write: Write) -> tuple[Any, ...]:
    _, parameters, rows = write
    return parameters if rows is None else (*parameters, *chain.from_iterable(rows))


SQL = statements()
