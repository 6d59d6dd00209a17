"""Tasks: find them, look at their attempts, and why they do not run."""

from typing import Annotated

import msgspec
from msgspec import Meta

from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource, ToolHints
from weft.operations.errors import FINDABLE
from weft.operations.parameters import (
    TASK_PATTERN,
    DeadCursor,
    Limit,
    RunRef,
    TaskCursor,
    TaskRef,
    TaskStates,
    number_in,
)
from weft.operations.reading.explanations import Explanations, why
from weft.operations.reading.kept_files import artifacts_of
from weft.operations.reading.labels import Labels
from weft.operations.reading.runs import TaskFilter, attempts_of, one_task, task_info, task_page
from weft.operations.replies import ArtifactList, AttemptInfo, TaskInfo, TaskLaunch
from weft.store.queries import TaskView

resource = Resource("tasks")
ARTIFACTS_MAX = 10_000

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


@resource.operation("GET", "/v1/runs/{run}/tasks/{task}/why", role="viewer", errors=FINDABLE)
def explain_task(access: StoreAccess, request: OneTaskRequest) -> Explanations:
    """Why a task is where it is: what it waits for, and which nodes could run it."""
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
