"""The one command of a node: take its reports, keep its lease, hand it work.

Order within: fence, reports, what follows from them, chores left over, due tasks, claims. A chain of tasks costs one
exchange per task, because the successor that a report queues can be claimed in the same transaction.
"""

import msgspec

from weft.core.commands import Claim, Exchange, ExchangeReply
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import (
    BeginExchange,
    DueTasks,
    NewDemands,
    NextWakeTime,
    QueuedTasks,
    Runs,
    Session,
    StopRequests,
    Tasks,
    TasksAt,
    TasksClaimedAt,
    UnclosedHandles,
)
from weft.core.placement.demands import memory_of
from weft.core.rows import ORDINAL_BITS, TaskRow
from weft.core.rules.attempts import apply_report, apply_successes, keep_stale, load_handles
from weft.core.rules.budgets import allowance_of, load_spending, take_spending
from weft.core.rules.children import begin_again, child_due
from weft.core.rules.claims import claim, remaining, unlimited
from weft.core.rules.context import update_context
from weft.core.rules.handles import adopt, note_progress
from weft.core.rules.levels import by_key, key_rank
from weft.core.rules.order import set_ready, take_places
from weft.core.rules.ownership import enqueue
from weft.core.rules.place import reopen
from weft.core.rules.readiness import can_still_start
from weft.core.rules.settle import settle
from weft.core.rules.tidy import tidy
from weft.core.rules.waits import due as wait_due
from weft.core.states import RUN_TERMINAL

DUE_MAX = 100


def exchange(draft: Draft, command: Exchange) -> Rule:
    draft.by_session = command.session
    ids = _named(command)
    run_nos = sorted({task_id >> ORDINAL_BITS for task_id in ids})
    following = _within(command.following, run_nos)
    begun, runs, tasks, queued, *waiting = yield (
        BeginExchange(command.session, command.number, command.undisturbed),
        Runs(run_nos),
        Tasks(sorted({*ids, *((run_no << ORDINAL_BITS) + pos for run_no, pos, _ in following)})),
        QueuedTasks(unlimited(command.demands, command), command.scope, max(0, command.want), command.workflows),
        *_slotless(command),
    )
    if not begun:
        return (yield from _not_begun(draft, command))
    session, wake_at, unsettled, sweeping, stopping, newest_demand, notifying = begun[0]
    draft.notifications.stored = bool(notifying)
    draft.add_loaded_runs(runs)
    draft.add_loaded(tasks)
    draft.add_loaded(queued)
    for rows in waiting:
        draft.add_loaded(rows)
    yield from _load_later(draft, following)

    _note_started(draft, command)
    ended, stale = yield from _apply_reports(draft, command)
    is_due = wake_at is not None and wake_at <= draft.now
    if is_due:
        yield from _promote(draft, ended)
    yield from settle(draft, ended)
    chores = unsettled or sweeping or draft.child_actions or is_due
    more = (yield from tidy(draft, None)) if chores else False
    more = more or draft.left_over()
    yield from take_places(draft, command, len(queued))
    draining = session.state == "draining"
    idle = draining or command.want + command.want_slotless <= 0 or session.role == "observer"
    claims = [] if idle else (yield from _claim(draft, command))
    more = more or draft.budgets.parked
    demands: list[tuple[int, str, str]] = []
    if newest_demand > command.known_demands:
        (demands,) = yield (NewDemands(command.known_demands),)
    if is_due:  # what was due has been seen to; what comes after it the overview did not contain
        (later,) = yield (NextWakeTime([t.id for t in draft.dirty_tasks], [run.no for run in draft.dirty_runs]),)
        wake_at = later[0] if later else None
    stops = yield from _stops(draft, command.session, stopping)
    drain_in_ms = None if session.drain_at is None else max(0, session.drain_at - draft.now)
    return ExchangeReply(
        claims, stops, stale, _wake_in(draft, wake_at), more,
        draining=draining, drain_in_ms=drain_in_ms, demands=demands, retries=draft.retries,
    )  # fmt: skip


