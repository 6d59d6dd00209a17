"""Needs and their statements: the one table that says how a store answers what a rule asks for."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from weft.core.decision import needs as n
from weft.core.expressions.run_names import Ended
from weft.core.rows import (
    ORDINAL_BITS,
    BackfillRow,
    BudgetRow,
    DeadlineRow,
    FireRow,
    HandleRow,
    LeadershipRow,
    MemoRow,
    NotificationRow,
    Pin,
    PoolRow,
    RunRow,
    SessionRow,
    StoredWorkflow,
    TaskRow,
    TokenRow,
    TriggerRow,
)
from weft.store.queries import BACKFILL_COLUMNS, SESSION_COLUMNS
from weft.store.writes import json_of

Rows = list[tuple[Any, ...]]
Read = Callable[[Rows], list[Any]]
#: A statement, its parameters, and what its rows become. None: there is nothing to ask for.
Load = tuple[str, tuple[Any, ...], Read] | None


class Loading(Protocol):
    """What a load takes from the transaction that it is for."""

    @property
    def now(self) -> int: ...
    def places(self, places: Sequence[tuple[int, int, int]]) -> tuple[Any, ...]:
        """The parameters of tasks_by_place."""
        ...


_SESSION_WIDTH = len(SESSION_COLUMNS)
#: These compare with the store's clock, which is known only after a first load.
BY_CLOCK = n.DueDeadlines | n.DueTasks | n.RunsToSweep | n.LiveSessions | n.InsistingLeaders | n.TasksPastDeadline


def _as(row: type[Any]) -> Read:
    """A statement names the columns of its row in the order of the Struct (queries.py)."""
    return lambda rows: [row(*values) for values in rows]


def _first(rows: Rows) -> list[Any]:
    return [row[0] for row in rows]


tasks, runs, sessions, fires, stored = _as(TaskRow), _as(RunRow), _as(SessionRow), _as(FireRow), _as(StoredWorkflow)
notifications = _as(NotificationRow)
plain: Read = list


def triggers(rows: Rows) -> list[TriggerRow]:
    found = [TriggerRow(*row) for row in rows]
    for row in found:
        row.active, row.paused = bool(row.active), bool(row.paused)  # numbers, on SQLite
    return found


def backfills(rows: Rows) -> list[BackfillRow]:
    found = [BackfillRow(*row) for row in rows]
    for row in found:
        row.reverse, row.again = bool(row.reverse), bool(row.again)  # numbers, on SQLite
    return found


def backfills_and_triggers(rows: Rows) -> list[tuple[BackfillRow, TriggerRow]]:
    """What the statement backfills_to_step gives."""
    width = len(BACKFILL_COLUMNS)
    first, second = backfills([row[:width] for row in rows]), triggers([row[width:] for row in rows])
    return list(zip(first, second, strict=True))


def handles(rows: Rows) -> list[HandleRow]:
    found = [HandleRow(*row) for row in rows]
    for row in found:
        row.adoptable = bool(row.adoptable)  # a number, on SQLite
    return found


def orphaned(rows: Rows) -> list[tuple[HandleRow, bool]]:
    """What the statement handles_orphaned gives."""
    return [(handle, bool(row[-1])) for handle, row in zip(handles([row[:-1] for row in rows]), rows, strict=True)]


def notices_due(rows: Rows) -> list[tuple[NotificationRow, str | None]]:
    """What the statement notifications_due gives."""
    return [(NotificationRow(*row[:-1]), row[-1]) for row in rows]


def overview(rows: Rows) -> list[Any]:
    """What the need promises; a last column is for the store itself."""
    out: list[Any] = []
    for row in rows:
        wake_at, deadline_at, unsettled, sweeping, stopping, newest_demand, notifying, _ = row[_SESSION_WIDTH:]
        moments = [at for at in (wake_at, deadline_at) if at is not None]
        session = SessionRow(*row[:_SESSION_WIDTH])
        found = (unsettled, sweeping, stopping, newest_demand or 0, notifying)
        out.append((session, min(moments, default=None), *found))
    return out


def _inputs(rows: Rows) -> list[Any]:
    return [msgspec.json.decode(text) for (text,) in rows] or [{}]


def _at(need: n.TasksAt, tx: Loading) -> Load:
    """Mostly whole tasks of one run: those are asked for by position alone, which is three times cheaper."""
    if not need.places:
        return None
    first = need.places[0][0]
    if all(run_no == first and idx < 0 for run_no, _, idx in need.places):
        return "tasks_by_position", (first, [pos for _, pos, _ in need.places]), tasks
    return "tasks_by_place", tx.places(need.places), tasks


def _queued(need: n.QueuedTasks | n.QueuedTasksPerDemand, name: str) -> Load:
    if not need.demands or not need.limit:
        return None
    if need.workflows:
        return f"{name}_of_workflows", (need.demands, need.limit, json_of(need.workflows)), tasks
    if need.root is None:
        return name, (need.demands, need.limit), tasks
    return f"{name}_of_family", (need.demands, need.limit, need.root), tasks


def _of_any(need: Any, name: str, of_one: str, read: Read) -> Load:
    """Of any run, or of one."""
    return (name, (need.limit,), read) if need.run_no is None else (of_one, (need.limit, need.run_no), read)


def _sweeping(need: n.RunsToSweep, tx: Loading) -> Load:
    if need.run_no is None:
        return "runs_to_sweep", (tx.now, need.limit), runs
    return "runs_by_no", ([need.run_no],), lambda rows: [run for run in runs(rows) if run.sweep is not None]


def _owned_by(need: n.RunsOwnedBy, tx: Loading) -> Load:
    """PostgreSQL locks the runs of the session's attempts too, in one order; they are loaded when asked for."""
    return "runs_owned_by", (need.session,), lambda rows: [run for run in runs(rows) if run.owner == need.session]


