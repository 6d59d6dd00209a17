"""Tasks: find them, look at their attempts, and why they do not run."""

import base64
import codecs
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource, ToolHints
from weft.operations.errors import FINDABLE
from weft.operations.parameters import (
    TASK_PATTERN,
    DeadCursor,
    EventNumber,
    Limit,
    RunRef,
    TaskCursor,
    TaskRef,
    TaskStates,
    number_in,
)
from weft.operations.reading.explanations import Explanations, why
from weft.operations.reading.kept_files import artifacts_of, open_kept_file
from weft.operations.reading.labels import Labels
from weft.operations.reading.runs import TaskFilter, attempts_of, one_task, task_info, task_page
from weft.operations.replies import ArtifactList, AttemptInfo, TaskInfo, TaskLaunch
from weft.store.queries import TaskView

resource = Resource("tasks")
ARTIFACTS_MAX = 10_000
FILE_PART_MAX: Final = 64 * 1024

Kinds = Annotated[list[str], Meta(max_length=8, description="Only tasks of this type; may be repeated")]
WorkflowFilter = Annotated[str, Meta(max_length=128, description="Only of this workflow: a name or a hash")]
NodeFilter = Annotated[
    str, Meta(max_length=64, description="Only those that this node (name or session) runs or ran last")
]


class TaskPage(msgspec.Struct, kw_only=True):
    """A filter that few tasks pass may leave a page short, or empty: the list goes on while `next` is there."""

    tasks: list[TaskInfo]
    next: str | None


class ListTasksRequest(Request):
    state: TaskStates | None = None
    type: Kinds | None = None
    workflow: WorkflowFilter | None = None
    node: NodeFilter | None = None
    cursor: TaskCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/tasks", role="viewer")
def list_tasks(access: StoreAccess, request: ListTasksRequest) -> TaskPage:
    """List tasks of all runs, in the order in which they were created."""
    filters = TaskFilter(
        states=request.state, kinds=request.type, workflow=request.workflow, node=request.node
    )  # fmt: skip
    return _page(*task_page(access, None, None, filters, number_in(request.cursor), request.limit))


class ListRunTasksRequest(Request):
    run: RunRef
    state: TaskStates | None = None
    type: Kinds | None = None
    node: NodeFilter | None = None
    task: (
        Annotated[
            str, Meta(pattern=TASK_PATTERN, description="Only this task, in all its generations; or one element")
        ]
        | None
    ) = None
    elements_of: (
        Annotated[str, Meta(pattern=TASK_PATTERN, description="Only the elements of this mapped task")] | None
    ) = None
    old_generations: Annotated[bool, Meta(description="Also tasks of earlier generations")] = False
    cursor: TaskCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/runs/{run}/tasks", role="viewer", errors=FINDABLE)
def list_run_tasks(access: StoreAccess, request: ListRunTasksRequest) -> TaskPage:
    """List the tasks of a run."""
    filters = TaskFilter(
        states=request.state, kinds=request.type, node=request.node, old_generations=request.old_generations,
        elements_of=request.elements_of,
    )  # fmt: skip
    found = task_page(access, request.run, request.task, filters, number_in(request.cursor), request.limit)
    return _page(*found)


def _page(tasks: list[TaskInfo], after: int | None) -> TaskPage:
    return TaskPage(tasks=tasks, next=None if after is None else f"t{after}")


class OneTaskRequest(Request):
    run: RunRef
    task: TaskRef


class TaskDetail(msgspec.Struct, kw_only=True):
    task: TaskInfo
    attempts: list[AttemptInfo]


@resource.operation("GET", "/v1/runs/{run}/tasks/{task}", role="viewer", errors=FINDABLE)
def get_task(access: StoreAccess, request: OneTaskRequest) -> TaskDetail:
    """A task with all its attempts."""
    task = one_task(access, request.run, request.task)
    return TaskDetail(task=task, attempts=attempts_of(access, task.run_id, request.task))


