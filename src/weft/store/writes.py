"""What a draft writes: statements, their parameters and rows, the same for every store and in the order of the locks.

Most changes of tasks are a claim, a success, or a task whose needs are met. Those are told apart here: a statement
that knows only the columns that such a change touches costs half of one that writes them all.
"""

from collections.abc import Iterator
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from weft.core.decision.draft import Draft
from weft.core.decision.groups import (
    BudgetChanges,
    DeadlineChanges,
    HandleChanges,
    KeptResults,
    NotificationChanges,
    PoolChanges,
    Pruned,
    RunValues,
    SessionChanges,
    TriggerChanges,
)
from weft.core.history.batches import stored
from weft.core.rows import ORDINAL_BITS, AttemptRow, TaskRow
from weft.store.queries import NOTIFICATION_CHANGING, RUN_CHANGING, RUN_COLUMNS, TASK_CHANGING, TASK_COLUMNS

KEEP_REPLIES_MS = 7 * 86_400_000
_encode = msgspec.json.Encoder().encode
_values = msgspec.structs.astuple

Rows = list[tuple[Any, ...]]
#: A statement, its parameters, and the rows of a set-based one. Where its head says `guarded`, it must change as many
#: rows as it is given, or one.
Write = tuple[str, tuple[Any, ...], Rows | None]


class Changes(NamedTuple):
    attempts: list[AttemptRow]  # those that get a row of their own
    claimed: dict[tuple[Any, ...], Rows]  # by what they share (session, exchange, time, attempt): (id,)
    succeeded: dict[tuple[Any, ...], Rows]  # by session and exit code
    readied: dict[str, Rows]  # pending before, by their state now: queued, or claimed
    others: Rows  # whole


_changed = attrgetter("id", "guard.state", "guard.attempt", "guard.session", *TASK_CHANGING)
_task, _run, _run_changed = attrgetter(*TASK_COLUMNS), attrgetter(*RUN_COLUMNS), attrgetter("no", *RUN_CHANGING)
#: What changes of a run while its tasks succeed. Of an update that names all columns, SQLite rewrites all indexes.
PROGRESS = ("active", "open", "open_main", "succeeded")
_progress = attrgetter("no", *PROGRESS)
_settled_part = itemgetter(*[RUN_COLUMNS.index(column) for column in RUN_COLUMNS if column not in PROGRESS])
_NO_TRIGGERS = TriggerChanges()
_moved = attrgetter("id", "state", "cursor", "started", "existing", "failed", "reason")
_delivery = attrgetter("id", *NOTIFICATION_CHANGING)
_unqueued = attrgetter("trigger", "cause", "at", "outcome", "run", "reason")


def changes(draft: Draft, now: int) -> Changes:
    """What is queued under another demand now (`replaced`) is written whole. The hot rows are spelled out: attrgetter
    takes 0.15 µs a row longer."""
    replaced = draft.replaced
    successes = {a.task_id: a for a in draft.attempts if a.outcome == "succeeded" and a.cached is None}
    claimed: dict[tuple[Any, ...], Rows] = {}
    succeeded: dict[tuple[Any, ...], Rows] = {}
    readied: dict[str, Rows] = {}
    others: Rows = []
    for t in draft.dirty_tasks:
        was = t.guard
        assert was is not None
        if was.state == "queued" and t.state == "running" and not (replaced and t.id in replaced):
            claimed.setdefault((t.session, t.claim_no, t.claimed_at, was.attempt), []).append((t.id,))
        elif (
            was.state == "running" and t.state == "succeeded" and t.settled and was.stop is None and was.session
            and t.finished_at == now  # what a level held had finished before
            and (attempt := successes.get(t.id)) is not None
        ):  # fmt: skip
            succeeded.setdefault((was.session, attempt.exit_code), []).append(
                (t.id, was.attempt, t.started_at, attempt.finished_at, attempt.result_hash, attempt.result)
            )
            del successes[t.id]
        elif (
            was.state == "pending" and (t.state == "queued" or t.state == "running") and t.stop is None
            and t.elements is None and t.child_action is None and t.child is None and t.wake_at is None
            and t.held is None
        ):  # fmt: skip
            readied.setdefault(t.state, []).append((
                t.id, was.attempt, t.state, t.attempt, t.open, t.failed, t.skipped, t.tolerated, t.admitted,
                t.upstream, t.demand, t.ready_at, t.rank, t.session, t.claim_no, t.claimed_at,
            ))  # fmt: skip
        else:
            others.append(_changed(t))
    if succeeded:
        attempts = [a for a in draft.attempts if a.outcome != "succeeded" or a.cached or a.task_id in successes]
    else:
        attempts = draft.attempts
    return Changes(attempts, claimed, succeeded, readied, others)


