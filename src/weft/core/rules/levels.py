"""`mode: levels`: a run works on one level at a time, and what a level did counts when all of it is done.

A task that has finished is held: its attempt is recorded, its slot is free, and nobody sees its result. When
nothing of the level is open any more, one transaction moves all held tasks, by name and index, to their ends, merges
the context in that order and moves the cursor. The first failure voids the level instead: nothing of it counts.
Handlers are levels of their own behind all others; a handler that fails takes no other with it.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Elements, HeldEnds, RunningTasksOfRun, TasksAt
from weft.core.rows import ORDINAL_BITS, WHOLE, RunRow, TaskRow
from weft.core.rules.context import update_context
from weft.core.rules.names import fix_outcome
from weft.core.rules.ownership import enqueue
from weft.core.rules.readiness import can_still_start, failures_of
from weft.core.states import TaskState
from weft.core.workflow import LevelPlan, TaskDef, Workflow

#: Judges a task whose needs have ended (settle.decide_start; handed in, as the two need each other).
DecideStart = Callable[[Draft, RunRow, Workflow, TaskRow, list[TaskRow]], Rule]


def level_plan_of(draft: Draft, run: RunRow) -> LevelPlan:
    level_plan = draft.workflows[run.workflow].level_plan
    assert level_plan is not None
    return level_plan


def in_main_level(draft: Draft, run: RunRow) -> bool:
    return run.level is not None and run.level < level_plan_of(draft, run).handlers


def is_fatal(draft: Draft, run: RunRow, definition: TaskDef) -> bool:
    """Does the failure of this task void its level?"""
    return in_main_level(draft, run) and not definition.allow_failure


def by_key(run: RunRow) -> bool:
    """Its tasks start one after another, by name: `max_parallel: 0`, or advanced manually."""
    return run.level is not None and (run.max_parallel == 0 or run.advance_state is not None)


def key_rank(draft: Draft, run: RunRow, task: TaskRow) -> int:
    return (level_plan_of(draft, run).place[task.pos] << ORDINAL_BITS) + task.idx + 1


def end_in_level(draft: Draft, run: RunRow, task: TaskRow, end: TaskState) -> None:
    """What `draft.move` to an end is for eager runs: the end is held, unless it voids the level or comes too late."""
    definition = draft.definition(task)
    if not can_still_start(run, definition) if run.stop else run.halted and in_main_level(draft, run):
        if end == "succeeded":
            end = "cancelled"
        if end == "cancelled":
            task.reason = why_void(run)
        draft.move(task, end)
    elif end == "cancelled" or (end != "succeeded" and not task.element and is_fatal(draft, run, definition)):
        draft.move(task, end)
    else:
        draft.hold(task, end)


def why_void(run: RunRow) -> str:
    """The same words for every task of a level that failed, whatever it was doing."""
    return run.reason or "" if run.stop else f"the run was halted: {run.reason}"


def void_level(draft: Draft, run: RunRow, why: str, reason: str) -> list[TaskRow]:
    """Nothing of this level counts: what is held is cancelled now, mapped tasks when the last of their elements has
    ended. Elements that failed are failed if theirs is the mapped task that failed: which others had failed by then
    depends on who was faster. Running tasks of the run are in the draft. Returns those whose end is yet to be
    counted."""
    cancelled, failed = [], []
    to_settle = []
    for task in [t for t in draft.tasks.values() if t.run_no == run.no and t.state == "running"]:
        if run.stop and can_still_start(run, draft.definition(task)):
            continue
        if task.held is None and (task.elements is None or task.open > 0):
            if task.elements is not None:
                draft.touch(task)
                task.stop, task.reason = why, reason
            continue
        cause = task.element and draft.at[(run.no, task.pos, WHOLE)].state == "failed"
        if cause and task.held in ("failed", "dead_letter"):
            failed.append([task.pos, task.idx])
            draft.move(task, task.held)
        else:
            cancelled.append([task.pos, task.idx])
            task.reason = reason
            if task.element:
                whole = draft.at[(run.no, task.pos, WHOLE)]
                draft.touch(whole)
                whole.skipped += 1
            elif task.elements == 0:
                task.elements = None  # a map over nothing: it is the one task that ended
            draft.move(task, "cancelled")
        if task.element:
            task.settled = True  # its mapped task heard of it when it was held
        else:
            to_settle.append(task)
    if cancelled or failed:
        draft.event(run.no, "voided", {"tasks": cancelled, "failed": failed, "reason": reason})
    return to_settle


def begin_level(draft: Draft, run: RunRow, decide_start: DecideStart, following: list[TaskRow]) -> Rule:
    """The tasks at the cursor start, or are skipped, on what the levels before have committed."""
    workflow = draft.workflows[run.workflow]
    assert run.level is not None
    rows = yield from _at(draft, run, level_plan_of(draft, run).tasks[run.level])
    spoilt = [need for t in rows if t.failed or t.skipped for need in workflow.tasks[t.pos].needs]
    yield from _at(draft, run, tuple(dict.fromkeys(spoilt)))  # a skip names the first need that was to blame
    rows = [t for t in rows if t.state == "pending"]  # others were cancelled: the run was stopped
    draft.touch_run(run)
    run.level_open = len(rows)
    draft.event(run.no, "began", {"level": run.level})
    if any(workflow.tasks[task.pos].final for task in rows):
        yield from fix_outcome(draft, run)
    for task in rows:
        definition = workflow.tasks[task.pos]
        if definition.final and not definition.needs:
            draft.touch(task)
            task.open = 0
            task.failed = failures_of(run)
        yield from decide_start(draft, run, workflow, task, following)


def _at(draft: Draft, run: RunRow, positions: tuple[int, ...]) -> Rule:
    places = [(run.no, pos, WHOLE) for pos in positions]
    missing = [place for place in places if place not in draft.at]
    if missing:
        (rows,) = yield (TasksAt(missing),)
        draft.add_loaded(rows)
    return [draft.at[place] for place in places]


def commit_level(draft: Draft, run: RunRow) -> Rule:
    """All of the level is done: it counts from now on. Returns the tasks whose dependents have to count it."""
    workflow = draft.workflows[run.workflow]
    rows = yield from _rows_of_pass(draft, run)
    ends = yield from _ends(draft, rows)
    to_settle = []
    records = []
    for task in rows:
        if task.held is not None:
            draft.move(task, task.held)
            if task.element:
                task.settled = True
            else:
                to_settle.append(task)
        hash, context = ends.get(task.id, (None, None))
        data: dict[str, Any] = {"level": run.level, "state": task.state}
        if hash is not None:
            data["hash"] = hash
        draft.event(run.no, "merged", data, task)
        records.append([workflow.tasks[task.pos].called(task.idx), task.state, hash])
        if context and task.state == "succeeded":
            yield from update_context(draft, task, context)
    merged = hashlib.sha256(msgspec.json.encode(records)).hexdigest()[:32]
    draft.event(run.no, "level", {"level": run.level, "tasks": len(rows), "hash": merged})
    return to_settle


def _rows_of_pass(draft: Draft, run: RunRow) -> Rule:
    """The current rows of the level by name and index, elements behind their mapped task."""
    assert run.level is not None
    wholes = yield from _at(draft, run, level_plan_of(draft, run).tasks[run.level])
    out: list[TaskRow] = []
    for whole in wholes:
        out.append(whole)
        if whole.elements:
            (rows,) = yield (Elements(run.no, whole.pos),)
            draft.add_loaded(rows)
            out += [draft.at[(run.no, whole.pos, idx)] for idx in range(whole.elements)]
    return out


def _ends(draft: Draft, rows: list[TaskRow]) -> Rule:
    """By task: (hash of its result, the context that it sets)."""
    out: dict[int, tuple[str | None, Any]] = {}
    (stored,) = yield (HeldEnds([t.id for t in rows if t.elements is None]),)
    wanted = {t.id: t.attempt for t in rows}
    fresh = [(a.task_id, a.result_hash, a.result) for a in draft.attempts if wanted.get(a.task_id) == a.attempt]
    for task_id, hash, result in [*stored, *fresh]:
        body = None if result is None else msgspec.json.decode(result)
        out[task_id] = (hash, body.get("context") if isinstance(body, dict) else None)
    return out


def drop_held(draft: Draft, run: RunRow, session: str) -> Rule:
    """The owner is gone, and what it held of this level with it: those tasks run again, with a fresh retry budget.
    Waits stay answered: nobody's attempt was behind them."""
    (rows,) = yield (RunningTasksOfRun(run.no),)
    draft.add_loaded(rows)
    held = [
        t for t in draft.tasks.values()
        if t.run_no == run.no and t.held is not None and t.session == session and t.state == "running"
    ]  # fmt: skip
    held.sort(key=lambda t: (t.pos, t.idx))
    ready = []
    later = []  # of a mapped task with max_parallel: let in again one by one
    for task in held:
        whole = draft.at[(run.no, task.pos, WHOLE)] if task.element else None
        if whole is not None:
            draft.touch(whole)
            whole.open += 1
            whole.failed -= task.held != "succeeded"
            if whole.held is not None:
                draft.unhold(whole)
        draft.unhold(task)
        task.session = task.claim_no = task.claimed_at = task.started_at = None
        task.failures, task.reason = 0, None
        if whole is not None and _is_full(draft, whole):
            whole.admitted -= 1
            task.ready_at = None
            draft.move(task, "pending")
            later.append([task.pos, task.idx])
            continue
        if not run.limited:
            enqueue(draft, run, task)
        else:
            if by_key(run):
                task.rank = key_rank(draft, run, task)
            draft.move(task, "pending")
        ready.append([task.pos, task.idx])
    if held:
        draft.event(run.no, "dropped", {"tasks": ready, "later": later})


def _is_full(draft: Draft, whole: TaskRow) -> bool:
    """Would one more element of this mapped task be too many? (It still counts among those let in.)"""
    limit = draft.definition(whole).max_parallel
    assert whole.elements is not None
    return limit is not None and whole.admitted - whole.elements + whole.open > limit