@resource.operation("GET", "/v1/runs/{run}/tasks/{task}/launch", role="viewer", errors=FINDABLE)
def get_task_launch(access: StoreAccess, request: OneTaskRequest) -> TaskLaunch:
    """What a task runs: item, command, arguments and variables with their expressions resolved, without secrets. What
    reads the context is resolved with the context as it is now."""
    from weft.operations.reading.launches import launch_of  # resolving is the node's part, and heavy to import

    return launch_of(access, request.run, request.task)


class ExplainTaskRequest(OneTaskRequest, kw_only=True):
    event: EventNumber | None = None


@resource.operation("GET", "/v1/runs/{run}/tasks/{task}/why", role="viewer", errors=FINDABLE)
def explain_task(access: StoreAccess, request: ExplainTaskRequest) -> Explanations:
    """Why a task is where it is: what it waits for, and which nodes could run it. With `event`: why it was where it
    was after it, as far as the run's history says."""
    if request.event is not None:
        from weft.operations.history.explanations import why_at

        return Explanations(explanations=why_at(access, request.run, request.task, request.event))
    return Explanations(explanations=why(access, request.run, request.task))


class ListDeadRequest(Request):
    cursor: DeadCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/dead", role="viewer")
def list_dead(access: StoreAccess, request: ListDeadRequest) -> TaskPage:
    """List dead letters of all runs: tasks whose retries are used up."""
    rows = access.read("dead_page", number_in(request.cursor), request.limit)
    after = rows[-1][0] if len(rows) == request.limit else None
    labels = Labels(access)
    return TaskPage(
        tasks=[task_info(access, TaskView.of(row), labels) for row in rows],
        next=None if after is None else f"d{after}",
    )


class ListArtifactsRequest(Request):
    run: RunRef
    task: Annotated[str, Meta(max_length=128, description="Only of this task, or of this element")] | None = None
    limit: Annotated[int, Meta(ge=1, le=ARTIFACTS_MAX)] = 1000


@resource.operation(
    "GET", "/v1/runs/{run}/artifacts", role="viewer", errors=FINDABLE, tool=ToolHints(idempotent=True)
)
def list_artifacts(access: StoreAccess, request: ListArtifactsRequest) -> ArtifactList:
    """List the files that the tasks of a run have kept (`artifacts`), in the order of the definition."""
    found, more = artifacts_of(access, request.run, request.task, request.limit)
    return ArtifactList(artifacts=found, more=more)


class ReadTaskFileRequest(Request):
    run: RunRef
    task: TaskRef
    path: Annotated[str, Meta(min_length=1, max_length=4096, description="Its path, as list_artifacts has it")]
    offset: Annotated[int, Meta(ge=0, le=2**53, description="From this byte on")] = 0
    limit: Annotated[int, Meta(ge=4, le=FILE_PART_MAX, description="At most so many bytes")] = 16 * 1024


class FilePart(msgspec.Struct, kw_only=True):
    """Bytes of a file: as `text`, or in `base64` where they are not UTF-8. The file goes on at `next`."""

    path: str
    bytes: int  # of the whole file
    offset: int
    next: int | None
    text: str | None = None
    base64: str | None = None


@resource.operation(
    "GET", "/v1/runs/{run}/tasks/{task}/file/part", role="viewer", errors=(*FINDABLE, "artifact_elsewhere"),
    tool=ToolHints("read_artifact", idempotent=True),
)  # fmt: skip
def read_task_file(access: StoreAccess, request: ReadTaskFileRequest) -> FilePart:
    """Read a part of a file that a task has kept (`artifacts`): as text, or in Base64 where it is none."""
    reference, file = open_kept_file(access, request.run, request.task, request.path)
    with file:
        file.seek(min(request.offset, reference.bytes))
        data = file.read(request.limit)
    end = request.offset + len(data)
    part = FilePart(path=reference.path, bytes=reference.bytes, offset=request.offset, next=None)
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        part.text = decoder.decode(data, final=end >= reference.bytes)
        end -= len(decoder.getstate()[0])  # a character of which the end is to come
    except UnicodeDecodeError:
        part.base64 = base64.b64encode(data).decode()
    part.next = end if end < reference.bytes else None
    return part
