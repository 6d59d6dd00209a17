"""Mapped tasks: one row for the whole, which holds no slot, and one per element.

The whole opens when its needs are done, lets its elements in (at most `max_parallel` at a time), and closes when the
last one has ended. Beyond what is tolerated, elements that have not started are cancelled and the whole fails.
"""

import hashlib
from collections.abc import Callable

import msgspec

from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Elements, MapArray, TasksAt
from weft.core.expressions import ExpressionError
from weft.core.expressions.elements import array_of, labels_of
from weft.core.rows import TASKS_MAX, WHOLE, RunRow, TaskRow
from weft.core.rules.levels import end_in_level, is_fatal
from weft.core.rules.names import names_of
from weft.core.rules.readiness import can_still_start
from weft.core.states import TaskState
from weft.core.workflow import TaskDef

#: Puts a task whose needs are done into the queue (settle.make_ready; handed in, as the two need each other).
MakeReady = Callable[[Draft, RunRow, TaskRow, TaskDef, list[TaskRow]], Rule]


def open_map(
    draft: Draft, run: RunRow, task: TaskRow, definition: TaskDef, following: list[TaskRow], make_ready: MakeReady
) -> Rule:
    array, labels, error = yield from _array(draft, run, definition)
    draft.touch(task)
    if error is not None:
        task.reason = error
        draft.move(task, "failed")
        draft.event(run.no, "refused", {"state": "failed", "error": error}, task)
        following.append(task)
        return
    count = _count(definition, array)
    data: dict[str, object] = {"elements": count}
    _store_labels(draft, run, task, labels, data)
    before = yield from _elements_before(draft, run, task)
    if definition.map_reads_context and (yield from _fix_array(draft, run, task, array, data)):
        kept: frozenset[int] = frozenset()
    else:
        kept = _kept(draft, run, task, definition, count, before)
    again = [idx for idx in range(count) if idx not in kept]
    task.elements = count
    if kept:
        data["again"] = again
        draft.touch_run(run)
        run.total += len(kept)  # they count again: while the whole was pending, none of its elements did
        for idx in sorted(kept):
            setattr(run, before[idx].state, getattr(run, before[idx].state) + 1)
    draft.event(run.no, "expanded", data, task)
    if not again:
        if run.level is None:
            draft.move(task, "succeeded")
        else:
            draft.move(task, "running")
            task.open = 0
            draft.hold(task, "succeeded")
        following.append(task)
        return
    draft.move(task, "running")
    task.open, task.failed, task.skipped = len(again), 0, 0
    task.tolerated = sum(before[idx].state != "succeeded" for idx in sorted(kept))
    task.started_at = draft.now
    let_in = min(len(again), definition.max_parallel or len(again))
    task.admitted = len(kept) + let_in
    for nth, idx in enumerate(again):
        attempt = before[idx].attempt if idx in before else 0
        element = draft.new_task(run, task.pos, idx, task.generation, task.demand, 0, attempt)
        element.head_start = task.head_start
        element.child = before[idx].own_child if idx in before else None
        if nth < let_in:
            yield from make_ready(draft, run, element, definition, following)


def _store_labels(
    draft: Draft, run: RunRow, task: TaskRow, labels: list[str] | None, data: dict[str, object]
) -> None:
    if labels is None:
        return
    text = msgspec.json.encode(labels).decode()
    data["labels"] = array_hash(text)
    draft.values.labels.append((run.no, task.pos, task.generation, text))


def _elements_before(draft: Draft, run: RunRow, task: TaskRow) -> Rule:
    """The newest rows of the elements that an earlier generation had, by index."""
    before: dict[int, TaskRow] = {}
    if task.generation > 1:
        (rows,) = yield (Elements(run.no, task.pos),)
        for row in draft.add_loaded(rows):
            if row.idx not in before or before[row.idx].generation < row.generation:
                before[row.idx] = row
    return before


def _kept(
    draft: Draft, run: RunRow, task: TaskRow, definition: TaskDef, count: int, before: dict[int, TaskRow]
) -> frozenset[int]:
    """Elements that succeeded in an earlier generation stay, unless what they were made from ran again; where some
    were chosen, all others do, however they ended."""
    if len(before) != count or any(
        draft.at[(run.no, need, WHOLE)].generation == task.generation
        for need in definition.needs
        if (run.no, need, WHOLE) in draft.at
    ):
        return frozenset()
    chosen = draft.retried.get((run.no, task.pos))
    if chosen is not None:
        return frozenset(idx for idx in before if idx not in chosen)
    return frozenset(idx for idx, row in before.items() if row.state == "succeeded")


def _fix_array(draft: Draft, run: RunRow, task: TaskRow, array: object, data: dict[str, object]) -> Rule:
    """The context goes on changing, so what this generation maps over is stored; True if the last one had another."""
    text = msgspec.json.encode(array).decode()
    data["array"] = array_hash(text)
    before: list[tuple[int, str]] = []
    if task.generation > 1:
        (before,) = yield (MapArray(run.no, task.pos),)
    draft.values.arrays.append((run.no, task.pos, task.generation, text))
    return bool(before) and before[0][1] != text


