"""How long tasks took, and which of them made their run as long as it was."""

from collections.abc import Iterable

from weft.core.graph import CriticalPath, critical_path
from weft.core.workflow import Workflow
from weft.operations.replies import RunInfo, TaskInfo


def task_ms(task: TaskInfo, now: int) -> int | None:
    """How long it ran, or runs already."""
    began = _began(task)
    if began is None or task.state in ("pending", "queued", "scheduled"):
        return None
    return max(0, (task.finished_at or now) - began)


def measured_path(
    workflow: Workflow, run: RunInfo, tasks: Iterable[TaskInfo], now: int
) -> tuple[CriticalPath, list[int]]:
    """The critical path by measured durations, and those by position. A mapped task counts as a whole, one that was
    tried again from the moment at which it could first run; what has not run yet counts as nothing."""
    whole = {task.pos: task for task in tasks if task.idx < 0}
    began = {1: run.started_at or now}  # by generation
    for task in whole.values():
        began[task.generation] = min(began.get(task.generation, now), _began(task) or now)
    durations = [0] * len(workflow.tasks)
    for pos, task in whole.items():
        took = task_ms(task, now)
        if took is not None and (task.failures or task.lost) and not workflow.tasks[pos].final:
            ends = [whole[need].finished_at or now for need in workflow.tasks[pos].needs if need in whole]
            took = max(took, (task.finished_at or now) - max([began[task.generation], *ends]))
        durations[pos] = took or 0
    return critical_path(workflow, durations), durations


def _began(task: TaskInfo) -> int | None:
    return task.started_at or task.claimed_at