def additions(tasks: list[TaskRow]) -> tuple[dict[int, Rows], Rows]:
    """New tasks: by run those that are as a submission makes them, in few columns; and all others, whole."""
    fresh: dict[int, Rows] = {}
    others: Rows = []
    run_no = -1
    for t in tasks:
        if (
            t.generation == 1 and (t.state == "queued" or t.state == "pending")
            and not (t.failed or t.skipped or t.tolerated or t.admitted or t.child_action)
        ):  # fmt: skip
            if t.run_no != run_no:
                run_no = t.run_no
                add = fresh.setdefault(run_no, []).append
            add((t.id, t.pos, t.idx, t.state, t.open, t.demand, t.ready_at, t.rank, t.head_start))
        else:
            others.append(_task(t))
    return fresh, others


def json_of(value: Any) -> str:
    return _encode(value).decode()


#: What an exchange that only reports and claims leaves as it was: to look for changes in each takes it 5 µs.
RARE: Final = (
    "handles", "pools", "budgets", "values", "kept_results", "sessions", "triggers", "tokens", "deadlines",
    "notifications", "pruned",
)  # fmt: skip
_rare = attrgetter(*RARE)
_UNTOUCHED = _rare(Draft(0, {}))


def writes(draft: Draft, now: int) -> Iterator[Write]:
    for workflow in draft.created.workflows:
        yield "workflow_insert", (*workflow, now), None
    rare = _rare(draft) != _UNTOUCHED
    if draft.created.demands:
        yield "demand_insert", (), list(draft.created.demands.items())
    yield from _of_runs(draft, now)
    changed = changes(draft, now)
    if draft.dirty_tasks or draft.created.tasks:
        yield from _of_tasks(changed, draft.created.tasks, now)
    if rare:
        yield from _of_handles(draft.handles, now)
        yield from _of_pools(draft.pools)
        if draft.budgets.touched:
            yield from _of_budgets(draft.budgets)
    yield from _of_history(draft, changed.attempts, now)
    if rare:
        yield from _of_rare(draft, now)


def _of_rare(draft: Draft, now: int) -> Iterator[Write]:
    yield from _of_values(draft.values, now)
    yield from _of_kept_results(draft.kept_results)
    yield from _of_sessions(draft.sessions, now)
    if draft.triggers != _NO_TRIGGERS:  # mostly: one comparison instead of a look at each of its parts
        yield from _of_triggers(draft.triggers, now)
    if draft.tokens.new is not None:
        yield "token_insert", _values(draft.tokens.new), None
    if draft.tokens.revoked is not None:
        yield "token_revoke", (draft.tokens.revoked, now), None
    if draft.deadlines.new or draft.deadlines.judged:
        yield from _of_deadlines(draft.deadlines)
    outbox = draft.notifications
    if outbox.new or outbox.changed or outbox.state:
        yield from _of_notifications(outbox)
    yield from _of_pruning(draft.pruned, now)


def reply_writes(command_id: str, body_hash: str, reply: str, now: int) -> Iterator[Write]:
    yield "command_insert", (command_id, body_hash, reply, now), None
    yield "commands_delete_old", (now - KEEP_REPLIES_MS,), None


