"""One write transaction on SQLite: loads for rules, and the writing of a draft under its guards."""

from collections.abc import Callable, Sequence
from typing import Any

import apsw
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
from weft.store.changes import (
    GUARD,
    RUN_CHANGING,
    TASK_CHANGING,
    additions,
    changes,
    json_of,
    kept,
    run_values,
    text_of,
)
from weft.store.protocol import Superseded, recall
from weft.store.queries import RECORD_COLUMNS, RUN_COLUMNS, SESSION_COLUMNS, TASK_COLUMNS, queries
from weft.store.sqlite.rows_values import chunks, flat, placeholders

_SESSION_WIDTH = len(SESSION_COLUMNS)


def _statements() -> dict[str, str]:
    marks = {
        "{task_columns}": ", ".join(TASK_COLUMNS),
        "{guard_columns}": ", ".join(GUARD),
        "{task_changing}": ", ".join(TASK_CHANGING),
        "{task_assignments}": ", ".join(f"{c} = v.{c}" for c in TASK_CHANGING),
        "{session_columns}": ", ".join(SESSION_COLUMNS),
        "{run_columns}": ", ".join(RUN_COLUMNS),
        "{run_assignments}": ", ".join(f"{c} = ?" for c in RUN_CHANGING),
        "{record_columns}": ", ".join(RECORD_COLUMNS),
        "{record_values}": ", ".join(f"?{at}" for at in range(1, len(RECORD_COLUMNS) + 1)),
        "{record_assignments}": ", ".join(f"{c} = excluded.{c}" for c in RECORD_COLUMNS if c != "key"),
    }
    found = {}
    for name, text in queries("sqlite").items():
        for mark, value in marks.items():
            text = text.replace(mark, value)
        found[name] = text
    return found


SQL = _statements()
#: Parameters that all rows of a statement share come after the rows.
_SHARED = ("{run_no}", "{session}", "{claim_no}", "{now}")
_with_rows: dict[tuple[str, int, int], str] = {}


def _sql_for(name: str, rows: int, width: int) -> str:
    key = (name, rows, width)
    text = _with_rows.get(key)
    if text is None:
        text = SQL[name].replace("{rows}", placeholders(rows, width))
        for mark in _SHARED:
            text = text.replace(mark, "?")
        _with_rows[key] = text
    return text


