"""Mapped tasks: one row for the whole, which holds no slot, and one per element.

The whole opens when its needs are done, lets its elements in (at most `max_parallel` at a time), and closes when the
last one has ended. Beyond what is tolerated, elements that have not started are cancelled and the whole fails.
"""

from collections.abc import Callable

from weft.core.draft import Draft, Rule
from weft.core.expressions import ExpressionError, resolve_value
from weft.core.needs import Elements, TasksAt
from weft.core.rows import TASKS_MAX, WHOLE, RunRow, TaskRow
from weft.core.rules.names import names_of
from weft.core.workflow import TaskDef

#: Puts a task whose needs are done into the queue (settle.make_ready; handed in, as the two need each other).
MakeReady = Callable[[Draft, RunRow, TaskRow, TaskDef, list[TaskRow]], Rule]


def open_map(
    draft: Draft, run: RunRow, task: TaskRow, definition: TaskDef, following: list[TaskRow], make_ready: MakeReady
) -> Rule:
    count, error = yield from _count(draft, run, definition)
    draft.touch(task)
    if error is not None:
        task.reason = error
        draft.move(task, "failed")
        draft.event(run.no, "refused", {"state": "failed", "error": error}, task)
        following.append(task)
        return
    task.elements = count
    draft.event(run.no, "expanded", {"elements": count}, task)
    if count == 0:
        draft.move(task, "succeeded")
        following.append(task)
        return
    draft.move(task, "running")
    task.open, task.failed, task.skipped, task.tolerated = count, 0, 0, 0
    task.started_at = draft.now
    task.admitted = min(count, definition.max_parallel or count)
    attempts: dict[int, int] = {}
    if task.generation > 1:  # attempt numbers go on where the last generation's elements left them
        (rows,) = yield (Elements(run.no, task.pos),)
        for row in rows:
            attempts[row.idx] = max(row.attempt, attempts.get(row.idx, 0))
    for idx in range(count):
        element = draft.new_task(run, task.pos, idx, task.generation, task.demand, 0, attempts.get(idx, 0))
        if idx < task.admitted:
            yield from make_ready(draft, run, element, definition, following)


def _count(draft: Draft, run: RunRow, definition: TaskDef) -> Rule:
    """(how many elements, None), or (0, why that cannot be said)."""
    if definition.replicas is not None:
        return definition.replicas, None
    names = yield from names_of(draft, run, draft.workflow_of(run), definition, definition.map_reads)
    try:
        array = resolve_value(definition.map, names)
    except ExpressionError as error:
        return 0, f"map: {error.message}"
    if type(array) is not list:
        return 0, f"map: an array is needed, this is {_kind_of(array)}"
    size = definition.batch or 1
    count = -(-len(array) // size)
    if run.ordinals + count > TASKS_MAX:
        return 0, f"map: {count:,} elements are more than a run can hold"
    return count, None


def _kind_of(value: object) -> str:
    kinds = {str: "text", dict: "an object", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


def element_ended(
    draft: Draft,
    run: RunRow,
    definition: TaskDef,
    element: TaskRow,
    following: list[TaskRow],
    make_ready: MakeReady,
) -> Rule:
    """Close the mapped task, or let its next element in."""
    place = (run.no, element.pos, WHOLE)
    if place not in draft.at:
        (rows,) = yield (TasksAt([place]),)
        draft.adopt(rows)
    whole = draft.at[place]
    if whole.state != "running" or whole.elements is None:
        return
    draft.touch(whole)
    whole.open -= 1
    tolerated = definition.tolerate.of(whole.elements)
    if element.state != "succeeded":
        whole.failed += 1
        if whole.failed == tolerated + 1 and not run.stop:
            yield from _cancel_siblings(draft, run, definition, element, following)
    if whole.open == 0:
        _close(draft, run, whole, tolerated)
        following.append(whole)
        return
    over = run.stop is not None or (run.halted and not definition.survives_halt)
    if whole.failed <= tolerated and whole.admitted < whole.elements and not over:
        next_place = (run.no, element.pos, whole.admitted)
        whole.admitted += 1
        if next_place not in draft.at:
            (rows,) = yield (TasksAt([next_place]),)
            draft.adopt(rows)
        if draft.at[next_place].state == "pending":
            yield from make_ready(draft, run, draft.at[next_place], definition, following)


def _close(draft: Draft, run: RunRow, whole: TaskRow, tolerated: int) -> None:
    if run.stop and whole.failed:
        whole.reason = run.reason
        draft.move(whole, "cancelled")
    elif whole.failed <= tolerated:
        draft.move(whole, "succeeded")
    else:
        whole.reason = f"{whole.failed} of {whole.elements} elements did not succeed"
        draft.move(whole, "failed")
    draft.event(run.no, "closed", {"state": whole.state, "reason": whole.reason}, whole)


def _cancel_siblings(
    draft: Draft, run: RunRow, definition: TaskDef, failed: TaskRow, following: list[TaskRow]
) -> Rule:
    (rows,) = yield (Elements(run.no, failed.pos),)
    draft.adopt(rows)
    how = {"dead_letter": "failed", "cancelled": "was cancelled"}.get(failed.state, failed.state)
    reason = f"{definition.name}.{failed.idx} {how}"
    places = []
    for row in [r for r in draft.tasks.values() if r.run_no == run.no and r.pos == failed.pos and r.idx >= 0]:
        if row.state in ("pending", "queued", "scheduled") and draft.at[(run.no, row.pos, row.idx)] is row:
            row.reason = reason
            draft.move(row, "cancelled")
            places.append([row.pos, row.idx])
            following.append(row)
    if places:
        draft.event(run.no, "cancelled", {"tasks": places, "reason": reason})