def _of_runs(draft: Draft, now: int) -> Iterator[Write]:
    new = draft.created.runs
    if new:
        if draft.created.taken_over:
            yield "attempts_take_over", (now,), list(draft.created.taken_over)
        yield "run_insert", (), [(*_run(run), *extra.values()) for run, extra in new.values()]
    for run_no, generation, old, corrected in draft.created.corrections:
        yield "correction_insert", (run_no, generation, old), None
        yield "run_correct", (run_no, corrected), None
    for root, pin in draft.created.pins:
        yield "pin_insert", (root, *_values(pin)), None
    for run in draft.dirty_runs:
        if run.no in new:
            continue
        before = draft.loaded_runs.get(run.no)
        if before is not None and _settled_part(before) == _settled_part(_values(run)):
            yield "run_update_progress", _progress(run), None
        else:
            yield "run_update", _run_changed(run), None


def _of_tasks(changed: Changes, created: list[TaskRow], now: int) -> Iterator[Write]:
    """Few statements for all that changed. A row that is not as it was loaded voids the whole transaction."""
    for shared, rows in changed.claimed.items():
        yield "tasks_claim_if_queued", shared, rows
    for shared, rows in changed.succeeded.items():
        yield "tasks_succeed_if_running", (now, *shared), rows
    for rows in changed.readied.values():
        yield "tasks_ready_if_pending", (), rows
    if changed.others:
        yield "tasks_update_if_unchanged", (), changed.others
    fresh, others = additions(created)
    for run_no, rows in fresh.items():
        yield "tasks_insert_fresh", (run_no,), rows
    if others:
        yield "tasks_insert", (), others


def _of_handles(handles: HandleChanges, now: int) -> Iterator[Write]:
    """Closed before others are opened: a task has one that is not closed."""
    for task_id, attempt, state in handles.states:
        if state == "orphaned":
            yield "handle_orphan_if_open", (task_id, attempt), None
        else:
            yield "handle_close_if_unclosed", (task_id, attempt, state, now), None
    for row in handles.opened:
        yield "handle_insert", _values(row), None
    for note in handles.notes:
        yield "handle_note", note, None


def _of_pools(pools: PoolChanges) -> Iterator[Write]:
    for name, size in sorted(pools.sizes.items()):
        yield "pool_set", (name, size), None
    for name, change in sorted(pools.taken.items()):
        if change:
            yield "pool_use", (name, change), None


def _of_budgets(budgets: BudgetChanges) -> Iterator[Write]:
    """After the pools, each by its scope."""
    for row in budgets.new:
        yield "budget_insert", _values(row), None
    for scope, limit in sorted(budgets.limits.items()):
        yield "budget_limit", (scope, limit.usd, limit.tokens), None
    for scope in sorted(budgets.renewed):
        yield "budget_renew", (scope,), None
    for scope, (spent, reserved) in sorted(budgets.counted.items()):
        if any(spent) or any(reserved):
            yield "budget_count", (scope, *spent, *reserved), None
    for task_id, amount in sorted(budgets.spent.items()):
        if any(amount):
            yield "spending_add", (task_id, *amount), None


def _of_history(draft: Draft, attempts: list[AttemptRow], now: int) -> Iterator[Write]:
    if attempts:
        yield "attempts_insert", (), [_values(attempt) for attempt in attempts]
    if draft.events:
        yield "events_insert", (now,), stored(draft.events, now)
    if draft.stale:
        yield "stale_insert", (now,), [_values(row) for row in draft.stale]


def _of_values(values: RunValues, now: int) -> Iterator[Write]:
    for entry in values.context:
        yield "context_set", entry, None
    for array in values.arrays:
        yield "array_insert", array, None
    for labels in values.labels:
        yield "labels_insert", labels, None
    for forgotten in values.forgotten_signals:
        yield "signal_delete", forgotten, None
    for signal in values.signals:
        yield "signal_insert", (*signal, now), None


