"""What a run leaves behind: its context, and its `output`, worked out from the ends of its tasks."""

from typing import TYPE_CHECKING, Any

import msgspec

from weft.core.commands import Refused
from weft.core.expressions import ExpressionError, resolve_value
from weft.core.names import Ended, names_for, tasks_view

if TYPE_CHECKING:
    from weft.control.local import LocalControl


def context_of(control: "LocalControl", ref: str) -> dict[str, Any]:
    """By key, as it is now."""
    no, _ = control.find(ref)
    return {key: msgspec.json.decode(value) for key, value, _, _ in control._read("context_of_run", no)}


def output_of(control: "LocalControl", ref: str) -> Any:
    """The value of the workflow's `output`; None if it has none. Refused while the run is under way, and if the
    value can't be worked out: what it reads may not have run."""
    run = control.run(ref)
    workflow = control.workflow(run.id)
    if workflow.output is None:
        return None
    if not run.finished:
        raise Refused("conflict", f"run {run.id} is {run.state}: its output comes with its end")
    positions = msgspec.json.encode(workflow.output_reads).decode()
    rows = control._read("ends_at", run.no, positions) if workflow.output_reads else []
    ends = [Ended(*row) for row in rows]
    names = names_for(
        inputs=run.inputs,
        tasks=tasks_view(ends, workflow),
        run={"id": run.id, "name": run.name, "generation": run.generation},
        context=context_of(control, run.id),
    )
    try:
        return resolve_value(workflow.output, names)
    except ExpressionError as error:
        raise Refused("invalid", f"output: {error.message}") from error
