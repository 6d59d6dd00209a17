"""What should have started or ended by now: judged once, when its moment has passed, by the leader.

A deadline counts from the creation of its run, so that it also passes for a task that nothing ever makes ready. Being
late changes nothing: it leaves an event and notifications. A resume judges what has passed first, because it makes
the run, and its tasks, unfinished again.
"""

import msgspec

from weft.core.commands import CheckStarts, Reply, ReportLate
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.groups import Notice
from weft.core.decision.needs import DueDeadlines, FiresByCause, FirstStart, Runs, TasksAt, Trigger
from weft.core.rows import WHOLE, DeadlineRow, FireRow, RunRow, TriggerRow
from weft.core.rules.apply import trigger_of
from weft.core.rules.leader import require_term
from weft.core.rules.notifications import write_notifications
from weft.core.workflow import Workflow

DEADLINES_MAX = 1000  # judged in one transaction


def begin_deadlines(draft: Draft, run: RunRow, workflow: Workflow) -> None:
    """Of a new run; most have none."""
    draft.deadlines.new += [DeadlineRow(run.no, pos, by, run.created_at + ms) for pos, by, ms in workflow.deadlines]


def report_late(draft: Draft, command: ReportLate) -> Rule:
    yield from require_term(draft, command.term)
    (due,) = yield (DueDeadlines(command.limit),)
    (runs,) = yield (Runs(sorted({row.run_no for row in due})),)
    draft.add_loaded_runs(runs)
    late = 0
    for row in due:
        late += yield from _judge(draft, row)
    yield from write_notifications(draft)
    return Reply(changed=late, more=len(due) == command.limit)


def judge_passed(draft: Draft, run: RunRow) -> Rule:
    """Those of a run that is about to go on; the run is locked. Notifications follow with the rest of the
    transaction."""
    if not draft.workflows[run.workflow].deadlines:
        return
    (due,) = yield (DueDeadlines(DEADLINES_MAX, run.no),)
    for row in due:
        yield from _judge(draft, row)


def _judge(draft: Draft, row: DeadlineRow) -> Rule:
    """True: it is late. What has ended in time has also started in time, or need not start any more."""
    run = draft.runs[row.run_no]
    name, task, finished_at = None, None, run.finished_at
    if row.pos != WHOLE:
        place = (run.no, row.pos, WHOLE)
        if place not in draft.at:
            (rows,) = yield (TasksAt([place]),)
            draft.add_loaded(rows)
        task = draft.at[place]
        name, finished_at = draft.definition(task).name, task.finished_at
    met = finished_at is not None and finished_at <= row.at
    if not met and row.by == "start_by":
        (first,) = yield (FirstStart(run.no, row.pos),)
        met = bool(first) and first[0][0] <= row.at
    draft.deadlines.judged.append(msgspec.structs.replace(row, state="met" if met else "late"))
    if met:
        return False
    draft.event(run.no, "late", {"by": row.by, "at": row.at}, task)
    facts = {"task": name, "by": row.by, "at": row.at}
    pos = None if task is None else row.pos
    draft.notifications.notices.append(Notice("late", f"late:{row.pos}:{row.by}", run.workflow, run.no, pos, facts))
    return True


def check_starts(draft: Draft, command: CheckStarts) -> Rule:
    """Of a trigger with `start_by`. All times of one look are one report: a leader that comes after a long outage
    leaves one, not hundreds."""
    yield from require_term(draft, command.term)
    (rows,) = yield (Trigger(command.trigger),)
    if not rows or not rows[0].active or rows[0].checked_ms != command.since:
        return Reply(existing=True)
    row: TriggerRow = rows[0]
    start_by_ms = trigger_of(row).start_by_ms
    late: list[tuple[int, str]] = []
    times = [at for at in command.times if at > row.checked_ms]
    if start_by_ms is not None and times:
        (fires,) = yield (FiresByCause(row.id, [str(at) for at in times]),)
        known: dict[str, FireRow] = {fire.cause: fire for fire in fires}
        for at in times:
            fire = known.get(str(at))
            if fire is None or fire.outcome != "started" or fire.at > at + start_by_ms:
                late.append((at, _why_late(row, fire)))
    fresh = msgspec.structs.replace(row, checked_ms=command.until, check_ms=command.next_ms)
    draft.triggers.changed.append((fresh, row.since_ms))
    if late:
        span = {"first": late[0][0], "last": late[-1][0], "times": len(late), "start_by_ms": start_by_ms}
        data = {"trigger": row.id, **span, "reason": late[-1][1]}
        draft.cluster_event("trigger_late", None, data)
        cause = f"late:{row.id}:{late[0][0]}:{late[-1][0]}"
        draft.notifications.notices.append(Notice("late", cause, row.hash, facts=data))
        yield from write_notifications(draft)
    return Reply(changed=len(late))


def _why_late(row: TriggerRow, fire: FireRow | None) -> str:
    if fire is None:
        return "the trigger is paused" if row.paused else "nobody fired it"
    if fire.outcome == "started":
        return "its run started too late"
    return fire.reason or f"its fire is {fire.outcome}"
