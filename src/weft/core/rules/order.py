"""Order within a run (`order: longest_path`): of the tasks that are ready, the one with the longest path from it to
the end of the run goes first, within its priority.

Two parts, because the queue is one for all runs and its order is fixed when a task is ready (docs/adr/0030). A head
start, frozen at submission and at most a second, orders what became ready together. And a task that becomes ready
later takes the place of one of its run with a shorter path, which gets its place: other runs see the same places.
"""

from collections.abc import Sequence

from weft.core.commands import Exchange
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Durations, UnlockedQueuedTasks
from weft.core.graph import head_starts
from weft.core.rows import RunRow, TaskRow
from weft.core.workflow import TaskDef, Workflow

PRIORITY_MS = 60_000  # one point of priority is worth a minute of waiting
PLACES_MAX = 16  # of a run that one exchange looks at; behind them, tasks keep their places
RUNS_MAX = 16  # whose places one exchange looks at
DURATIONS_MAX = 100_000  # of a workflow for which durations are read
UNIT_MS = 100  # of durations: below it tasks count alike, or noise would shuffle thousands of short ones


def durations_for(workflow: Workflow) -> tuple[Durations, ...]:
    """What has to be loaded for the order of a new run's tasks: the durations of an earlier run of the same
    definition, or nothing."""
    if not _ordered(workflow) or len(workflow.tasks) > DURATIONS_MAX:
        return ()
    return (Durations(workflow.name, workflow.hash, len(workflow.tasks)),)


def _ordered(workflow: Workflow) -> bool:
    """Without edges it is a queue; of a chain, one is ready."""
    return workflow.order != "fifo" and bool(workflow.head_starts) and max(workflow.levels) + 1 < len(workflow.tasks)


def head_starts_of(workflow: Workflow, rows: Sequence[tuple[int, int]]) -> Sequence[int]:
    """By position, for a new run; empty: none. `rows`: what was found of `durations_for`."""
    if not _ordered(workflow):
        return ()
    if not rows:
        return workflow.head_starts
    units = [1] * len(workflow.tasks)
    for pos, duration_ms in rows:
        units[pos] = max(1, duration_ms // UNIT_MS)
    return head_starts(workflow.successors, workflow.levels, units)


def set_ready(draft: Draft, run: RunRow, task: TaskRow, definition: TaskDef, at: int) -> None:
    """Nothing but room is missing since then: its place in the queue."""
    task.ready_at = at
    task.rank = at - (run.priority + definition.priority) * PRIORITY_MS - task.head_start
    if task.head_start:
        draft.ranked.append(task)


def take_places(draft: Draft, command: Exchange, candidates: int) -> Rule:
    """For what this exchange queued, if not all of it can be claimed at once."""
    fresh = [task for task in draft.ranked if task.state == "queued" and task.demand not in command.slotless]
    if not fresh:
        return
    limited = any("@" in task.demand or task.demand in command.costs for task in fresh)
    if candidates + len(fresh) <= command.want and not limited:
        return
    runs = list(dict.fromkeys(task.run_no for task in fresh))[:RUNS_MAX]
    answers = yield tuple(UnlockedQueuedTasks(no, PLACES_MAX) for no in runs)
    for no, rows in zip(runs, answers, strict=True):
        places = [task for task in draft.add_loaded(rows) if task.state == "queued"]
        exchange_places(draft, places, [task for task in fresh if task.run_no == no])


def exchange_places(draft: Draft, places: Sequence[TaskRow], fresh: Sequence[TaskRow]) -> None:
    """A fresh task is ranked as if it had been ready with the first one that has a shorter path, and so goes before
    it; the one with the shortest path is ranked as the fresh one was, so that those between keep their places. All
    are of one run."""
    left = sorted(places, key=lambda t: (t.rank, t.id))
    for task in sorted(fresh, key=lambda t: (-t.head_start, t.rank, t.id))[:PLACES_MAX]:
        priority = draft.definition(task).priority
        shorter = [
            other for other in left
            if other.head_start < task.head_start and other.rank < task.rank and other.demand == task.demand
            and draft.definition(other).priority == priority
        ]  # fmt: skip
        if shorter:
            last = min(shorter, key=lambda t: (t.head_start, -t.rank, -t.id))
            draft.touch(last)
            ready, first_ready = task.rank + task.head_start, shorter[0].rank + shorter[0].head_start
            task.rank, last.rank = first_ready - task.head_start, ready - last.head_start
            left.remove(last)
