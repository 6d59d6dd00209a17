"""Runs: decide about their tasks by hand, and hold them up."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from weft.core import commands as c
from weft.core.definition.child_workflows import references_of
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import encode_document, encoded_hash
from weft.core.invariants import current_rows
from weft.core.rows import Pin
from weft.core.rules.correction import changed_positions, mapped, unmappable
from weft.core.rules.generations import positions_again
from weft.core.states import RUN_TERMINAL
from weft.core.workflow import Workflow
from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource, ToolHints
from weft.operations.errors import REFUSABLE
from weft.operations.examples import DEFINITION
from weft.operations.parameters import TASK_PATTERN, Reason, RunRef
from weft.operations.reading.runs import family_of, find_run, pins_of, run_info, run_row
from weft.operations.reading.verification import tasks_of
from weft.operations.replies import RunInfo
from weft.operations.resources.run_changes import Changed, changed

resource = Resource("runs")

TaskNames = Annotated[
    list[Annotated[str, Meta(pattern=TASK_PATTERN)]],
    Meta(min_length=1, max_length=1000, description="Whole tasks, by name"),
]


class CorrectRunRequest(Request):
    run: RunRef
    definition: Annotated[Any, Meta(description="The corrected definition: an object as JSON, or a text in YAML")]
    preview: Annotated[bool, Meta(description="Only say what would run again")] = False


class Correction(msgspec.Struct, kw_only=True):
    """`changed` do something else now, `new` were not there before, `again` are all that run, with what follows."""

    run: str
    state: str
    workflow: str
    again: list[str]
    changed: list[str]
    new: list[str]
    kept: int  # tasks that keep their results


@resource.operation(
    "POST", "/v1/runs/{run}/correct", role="operator", errors=(*REFUSABLE, "definition"),
    example={"definition": DEFINITION, "preview": True}, tool=ToolHints(destructive=True, open_world=True),
)  # fmt: skip
def correct_run(access: StoreAccess, request: CorrectRunRequest) -> Correction:
    """Go on with a corrected definition of a run that has ended, in a new generation. Tasks map by name: those that
    succeeded and do the same keep their results; changed ones, what did not succeed, and what follows run again."""
    from weft.authoring.load import load_text, load_value  # reads YAML, which looking at runs does not need

    old = run_info(access, request.run)
    before, workflow = access.document(old.workflow), access.workflow(old.workflow)
    load = load_text if isinstance(request.definition, str) else load_value
    document = mapped(before, load(request.definition, old.name).document)
    encoded = encode_document(document)
    new = compile_workflow(document, encoded_hash(encoded))
    why = unmappable(workflow, new, old.inputs)
    if why is not None:
        raise c.Refused("conflict", why)
    pins = _pins(access, old, new)
    again = _again(access, old, workflow, new)
    if not request.preview:
        access.finish(access.commit(c.CorrectRun(old.id, new.hash, new.name, encoded, pins, access.actor)))
    names = [task.name for task in new.tasks]
    changed = changed_positions(workflow, new)
    return Correction(
        run=old.id, state=old.state if request.preview else "running", workflow=new.hash,
        again=[names[pos] for pos in again],
        changed=[names[pos] for pos in changed if pos < len(workflow.tasks)], new=names[len(workflow.tasks) :],
        kept=len(names) - len(again),
    )  # fmt: skip


def _again(access: StoreAccess, old: RunInfo, workflow: Workflow, new: Workflow) -> list[int]:
    """Positions that run again, as the rules will find them."""
    row, current = run_row(access, old.no), current_rows(tasks_of(access, old.no))
    again = positions_again(current, row, new, None, False, changed_positions(workflow, new))
    if new.level_plan is None or not again:
        return again
    first = min(new.level_plan.at[pos] for pos in again)
    return [pos for pos, at in enumerate(new.level_plan.at) if at >= first]


def _pins(access: StoreAccess, old: RunInfo, new: Workflow) -> list[Pin]:
    """The names of other workflows mean what they meant when the run was submitted."""
    known = {pin.name: pin for pin in pins_of(access, old.id) if pin.workflow == old.workflow}
    names = references_of(new)
    missing = [name for name in names if name not in known]
    if missing:
        why = f"the run knows no workflow {missing[0]!r}: its tasks can run those that they ran before"
        raise c.Refused("conflict", why)
    return [msgspec.structs.replace(known[name], workflow=new.hash) for name in names]


class SkipTasksRequest(Request):
    run: RunRef
    tasks: TaskNames
    reason: Reason = "skipped by request"


@resource.operation(
    "POST", "/v1/runs/{run}/skip", role="operator", errors=REFUSABLE,
    example={"tasks": ["load"], "reason": "no data today"}, tool=ToolHints(destructive=True, open_world=True),
)  # fmt: skip
def skip_tasks(access: StoreAccess, request: SkipTasksRequest) -> Changed:
    """Skip tasks that have not started, as if their condition were false. Of a run that has ended: in a new
    generation, in which what needs them is decided again."""
    _, run_id = find_run(access, request.run)
    command = c.DecideTasks(run_id, request.tasks, "skipped", reason=request.reason, by=access.actor)
    return changed(access.finish(access.commit(command)))


class MarkTasksRequest(Request):
    run: RunRef
    tasks: TaskNames
    output: Annotated[Any, Meta(description="Any JSON value: their output")] = None
    reason: Reason = "marked by request"


@resource.operation(
    "POST", "/v1/runs/{run}/mark", role="operator", errors=REFUSABLE,
    example={"tasks": ["load"], "output": {"rows": 3}, "reason": "loaded by hand"},
    tool=ToolHints(destructive=True, open_world=True),
)  # fmt: skip
def mark_tasks(access: StoreAccess, request: MarkTasksRequest) -> Changed:
    """Let tasks that have not started count as succeeded, with this output. Of a run that has ended: in a new
    generation, in which what needs them runs again."""
    _, run_id = find_run(access, request.run)
    output = None if request.output is None else msgspec.json.encode(request.output, order="deterministic").decode()
    command = c.DecideTasks(run_id, request.tasks, "succeeded", output, request.reason, access.actor)
    return changed(access.finish(access.commit(command)))


class PauseRunRequest(Request):
    run: RunRef
    reason: Reason = "paused by request"


@resource.operation(
    "POST", "/v1/runs/{run}/pause", role="operator", errors=REFUSABLE, example={"reason": "the disk is full"},
    tool=ToolHints(destructive=True, idempotent=True),
)  # fmt: skip
def pause_run(access: StoreAccess, request: PauseRunRequest) -> Changed:
    """Let nothing more of a run start, nor of the runs that its tasks started. What runs goes on to its end, and the
    run's timeout goes on, too."""
    return _pause(access, request.run, True, request.reason)


class UnpauseRunRequest(Request):
    run: RunRef
    reason: Reason = "unpaused by request"


@resource.operation(
    "POST", "/v1/runs/{run}/unpause", role="operator", errors=REFUSABLE, example={"reason": "there is space again"},
    tool=ToolHints(destructive=True, idempotent=True),
)  # fmt: skip
def unpause_run(access: StoreAccess, request: UnpauseRunRequest) -> Changed:
    """Let a paused run go on, and the runs that its tasks started."""
    return _pause(access, request.run, False, request.reason)


def _pause(access: StoreAccess, ref: str, paused: bool, reason: str) -> Changed:
    """Its own run first: children that begin meanwhile are as it is."""
    no, run_id = find_run(access, ref)
    done = changed(access.commit(c.PauseRun(run_id, paused, reason, access.actor)))
    for child_no, child_id in family_of(access, run_id):
        if child_no != no and run_row(access, child_no).state not in RUN_TERMINAL:
            done.changed += access.commit(c.PauseRun(child_id, paused, reason, access.actor)).changed
    return done
