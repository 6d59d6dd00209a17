"""What becomes of a task when an attempt is over: it succeeds, fails, is retried, goes back, or is given up."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from weft.core.commands import Report
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import LossesByOutage, UnclosedHandles
from weft.core.placement.demands import memory_of
from weft.core.rows import AttemptRow, HandleRow, StaleRow, TaskRow
from weft.core.rules.budgets import load_spending, out_of_budget
from weft.core.rules.levels import end_in_level
from weft.core.rules.memos import keep_result
from weft.core.rules.ownership import enqueue
from weft.core.rules.readiness import can_still_start
from weft.core.rules.retries import delay_ms, raise_memory, retried
from weft.core.states import TaskState
from weft.core.workflow import TaskDef

OVERDUE = "overdue"  # why an attempt is stopped that its node should have ended by itself
_NOTHING = Report(0, 0, 0, 0, "returned")  # of an attempt that nobody reported
LOST_MAX = 5  # leases a task may lose before it is given up; those that an outage of the store took do not count


def apply_report(draft: Draft, session: str, report: Report, ended: list[TaskRow]) -> bool:
    """Apply one report if it still speaks of the attempt that the store has; False: it is stale."""
    task = draft.tasks.get(report.task_id)
    if (
        task is None or task.state != "running" or task.attempt != report.attempt
        or task.session != session or task.held is not None
    ):  # fmt: skip
        why = "no such task" if task is None else f"the task is {task.state}, attempt {task.attempt}"
        keep_stale(draft, session, report, why)
        return False
    if draft.handles.unclosed and (handle := draft.handles.unclosed.pop(task.id, None)) is not None:
        if report.unverified:
            await_engine(draft, task, handle)
            return True
        draft.handles.states.append((task.id, handle.attempt, "gone"))
    conclude(draft, task, report, ended)
    return True


def apply_successes(draft: Draft, session: str, reports: Sequence[Report], at: int, ended: list[TaskRow]) -> int:
    """`apply_report` for reports from `at` on that say what most say: the attempt that the store has has succeeded,
    and nothing else depends on that. Up to the first that is different, or changes the run's context: the place after
    the last one that was applied."""
    if draft.handles.unclosed:
        return at
    before = len(ended)
    draft.succeed(_successes(draft, session, reports, at, ended))
    return at + len(ended) - before


def _successes(
    draft: Draft, session: str, reports: Sequence[Report], at: int, ended: list[TaskRow]
) -> Iterator[tuple[TaskRow, int | None, str | None]]:
    tasks, attempts, now = draft.tasks, draft.attempts, draft.now
    for report in reports[at:] if at else reports:
        task = tasks.get(report.task_id)
        if (
            report.outcome != "succeeded" or report.cached is not None or task is None or task.state != "running"
            or task.attempt != report.attempt or task.session != session or task.held is not None
            or task.child is not None or draft.runs[task.run_no].level is not None
        ):  # fmt: skip
            return
        exit_code, hash = report.exit_code, report.result_hash
        started_at = None if report.started_ago_ms is None else now - report.started_ago_ms
        task.started_at = started_at
        attempts.append(
            AttemptRow(
                task.id, task.attempt, task.generation, session, "succeeded", exit_code, report.error,
                task.claimed_at, started_at, now - report.ended_ago_ms, report.result, hash,
            )
        )  # fmt: skip
        yield task, exit_code, hash
        ended.append(task)
        if report.keep is not None:
            keep_result(draft, task, session, report)
        if report.context:
            return


def conclude(draft: Draft, task: TaskRow, report: Report, ended: list[TaskRow]) -> None:
    """The attempt that the store has is over, like this."""
    session = task.session or ""  # nobody holds a task that runs another workflow
    draft.touch(task)
    now = draft.now
    task.started_at = None if report.started_ago_ms is None else now - report.started_ago_ms
    _record(draft, task, report.outcome, now - report.ended_ago_ms, report)
    if report.outcome == "succeeded":
        task.reason = None  # of an earlier attempt
        _end(draft, task, "succeeded")
        _finished(draft, task, report)
        if report.keep is not None and "succeeded" in (task.state, task.held):  # not if its level was void already
            keep_result(draft, task, session, report)
        ended.append(task)
    elif report.outcome == "returned":
        _go_back(draft, task, "returned", ended)
    elif report.outcome == "cancelled":
        task.reason = report.error or "cancelled"
        _end(draft, task, "cancelled")
        _finished(draft, task, report)
        ended.append(task)
    else:
        _fail(draft, task, report, ended)


def _end(draft: Draft, task: TaskRow, state: TaskState) -> None:
    run = draft.runs[task.run_no]
    if run.level is None:
        draft.move(task, state)
    else:
        end_in_level(draft, run, task, state)


def keep_stale(draft: Draft, session: str, report: Report, why: str) -> None:
    """A report that came too late is kept for inspection, and changes nothing."""
    body = msgspec.json.encode(report).decode()
    draft.stale.append(StaleRow(report.task_id, report.attempt, session, why, body))


def _record(draft: Draft, task: TaskRow, outcome: str, finished_at: int, report: Report | None) -> None:
    report = report or _NOTHING
    draft.attempts.append(
        AttemptRow(
            task.id, task.attempt, task.generation, task.session or "", outcome, report.exit_code, report.error,
            task.claimed_at, task.started_at, finished_at, report.result, report.result_hash,
            None if report.cached is None else msgspec.json.encode(report.cached).decode(),
        )
    )  # fmt: skip


def _finished(draft: Draft, task: TaskRow, report: Report) -> None:
    data: dict[str, object] = {"attempt": task.attempt, "state": task.state, "started_at": task.started_at}
    if report.exit_code is not None:
        data["exitCode"] = report.exit_code
    if report.error is not None:
        data["error"] = report.error
    if report.result_hash is not None:
        data["hash"] = report.result_hash
    if report.cached is not None:
        data["cached"] = report.cached
    if report.cause is not None:
        data["cause"] = report.cause
    if task.state == "scheduled":
        data["wake_at"] = task.wake_at
        if report.cause == "oom" and (memory := memory_of(task.demand)) is not None:
            data["memory"] = memory
    elif task.held is not None:
        data["state"], data["end"] = "held", task.held
    draft.event(task.run_no, "finished", data, task)


def _fail(draft: Draft, task: TaskRow, report: Report, ended: list[TaskRow]) -> None:
    definition = draft.definition(task)
    run = draft.runs[task.run_no]
    retry = definition.retry
    task.failures += 1
    task.reason = report.error or "failed"
    may_start = can_still_start(run, definition) and not _unwanted(task)
    if may_start and "@" in task.demand and (spent := out_of_budget(draft, task)) is not None:
        may_start, task.reason = False, f"{task.reason}; {spent}"
    if task.failures <= retry.max and may_start and retried(retry, report):
        task.wake_at = draft.now + delay_ms(retry, task.failures, task.id, task.attempt, report.retry_after_ms or 0)
        draft.move(task, "scheduled")
        draft.retries += 1
        release(task)
        if report.cause == "oom" and retry.memory is not None:
            raise_memory(draft, task, definition)
        _finished(draft, task, report)
        return
    used_up = retry.max > 0 and task.failures > retry.max
    _end(draft, task, "dead_letter" if used_up else "failed")
    _finished(draft, task, report)
    ended.append(task)


def load_handles(draft: Draft, tasks: Iterable[TaskRow]) -> Rule:
    """Those of the remote ones among these tasks, whose runs are loaded: before any of them may count as lost. And
    what they have spent."""
    tasks = list(tasks)
    yield from load_spending(draft, tasks)
    ids = [t.id for t in tasks if draft.definition(t).remote]
    if ids:
        (rows,) = yield (UnclosedHandles(ids),)
        draft.handles.unclosed |= {row.task_id: row for row in rows}


def lose(draft: Draft, task: TaskRow, ended: list[TaskRow], *, gave_up: bool = False) -> Rule:
    """The session that held this attempt is over. `gave_up`: because the store did not answer its process, which goes
    on. The bound is for tasks that take their node down: such losses do not count against it. Handles of remote tasks
    have been loaded: what is not known to be gone is not lost yet."""
    handle = draft.handles.unclosed.pop(task.id, None)
    if handle is not None:
        await_engine(draft, task, handle)
        return
    draft.touch(task)
    _record(draft, task, "lost", draft.now, None)
    task.lost += 1
    counted = task.lost
    if counted > LOST_MAX:
        (((before,),),) = yield (LossesByOutage(task.id),)
        counted -= before + gave_up
    _go_back(draft, task, "lost", ended, counted)


def await_engine(draft: Draft, task: TaskRow, handle: HandleRow) -> None:
    """Nobody watches this attempt any more, and its engine has not said that it is gone. The task stays running, held
    by the session that is over, until a node has removed it or adopts it, or a person releases it."""
    if handle.state == "orphaned":
        return
    draft.touch(task)
    task.deadline_at = None
    draft.handles.states.append((task.id, handle.attempt, "orphaned"))
    data = {"attempt": handle.attempt, "engine": handle.engine, "name": handle.name}
    draft.event(task.run_no, "unverified", data, task)
    draft.wake = True


def _go_back(draft: Draft, task: TaskRow, kind: str, ended: list[TaskRow], lost: int = 0) -> None:
    """The attempt did not finish through no fault of the task: queue it again, unless it must not run again."""
    run = draft.runs[task.run_no]
    definition: TaskDef = draft.definition(task)
    data: dict[str, object] = {"attempt": task.attempt, "session": task.session}
    if _unwanted(task) or not can_still_start(run, definition):
        asked = "the run was halted" if run.halted else "cancelled by request"
        task.reason = run.reason if run.stop else asked
        _end(draft, task, "cancelled")
        ended.append(task)
    elif kind == "lost" and not definition.retry.on_lost:
        task.reason = "its node was lost, and it may not be tried again (retry.on_lost: false)"
        _end(draft, task, "failed")
        ended.append(task)
    elif (spent := out_of_budget(draft, task)) is not None:
        task.reason = spent
        _end(draft, task, "failed")
        ended.append(task)
    elif lost > LOST_MAX:
        task.reason = f"its node was lost {lost} times"
        _end(draft, task, "dead_letter")
        ended.append(task)
    else:
        if run.paused:
            draft.move(task, "pending")
        else:
            enqueue(draft, run, task)
        release(task)
    data["state"] = task.state
    if task.held is not None:
        data["state"], data["end"] = "held", task.held
    if task.reason is not None:
        data["reason"] = task.reason
    draft.event(task.run_no, kind, data, task)


def _unwanted(task: TaskRow) -> bool:
    """Somebody stopped it for good; an attempt that only took too long may be tried again."""
    return task.stop is not None and task.stop != OVERDUE


def release(task: TaskRow) -> None:
    """Nobody holds it any more."""
    task.session = None
    task.claim_no = None
    task.claimed_at = None
    task.started_at = None
    task.stop = None
    task.deadline_at = None
