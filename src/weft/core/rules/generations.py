"""A new generation of a finished run: fresh rows for what did not succeed, and for everything that follows it.

Old rows never change. Attempt numbers go on where they were; the retry budget starts anew.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from weft.core.decision.draft import Draft, Rule
from weft.core.placement.demands import demand_of
from weft.core.rows import WHOLE, RunRow, TaskRow
from weft.core.rules.deadlines import judge_passed
from weft.core.rules.levels import begin_level, level_plan_of
from weft.core.rules.readiness import ending_of
from weft.core.rules.settle import decide_start, settle
from weft.core.rules.waits import forget_rejections
from weft.core.workflow import Workflow


def begin_generation(
    draft: Draft,
    run: RunRow,
    chosen: list[TaskRow] | None,
    *,
    only_dead: bool,
    decide: Callable[[TaskRow], None] | None = None,
    also: Sequence[int] = (),
    facts: Mapping[str, Any] | None = None,
) -> Rule:
    """Returns how many tasks got a new row; 0: there was nothing to do. All current rows are in the draft. `decide`
    ends the new rows of the chosen tasks, which then do not run. `also` are more positions to work on, some of which
    may be new; `facts` go into the event."""
    workflow = draft.workflows[run.workflow]
    if not (again := positions_again(current_tasks(draft, run), run, workflow, chosen, only_dead, also)):
        return 0
    if run.level is not None:
        run.level = min(level_plan_of(draft, run).at[pos] for pos in again)
        run.advance_state = None if run.advance_state is None else "level"
        again = [pos for pos, at in enumerate(level_plan_of(draft, run).at) if at >= run.level]
    yield from judge_passed(draft, run)
    draft.move_run(run, "running")
    run.generation += 1
    run.halted, run.stop, run.sweep, run.reason, run.paused = False, None, None, None, False
    run.started_at, run.finished_at = run.started_at or draft.now, None
    run.deadline_at = None if workflow.timeout_ms is None else draft.now + workflow.timeout_ms
    data: dict[str, Any] = {"generation": run.generation, "tasks": again, **(facts or {})}
    draft.event(run.no, "resumed", data if run.level is None else {**data, "level": run.level})
    if chosen is not None and run.level is None:  # in levels, all of a level runs again
        for pos in dict.fromkeys(t.pos for t in chosen if t.element):
            draft.retried[(run.no, pos)] = frozenset(t.idx for t in chosen if t.pos == pos)
    yield from forget_rejections(draft, run, workflow, again)
    rows = [_renew(draft, run, pos) for pos in again]
    for row in rows:  # once all of them are there: the document may name a task before what it needs
        _count_needs(draft, run, workflow, row)
    _recount(draft, run, workflow)
    following: list[TaskRow] = []
    if run.level is not None:
        yield from begin_level(draft, run, decide_start, following)
        rows = []
    decided = frozenset(task.pos for task in chosen or ()) if decide is not None else frozenset()
    for row in rows:
        if decide is not None and row.pos in decided:
            decide(row)
            following.append(row)
        elif row.state == "pending" and row.open == 0:
            yield from decide_start(draft, run, workflow, row, following)
    yield from settle(draft, following)
    draft.wake = True
    return len(again)


def positions_again(
    current: Iterable[TaskRow],
    run: RunRow,
    workflow: Workflow,
    chosen: list[TaskRow] | None,
    only_dead: bool,
    also: Sequence[int] = (),
) -> list[int]:
    """Positions that run again, in the order of the document."""
    marked = [False] * len(workflow.tasks)
    if chosen is not None:
        seeds = [t.pos for t in chosen]
    else:
        wanted = ("dead_letter",) if only_dead else ("failed", "dead_letter", "cancelled")
        seeds = [
            row.pos
            for row in current
            if (row.state in wanted or (row.state == "skipped" and row.upstream and not only_dead))
            and (only_dead or not _committed(run, workflow, row))
        ]
    queue = sorted({*seeds, *also})
    for pos in queue:
        marked[pos] = True
    while queue:
        pos = queue.pop()
        for after in workflow.successors[pos]:
            if not marked[after]:
                marked[after] = True
                queue.append(after)
    if any(marked):  # handlers of the whole run see the new outcome
        for pos, definition in enumerate(workflow.tasks):
            marked[pos] = marked[pos] or definition.final
    return [pos for pos, mark in enumerate(marked) if mark]


def _committed(run: RunRow, workflow: Workflow, row: TaskRow) -> bool:
    """In levels, a failure that was allowed or tolerated is part of a level that stands."""
    return run.level is not None and (row.idx >= 0 or workflow.tasks[row.pos].allow_failure)


def current_tasks(draft: Draft, run: RunRow) -> list[TaskRow]:
    """Elements of a mapped task that was replaced, and not opened again yet, do not count."""
    return [
        row
        for (no, pos, idx), row in draft.at.items()
        if no == run.no and (idx < 0 or idx < (draft.at[(no, pos, WHOLE)].elements or 0))
    ]


def _renew(draft: Draft, run: RunRow, pos: int) -> TaskRow:
    old = draft.at.get((run.no, pos, WHOLE))  # none: a corrected definition brought it
    demand, _ = demand_of(draft.workflows[run.workflow].tasks[pos])  # not the old row's: that may be one node's
    row = draft.new_task(run, pos, WHOLE, run.generation, demand, 0, attempt=0 if old is None else old.attempt)
    if old is not None:
        row.child, row.head_start = old.own_child, old.head_start
    return row


def _count_needs(draft: Draft, run: RunRow, workflow: Workflow, row: TaskRow) -> None:
    definition = workflow.tasks[row.pos]
    if definition.final and not definition.needs:
        row.open = 1
        return
    for need in definition.needs:
        before = draft.at[(run.no, need, WHOLE)]
        if before.generation == run.generation or before.state not in (
            "succeeded",
            "failed",
            "dead_letter",
            "skipped",
            "cancelled",
        ):
            row.open += 1
            continue
        ending = ending_of(before.state, before.upstream, workflow.tasks[need].allow_failure)
        if need in definition.accepts:
            row.tolerated += ending == "failed"
        elif ending == "failed":
            row.failed += 1
        elif ending == "skipped":
            row.skipped += 1


def _recount(draft: Draft, run: RunRow, workflow: Workflow) -> None:
    """Counters are of the current rows; those of a replaced generation no longer count."""
    run.open = run.open_main = run.total = run.active = run.broken = 0
    run.succeeded = run.failed = run.dead_letter = run.cancelled = run.skipped = 0
    for row in current_tasks(draft, run):
        definition = workflow.tasks[row.pos]
        # an opened map is counted by its elements; one that ended unopened stands for them
        whole_map = row.idx < 0 and definition.mapped and (row.elements is not None or row.state == "pending")
        if not whole_map:
            run.total += 1
        if row.state == "pending":
            run.open += 1
            run.open_main += not definition.final
            continue
        if not whole_map:
            setattr(run, row.state, getattr(run, row.state) + 1)
        if row.state in ("failed", "dead_letter") and row.idx < 0 and not definition.allow_failure:
            run.broken += 1
            run.reason = run.reason or f"{definition.name}: {row.reason or row.state}"