def _named(command: Exchange) -> list[int]:
    """The tasks that it speaks of, ascending."""
    ids = [r.task_id for r in command.reports] + [task_id for task_id, *_ in command.started]
    if command.adopt or command.notes or command.spent:
        ids += [id for id, _ in command.adopt] + [id for id, *_ in command.notes] + [id for id, *_ in command.spent]
        ids = [*dict.fromkeys(ids)]
    return sorted(ids)


def _slotless(command: Exchange) -> tuple[QueuedTasks, ...]:
    """What is loaded of tasks that take no slot."""
    if command.want_slotless <= 0:
        return ()
    demands = unlimited(command.slotless, command)
    return (QueuedTasks(demands, command.scope, command.want_slotless, command.workflows),)


def _claim(draft: Draft, command: Exchange) -> Rule:
    """What other nodes have left on an engine of this one comes first: it runs already."""
    if not command.adopt and not command.want_slotless:
        return (yield from claim(draft, command)) if command.want > 0 else []
    claims = (yield from adopt(draft, command)) if command.adopt else []
    adopted = [draft.tasks[one.task_id].demand in command.slotless for one in claims]
    want, want_slotless = command.want - adopted.count(False), command.want_slotless - adopted.count(True)
    if want > 0:
        claims += yield from claim(draft, msgspec.structs.replace(command, want=want))
    if want_slotless > 0:
        free = remaining(draft, command, claims)
        part = msgspec.structs.replace(command, want=want_slotless, demands=command.slotless, free=free)
        claims += yield from claim(draft, part)
    return claims


def _apply_reports(draft: Draft, command: Exchange) -> Rule:
    """Returns the tasks that ended, and (task, attempt) of reports that came too late."""
    if command.remote:
        yield from load_handles(draft, [draft.tasks[id] for id in command.remote if id in draft.tasks])
    if command.spends:
        yield from take_spending(draft, command)
    ended: list[TaskRow] = []
    stale: list[tuple[int, int]] = []
    reports, at = command.reports, 0
    while at < len(reports):
        before, at = at, apply_successes(draft, command.session, reports, at, ended)
        applied = at > before
        if not applied:
            applied = apply_report(draft, command.session, reports[at], ended)
            at += 1
        report = reports[at - 1]
        if not applied:
            stale.append((report.task_id, report.attempt))
        elif report.context and report.outcome == "succeeded":
            task = draft.tasks[report.task_id]
            if draft.runs[task.run_no].level is None:  # else it is merged when the level commits
                yield from update_context(draft, task, report.context)
    return ended, stale


def _stops(draft: Draft, session: str, stored: bool) -> Rule:
    """(task, attempt, why) of this session's attempts that shall stop."""
    if stored:
        (rows,) = yield (StopRequests(session),)
        draft.add_loaded(rows)
    elif not draft.stopping:
        return []
    return [
        (t.id, t.attempt, t.stop)
        for t in draft.tasks.values()
        if t.stop and t.session == session and t.state == "running"
    ]


def _not_begun(draft: Draft, command: Exchange) -> Rule:
    """The session is over, or has made this exchange before."""
    (sessions,) = yield (Session(command.session),)
    if sessions and sessions[0].state not in ("dead", "left"):
        return (yield from _repeat(draft, command))
    for report in command.reports:
        keep_stale(draft, command.session, report, "its session is over")
    stale = [(r.task_id, r.attempt) for r in command.reports]
    return ExchangeReply([], [], stale, None, False, dead=True)


def _load_later(draft: Draft, following: list[tuple[int, int, int]]) -> Rule:
    """What a run began with has its place in its id, and was loaded by that. Of a run that was resumed, the rows of
    later generations count."""
    resumed = [place for place in following if place[0] in draft.runs and draft.runs[place[0]].generation > 1]
    if resumed:
        (rows,) = yield (TasksAt(resumed),)
        draft.add_loaded(rows)


