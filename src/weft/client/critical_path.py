"""How long tasks took, and which of them made their run as long as it was."""

from collections.abc import Iterable

from weft.core.graph import CriticalPath, critical_path
from weft.core.workflow import Workflow
from weft.operations.replies import TaskInfo


def task_ms(task: TaskInfo, now: int) -> int | None:
    """How long it ran, or runs already."""
    began = task.started_at or task.claimed_at
    if began is None or task.state in ("pending", "queued", "scheduled"):
        return None
    return max(0, (task.finished_at or now) - began)


def measured_path(workflow: Workflow, tasks: Iterable[TaskInfo], now: int) -> tuple[CriticalPath, list[int]]:
    """The critical path by measured durations, and those by position. A mapped task counts as a whole; what has not
    run yet counts as nothing."""
    durations = [0] * len(workflow.tasks)
    for task in tasks:
        if task.idx < 0:
            durations[task.pos] = task_ms(task, now) or 0
    return critical_path(workflow, durations), durations
