"""What an attempt of a task was given: item, command, arguments and variables, with their expressions resolved.

Nothing of it is stored: it is worked out again from the definition, the inputs and the ends of earlier tasks, as a
node does. Secrets are not part of that: a task has them from its node, under names that are listed here. What reads
the run's context is resolved with the context as it is now; artifacts stand there as references.
"""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.core.expressions import ExpressionError
from weft.core.expressions.elements import array_of, with_item
from weft.core.expressions.run_names import Ended, names_for, tasks_view
from weft.core.workflow import TaskDef, Workflow
from weft.node.attempts.launch import resolve_launch
from weft.operations.reading.results import context_of, place_artifacts
from weft.operations.reading.runs import one_task, run_info
from weft.operations.replies import RunInfo, TaskInfo, TaskLaunch

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

TEXT_MAX: Final = 2000
ENTRIES_MAX: Final = 100


def launch_of(access: "StoreAccess", ref: str, name: str) -> TaskLaunch:
    task = one_task(access, ref, name)
    run = run_info(access, task.run_id)
    workflow = access.workflow(run.workflow)
    definition = workflow.tasks[task.pos]
    spec, cwd, env = definition.spec, definition.cwd, {**workflow.env, **definition.env}
    item, error = None, None
    if task.elements is None:  # a mapped task is as it is written: its elements have values
        try:
            names = _names(access, run, workflow, task)
            item = names.get("item")
            if definition.templated:
                spec, cwd, env = resolve_launch(spec, cwd, env, names)
        except ExpressionError as problem:
            error = problem.message
    shown = {variable: value for variable, value in env.items() if variable not in workflow.secrets}
    return TaskLaunch(
        kind=definition.kind, item=shortened(item), spec=shortened(spec), env=shortened(shown), cwd=cwd,
        secrets=list(definition.secrets), error=error,
    )  # fmt: skip


def _names(access: "StoreAccess", run: RunInfo, workflow: Workflow, task: TaskInfo) -> dict[str, Any]:
    definition: TaskDef = workflow.tasks[task.pos]
    element = task.idx >= 0
    reads = dict.fromkeys((*definition.template_reads, *(definition.map_reads if element else ())))
    rows = access.read("ends_at", run.no, msgspec.json.encode(list(reads)).decode()) if reads else []
    newest = {(ended.pos, ended.idx): ended for ended in (Ended(*row) for row in rows)}
    ends = [newest[place] for place in sorted(newest)]
    place_artifacts(access, run.id, ends, 0)
    names = names_for(
        inputs=run.inputs,
        tasks=tasks_view(ends, workflow, long_form=definition.long_form),
        run={"id": run.id, "name": run.name, "generation": task.generation},
        context=context_of(access, run.id) if definition.reads_context else {},
    )
    if not element:
        return names
    stored = definition.map_reads_context
    array = access.store.array_of(run.no, task.pos, task.generation) if stored else array_of(names, definition)
    try:
        return with_item(names, definition, task.idx, array)
    except (LookupError, TypeError):
        raise ExpressionError("what it maps over is in an artifact, which is not read here") from None


def shortened(value: Any) -> Any:
    """With long texts, lists and mappings cut."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}… ({len(value):,} characters)"
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in list(value.items())[:ENTRIES_MAX]}
    if isinstance(value, (list, tuple)):
        more = [f"… ({len(value):,} entries)"] if len(value) > ENTRIES_MAX else []
        return [*(shortened(item) for item in value[:ENTRIES_MAX]), *more]
    return value