def _note_started(draft: Draft, command: Exchange) -> None:
    """Long attempts say when they began; short ones say it with their end."""
    for task_id, attempt, ago_ms, limit_ms in command.started:
        task = draft.tasks.get(task_id)
        if task is None or (task.state, task.attempt, task.session) != ("running", attempt, command.session):
            continue
        draft.touch(task)
        task.started_at = draft.now - ago_ms
        task.deadline_at = None if limit_ms is None else task.started_at + limit_ms
        draft.event(task.run_no, "started", {"attempt": attempt, "started_at": task.started_at}, task)
    note_progress(draft, command)


def _repeat(draft: Draft, command: Exchange) -> Rule:
    """The reply to this number was lost after COMMIT: its reports are applied, its claims are handed out again."""
    claimed, stopping = yield (TasksClaimedAt(command.session, command.number), StopRequests(command.session))
    (handles,) = yield (UnclosedHandles([t.id for t in claimed]),)  # only what was adopted has one before it starts
    adopted = frozenset(handle.task_id for handle in handles)
    yield from load_spending(draft, claimed)
    claims = [
        Claim(
            t.id, t.attempt, t.run_no, t.pos, t.idx, t.generation, memory=memory_of(t.demand),
            adopted=t.id in adopted, allowance=allowance_of(draft, t),
        )
        for t in claimed
    ]  # fmt: skip
    return ExchangeReply(claims, [(t.id, t.attempt, t.stop) for t in stopping if t.stop], [], None, True)


def _promote(draft: Draft, ended: list[TaskRow]) -> Rule:
    """Scheduled tasks whose time has come are queued, or wait for room in their run; waits for that time end."""
    (due,) = yield (DueTasks(DUE_MAX),)
    due = draft.add_loaded(due)
    missing = sorted({t.run_no for t in due if t.run_no not in draft.runs})
    if missing:
        (runs,) = yield (Runs(missing),)
        draft.add_loaded_runs(runs)
    promoted: dict[int, list[list[int]]] = {}
    for task in due:
        if task.state == "waiting" and task.held is None:
            wait_due(draft, task, ended)
        elif task.state == "queued":
            reopen(draft, task)  # the node it was given to did not claim it in time
        elif task.state == "running":
            child_due(draft, task)
        if task.state != "scheduled":
            continue
        run = draft.runs[task.run_no]
        if not can_still_start(run, draft.definition(task)):
            continue  # its run is being swept, and the sweep will come to it
        promoted.setdefault(task.run_no, []).append([task.pos, task.idx])
        if task.child is not None:
            begin_again(draft, task)
            continue
        due_at = task.wake_at if task.wake_at is not None else draft.now  # who was due first goes first
        set_ready(draft, run, task, draft.definition(task), due_at)
        if not run.limited:
            enqueue(draft, run, task)
        else:
            if by_key(run):
                task.rank = key_rank(draft, run, task)
            draft.move(task, "pending")
        draft.touch_run(run)
        task.wake_at = None
    for run_no, places in promoted.items():
        draft.event(run_no, "promoted", {"tasks": places})


def _wake_in(draft: Draft, stored: int | None) -> int | None:
    """Until the next task or deadline is due; the store does not know yet what this draft has scheduled."""
    moments = [t.wake_at for t in draft.dirty_tasks if t.wake_at is not None]
    moments += [r.deadline_at for r in draft.dirty_runs if r.deadline_at and r.state not in RUN_TERMINAL]
    if stored is not None:
        moments.append(stored)
    return max(0, min(moments) - draft.now) if moments else None


def _within(places: list[tuple[int, int, int]], run_nos: list[int]) -> list[tuple[int, int, int]]:
    """Places of other runs are left out: those are not locked, and their rows could be old."""
    return [place for place in places if place[0] in run_nos] if places else places
