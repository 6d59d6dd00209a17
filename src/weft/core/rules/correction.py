"""A corrected definition of a run that exists: tasks map by name, and keep their positions.

New tasks come after those that the run has, so a position means the same task in all generations. What a task does
decides whether it runs again; how it is run (timeouts, retries, placement …) may change without that.
"""

from collections.abc import Mapping
from typing import Any, Final

from weft.core.definition.document import Document
from weft.core.definition.inputs import wrong_inputs
from weft.core.definition.problems import quoted
from weft.core.workflow import TaskDef, Workflow

#: What a task does, and what it is for those that need it.
_DOES: Final = (
    "kind", "spec", "needs", "when", "condition", "long_form", "env", "cwd", "allow_failure", "replicas", "map",
    "batch", "tolerate", "secrets", "env_files",
)  # fmt: skip
_NOWHERE: Final = ("wait", "workflow")


def mapped(old: Document, new: Document) -> Document:
    """The new definition with the tasks of the old one first, in their order."""
    tasks = new["tasks"]
    order = [name for name in old["tasks"] if name in tasks]
    order += [name for name in tasks if name not in old["tasks"]]
    return {**new, "tasks": {name: tasks[name] for name in order}}


def unmappable(old: Workflow, new: Workflow, inputs: Mapping[str, Any]) -> str | None:
    """Why a run of the old definition, with these inputs, cannot go on with the new one; None: it can."""
    for task in old.tasks:
        if task.name not in new.position:
            missing = f"the corrected definition has no task {quoted(task.name)}, which the run has"
            return f"{missing}: keep it, with if: false if it is to be skipped"
    if [task.name for task in new.tasks[: len(old.tasks)]] != [task.name for task in old.tasks]:
        return "the tasks of the run come first, in their order"
    if (old.level_plan is None) != (new.level_plan is None):
        return "mode cannot change within a run"
    if (old.own is None) != (new.own is None):
        return "ownership cannot change within a run"
    wrong = wrong_inputs(new.inputs, inputs)
    if wrong:
        return f"the run's inputs do not fit: {wrong[0].message}"
    without = [name for name in new.inputs if name not in inputs]
    if without:
        return f"the run was started without the input {quoted(without[0])}, and its inputs cannot change"
    return None


def changed_positions(old: Workflow, new: Workflow) -> list[int]:
    """Positions of tasks that do something else now, or are new."""
    elsewhere = old.env != new.env
    return [
        pos
        for pos, task in enumerate(new.tasks)
        if pos >= len(old.tasks) or _differs(old.tasks[pos], task) or (elsewhere and task.kind not in _NOWHERE)
    ]


def _differs(old: TaskDef, new: TaskDef) -> bool:
    return any(getattr(old, name) != getattr(new, name) for name in _DOES)