def _due_deadlines(need: n.DueDeadlines, tx: Loading) -> Load:
    if need.run_no is None:
        return "deadlines_due", (tx.now, need.limit), _as(DeadlineRow)
    return "deadlines_due_of_run", (tx.now, need.limit, need.run_no), _as(DeadlineRow)


def _unended(need: n.UnendedTasks, tx: Loading) -> Load:
    first = need.run_no << ORDINAL_BITS
    return "tasks_unended", (max(need.after, first - 1), first + (1 << ORDINAL_BITS), need.limit), tasks


LOADS: dict[type, Callable[[Any, Loading], Load]] = {
    n.Session: lambda need, tx: ("session_by_id", (need.id,), sessions),
    n.Lease: lambda need, tx: ("lease_left", (need.session,), lambda rows: [at - tx.now for (at,) in rows]),
    n.Leadership: lambda need, tx: ("leadership", (), _as(LeadershipRow)),
    n.InsistingLeaders: lambda need, tx: ("sessions_insisting", (tx.now,), plain),
    n.LiveSessions: lambda need, tx: ("sessions_with_lease", (tx.now,), sessions),
    n.Measurements: lambda need, tx: ("sessions_measured", (), plain),
    n.BeginExchange: lambda need, tx: ("exchange_begin", (need.session, need.number), overview),
    n.Token: lambda need, tx: ("token_by_id", (need.id,), _as(TokenRow)),
    n.Runs: lambda need, tx: ("runs_by_no", (need.nos,), runs) if need.nos else None,
    n.RunsIfFree: lambda need, tx: ("runs_if_free", (need.nos,), runs) if need.nos else None,
    n.RunsOwnedBy: _owned_by,
    n.RunById: lambda need, tx: ("run_by_id", (need.id,), runs),
    n.RunByKey: lambda need, tx: ("run_by_key", (need.key,), plain),
    n.NextRun: lambda need, tx: ("run_next", (), lambda rows: [int(rows[0][0])]),
    n.Roots: lambda need, tx: ("run_roots", (need.nos,), plain) if need.nos else None,
    n.RunOrigin: lambda need, tx: ("run_origin", (need.run_no,), plain),
    n.RunInputs: lambda need, tx: ("run_inputs", (need.run_no,), _inputs),
    n.RunsToSweep: _sweeping,
    n.FinishedRuns: lambda need, tx: ("runs_finished", (need.before, need.states, need.limit, need.nos), runs),
    n.Takeovers: lambda need, tx: ("takeovers", (need.nos,), plain) if need.nos else None,
    n.RunsKeptForOthers: lambda need, tx: ("runs_kept", (need.before, need.states, need.limit), plain),
    n.EndsToTakeOver: lambda need, tx: (
        "ends_to_take_over",
        (need.run_no << ORDINAL_BITS, (need.run_no + 1) << ORDINAL_BITS),
        plain,
    ),
    n.UnreportedRuns: lambda need, tx: _of_any(need, "runs_unreported", "runs_unreported_of_family", plain),
    n.Workflows: lambda need, tx: ("workflows_stored", (need.hashes,), stored),
    n.Durations: lambda need, tx: ("task_durations", (need.name, need.workflow, need.tasks), plain),
    n.WorkflowsByName: lambda need, tx: ("workflows_named", (need.names,), stored),
    n.WorkflowNames: lambda need, tx: ("workflow_names", (need.limit,), plain),
    n.PinsOfFamily: lambda need, tx: ("pins_of_root", (need.root,), _as(Pin)),
    n.Tasks: lambda need, tx: ("tasks_by_id", (need.ids,), tasks) if need.ids else None,
    n.TasksAt: _at,
    n.Elements: lambda need, tx: ("task_elements", (need.run_no, need.pos), tasks),
    n.QueuedTasks: lambda need, tx: _queued(need, "tasks_queued"),
    n.QueuedTasksPerDemand: lambda need, tx: _queued(need, "tasks_queued_each"),
    n.QueuedTasksOfRun: lambda need, tx: ("tasks_queued_all_of_run", (need.run_no,), tasks),
    n.UnlockedQueuedTasks: lambda need, tx: ("tasks_queued_if_free", (need.run_no, need.limit), tasks),
    n.RunningTasksOfRun: lambda need, tx: ("tasks_running_of_run", (need.run_no,), tasks),
    n.ReadyTasks: lambda need, tx: ("tasks_ready", (need.run_no, need.limit), tasks),
    n.DueTasks: lambda need, tx: ("tasks_due", (tx.now, need.limit), tasks),
    n.NextWakeTime: lambda need, tx: ("next_wake", (need.but_tasks, need.but_runs), _first),
    n.TasksPastDeadline: lambda need, tx: ("tasks_past_deadline", (tx.now, need.limit), plain),
    n.HeldTasks: lambda need, tx: ("tasks_held", (need.session,), tasks),
    n.TasksClaimedAt: lambda need, tx: ("tasks_claimed_at", (need.session, need.number), tasks),
    n.StopRequests: lambda need, tx: ("tasks_to_stop", (need.session,), tasks),
    n.LossesByOutage: lambda need, tx: ("losses_given_up", (need.task_id,), plain),
    n.UnclosedHandles: lambda need, tx: ("handles_unclosed", (need.task_ids,), handles) if need.task_ids else None,
    n.HandleHistory: lambda need, tx: ("handle_history", (need.task_id, need.engine, need.name), plain),
    n.UnsettledTasks: lambda need, tx: _of_any(need, "tasks_unsettled", "tasks_unsettled_of_run", tasks),
    n.ChildActions: lambda need, tx: _of_any(need, "tasks_child_actions", "tasks_child_actions_of_family", tasks),
    n.UnendedTasks: _unended,
    n.CurrentTasks: lambda need, tx: ("tasks_of_run", (need.run_no,), tasks),
    n.TaskEnds: lambda need, tx: ("ends_at", (need.run_no, json_of(need.positions)), _as(Ended)),
    n.HeldEnds: lambda need, tx: ("ends_held", (need.task_ids,), plain) if need.task_ids else None,
    n.NewDemands: lambda need, tx: ("demands_above", (need.above,), plain),
    n.DemandsWithQueued: lambda need, tx: (
        ("demands_waiting", (json_of(need.demands),), plain) if need.demands else None
    ),
    n.PlacementDemands: lambda need, tx: ("demands_placing", (), plain),
    n.RunningByDemand: lambda need, tx: ("demands_occupied", (), plain),
    n.DemandBodies: lambda need, tx: ("demand_bodies", (need.ids,), plain) if need.ids else None,
    n.Pools: lambda need, tx: ("pools_by_name", (need.names,), _as(PoolRow)) if need.names else None,
    n.Budgets: lambda need, tx: ("budgets_by_scope", (need.scopes,), _as(BudgetRow)) if need.scopes else None,
    n.BudgetsIfFree: lambda need, tx: ("budgets_if_free", (need.scopes,), _as(BudgetRow)) if need.scopes else None,
    n.Spending: lambda need, tx: ("spending_of_tasks", (need.task_ids,), plain) if need.task_ids else None,
    n.ParkedTasks: lambda need, tx: ("tasks_parked", (need.run_no, *need.after, need.limit), tasks),
    n.ContextOfRun: lambda need, tx: ("context_of_run", (need.run_no,), plain),
    n.MapArray: lambda need, tx: ("array_newest", (need.run_no, need.pos), plain),
    n.MapLabels: lambda need, tx: ("labels_newest", (need.run_no, need.pos), plain),
    n.FailedTasks: lambda need, tx: (
        "tasks_failed",
        (need.run_no << ORDINAL_BITS, (need.run_no + 1) << ORDINAL_BITS),
        plain,
    ),
    n.SignalOfRun: lambda need, tx: ("signal_of_run", (need.run_no, need.name), plain),
    n.Memos: lambda need, tx: ("memos_by_key", (need.keys,), _as(MemoRow)) if need.keys else None,
    n.ApplyLock: lambda need, tx: ("applying", (), lambda rows: []),
    n.AppliedVersion: lambda need, tx: ("applied_hash", (need.name,), plain),
    n.Trigger: lambda need, tx: ("trigger_by_id", (need.id,), triggers),
    n.TriggersOf: lambda need, tx: ("triggers_of_workflow", (need.workflow,), triggers),
    n.TriggersByKey: lambda need, tx: ("triggers_by_key", (need.kind, need.keys), triggers),
    n.LastEvent: lambda need, tx: ("event_newest", (), plain),
    n.UnfinishedRunsOfTrigger: lambda need, tx: ("runs_unfinished_of_trigger", (need.trigger,), plain),
    n.Backfill: lambda need, tx: ("backfill_by_id", (need.id,), backfills),
    n.UnfinishedRunsOfBackfill: lambda need, tx: ("runs_unfinished_of_backfill", (need.backfill,), plain),
    n.FiresByCause: lambda need, tx: ("fires_by_cause", (need.trigger, need.causes), fires) if need.causes else None,
    n.QueuedFires: lambda need, tx: ("fires_queued", (need.trigger, need.limit), fires),
    n.FiresSince: lambda need, tx: ("fires_counted", (need.trigger, need.since), plain),
    n.DueDeadlines: _due_deadlines,
    n.FirstStart: lambda need, tx: ("first_start", (need.run_no, need.pos), plain),
    n.NotifyState: lambda need, tx: ("notify_state", (need.keys,), plain) if need.keys else None,
    n.Notifications: lambda need, tx: ("notifications_by_id", (need.ids,), notifications) if need.ids else None,
    n.FailedNotifications: lambda need, tx: ("notifications_failed", (need.limit,), notifications),
}
