"""What a run leaves behind: its context, its `output`, worked out from the ends of its tasks, and large outputs."""

import re
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from weft.core.artifacts import KEY, ArtifactReference, reference_of, with_error, with_output
from weft.core.commands import Refused
from weft.core.expressions import ExpressionError, resolve_value
from weft.core.expressions.run_names import Ended, names_for, tasks_view
from weft.operations.errors import NotFound
from weft.operations.reading.runs import attempts_of, find_run, run_info
from weft.store.artifact_files import ArtifactError, ArtifactFiles

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess


def context_of(access: "StoreAccess", ref: str) -> dict[str, Any]:
    """By key, as it is now."""
    no, _ = find_run(access, ref)
    return {key: msgspec.json.decode(value) for key, value, _, _ in access.read("context_of_run", no)}


def output_of(access: "StoreAccess", ref: str, artifacts_max: int) -> Any:
    """The value of the workflow's `output`; None if it has none. Refused while the run is under way, and if the
    value can't be worked out: what it reads may not have run. Outputs in artifact files are loaded, so many bytes of
    them together; with 0, each stands there as a reference to its file: {"$artifact": {…}}."""
    run = run_info(access, ref)
    workflow = access.workflow(run.workflow)
    if workflow.output is None:
        return None
    if not run.finished:
        raise Refused("conflict", f"run {run.id} is {run.state}: its output comes with its end")
    positions = msgspec.json.encode(workflow.output_reads).decode()
    rows = access.read("ends_at", run.no, positions) if workflow.output_reads else []
    ends = [Ended(*row) for row in rows]
    place_artifacts(access, run.id, ends, artifacts_max)
    names = names_for(
        inputs=run.inputs,
        tasks=tasks_view(ends, workflow),
        run={"id": run.id, "name": run.name, "generation": run.generation},
        context=context_of(access, run.id),
    )
    try:
        return resolve_value(workflow.output, names)
    except ExpressionError as error:
        raise Refused("invalid", f"output: {error.message}") from error


def place_artifacts(access: "StoreAccess", run_id: str, ends: list[Ended], bytes_max: int) -> None:
    """Loads outputs from artifact files, so many bytes of them together; with 0 they become references."""
    found = [(ended, ended.result, reference_of(ended.result)) for ended in ends]
    size = sum(reference.bytes for _, _, reference in found if reference is not None)
    if 0 < bytes_max < size:
        raise Refused(
            "invalid", f"output: it reads {size:,} bytes of artifacts, over {bytes_max:,}: read each by itself"
        )
    for ended, result, reference in found:
        if reference is None or result is None:
            continue
        if not bytes_max:
            shown = msgspec.json.encode({"$artifact": reference}).decode()
            ended.result = with_output(result, shown)
            continue
        try:
            ended.result = with_output(result, _files(access).read(run_id, reference).decode())
        except ArtifactError as error:
            ended.result = with_error(result, str(error))


def open_artifact(
    access: "StoreAccess", ref: str, task: str, attempt: int | None
) -> tuple[ArtifactReference, BinaryIO]:
    """The file of a large output: of this attempt, or of the last. ArtifactError: it is not here."""
    run_id = find_run(access, ref)[1]
    attempts = attempts_of(access, run_id, task)
    found = [one for one in attempts if attempt is None or one.attempt == attempt]
    if not found:
        last = f"has no attempt {attempt}; its last is {attempts[-1].attempt}" if attempts else "has not run yet"
        raise NotFound(f"{task} {last}")
    result = found[-1].result or {}
    if KEY not in result:
        raise NotFound(f"attempt {found[-1].attempt} of {task} has no artifact; a smaller output is in its result")
    reference = msgspec.convert(result[KEY], ArtifactReference)
    if re.fullmatch(r"[0-9a-f]{64}", reference.sha256) is None:  # it becomes a part of a path
        raise ArtifactError(f"attempt {found[-1].attempt} of {task} refers to no artifact that there could be")
    return reference, _files(access).open(run_id, reference)


def _files(access: "StoreAccess") -> ArtifactFiles:
    return ArtifactFiles(access.artifact_root, "here", 0)