def _of_kept_results(results: KeptResults) -> Iterator[Write]:
    if results.cached:  # by key: two nodes that keep the same ones must not wait for each other crosswise
        yield "memos_keep", (), [_values(results.cached[key]) for key in sorted(results.cached)]
    if results.once is not None:
        yield "memo_set_if_held", _values(results.once), None


def _of_sessions(sessions: SessionChanges, now: int) -> Iterator[Write]:
    if sessions.new:
        row, ttl_ms = sessions.new
        yield "session_insert", _values(row), None
        yield "lease_insert", (row.id, now + ttl_ms), None
    if sessions.abandoned:
        yield "session_give_up", (sessions.abandoned,), None
    for drained in sessions.drained:
        yield "session_drain", drained, None
    if sessions.leadership:
        lead, was_term = sessions.leadership
        yield "leadership_set_if_term", (*_values(lead), was_term), None
    for session, state in sessions.ended:
        yield "session_end", (session, state, now), None
        yield "lease_delete", (session,), None


def _of_triggers(triggers: TriggerChanges, now: int) -> Iterator[Write]:
    if triggers.applied is not None:
        yield "applied_set", (*triggers.applied, now), None
    for row, since_ms in triggers.changed:
        yield "trigger_set_if_unmoved", (*_values(row), since_ms), None
    for trigger in triggers.dropped_queues:
        yield "fires_drop_queued", (trigger, now), None
    for fire in triggers.fires:
        yield "fire_insert", _values(fire), None
    for fire in triggers.unqueued:
        yield "fire_update_if_queued", _unqueued(fire), None
    for fire in triggers.remade:
        yield "fire_remake_if_without_run", _unqueued(fire), None
    if triggers.new_backfill is not None:
        yield "backfill_insert", _values(triggers.new_backfill), None
    if triggers.backfill is not None:
        moved, cursor = triggers.backfill
        yield "backfill_move_if_at", (*_moved(moved), cursor), None


def _of_deadlines(deadlines: DeadlineChanges) -> Iterator[Write]:
    if deadlines.new:
        yield "deadlines_insert", (), [_values(row) for row in deadlines.new]
    for row in deadlines.judged:
        yield "deadline_judge_if_open", (row.run_no, row.pos, row.by, row.state), None


def _of_notifications(changes: NotificationChanges) -> Iterator[Write]:
    for key, body in sorted(changes.state.items()):
        if body is None:
            yield "notify_state_delete", (key,), None
        else:
            yield "notify_state_set", (key, body), None
    for new in changes.new:
        yield "notification_insert", _values(new), None
    for row, tries in changes.changed:
        yield "notification_set_if_tries", (*_delivery(row), tries), None


_BY_TASK = ("attempts", "spending", "stale", "memos", "handles", "output_chunks", "output_ends", "tasks")
_BY_RUN = (
    "_budget", "_events", "_context", "_signals", "_arrays", "_labels", "_pins", "_corrections", "_deadlines",
    "_notifications", "",
)  # fmt: skip


def _of_pruning(pruned: Pruned, now: int) -> Iterator[Write]:
    for run_no in pruned.runs:
        for what in _BY_TASK:
            yield f"run_delete_{what}", (run_no << ORDINAL_BITS, (run_no + 1) << ORDINAL_BITS), None
        for what in _BY_RUN:
            yield f"run_delete{what}", (run_no,), None
    before = pruned.before
    if before is None:
        return
    yield "workflows_delete_unused", (), None
    yield "demands_delete_private", (), None
    yield "sessions_delete_before", (before,), None
    yield "memos_delete_expired", (now,), None
    if pruned.cached:
        yield "memos_delete_cached", (before,), None
    yield "node_facts_delete_unused", (), None
    for name in ("events_delete_cluster", "fires_delete", "notifications_delete"):
        yield f"{name}_before", (before,), None
    for name in ("triggers_delete_unused", "backfills_delete_unused"):
        yield name, (before,), None
