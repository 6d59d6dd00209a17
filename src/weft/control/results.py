"""What a run leaves behind: its context, and its `output`, worked out from the ends of its tasks."""

from typing import TYPE_CHECKING, Any

import msgspec

from weft.core.artifacts import reference_of, with_error, with_output
from weft.core.commands import Refused
from weft.core.expressions import ExpressionError, resolve_value
from weft.core.names import Ended, names_for, tasks_view
from weft.store.artifact_files import ArtifactError, ArtifactFiles

if TYPE_CHECKING:
    from weft.control.local import LocalControl


def context_of(control: "LocalControl", ref: str) -> dict[str, Any]:
    """By key, as it is now."""
    no, _ = control.find(ref)
    return {key: msgspec.json.decode(value) for key, value, _, _ in control._read("context_of_run", no)}


def output_of(control: "LocalControl", ref: str, artifacts: ArtifactFiles | None = None) -> Any:
    """The value of the workflow's `output`; None if it has none. Refused while the run is under way, and if the
    value can't be worked out: what it reads may not have run. Outputs in artifact files are loaded from `artifacts`;
    without it, each stands there as a reference to its file: {"$artifact": {…}}."""
    run = control.run(ref)
    workflow = control.workflow(run.id)
    if workflow.output is None:
        return None
    if not run.finished:
        raise Refused("conflict", f"run {run.id} is {run.state}: its output comes with its end")
    positions = msgspec.json.encode(workflow.output_reads).decode()
    rows = control._read("ends_at", run.no, positions) if workflow.output_reads else []
    ends = [_with_artifact(Ended(*row), run.id, artifacts) for row in rows]
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


def _with_artifact(ended: Ended, run_id: str, artifacts: ArtifactFiles | None) -> Ended:
    reference = reference_of(ended.result)
    if reference is None or ended.result is None:
        return ended
    if artifacts is None:
        shown = msgspec.json.encode({"$artifact": reference}).decode()
        ended.result = with_output(ended.result, shown)
        return ended
    try:
        ended.result = with_output(ended.result, artifacts.read(run_id, reference).decode())
    except ArtifactError as error:
        ended.result = with_error(ended.result, str(error))
    return ended