def array_hash(text: str) -> str:
    """As the event has it."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _count(definition: TaskDef, array: list[object] | None) -> int:
    if array is None:
        return definition.replicas or 0
    return -(-len(array) // (definition.batch or 1))


def _array(draft: Draft, run: RunRow, definition: TaskDef) -> Rule:
    """(what to map over, its labels, None), or (None, None, why that cannot be said); replicas have no array, and
    most maps no labels."""
    if definition.replicas is not None and not definition.labelled:
        return None, None, None
    reads, key = definition.map_reads, "matrix" if definition.matrix else "map"
    names = yield from names_of(draft, run, draft.workflows[run.workflow], definition, reads, files_of=reads)
    try:
        array = array_of(names, definition)
    except ExpressionError as error:
        return None, None, f"{key}: {error.message}"
    if type(array) is not list and definition.replicas is None:
        return None, None, f"{key}: an array is needed, this is {_kind_of(array)}"
    count = _count(definition, array)
    if run.ordinals + count > TASKS_MAX:
        return None, None, f"{key}: {count:,} elements are more than a run can hold"
    if not definition.labelled:
        return array, None, None
    try:
        return array, labels_of(names, definition, count, array), None
    except ExpressionError as error:
        return None, None, f"label: {error.message}"


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
        draft.add_loaded(rows)
    whole = draft.at[place]
    if whole.state != "running" or whole.elements is None:
        return
    draft.touch(whole)
    whole.open -= 1
    tolerated = definition.tolerate.of(whole.elements)
    too_many = False
    if (element.held or element.state) != "succeeded":
        whole.failed += 1
        whole.skipped += element.state == "cancelled"
        too_many = whole.failed > tolerated
        if whole.failed == tolerated + 1 and can_still_start(run, definition) and run.level is None:
            yield from _cancel_siblings(draft, run, definition, element, following)
    # In a level, all elements run to their ends, or the first one too many voids it: which of them had been started
    # when another failed depends on who was faster, and must not show.
    voids = too_many and not run.halted and is_fatal(draft, run, definition)
    if whole.open == 0 or voids:
        _close(draft, run, definition, whole)
        following.append(whole)
        return
    over = not can_still_start(run, definition)
    go_on = whole.failed <= tolerated or (run.level is not None and not is_fatal(draft, run, definition))
    if go_on and whole.admitted < whole.elements and not over:
        following_element = yield from _next_element(draft, run, whole)
        whole.admitted += 1
        if following_element is not None:
            yield from make_ready(draft, run, following_element, definition, following)


def _next_element(draft: Draft, run: RunRow, whole: TaskRow) -> Rule:
    """The first element that has not been let in yet. After a resume or a lost owner they may not be in a row."""
    if whole.generation > 1 or run.level is not None:
        (rows,) = yield (Elements(run.no, whole.pos),)
        rows = sorted(draft.add_loaded(rows), key=lambda t: t.idx)
        return next(
            (t for t in rows if t.generation == whole.generation and _outside(t)),
            None,
        )
    place = (run.no, whole.pos, whole.admitted)
    if place not in draft.at:
        (rows,) = yield (TasksAt([place]),)
        draft.add_loaded(rows)
    return draft.at[place] if draft.at[place].state == "pending" else None


def _outside(element: TaskRow) -> bool:
    """It has not been let in."""
    return element.state == "pending" and element.ready_at is None and element.child_action is None


def _close(draft: Draft, run: RunRow, definition: TaskDef, whole: TaskRow) -> None:
    """A stop that came too late changes nothing: the whole is cancelled only if one of its elements was."""
    assert whole.elements is not None
    state: TaskState = "succeeded"
    stopped = run.stop is not None and not can_still_start(run, definition)
    if whole.skipped and (stopped or whole.stop):
        whole.reason = run.reason if stopped else (whole.reason or "cancelled by request")
        state = "cancelled"
    elif whole.failed + whole.tolerated > definition.tolerate.of(whole.elements):
        whole.reason = f"{whole.failed + whole.tolerated} of {whole.elements} elements did not succeed"
        state = "failed"
    else:
        whole.reason = None
    if run.level is None:
        draft.move(whole, state)
    else:
        end_in_level(draft, run, whole, state)
    data: dict[str, object] = {"state": whole.state, "reason": whole.reason}
    if whole.held is not None:
        data["state"], data["end"] = "held", whole.held
    draft.event(run.no, "closed", data, whole)


def _cancel_siblings(
    draft: Draft, run: RunRow, definition: TaskDef, failed: TaskRow, following: list[TaskRow]
) -> Rule:
    (rows,) = yield (Elements(run.no, failed.pos),)
    draft.add_loaded(rows)
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
