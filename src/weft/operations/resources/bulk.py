"""Runs: change many of them at once, those that are named or that a filter finds."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from weft.core.commands import BY_REQUEST, Refused
from weft.operations.access import StoreAccess
from weft.operations.declare import Operation, Resource
from weft.operations.errors import REFUSABLE, NotFound
from weft.operations.parameters import Reason, RunRef, number_in
from weft.operations.reading.run_filters import page_of_runs
from weft.operations.reading.runs import run_info, run_infos
from weft.operations.replies import RunInfo
from weft.operations.resources import repair
from weft.operations.resources import run_changes as changes
from weft.operations.resources.run_changes import Changed, remove_families
from weft.operations.resources.runs import ListRunsRequest, OneRunRequest, filter_of

resource = Resource("runs")
AT_ONCE_MAX: Final = 200
RunAction = Literal["cancel", "pause", "rerun", "resume", "retry_dead", "unpause"]


class ChangedRun(msgspec.Struct, kw_only=True):
    """`refused` says why nothing is done to it; `new` is the run that was started."""

    run: str
    name: str
    state: str
    refused: str | None = None
    new: str | None = None


class ChangedRuns(msgspec.Struct, kw_only=True):
    preview: bool
    changed: list[ChangedRun]  # with a preview: that would be
    refused: list[ChangedRun]
    next: str | None  # the filter finds more: where to go on


class ChosenRunsRequest(ListRunsRequest, kw_only=True):
    """`runs`, or the filters of the list of runs; a filter that is empty finds nothing."""

    runs: Annotated[list[RunRef], Meta(min_length=1, max_length=AT_ONCE_MAX, description="These, by id")] | None = (
        None
    )
    preview: Annotated[bool, Meta(description="Only say what would be done")] = False
    limit: Annotated[int, Meta(ge=1, le=AT_ONCE_MAX)] = AT_ONCE_MAX


class ChangeRunsRequest(ChosenRunsRequest, kw_only=True):
    action: RunAction
    reason: Reason = BY_REQUEST


@resource.operation(
    "POST", "/v1/runs:change", role="operator", errors=REFUSABLE,
    example={"action": "cancel", "state": ["running"], "name": "nightly", "preview": True},
)  # fmt: skip
def change_runs(access: StoreAccess, request: ChangeRunsRequest) -> ChangedRuns:
    """Do the same to many runs: those that are named, or that the filters of the list of runs find, newest first.
    Each is changed by itself; what one refuses does not keep the others."""
    found, after = _found(access, request)
    reply = ChangedRuns(preview=request.preview, changed=[], refused=[], next=after)
    for run in found:
        one = ChangedRun(run=run.id, name=run.name, state=run.state, refused=_objection(request.action, run))
        if one.refused is None and not request.preview:
            _change(access, request, one)
        (reply.changed if one.refused is None else reply.refused).append(one)
    return reply


@resource.operation(
    "POST",
    "/v1/runs:remove",
    role="admin",
    errors=REFUSABLE,
    example={"state": ["failed"], "name": "x", "preview": True},
)
def remove_runs(access: StoreAccess, request: ChosenRunsRequest) -> ChangedRuns:
    """Remove runs that have ended, with their output and files: those that are named, or that the filters of the list
    of runs find, newest first. A run stays as long as one that took over its results."""
    found, after = _found(access, request)
    every = [ChangedRun(run=run.id, name=run.name, state=run.state, refused=_why_it_stays(run)) for run in found]
    if not request.preview:
        nos = [run.no for run, one in zip(found, every, strict=True) if one.refused is None]
        gone = remove_families(access, nos)
        for one in every:
            if one.refused is None and one.run not in gone:
                one.refused = "another run took over its results"
    refused = [one for one in every if one.refused is not None]
    changed = [one for one in every if one.refused is None]
    return ChangedRuns(preview=request.preview, changed=changed, refused=refused, next=after)


def _why_it_stays(run: RunInfo) -> str | None:
    """None: it can be tried."""
    if not run.finished:
        return "it has not ended"
    return "it goes with the run whose task started it" if run.parent is not None else None


def _found(access: StoreAccess, request: ChosenRunsRequest) -> tuple[list[RunInfo], str | None]:
    wanted = filter_of(request)
    if request.runs is not None:
        if wanted.given or request.cursor is not None:
            raise Refused("invalid", "runs are either named or found by filters")
        return [run_info(access, ref) for ref in dict.fromkeys(request.runs)], None
    if not wanted.given:
        raise Refused("invalid", "name runs, or give at least one filter")
    found = run_infos(page_of_runs(access, wanted, number_in(request.cursor, 2**62), request.limit))
    return found, f"r{found[-1].no}" if len(found) == request.limit else None


def _objection(action: RunAction, run: RunInfo) -> str | None:
    """Why it would change nothing; None: it can be tried."""
    if action in ("cancel", "pause", "unpause"):
        if run.finished:
            return f"it is {run.state} already"
        if action != "cancel" and run.paused == (action == "pause"):
            return "it is paused already" if run.paused else "it is not paused"
    elif action in ("resume", "retry_dead"):
        if not run.finished:
            return "it has not ended"
        if action == "resume" and run.state == "succeeded":
            return "it succeeded"
        if action == "retry_dead" and not run.dead_letter:
            return "it has no dead letters"
    return None


def _change(access: StoreAccess, request: ChangeRunsRequest, one: ChangedRun) -> None:
    operation, asked = _request(request, one.run)
    assert operation.run is not None
    try:
        done = operation.run(access, asked)
    except (Refused, NotFound) as error:
        one.refused = str(error)
        return
    if request.action == "rerun":
        one.new = done.run
    else:
        one.state = done.state or one.state


def _request(request: ChangeRunsRequest, run: str) -> tuple[Operation[Any, Changed], Any]:
    """The operation on one run that is meant, and what it is asked."""
    match request.action:
        case "cancel":
            return changes.cancel_run, changes.CancelRunRequest(run=run, reason=request.reason)
        case "pause":
            return repair.pause_run, repair.PauseRunRequest(run=run, reason=request.reason)
        case "unpause":
            return repair.unpause_run, repair.UnpauseRunRequest(run=run, reason=request.reason)
        case "resume":
            return changes.resume_run, OneRunRequest(run=run)
        case "retry_dead":
            return changes.retry_dead, changes.RetryDeadRequest(run=run)
        case "rerun":
            return changes.rerun_run, changes.RerunRunRequest(run=run)
