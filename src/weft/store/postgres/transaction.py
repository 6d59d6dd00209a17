"""One write transaction on PostgreSQL: everything that a rule asks for at once is one round trip, and so is the end.

Nothing is sent before the first load; the server's clock is read after its locks. Writes and COMMIT travel together,
guarded inside the server (sql/writes.sql).
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any, Protocol

import msgspec

from weft.core import needs as n
from weft.core.draft import Draft
from weft.core.expressions.run_names import Ended
from weft.core.rows import (
    ORDINAL_BITS,
    FireRow,
    LeadershipRow,
    Pin,
    PoolRow,
    RecordRow,
    RunRow,
    SessionRow,
    StoredWorkflow,
    TaskRow,
    TokenRow,
    TriggerRow,
)
from weft.store.changes import RUN_CHANGING, additions, changes, json_of, kept, run_values, text_of
from weft.store.postgres.statements import Statement, statements
from weft.store.postgres.wire import Wire
from weft.store.protocol import PATIENCE_MS, recall
from weft.store.queries import RUN_COLUMNS, SESSION_COLUMNS

ROWS_MAX = 1000  # of one statement: each must end within the server's time for one
ROWS_FEW = 4  # written out, row by row, in a statement of their own
ROWS_MANY = 100  # worth a beginning by the server while the rest is still encoded here
KEEP_REPLIES_MS = 7 * 86_400_000

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


_BY_CLOCK = n.Due | n.Sweeping | n.LiveSessions | n.Insisting | n.PastDeadline
_SESSION_WIDTH = len(SESSION_COLUMNS)


class Clock(Protocol):
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
    def __init__(self, wire: Wire, clock: Clock | None, patience_ms: int = PATIENCE_MS) -> None:
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

    def load(self, needs: Sequence[n.Need]) -> tuple[list[Any], ...]:
        """In the order of the needs, which is the order of the locks; then the clock, when it is the first load."""
        self._begin()
        wire = self._wire
        if self._now is None and any(isinstance(need, _BY_CLOCK) for need in needs):
            _ = self.now  # these compare with it
        recalled, self._recalled = self._recalled, None
        if recalled is not None:
            self._send("command_reply", recalled[0])
        readers = [_LOADERS[type(need)](self, need) for need in needs]
        first = self._now is None
        if first:
            wire.send(CLOCK)
        results = wire.sync()
        if first:
            ((at,),) = wire.rows(results.pop())
            self._now = at if self._clock is None else self._clock.now()
        begin = len(results) - sum(1 for read in readers if read is not None)
        if recalled is not None:
            recall(wire.rows(results[begin - 1]), *recalled)
        found = iter(results[begin:])
        return tuple([[] if read is None else read(wire.rows(next(found))) for read in readers])

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._wire.settle(limits(self._patience_ms), limits(self._patience_ms, lasting=True))

    def _send(self, name: str, *parameters: Any) -> None:
        self._begin()
        self._wire.send(SQL[name], *parameters)

    def _tasks(self, name: str, *parameters: Any) -> "Read":
        self._send(name, *parameters)
        return _task_rows

    def _runs(self, name: str, *parameters: Any) -> "Read":
        self._send(name, *parameters)
        return _run_rows

    def _plain(self, name: str, *parameters: Any) -> "Read":
        self._send(name, *parameters)
        return list

    def _at(self, need: n.TasksAt) -> "Read | None":
        if not need.places:
            return None
        first = need.places[0][0]
        if all(run_no == first and idx < 0 for run_no, _, idx in need.places):
            return self._tasks("tasks_by_position", first, [pos for _, pos, _ in need.places])
        return self._tasks("tasks_by_place", *[list(column) for column in zip(*need.places, strict=True)])

    def _queued(self, need: n.Queued) -> "Read | None":
        if not need.demands or not need.limit:
            return None
        if need.root is None and self._asks is not None and self._wire.shared and need.limit >= ROWS_MANY:
            return self._tasks("tasks_queued_spread", need.demands, need.limit, self._asks)
        if need.root is None:
            return self._tasks("tasks_queued", need.demands, need.limit)
        return self._tasks("tasks_queued_of_family", need.demands, need.limit, need.root)

    def _errands(self, need: n.Errands) -> "Read":
        if need.run_no is None:
            return self._tasks("tasks_errands", need.limit)
        return self._tasks("tasks_errands_of_family", need.limit, need.run_no)

    def _untold(self, need: n.Untold) -> "Read":
        if need.run_no is None:
            return self._plain("runs_untold", need.limit)
        return self._plain("runs_untold_of_family", need.limit, need.run_no)

    def _stored(self, name: str, *parameters: Any) -> "Read":
        self._send(name, *parameters)
        return lambda rows: [StoredWorkflow(*row) for row in rows]

    def _pins(self, need: n.Pins) -> "Read":
        self._send("pins_of_root", need.root)
        return lambda rows: [Pin(*row) for row in rows]

    def _queued_each(self, need: n.QueuedEach) -> "Read | None":
        if not need.demands:
            return None
        if need.root is None:
            return self._tasks("tasks_queued_each", need.demands, need.limit)
        return self._tasks("tasks_queued_each_of_family", need.demands, need.limit, need.root)

    def _pools(self, need: n.Pools) -> "Read | None":
        if not need.names:
            return None
        self._send("pools_by_name", need.names)
        return lambda rows: [PoolRow(*row) for row in rows]

    def _token(self, need: n.Token) -> "Read":
        self._send("token_by_id", need.id)
        return lambda rows: [TokenRow(*row) for row in rows]

    def _live_sessions(self, need: n.LiveSessions) -> "Read":
        self._send("sessions_with_lease", self.now)
        return lambda rows: [SessionRow(*row) for row in rows]

    def _glance(self, need: n.Glance) -> "Read":
        self._asks = need.session
        self._send("glance", need.session)
        return self._glance_rows

    def _glance_rows(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        out = []
        for row in rows:
            wake_at, deadline_at, unsettled, sweeping, stopping, newest_demand, shared = row[_SESSION_WIDTH:]
            self._wire.shared = shared
            moments = [at for at in (wake_at, deadline_at) if at is not None]
            first = min(moments) if moments else None
            out.append((SessionRow(*row[:_SESSION_WIDTH]), first, unsettled, sweeping, stopping, newest_demand or 0))
        return out

    def _next_wake(self, need: n.NextWake) -> "Read":
        self._send("next_wake", need.but_tasks, need.but_runs)
        return lambda rows: [at for (at,) in rows]

    def _unsettled(self, need: n.Unsettled) -> "Read":
        if need.run_no is None:
            return self._tasks("tasks_unsettled", need.limit)
        return self._tasks("tasks_unsettled_of_run", need.limit, need.run_no)

    def _sweeping(self, need: n.Sweeping) -> "Read":
        if need.run_no is None:
            return self._runs("runs_to_sweep", self.now, need.limit)
        self._send("runs_by_no", [need.run_no])
        return lambda rows: [run for run in _run_rows(rows) if run.sweep is not None]

    def _owned_by(self, need: n.OwnedBy) -> "Read":
        """The statement locks the runs of its attempts too, in one order; they are loaded when asked for."""
        self._send("runs_owned_by", need.session)
        return lambda rows: [run for run in _run_rows(rows) if run.owner == need.session]

    def _unended(self, need: n.Unended) -> "Read":
        first = need.run_no << ORDINAL_BITS
        after = max(need.after, first - 1)
        return self._tasks("tasks_unended", after, first + (1 << ORDINAL_BITS), need.limit)

    def _session(self, need: n.Session) -> "Read":
        self._send("session_by_id", need.id)
        return lambda rows: [SessionRow(*row) for row in rows]

    def _leadership(self, need: n.Leadership) -> "Read":
        self._send("leadership")
        return lambda rows: [LeadershipRow(*row) for row in rows]

    def _lease(self, need: n.Lease) -> "Read":
        self._send("lease_left", need.session)
        return lambda rows: [at - self.now for (at,) in rows]

    def _ends(self, need: n.Ends) -> "Read":
        self._send("ends_at", need.run_no, json_of(need.positions))
        return lambda rows: [Ended(*row) for row in rows]

    def _inputs(self, need: n.Inputs) -> "Read":
        self._send("run_inputs", need.run_no)
        return lambda rows: [msgspec.json.decode(text) for (text,) in rows] or [{}]

    def _records(self, need: n.Records) -> "Read | None":
        if not need.keys:
            return None
        self._send("records_by_key", need.keys)
        return lambda rows: [RecordRow(*row) for row in rows]

    def _next_run(self) -> "Read":
        self._send("run_next")
        return lambda rows: [rows[0][0]]

    def _triggers(self, name: str, *parameters: Any) -> "Read":
        self._send(name, *parameters)
        return lambda rows: [TriggerRow(*row) for row in rows]

    def _fires(self, name: str, *parameters: Any) -> "Read":
        self._send(name, *parameters)
        return lambda rows: [FireRow(*row) for row in rows]

    def _applying(self) -> "Read":
        self._send("applying")
        return lambda rows: []

    def document(self, workflow: str) -> bytes:
        self._send("workflow_document", workflow)
        rows = self._wire.rows(self._wire.sync()[-1])
        if not rows:
            raise KeyError(workflow)
        return bytes(rows[0][0])

    # -- writes ------------------------------------------------------------------------------------------

    def write(self, draft: Draft) -> None:
        """Queued here, sent with COMMIT or with the next load."""
        now = self.now
        for workflow in draft.new_workflows:
            self._send("workflow_insert", *workflow, now)
        if draft.new_demands:
            self._send("demand_insert", list(draft.new_demands), list(draft.new_demands.values()))
        self._write_runs(draft)
        if draft.dirty_tasks:
            self._update_tasks(draft)
        if draft.new_tasks:
            self._insert_tasks(draft)
        for name, size in sorted(draft.pool_sizes.items()):
            self._send("pool_set", name, size)
        for name, change in sorted(draft.pool_changes.items()):
            if change:
                self._send("pool_use", name, change)
        if draft.attempts:
            self._rows("attempts_insert", [msgspec.structs.astuple(a) for a in draft.attempts])
        if draft.events:
            events = [(e.run_no, e.pos, e.idx, e.kind, e.session, text_of(e.data)) for e in draft.events]
            self._rows("events_insert", events, now)
        if draft.stale:
            self._rows("stale_insert", [(s.task_id, s.attempt, s.session, s.why, s.body) for s in draft.stale], now)
        for run_no, key, value, pos, idx in draft.context:
            self._send("context_set", run_no, key, value, pos, idx)
        for run_no, pos, generation, array in draft.arrays:
            self._send("array_insert", run_no, pos, generation, array)
        for run_no, name in draft.forgotten_signals:
            self._send("signal_delete", run_no, name)
        for run_no, name, data, rejected in draft.signals:
            self._send("signal_insert", run_no, name, data, rejected, now)
        if draft.kept:
            self._rows("records_keep", kept(draft.kept))
        if draft.once is not None:
            self._send("record_set_if_held", *msgspec.structs.astuple(draft.once))
        self._write_sessions(draft, now)
        if draft.applied is not None or draft.triggers or draft.fires or draft.unqueued:
            self._write_triggers(draft, now)
        if draft.new_token is not None:
            self._send("token_insert", *msgspec.structs.astuple(draft.new_token))
        if draft.revoked_token is not None:
            self._send("token_revoke", draft.revoked_token, now)
        for run_no in draft.pruned_runs:
            self._prune(run_no)
        if draft.pruned_before is not None:
            self._send("workflows_delete_unused")
            self._send("demands_delete_private")
            self._send("sessions_delete_before", draft.pruned_before)
            self._send("records_delete_expired", now)
            if draft.pruned_cache:
                self._send("records_delete_cached", draft.pruned_before)
            self._send("node_facts_delete_unused")
            self._send("events_delete_cluster_before", draft.pruned_before)
            self._send("fires_delete_before", draft.pruned_before)
            self._send("triggers_delete_unused", draft.pruned_before)

    def _write_runs(self, draft: Draft) -> None:
        new = draft.new_runs
        if new:
            rows = [(*run_values(run, RUN_COLUMNS), *extra.values()) for run, extra in new.values()]
            self._rows("run_insert", rows)
        for root, pin in draft.new_pins:
            self._send("pin_insert", root, *msgspec.structs.astuple(pin))
        for run in draft.dirty_runs:
            if run.no not in new:
                self._send("run_update", run.no, *run_values(run, RUN_CHANGING))

    def _insert_tasks(self, draft: Draft) -> None:
        fresh, others = additions(draft.new_tasks)
        for run_no, rows in fresh.items():
            self._rows("tasks_insert_fresh", rows, run_no)
        if others:
            self._rows("tasks_insert", others)

    def _update_tasks(self, draft: Draft) -> None:
        claimed, succeeded, readied, others = changes(draft.dirty_tasks, draft.replaced, self.now)
        for shared, rows in claimed.items():
            self._rows("tasks_claim_if_queued", rows, *shared)
        if succeeded:
            self._rows("tasks_succeed_if_running", succeeded, self.now)
        if readied:
            self._rows("tasks_ready_if_pending", readied)
        if others:
            self._rows("tasks_update_if_unchanged", others)

    def _write_sessions(self, draft: Draft, now: int) -> None:
        if draft.exchanged:
            self._send("session_exchanged", *draft.exchanged)
        if draft.new_session:
            row, ttl_ms = draft.new_session
            self._send("session_insert", *msgspec.structs.astuple(row))
            self._send("lease_insert", row.id, now + ttl_ms)
        if draft.given_up_session:
            self._send("session_give_up", draft.given_up_session)
        for session, drain_at in draft.drained_sessions:
            self._send("session_drain", session, drain_at)
        if draft.leadership:
            lead, was_term = draft.leadership
            self._send("leadership_set_if_term", lead.term, lead.session, lead.expires_at, was_term)
        for session, state in draft.ended_sessions:
            self._send("session_end", session, state, now)
            self._send("lease_delete", session)

    def _write_triggers(self, draft: Draft, now: int) -> None:
        if draft.applied is not None:
            self._send("applied_set", *draft.applied, now)
        for row, since_ms in draft.triggers:
            self._send("trigger_set_if_unmoved", *msgspec.structs.astuple(row), since_ms)
        for trigger in draft.dropped_queues:
            self._send("fires_drop_queued", trigger, now)
        for fire in draft.fires:
            self._send("fire_insert", *msgspec.structs.astuple(fire))
        for fire in draft.unqueued:
            values = (fire.trigger, fire.cause, fire.at, fire.outcome, fire.run, fire.reason)
            self._send("fire_update_if_queued", *values)

    def _prune(self, run_no: int) -> None:
        ids = (run_no << ORDINAL_BITS, (run_no + 1) << ORDINAL_BITS)
        self._send("run_delete_attempts", *ids)
        self._send("run_delete_stale", *ids)
        self._send("run_delete_records", *ids)
        self._send("run_delete_output_chunks", *ids)
        self._send("run_delete_output_ends", *ids)
        for name in (
            "run_delete_tasks", "run_delete_events", "run_delete_context", "run_delete_signals",
            "run_delete_arrays", "run_delete_pins", "run_delete",
        ):  # fmt: skip
            self._send(name, run_no)

    def _rows(self, name: str, rows: list[tuple[Any, ...]], *shared: Any) -> None:
        """One array per column, then what all rows share."""
        if len(rows) <= ROWS_FEW:
            self._begin()
            self._wire.send(SQL[name].of_few(len(rows)), *chain.from_iterable(rows), *shared)
            return
        for at in range(0, len(rows), ROWS_MAX):
            columns = list(zip(*rows[at : at + ROWS_MAX], strict=True))
            if len(rows) < ROWS_MANY:
                self._send(name, *columns, *shared)
            else:
                self._send_alike(name, columns, shared)
                self._wire.hand_over()

    def _send_alike(self, name: str, columns: list[tuple[Any, ...]], shared: tuple[Any, ...]) -> None:
        """The first column, mostly an id, is an array in any case: statements count by it."""
        alike = (False, *[column.count(column[0]) == len(column) for column in columns[1:]])
        found = SQL[name].with_alike(alike) if any(alike) else None
        if found is not None:
            columns = [column[0] if same else column for column, same in zip(columns, alike, strict=True)]
        self._begin()
        self._wire.send(found or SQL[name], *columns, *shared)

    # -- people's commands -------------------------------------------------------------------------------

    def remember(self, command_id: str, body_hash: str) -> None:
        """Asked with the first load: that spares every command a round trip."""
        self._recalled = (command_id, body_hash)

    def keep_reply(self, command_id: str, body_hash: str, reply: str) -> None:
        self._send("command_insert", command_id, body_hash, reply, self.now)
        self._send("commands_delete_old", self.now - KEEP_REPLIES_MS)

    # -- the end -----------------------------------------------------------------------------------------

    def commit(self) -> None:
        if self._begun:
            self._wire.send(COMMIT)
            self._wire.sync()


Read = Callable[[list[tuple[Any, ...]]], list[Any]]
SQL = statements()


def _task_rows(rows: list[tuple[Any, ...]]) -> list[TaskRow]:
    return [TaskRow(*row) for row in rows]


def _run_rows(rows: list[tuple[Any, ...]]) -> list[RunRow]:
    return [RunRow(*row) for row in rows]


_T = PostgresTransaction
#: Each queues its statement and gives how to read the rows; None: there is nothing to ask.
_LOADERS: dict[type, Callable[[PostgresTransaction, Any], Read | None]] = {
    n.Session: _T._session,
    n.Lease: _T._lease,
    n.Leadership: _T._leadership,
    n.Insisting: lambda t, need: t._plain("sessions_insisting", t.now),
    n.PastDeadline: lambda t, need: t._plain("tasks_past_deadline", t.now, need.limit),
    n.Ends: _T._ends,
    n.Inputs: _T._inputs,
    n.Context: lambda t, need: t._plain("context_of_run", need.run_no),
    n.MapArray: lambda t, need: t._plain("array_newest", need.run_no, need.pos),
    n.Signal: lambda t, need: t._plain("signal_of_run", need.run_no, need.name),
    n.Records: _T._records,
    n.Runs: lambda t, need: t._runs("runs_by_no", need.nos) if need.nos else None,
    n.RunsIfFree: lambda t, need: t._runs("runs_if_free", need.nos) if need.nos else None,
    n.OwnedBy: _T._owned_by,
    n.EndsHeld: lambda t, need: t._plain("ends_held", need.task_ids) if need.task_ids else None,
    n.QueuedIfFree: lambda t, need: t._tasks("tasks_queued_if_free", need.run_no),
    n.RunById: lambda t, need: t._runs("run_by_id", need.id),
    n.RunByKey: lambda t, need: t._plain("run_by_key", need.key),
    n.NextRun: lambda t, need: t._next_run(),
    n.Workflows: lambda t, need: t._stored("workflows_stored", need.hashes),
    n.Named: lambda t, need: t._stored("workflows_named", need.names),
    n.WorkflowNames: lambda t, need: t._plain("workflow_names", need.limit),
    n.Pins: _T._pins,
    n.Roots: lambda t, need: t._plain("run_roots", need.nos) if need.nos else None,
    n.Origin: lambda t, need: t._plain("run_origin", need.run_no),
    n.Errands: _T._errands,
    n.Untold: _T._untold,
    n.Tasks: lambda t, need: t._tasks("tasks_by_id", need.ids) if need.ids else None,
    n.TasksAt: _T._at,
    n.Elements: lambda t, need: t._tasks("task_elements", need.run_no, need.pos),
    n.Queued: _T._queued,
    n.QueuedOf: lambda t, need: t._tasks("tasks_queued_all_of_run", need.run_no),
    n.RunningOf: lambda t, need: t._tasks("tasks_running_of_run", need.run_no),
    n.Ready: lambda t, need: t._tasks("tasks_ready", need.run_no, need.limit),
    n.Glance: _T._glance,
    n.Due: lambda t, need: t._tasks("tasks_due", t.now, need.limit),
    n.NextWake: _T._next_wake,
    n.GivenUp: lambda t, need: t._plain("losses_given_up", need.task_id),
    n.Held: lambda t, need: t._tasks("tasks_held", need.session),
    n.ClaimedAt: lambda t, need: t._tasks("tasks_claimed_at", need.session, need.number),
    n.Stops: lambda t, need: t._tasks("tasks_to_stop", need.session),
    n.Unsettled: _T._unsettled,
    n.Sweeping: _T._sweeping,
    n.Unended: _T._unended,
    n.Current: lambda t, need: t._tasks("tasks_of_run", need.run_no),
    n.Demands: lambda t, need: t._plain("demands_above", need.above),
    n.QueuedEach: _T._queued_each,
    n.Waiting: lambda t, need: t._plain("demands_waiting", need.demands) if need.demands else None,
    n.Pools: _T._pools,
    n.Token: _T._token,
    n.Placing: lambda t, need: t._plain("demands_placing"),
    n.LiveSessions: _T._live_sessions,
    n.Measured: lambda t, need: t._plain("sessions_measured"),
    n.Occupied: lambda t, need: t._plain("demands_occupied"),
    n.DemandBodies: lambda t, need: t._plain("demand_bodies", need.ids) if need.ids else None,
    n.Finished: lambda t, need: t._runs("runs_finished", need.before, need.states, need.limit),
    n.Applying: lambda t, need: t._applying(),
    n.Applied: lambda t, need: t._plain("applied_hash", need.name),
    n.Trigger: lambda t, need: t._triggers("trigger_by_id", need.id),
    n.TriggersOf: lambda t, need: t._triggers("triggers_of_workflow", need.workflow),
    n.TriggersFor: lambda t, need: t._triggers("triggers_by_key", need.kind, need.keys),
    n.LastEvent: lambda t, need: t._plain("event_newest"),
    n.UnfinishedOf: lambda t, need: t._plain("runs_unfinished_of_trigger", need.trigger),
    n.FiresOf: lambda t, need: t._fires("fires_by_cause", need.trigger, need.causes) if need.causes else None,
    n.QueuedFires: lambda t, need: t._fires("fires_queued", need.trigger, need.limit),
    n.FiresSince: lambda t, need: t._plain("fires_counted", need.trigger, need.since),
}
