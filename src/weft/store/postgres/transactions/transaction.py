"""One write transaction on PostgreSQL: everything that a rule asks for at once is one round trip, and so is the end.

Nothing is sent before the first load; the server's clock is read after its locks. Writes and COMMIT travel together,
guarded inside the server (statements.py). An exchange whose rows are known (known_rows.py) is one round trip in all.
"""

import json
import time
from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NoReturn, Protocol

from weft.core.decision import needs as n
from weft.core.decision.draft import Draft
from weft.core.decision.needs import Need
from weft.core.rows import TaskRow
from weft.store.loads import BY_CLOCK, LOADS, Load, overview, tasks
from weft.store.postgres.statements import Statement, statements
from weft.store.postgres.transactions.known_rows import NOT_HELD, Expected, KnownRows, Seen, expected, known
from weft.store.postgres.transactions.sending import ROWS_MANY, send_writes
from weft.store.postgres.wire import Wire
from weft.store.protocol import PATIENCE_MS, Superseded, recall
from weft.store.writes import Rows, Write, reply_writes, writes

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
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
CLOCK = Statement(f"SELECT {_NOW}")
#: With the number of the transaction, if it has written already: an exchange has.
_CLOCK_AND_NUMBER = Statement(f"SELECT {_NOW}, pg_current_xact_id_if_assigned()::text::bigint & 4294967295")


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
        self._now_at = 0.0
        self._xid: int | None = None  # its number, as far as it is known
        self._recalled: tuple[str, str] | None = None  # a command's id and body: is there a reply?
        self._asks: n.BeginExchange | None = None  # whose exchange it is
        self._demands: list[str] = []  # of which it looks for queued tasks
        self._begun_with: tuple[Any, ...] | None = None  # the overview
        self._known: KnownRows | None = None  # rows that were not loaded
        self._versions: dict[int, int] = {}  # of tasks that were not loaded
        self._claimed: list[TaskRow] = []  # running now, for the session that asks
        self._expected: Expected | None = None  # what the next exchange is about
        self._facts = False  # of the runs of those, some are asked for

    @property
    def now(self) -> int:
        if self._now is None:
            self.load(())
        assert self._now is not None
        return self._now

    # -- loads -------------------------------------------------------------------------------------------

    def load(self, needs: Sequence[Need]) -> tuple[list[Any], ...]:
        """In the order of the needs, which is the order of the locks; then the clock, when it is the first load."""
        wire = self._wire
        if not self._begun and (answer := self._answer(needs)) is not None:
            return answer
        self._begin()
        if self._now is None and any(isinstance(need, BY_CLOCK) for need in needs):
            _ = self.now  # these compare with it
        recalled, self._recalled = self._recalled, None
        if recalled is not None:
            self._send("command_reply", recalled[0])
        loads = [self._load(need) for need in needs]
        for load in loads:
            if load is not None and load[0]:
                wire.send(SQL[load[0]], *load[1])
        first = self._now is None
        if first:
            wire.send(_CLOCK_AND_NUMBER)
        results = wire.sync()
        if first:
            ((at, self._xid),) = wire.rows(results.pop())
            self._now_at = time.monotonic()
            self._now = at if self._clock is None else self._clock.now()
        begin = len(results) - sum(1 for load in loads if load is not None and load[0])
        if recalled is not None:
            recall(wire.rows(results[begin - 1]), *recalled)
        found = iter(results[begin:])
        return tuple([[] if load is None else load[2](wire.rows(next(found)) if load[0] else []) for load in loads])

    def _answer(self, needs: Sequence[Need]) -> tuple[list[Any], ...] | None:
        """From what the last exchange left. It is used once: rules change the rows."""
        if not needs or not isinstance(needs[0], n.BeginExchange):
            return None
        rows, self._wire.known = self._wire.known, None
        found = None if rows is None or self._clock is not None else rows.answer(needs)
        if rows is None or found is None:
            return None
        self._known, self._asks, self._demands = rows, found.begin, list(rows.seen.demands)
        self._versions = {id: rows.tasks[id][1] for id in found.ids}
        for id in found.ids:
            self._wire.held.pop(id, None)
        self._now = rows.now
        return found.rows

    def _begin(self) -> None:
        if self._known is not None:
            self._refuse(self._known)
        if not self._begun:
            self._begun = True
            self._wire.settle(limits(self._patience_ms), limits(self._patience_ms, lasting=True))

    def _refuse(self, known: KnownRows) -> NoReturn:
        """Made again, it loads its rows, as all later ones of this run do."""
        self._wire.refuse(known.run.no)
        raise Superseded("an exchange needs more than the rows that were known")

    def _load(self, need: Need) -> Load:
        if isinstance(need, n.BeginExchange):
            self._asks = need
            return "exchange_begin", (need.session, need.number), self._overview
        if isinstance(need, n.Tasks) and self._asks is not None:
            return self._tasks(need, self._asks.session)
        if isinstance(need, n.QueuedTasks) and need.limit:
            self._demands += need.demands
        if (
            isinstance(need, n.QueuedTasks) and self._asks is not None and self._wire.shared
            and need.demands and need.root is None and not need.workflows and need.limit >= ROWS_MANY
        ):  # fmt: skip
            return "tasks_queued_spread", (need.demands, need.limit, self._asks.session), tasks
        return LOADS[type(need)](need, self)

    def _tasks(self, need: n.Tasks, session: str) -> Load:
        """Those that the session holds are as its last exchanges have written them, or nothing is written."""
        held = self._wire.held
        found = [(row, version) for id in need.ids for row, version in [held.pop(id, NOT_HELD)] if row is not None]
        mine = [row for row, version in found if row.session == session]
        if not mine:
            return LOADS[n.Tasks](need, self)
        self._versions.update({row.id: version for row, version in found if row.session == session})
        missing = [id for id in need.ids if id not in self._versions]
        return (
            "tasks_by_id" if missing else "", (missing,),
            lambda rows: sorted([*mine, *tasks(rows)], key=_by_id) if rows else mine,
        )  # fmt: skip

    def _overview(self, rows: Rows) -> list[Any]:
        for row in rows:
            self._wire.shared = row[-1]
        found = overview(rows)
        self._begun_with = found[0] if found else None
        return found

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
        asks = self._asks
        if asks is not None:
            self._claimed = [t for t in draft.dirty_tasks if t.state == "running" and t.session and t.held is None]
            if self._claimed and self._wire.foresees(draft):
                self._expected = expected(draft, asks.session, asks.number, self._demands)
        all_of_them = [self._with_versions(write) for write in writes(draft, self.now)]
        check = (list(self._versions), list(self._versions.values())) if self._versions else ()
        if self._known is not None:
            self._write_known(self._known, all_of_them, check)
            return
        self._begin()
        send_writes(self._wire, all_of_them, check)
        new = self._wire.without_facts(self._claimed) if self._claimed else []
        if new:  # the node asks for them next, in a round trip of its own
            self._facts = True
            self._send("run_facts", json.dumps(new))
        if self._expected is not None:
            self._send("exchange_outlook", self._expected.following, self._expected.demands)

    def _with_versions(self, write: Write) -> Write:
        """A task that succeeds is compared with its version by the statement that writes it, any other one before."""
        name, parameters, rows = write
        if name != "tasks_succeed_if_running" or rows is None:
            return write
        version = self._versions.pop
        return name, parameters, [(*row, version(row[0], None)) for row in rows]

    def _write_known(self, known: KnownRows, all_of_them: list[Write], check: tuple[Any, ...]) -> None:
        """Without BEGIN and COMMIT: what is sent before one sync is one transaction."""
        if any(rows is not None and len(rows) >= ROWS_MANY for _, _, rows in all_of_them):
            self._refuse(known)
        begin, ahead = self._asks, self._expected
        assert begin is not None
        following = [] if ahead is None else ahead.following
        self._wire.send(
            SQL["exchange_begin_known"], begin.session, begin.number, known.run.no, known.version, following
        )
        send_writes(self._wire, all_of_them, check)

    def remember(self, command_id: str, body_hash: str) -> None:
        """Asked with the first load: that spares every command a round trip."""
        self._recalled = (command_id, body_hash)

    def keep_reply(self, command_id: str, body_hash: str, reply: str) -> None:
        self._begin()
        send_writes(self._wire, reply_writes(command_id, body_hash, reply, self.now))

    def commit(self) -> None:
        if not self._begun and self._known is None:
            return
        wire = self._wire
        if self._known is None:
            wire.send(COMMIT)
        results = wire.sync()
        if self._known is not None:
            rows = wire.rows(results[0])
            self._xid = rows[0][1]
        elif self._expected is not None:
            rows = wire.rows(results[-2])
        if self._facts:
            wire.learn_facts(wire.rows(results[-2 if self._expected is None else -3]))
        if self._claimed and self._xid is not None:
            wire.hold(self._claimed, self._xid)
        if self._expected is not None:
            seen = self._seen(bool(rows[0][0])) if self._known is None else self._known.seen
            wire.known = None if seen is None else known(self._expected, seen, rows)

    def _seen(self, queued: bool) -> Seen | None:
        """None: there is more to do than what this exchange knows of."""
        if queued or self._begun_with is None or self._now is None:
            return None
        return Seen(self._begun_with, frozenset(self._demands), self._now, self._now_at)


_by_id = attrgetter("id")
SQL = statements()