class SqliteTransaction:
    def __init__(self, connection: apsw.Connection, now: int) -> None:
        self._connection = connection
        self._execute = connection.execute
        self.now = now

    # -- loads -------------------------------------------------------------------------------------------

    def load(self, needs: Sequence[n.Need]) -> tuple[list[Any], ...]:
        return tuple([_LOADERS[type(need)](self, need) for need in needs])

    def _plain(self, name: str, *parameters: Any) -> list[Any]:
        """All rows at once: a cursor that outlives its statement (an exception may hold it) keeps the connection in
        its snapshot, and once another connection has written, it cannot write any more."""
        return self._execute(SQL[name], parameters).fetchall()

    def _tasks(self, name: str, *parameters: Any) -> list[TaskRow]:
        return [TaskRow(*row) for row in self._plain(name, *parameters)]

    def _runs(self, name: str, *parameters: Any) -> list[RunRow]:
        return [RunRow(*row) for row in self._plain(name, *parameters)]

    def _by_id(self, need: n.Tasks) -> list[TaskRow]:
        return self._tasks("tasks_by_id", json_of(need.ids)) if need.ids else []

    def _runs_by_no(self, need: n.Runs) -> list[RunRow]:
        return self._runs("runs_by_no", json_of(need.nos)) if need.nos else []

    def _at(self, need: n.TasksAt) -> list[TaskRow]:
        """Mostly whole tasks of one run: those are asked for by position alone, which is three times cheaper."""
        if not need.places:
            return []
        first = need.places[0][0]
        if all(run_no == first and idx < 0 for run_no, _, idx in need.places):
            return self._tasks("tasks_by_position", first, json_of([pos for _, pos, _ in need.places]))
        return self._tasks("tasks_by_place", json_of(need.places))

    def _queued(self, need: n.Queued) -> list[TaskRow]:
        if not need.limit:
            return []
        if need.root is None:
            return self._tasks("tasks_queued", json_of(need.demands), need.limit)
        return self._tasks("tasks_queued_of_family", json_of(need.demands), need.limit, need.root)

    def _errands(self, need: n.Errands) -> list[TaskRow]:
        if need.run_no is None:
            return self._tasks("tasks_errands", need.limit)
        return self._tasks("tasks_errands_of_family", need.limit, need.run_no)

    def _untold(self, need: n.Untold) -> list[Any]:
        if need.run_no is None:
            return self._plain("runs_untold", need.limit)
        return self._plain("runs_untold_of_family", need.limit, need.run_no)

    def _stored(self, name: str, *parameters: Any) -> list[StoredWorkflow]:
        return [StoredWorkflow(*row) for row in self._plain(name, *parameters)]

    def _queued_each(self, need: n.QueuedEach) -> list[TaskRow]:
        if not need.demands:
            return []
        if need.root is None:
            return self._tasks("tasks_queued_each", json_of(need.demands), need.limit)
        return self._tasks("tasks_queued_each_of_family", json_of(need.demands), need.limit, need.root)

    def _pools(self, need: n.Pools) -> list[PoolRow]:
        return [PoolRow(*row) for row in self._plain("pools_by_name", json_of(need.names))]

    def _live_sessions(self, need: n.LiveSessions) -> list[SessionRow]:
        return [SessionRow(*row) for row in self._plain("sessions_with_lease", self.now)]

    def _glance(self, need: n.Glance) -> list[Any]:
        for row in self._plain("glance", need.session):
            wake_at, deadline_at, unsettled, sweeping, stopping, newest_demand = row[_SESSION_WIDTH:]
            moments = [at for at in (wake_at, deadline_at) if at is not None]
            first = min(moments) if moments else None
            return [(SessionRow(*row[:_SESSION_WIDTH]), first, unsettled, sweeping, stopping, newest_demand or 0)]
        return []

    def _next_wake(self, need: n.NextWake) -> list[int]:
        return [at for (at,) in self._plain("next_wake", json_of(need.but_tasks), json_of(need.but_runs))]

    def _unsettled(self, need: n.Unsettled) -> list[TaskRow]:
        if need.run_no is None:
            return self._tasks("tasks_unsettled", need.limit)
        return self._tasks("tasks_unsettled_of_run", need.limit, need.run_no)

    def _sweeping(self, need: n.Sweeping) -> list[RunRow]:
        if need.run_no is not None:
            return [r for r in self._runs("runs_by_no", json_of([need.run_no])) if r.sweep is not None]
        return self._runs("runs_to_sweep", self.now, need.limit)

    def _unended(self, need: n.Unended) -> list[TaskRow]:
        first = need.run_no << ORDINAL_BITS
        after = max(need.after, first - 1)
        return self._tasks("tasks_unended", after, first + (1 << ORDINAL_BITS), need.limit)

    def _session(self, need: n.Session) -> list[SessionRow]:
        return [SessionRow(*row) for row in self._plain("session_by_id", need.id)]

    def _lease(self, need: n.Lease) -> list[int]:
        return [at - self.now for (at,) in self._plain("lease_left", need.session)]

    def _leadership(self, need: n.Leadership) -> list[LeadershipRow]:
        return [LeadershipRow(*row) for row in self._plain("leadership")]

    def _ends(self, need: n.Ends) -> list[Ended]:
        return [Ended(*row) for row in self._plain("ends_at", need.run_no, json_of(need.positions))]

    def _inputs(self, need: n.Inputs) -> list[Any]:
        return [msgspec.json.decode(text) for (text,) in self._plain("run_inputs", need.run_no)] or [{}]

    def _triggers(self, name: str, *parameters: Any) -> list[TriggerRow]:
        return [trigger_row(row) for row in self._plain(name, *parameters)]

    def _fires(self, name: str, *parameters: Any) -> list[FireRow]:
        return [FireRow(*row) for row in self._plain(name, *parameters)]

    def document(self, workflow: str) -> bytes:
        found = self._execute(SQL["workflow_document"], (workflow,)).get
        if not isinstance(found, bytes):
            raise KeyError(workflow)
        return found

    # -- writes ------------------------------------------------------------------------------------------

    def write(self, draft: Draft) -> None:
        now = self.now
        for workflow in draft.new_workflows:
            self._execute(SQL["workflow_insert"], (*workflow, now))
        for demand, body in draft.new_demands.items():
            self._execute(SQL["demand_insert"], (demand, body))
        self._write_runs(draft)
        if draft.dirty_tasks:
            self._update_tasks(draft)
        if draft.new_tasks:
            self._insert_tasks(draft)
        if draft.pool_changes or draft.pool_sizes:
            self._write_pools(draft)
        if draft.attempts:
            self._rows("attempts_insert", [_struct_values(a) for a in draft.attempts])
        if draft.events:
            self._rows(
                "events_insert",
                [(e.run_no, e.pos, e.idx, e.kind, e.session, now, text_of(e.data)) for e in draft.events],
            )
        if draft.stale:
            self._rows("stale_insert", [(s.task_id, s.attempt, s.session, now, s.why, s.body) for s in draft.stale])
        for run_no, key, value, pos, idx in draft.context:
            self._execute(SQL["context_set"], (run_no, key, value, pos, idx))
        for run_no, pos, generation, array in draft.arrays:
            self._execute(SQL["array_insert"], (run_no, pos, generation, array))
        for run_no, name in draft.forgotten_signals:
            self._execute(SQL["signal_delete"], (run_no, name))
        for run_no, name, data, rejected in draft.signals:
            self._execute(SQL["signal_insert"], (run_no, name, data, rejected, now))
        if draft.kept:
            self._rows("records_keep", kept(draft.kept))
        if draft.once is not None:
            self._set_record_if_held(draft.once)
        self._write_sessions(draft)
        if draft.applied is not None or draft.triggers or draft.fires or draft.unqueued:
            self._write_triggers(draft)
        if draft.new_token is not None:
            self._execute(SQL["token_insert"], _struct_values(draft.new_token))
        if draft.revoked_token is not None:
            self._execute(SQL["token_revoke"], (draft.revoked_token, now))
        for run_no in draft.pruned_runs:
            self._prune(run_no)
        if draft.pruned_before is not None:
            self._execute(SQL["workflows_delete_unused"])
            self._execute(SQL["demands_delete_private"])
            self._execute(SQL["sessions_delete_before"], (draft.pruned_before,))
            self._execute(SQL["records_delete_expired"], (now,))
            if draft.pruned_cache:
                self._execute(SQL["records_delete_cached"], (draft.pruned_before,))
            self._execute(SQL["node_facts_delete_unused"])
            self._execute(SQL["events_delete_cluster_before"], (draft.pruned_before,))
            self._execute(SQL["fires_delete_before"], (draft.pruned_before,))
            self._execute(SQL["triggers_delete_unused"], (draft.pruned_before,))

    def _set_record_if_held(self, record: RecordRow) -> None:
        self._execute(SQL["record_set_if_held"], _struct_values(record))
        if self._connection.changes() != 1:
            raise Superseded("the attempt is no longer the one that may write this record")

    def _write_runs(self, draft: Draft) -> None:
        new = draft.new_runs
        if new:
            rows = [(*run_values(run, RUN_COLUMNS), *extra.values()) for run, extra in new.values()]
            self._rows("run_insert", rows)
        for root, pin in draft.new_pins:
            self._execute(SQL["pin_insert"], (root, *_struct_values(pin)))
        for run in draft.dirty_runs:
            if run.no not in new:
                self._execute(SQL["run_update"], (*run_values(run, RUN_CHANGING), run.no))

    def _insert_tasks(self, draft: Draft) -> None:
        fresh, others = additions(draft.new_tasks)
        for run_no, rows in fresh.items():
            self._rows("tasks_insert_fresh", rows, run_no)
        if others:
            self._rows("tasks_insert", others)

    def _update_tasks(self, draft: Draft) -> None:
        """Few statements for all that changed. A row that is not as it was loaded voids the whole transaction."""
        claimed, succeeded, readied, others = changes(draft.dirty_tasks, draft.replaced, self.now)
        for shared, rows in claimed.items():
            self._rows("tasks_claim_if_queued", rows, *shared, expect=True)
        if succeeded:
            self._rows("tasks_succeed_if_running", succeeded, self.now, expect=True)
        if readied:
            self._rows("tasks_ready_if_pending", readied, expect=True)
        if others:
            self._rows("tasks_update_if_unchanged", others, expect=True)

    def _write_pools(self, draft: Draft) -> None:
        for name, size in sorted(draft.pool_sizes.items()):
            self._execute(SQL["pool_set"], (name, size))
        for name, change in sorted(draft.pool_changes.items()):
            if change:
                self._execute(SQL["pool_use"], (name, change))
                if self._connection.changes() != 1:
                    raise Superseded(f"the pool {name} has gone")

    def _write_sessions(self, draft: Draft) -> None:
        if draft.exchanged:
            self._execute(SQL["session_exchanged"], draft.exchanged)
        if draft.new_session:
            row, ttl_ms = draft.new_session
            self._execute(SQL["session_insert"], _struct_values(row))
            self._execute(SQL["lease_insert"], (row.id, self.now + ttl_ms))
        if draft.given_up_session:
            self._execute(SQL["session_give_up"], (draft.given_up_session,))
        for session, drain_at in draft.drained_sessions:
            self._execute(SQL["session_drain"], (session, drain_at))
        if draft.leadership:
            lead, was_term = draft.leadership
            self._execute(SQL["leadership_set_if_term"], (lead.term, lead.session, lead.expires_at, was_term))
            if self._connection.changes() != 1:
                raise Superseded("another term had begun since it was loaded")
        for session, state in draft.ended_sessions:
            self._execute(SQL["session_end"], (session, state, self.now))
            self._execute(SQL["lease_delete"], (session,))

    def _write_triggers(self, draft: Draft) -> None:
        if draft.applied is not None:
            self._execute(SQL["applied_set"], (*draft.applied, self.now))
        for row, since_ms in draft.triggers:
            self._execute(SQL["trigger_set_if_unmoved"], (*_struct_values(row), since_ms))
            if self._connection.changes() != 1:
                raise Superseded(f"the trigger {row.id} had moved since it was loaded")
        for trigger in draft.dropped_queues:
            self._execute(SQL["fires_drop_queued"], (trigger, self.now))
        for fire in draft.fires:
            self._execute(SQL["fire_insert"], _struct_values(fire))
        for fire in draft.unqueued:
            values = (fire.trigger, fire.cause, fire.at, fire.outcome, fire.run, fire.reason)
            self._execute(SQL["fire_update_if_queued"], values)
            if self._connection.changes() != 1:
                raise Superseded(f"a fire of {fire.trigger} was no longer queued")

    def _prune(self, run_no: int) -> None:
        ids = (run_no << ORDINAL_BITS, (run_no + 1) << ORDINAL_BITS)
        self._execute(SQL["run_delete_attempts"], ids)
        self._execute(SQL["run_delete_stale"], ids)
        self._execute(SQL["run_delete_records"], ids)
        self._execute(SQL["run_delete_output_chunks"], ids)
        self._execute(SQL["run_delete_output_ends"], ids)
        for name in (
            "run_delete_tasks", "run_delete_events", "run_delete_context", "run_delete_signals",
            "run_delete_arrays", "run_delete_pins", "run_delete",
        ):  # fmt: skip
            self._execute(SQL[name], (run_no,))

    def _rows(self, name: str, rows: list[tuple[Any, ...]], *shared: Any, expect: bool = False) -> None:
        """Run a set-based statement over rows. `expect`: each of them must meet a row that is as it was."""
        width = len(rows[0])
        for chunk in chunks(rows):
            parameters = flat(chunk)
            parameters += shared
            self._execute(_sql_for(name, len(chunk), width), parameters)
            if expect and self._connection.changes() != len(chunk):
                raise Superseded("a task had changed since it was loaded")

    # -- people's commands -------------------------------------------------------------------------------

    def remember(self, command_id: str, body_hash: str) -> None:
        recall(self._plain("command_reply", command_id), command_id, body_hash)

    def keep_reply(self, command_id: str, body_hash: str, reply: str) -> None:
        self._execute(SQL["command_insert"], (command_id, body_hash, reply, self.now))
        self._execute(SQL["commands_delete_old"], (self.now - 7 * 86_400_000,))


