"""How two runs differ: their definitions, inputs, durations and outcomes."""

from typing import TYPE_CHECKING, Any, Final

from weft.core.rows import ORDINAL_BITS
from weft.operations.reading.definition_diff import document_diff
from weft.operations.reading.runs import run_info, task_info
from weft.operations.replies import RunDiff, RunInfo, TaskDiff, TaskInfo
from weft.store.queries import TaskView

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

TASKS_MAX: Final = 2000  # of each run; elements of mapped tasks are not compared one by one


def diff_of(access: "StoreAccess", old_ref: str, new_ref: str) -> RunDiff:
    old, new = run_info(access, old_ref), run_info(access, new_ref)
    documents = access.document(old.workflow), access.document(new.workflow)
    lines = [] if old.workflow == new.workflow else document_diff(*documents, old.id, new.id)
    names = {**old.inputs, **new.inputs}
    differing = {
        name: [old.inputs.get(name), new.inputs.get(name)]
        for name in names
        if (name in old.inputs, old.inputs.get(name)) != (name in new.inputs, new.inputs.get(name))
    }
    before, after = _tasks(access, old), _tasks(access, new)
    all_names = list(dict.fromkeys([*after, *before]))
    bodies = [document.get("tasks", {}) for document in documents]
    tasks = [
        TaskDiff(
            task=name, old_state=_state(before.get(name)), new_state=_state(after.get(name)),
            old_ms=_took(before.get(name)), new_ms=_took(after.get(name)),
            changed=bodies[0].get(name) != bodies[1].get(name), taken_over=_taken_over(new, after.get(name)),
        )
        for name in all_names[:TASKS_MAX]
    ]  # fmt: skip
    known = max(len(access.workflow(run.workflow).tasks) for run in (old, new))
    return RunDiff(
        old=old, new=new, definition=lines, inputs=differing, tasks=tasks, left_out=max(0, known - len(tasks))
    )


def _tasks(access: "StoreAccess", run: RunInfo) -> dict[str, TaskInfo]:
    """Its tasks as wholes, by name, in the order of its definition."""
    positions = min(TASKS_MAX, len(access.workflow(run.workflow).tasks))
    found: list[TaskInfo] = []
    low, high = (run.no << ORDINAL_BITS) - 1, (run.no + 1) << ORDINAL_BITS
    while len(found) < positions:
        rows: list[Any] = access.read("tasks_page", low, high, None, False, 1000)
        found += [task_info(access, view) for view in map(TaskView.of, rows) if view.task.idx < 0]
        if len(rows) < 1000:
            break
        low = rows[-1][0]
    return {task.name: task for task in sorted(found[:positions], key=lambda task: task.pos)}


def _state(task: TaskInfo | None) -> str | None:
    return None if task is None else task.state


def _taken_over(run: RunInfo, task: TaskInfo | None) -> bool:
    if run.taken_from is None or task is None:
        return False
    if task.elements:  # it has no attempt of its own, and it starts when it opens
        return task.started_at is None
    return bool((task.cached or {}).get("taken_over"))


def _took(task: TaskInfo | None) -> int | None:
    began = None if task is None else task.started_at or task.claimed_at
    if task is None or began is None or task.finished_at is None:
        return None
    return max(0, task.finished_at - began)
