"""Halt and stop: nothing more starts but handlers, and what has not started is cancelled.

What is queued is cancelled in the same transaction, so that no claim can follow. Everything else goes a
thousand tasks at a time from the cursor `run.sweep`, which any node moves on.
"""

from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Need, QueuedTasksOfRun, RunningTasksOfRun, UnendedTasks
from weft.core.rows import RunRow, TaskRow
from weft.core.rules.levels import void_level, why_void
from weft.core.rules.readiness import can_still_start, goes_on, is_over

SWEEP_MAX = 1000


def halt(draft: Draft, run: RunRow, failed: str, *, now: bool) -> Rule:
    """A failure stops the run; failure handlers go on. Returns the tasks that were cancelled."""
    draft.touch_run(run)
    run.halted = True
    run.sweep = 0
    draft.event(run.no, "halted", {"task": failed, "now": now})
    reason = f"the run was halted: {failed} failed" if run.level is None else why_void(run)
    return (yield from _end_unstarted(draft, run, reason, stop="halted" if now else None))


def stop_run(draft: Draft, run: RunRow, why: str, reason: str, *, now: bool = False) -> Rule:
    """Nothing of this run starts any more but handlers, which have a time of their own; what else runs is to stop.
    `now`: no handlers either, those of an earlier stop included. Returns the tasks that were cancelled."""
    draft.touch_run(run)
    workflow = draft.workflows[run.workflow]
    if run.stop is None:
        run.stop, run.reason, run.paused = why, reason, False
    data: dict[str, object] = {"why": run.stop, "reason": reason}
    run.deadline_at = None
    if not now and any(goes_on(task, run.halted, run.stop, True) for task in workflow.tasks):
        run.deadline_at = draft.now + workflow.handlers_timeout_ms
        data["handlers_until"] = run.deadline_at
    run.sweep = 0
    draft.event(run.no, "stopped", data)
    return (yield from _end_unstarted(draft, run, reason, stop=run.stop))


def end_handlers(draft: Draft, run: RunRow) -> Rule:
    """The run was stopped, and the time of its handlers is over."""
    late = f"its handlers did not end within {draft.workflows[run.workflow].handlers_timeout_ms / 1000:g} s"
    run.reason = f"{run.reason}; {late}"
    return (yield from stop_run(draft, run, run.stop or "", late, now=True))


def _end_unstarted(draft: Draft, run: RunRow, reason: str, *, stop: str | None) -> Rule:
    """Cancel what is queued and what comes next; with `stop`, running attempts shall stop. In this order: a
    claim that was under way while the queued ones were locked is among the running ones after it."""
    needs: tuple[Need, ...] = (
        (QueuedTasksOfRun(run.no),) if stop is None else (QueuedTasksOfRun(run.no), RunningTasksOfRun(run.no))
    )
    for rows in (yield needs):
        draft.add_loaded(rows)
    ended: list[TaskRow] = []
    if stop is not None:
        if run.level is not None:
            ended = void_level(draft, run, stop, reason)
        _stop_running(draft, run, stop)
    here = [t for t in draft.tasks.values() if t.run_no == run.no]
    cancelled = _cancel(draft, run, here, reason)
    cancelled += yield from sweep(draft, run, reason)
    return [*ended, *cancelled]


def _stop_running(draft: Draft, run: RunRow, why: str) -> None:
    definitions = draft.workflows[run.workflow].tasks
    for task in [t for t in draft.tasks.values() if t.run_no == run.no and t.state == "running"]:
        if task.elements is not None or (run.stop and can_still_start(run, definitions[task.pos])):
            continue
        if task.stop is None:
            ask_to_stop(draft, task, why)
        elif task.child is not None and is_over(run):
            draft.request_child_action(task, "stop")  # its run may still be at its handlers


def ask_to_stop(draft: Draft, task: TaskRow, why: str) -> None:
    """It stays running until its node says how it ended, or the run that it started has ended."""
    draft.touch(task)
    task.stop = why
    draft.wake = draft.stopping = True
    if task.child is not None:
        draft.request_child_action(task, "stop")


def sweep(draft: Draft, run: RunRow, reason: str) -> Rule:
    """Cancel the next thousand tasks that have not started; returns them."""
    assert run.sweep is not None
    (rows,) = yield (UnendedTasks(run.no, run.sweep, SWEEP_MAX),)
    rows = draft.add_loaded(rows)
    draft.touch_run(run)
    if len(rows) < SWEEP_MAX:
        run.sweep = None
    else:
        run.sweep = rows[-1].id
        draft.wake = True
    return _cancel(draft, run, rows, reason)


def _cancel(draft: Draft, run: RunRow, tasks: list[TaskRow], reason: str) -> list[TaskRow]:
    """Cancel those of these tasks that have not started and do not outlive what stopped the run."""
    definitions = draft.workflows[run.workflow].tasks
    cancelled = []
    for task in tasks:
        if task.state not in ("pending", "queued", "scheduled", "waiting"):
            continue
        if can_still_start(run, definitions[task.pos]):
            continue
        task.reason = reason
        draft.move(task, "cancelled")
        cancelled.append(task)
    if cancelled:
        draft.event(run.no, "cancelled", {"tasks": [[t.pos, t.idx] for t in cancelled], "reason": reason})
    return cancelled