def _struct_values(row: msgspec.Struct) -> tuple[Any, ...]:
    return msgspec.structs.astuple(row)


def trigger_row(values: Sequence[Any]) -> TriggerRow:
    row = TriggerRow(*values)
    row.active, row.paused = bool(row.active), bool(row.paused)
    return row


_T = SqliteTransaction
_LOADERS: dict[type, Callable[[SqliteTransaction, Any], list[Any]]] = {
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
    n.Records: lambda t, need: [RecordRow(*row) for row in t._plain("records_by_key", json_of(need.keys))],
    n.Runs: _T._runs_by_no,
    n.RunsIfFree: lambda t, need: t._runs("runs_if_free", json_of(need.nos)) if need.nos else [],
    n.OwnedBy: lambda t, need: t._runs("runs_owned_by", need.session),
    n.EndsHeld: lambda t, need: t._plain("ends_held", json_of(need.task_ids)) if need.task_ids else [],
    n.QueuedIfFree: lambda t, need: t._tasks("tasks_queued_if_free", need.run_no),
    n.RunById: lambda t, need: t._runs("run_by_id", need.id),
    n.RunByKey: lambda t, need: t._plain("run_by_key", need.key),
    n.NextRun: lambda t, need: [int(v) for (v,) in t._plain("run_next")],
    n.Workflows: lambda t, need: t._stored("workflows_stored", json_of(need.hashes)),
    n.Named: lambda t, need: t._stored("workflows_named", json_of(need.names)),
    n.WorkflowNames: lambda t, need: t._plain("workflow_names", need.limit),
    n.Pins: lambda t, need: [Pin(*row) for row in t._plain("pins_of_root", need.root)],
    n.Roots: lambda t, need: t._plain("run_roots", json_of(need.nos)),
    n.Origin: lambda t, need: t._plain("run_origin", need.run_no),
    n.Errands: _T._errands,
    n.Untold: _T._untold,
    n.Tasks: _T._by_id,
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
    n.Waiting: lambda t, need: t._plain("demands_waiting", json_of(need.demands)),
    n.Pools: _T._pools,
    n.Token: lambda t, need: [TokenRow(*row) for row in t._plain("token_by_id", need.id)],
    n.Placing: lambda t, need: t._plain("demands_placing"),
    n.LiveSessions: _T._live_sessions,
    n.Measured: lambda t, need: t._plain("sessions_measured"),
    n.Occupied: lambda t, need: t._plain("demands_occupied"),
    n.DemandBodies: lambda t, need: t._plain("demand_bodies", json_of(need.ids)),
    n.Finished: lambda t, need: t._runs("runs_finished", need.before, json_of(need.states), need.limit),
    n.Applying: lambda t, need: [],
    n.Applied: lambda t, need: t._plain("applied_hash", need.name),
    n.Trigger: lambda t, need: t._triggers("trigger_by_id", need.id),
    n.TriggersOf: lambda t, need: t._triggers("triggers_of_workflow", need.workflow),
    n.TriggersFor: lambda t, need: t._triggers("triggers_by_key", need.kind, json_of(need.keys)),
    n.LastEvent: lambda t, need: t._plain("event_newest"),
    n.UnfinishedOf: lambda t, need: t._plain("runs_unfinished_of_trigger", need.trigger),
    n.FiresOf: lambda t, need: t._fires("fires_by_cause", need.trigger, json_of(need.causes)),
    n.QueuedFires: lambda t, need: t._fires("fires_queued", need.trigger, need.limit),
    n.FiresSince: lambda t, need: t._plain("fires_counted", need.trigger, need.since),
}
