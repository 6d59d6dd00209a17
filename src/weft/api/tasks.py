"""Tasks: find them, look at their attempts and what they printed, start one alone, stop one."""

from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query
from starlette.responses import Response

from weft.api import replies as r
from weft.api.file_parts import FileParts
from weft.api.paging import Cursor, Limit, cursor, keys
from weft.api.parameters import TASK_PATTERN, Run, Task, TaskStates
from weft.api.problems import Trouble
from weft.api.routes import BODY, LATE, Actor, Asking, CommandId, Late, Routes, Shared
from weft.api.runs import CancelBody, Key, changed, started
from weft.api.submitting import SubmitBody
from weft.control.output_reading import PART_MAX
from weft.core.commands import Refused
from weft.core.workflow import TaskKind
from weft.store.artifact_files import ArtifactError

routes = Routes("tasks")

Kinds = Annotated[
    list[TaskKind] | None, Query(alias="type", max_length=8, description="Only tasks of this type; may be repeated")
]
WorkflowFilter = Annotated[str | None, Query(max_length=128, description="Only of this workflow: a name or a hash")]
NodeFilter = Annotated[
    str | None, Query(max_length=64, description="Only those that this node (name or session) runs or ran last")
]


@routes("GET", "/v1/tasks", role="viewer", reply=r.TaskPage)
def list_tasks(
    control: Asking,
    state: TaskStates = None,
    kinds: Kinds = None,
    workflow: WorkflowFilter = None,
    node: NodeFilter = None,
    cursor_: Cursor = None,
    limit: Limit = 100,
) -> r.TaskPage:
    """List tasks of all runs, in the order in which they were made."""
    return _page(control, None, state, kinds, workflow, node, cursor_, limit)


@routes("GET", "/v1/runs/{run}/tasks", role="viewer", reply=r.TaskPage, refused=(404, 409))
def list_run_tasks(
    control: Asking,
    run: Run,
    state: TaskStates = None,
    kinds: Kinds = None,
    node: NodeFilter = None,
    task: Annotated[
        str | None, Query(pattern=TASK_PATTERN, description="Only this task, in all its generations; or one element")
    ] = None,
    old_generations: Annotated[bool, Query(description="Also tasks of earlier generations")] = False,
    cursor_: Cursor = None,
    limit: Limit = 100,
) -> r.TaskPage:
    """List the tasks of a run."""
    return _page(control, run, state, kinds, None, node, cursor_, limit, task=task, old_generations=old_generations)


def _page(
    control: Asking,
    run: str | None,
    state: list[Any] | None,
    kinds: list[TaskKind] | None,
    workflow: str | None,
    node: str | None,
    given: str | None,
    limit: int,
    **more: Any,
) -> r.TaskPage:
    at = keys(given, "tasks", int)
    of_kinds = None if kinds is None else [str(kind) for kind in kinds]
    tasks, after = control.tasks(
        run, states=state, kinds=of_kinds, workflow=workflow, node=node, after=0 if at is None else at[0],
        limit=limit, **more,
    )  # fmt: skip
    return r.TaskPage(tasks=tasks, next=None if after is None else cursor("tasks", after))


@routes(
    "POST", "/v1/tasks", role="operator", reply=r.Started, status=(201, 200), refused=(409,),
    example={"run": "make", "timeout": "10m", "retry": {"max": 2}},
)  # fmt: skip
async def submit_task(
    served: Shared, command_id: CommandId, actor: Actor, body: Annotated[Late[dict[str, Any]], LATE], key: Key = None
) -> Response:
    """Run one task alone. The body is what stands under a task's name in a definition: `{"run": "make"}`."""

    return await started(served, body.size, lambda: SubmitBody(task=body.decoded()), key, command_id, actor)


@routes("GET", "/v1/runs/{run}/tasks/{task}", role="viewer", reply=r.TaskDetail, refused=(404, 409))
def get_task(control: Asking, run: Run, task: Task) -> r.TaskDetail:
    """A task with all its attempts."""
    return r.TaskDetail(task=control.task(run, task), attempts=control.attempts(run, task))


@routes(
    "POST", "/v1/runs/{run}/tasks/{task}/cancel", role="operator", reply=r.Changed, refused=(404, 409),
    example={"reason": "not needed"},
)  # fmt: skip
def cancel_task(control: Asking, run: Run, task: Task, body: Annotated[CancelBody, BODY]) -> r.Changed:
    """Stop one task. What needs it is treated as after a failure."""
    return changed(control.cancel(run, task, body.reason))


@routes("GET", "/v1/runs/{run}/tasks/{task}/why", role="viewer", reply=r.Explanations, refused=(404, 409))
def explain_task(control: Asking, run: Run, task: Task) -> r.Explanations:
    """Why a task is where it is: what it waits for, and which nodes could run it."""
    return r.Explanations(explanations=control.why(run, task))


@routes(
    "GET", "/v1/runs/{run}/tasks/{task}/output/{stream}", role="viewer", refused=(404, 409),
    media="application/octet-stream",
)  # fmt: skip
def get_task_output(
    control: Asking,
    run: Run,
    task: Task,
    stream: Annotated[Literal["stdout", "stderr"], Path(description="Which of the two")],
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000, description="Of this attempt, not of the last")] = None,
    offset: Annotated[int, Query(ge=-(2**53), le=2**53, description="From this byte; below 0: before the end")] = 0,
    limit: Annotated[int, Query(ge=1, le=PART_MAX, description="At most so many bytes")] = 65536,
) -> Response:
    """What an attempt printed, by range. The headers say where the bytes stand (Weft-Offset), where to go on
    (Weft-Next), how much there is by now (Weft-Size), and whether the attempt is over (Weft-Ended)."""
    if attempt is None:
        attempt = control.task(run, task).attempt
        if attempt == 0:
            raise Refused("not_found", f"{task} has not run yet")
    part = control.read_output(run, task, attempt, stream, offset=offset, limit=limit)
    headers = {
        "Weft-Offset": str(part.offset), "Weft-Next": str(part.next), "Weft-Size": str(part.size),
        "Weft-Ended": "true" if part.ended else "false", "Weft-Attempt": str(attempt),
    }  # fmt: skip
    return Response(part.data, media_type="application/octet-stream", headers=headers)


@routes(
    "GET", "/v1/runs/{run}/tasks/{task}/artifact", role="viewer", status=(200, 206), refused=(404, 409, 416),
    media="application/octet-stream",
)  # fmt: skip
def get_task_artifact(
    control: Asking,
    run: Run,
    task: Task,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000, description="Of this attempt, not of the last")] = None,
    range_: Annotated[str | None, Header(alias="Range", description="Some bytes of it: bytes=0-99")] = None,
    if_range: Annotated[str | None, Header(alias="If-Range", description="Only if this is its ETag")] = None,
) -> Response:
    """A large output as its file has it: JSON, by range if asked. Its hash is the ETag; Weft-Artifact is what the
    result says of it. 409 (`artifact_elsewhere`) if this server cannot read the file."""
    try:
        reference, file = control.open_artifact(run, task, attempt)
    except ArtifactError as error:
        raise Trouble(
            409, "artifact_elsewhere", str(error), "ask a server on that node's machine, or share the directory"
        ) from None
    return FileParts(file, reference, range_, if_range)
