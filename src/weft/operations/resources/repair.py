"""Runs: decide about their tasks by hand, and hold them up."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from weft.core import commands as c
from weft.core.states import RUN_TERMINAL
from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource, ToolHints
from weft.operations.errors import REFUSABLE
from weft.operations.parameters import TASK_PATTERN, Reason, RunRef
from weft.operations.reading.runs import family_of, find_run, run_row
from weft.operations.resources.run_changes import Changed, changed

resource = Resource("runs")

TaskNames = Annotated[
    list[Annotated[str, Meta(pattern=TASK_PATTERN)]],
    Meta(min_length=1, max_length=1000, description="Whole tasks, by name"),
]


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
