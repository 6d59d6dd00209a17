"""A run's shared context: keys that tasks set when they succeed.

Per key the writer that is last by (level, name, index) wins, whatever order they finished in, so the same graph
leaves the same context. Two writers with no path between them leave a `context_conflict` event.
"""

from typing import Any

import msgspec

from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import ContextOfRun
from weft.core.rows import RunRow, TaskRow
from weft.core.workflow import Workflow


def update_context(draft: Draft, task: TaskRow, values: dict[str, Any]) -> Rule:
    run = draft.runs[task.run_no]
    workflow = draft.workflows[run.workflow]
    known = yield from _load(draft, run)
    for key in sorted(values):
        before = known.get(key)
        if before is not None and before[1] is not None:
            writer = (before[1], before[2] if before[2] is not None else -1)
            same = writer == (task.pos, task.idx)
            if not same and (writer[0] == task.pos or not _ordered(workflow, writer[0], task.pos)):
                names = sorted([workflow.tasks[writer[0]].name, workflow.tasks[task.pos].name])
                draft.event(run.no, "context_conflict", {"key": key, "writers": names})
            if _order(workflow, *writer) > _order(workflow, task.pos, task.idx):
                continue
        text = msgspec.json.encode(values[key]).decode()
        draft.values.context.append((run.no, key, text, task.pos, task.idx))


def set_first_context(draft: Draft, run: RunRow, written: list[tuple[TaskRow, dict[str, Any]]]) -> None:
    """What a new run's context has of tasks that it takes over, as if they had ended in it."""
    workflow = draft.workflows[run.workflow]
    last: dict[str, tuple[str, TaskRow]] = {}
    for task, values in sorted(written, key=lambda pair: _order(workflow, pair[0].pos, pair[0].idx)):
        for key in sorted(values):
            last[key] = msgspec.json.encode(values[key]).decode(), task
    for key, (text, task) in sorted(last.items()):
        draft.values.context.append((run.no, key, text, task.pos, task.idx))


def context_values(draft: Draft, run: RunRow) -> Rule:
    """The context as expressions see it now."""
    known = yield from _load(draft, run)
    return {key: msgspec.json.decode(entry[0]) for key, entry in known.items()}


def _load(draft: Draft, run: RunRow) -> Rule:
    known: dict[str, tuple[str, int | None, int | None]] = {}
    if run.no not in draft.created.runs:
        (rows,) = yield (ContextOfRun(run.no),)
        known = {key: (value, pos, idx) for key, value, pos, idx in rows}
    for run_no, key, value, pos, idx in draft.values.context:
        if run_no == run.no:
            known[key] = (value, pos, idx)
    return known


def _order(workflow: Workflow, pos: int, idx: int) -> tuple[int, str, int]:
    levels = workflow.levels if workflow.level_plan is None else workflow.level_plan.at
    return (levels[pos], workflow.tasks[pos].name, idx)


def _ordered(workflow: Workflow, a: int, b: int) -> bool:
    """Is there a path between the two, in either direction?"""
    first, last = (a, b) if workflow.levels[a] <= workflow.levels[b] else (b, a)
    seen = {first}
    frontier = [first]
    while frontier:
        pos = frontier.pop()
        for after in workflow.successors[pos]:
            if after == last:
                return True
            if after not in seen and workflow.levels[after] < workflow.levels[last]:
                seen.add(after)
                frontier.append(after)
    return False
