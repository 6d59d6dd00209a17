"""The past of a run: as it was after any of its events, and when what ran where."""

from typing import Annotated

import msgspec
from msgspec import Meta

from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource
from weft.operations.errors import FINDABLE
from weft.operations.graph.reading import PastMoment
from weft.operations.history.cluster_timeline import ClusterTimeline, cluster_timeline
from weft.operations.history.moments import moment_of, past_of, run_then, tasks_then
from weft.operations.history.timeline import RunHistoryInfo, Timeline, history_of, timeline_of
from weft.operations.parameters import EventNumber, Limit, RunRef, TaskCursor, TaskRef, number_in
from weft.operations.replies import RunInfo, TaskInfo

resource = Resource("history")
DAY_MS = 86_400_000


class RunThen(msgspec.Struct, kw_only=True):
    """A run after one of its events, rebuilt from its history."""

    run: RunInfo  # what its history does not say is as it is now
    past: PastMoment
    tasks: list[TaskInfo]
    next: str | None


class GetRunAtRequest(Request):
    run: RunRef
    event: EventNumber
    task: Annotated[TaskRef, Meta(description="Only this task, or this element")] | None = None
    cursor: TaskCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/runs/{run}/at/{event}", role="viewer", errors=FINDABLE)
def get_run_at(access: StoreAccess, request: GetRunAtRequest) -> RunThen:
    """A run and its tasks as they were after an event of its history."""
    with moment_of(access, request.run, request.event) as moment:
        tasks, after = tasks_then(moment, number_in(request.cursor), request.limit, request.task)
        run, following = run_then(access, moment), None if after is None else f"t{after}"
        return RunThen(run=run, past=past_of(moment), tasks=tasks, next=following)


class GetClusterTimelineRequest(Request):
    last_ms: Annotated[int, Meta(ge=1000, le=DAY_MS, description="Of so many ms before now")] = 300_000


@resource.operation("GET", "/v1/timeline", role="viewer")
def get_cluster_timeline(access: StoreAccess, request: GetClusterTimelineRequest) -> ClusterTimeline:
    """What ran where, on all nodes and of all runs. What runs, and what ended in the last minutes or hours, 10,000
    attempts of the newest; and when nodes came, went and were elected."""
    return cluster_timeline(access, request.last_ms)


class GetHistoryRequest(Request):
    run: RunRef


@resource.operation("GET", "/v1/runs/{run}/history", role="viewer", errors=FINDABLE)
def get_history(access: StoreAccess, request: GetHistoryRequest) -> RunHistoryInfo:
    """The numbers of a run's events, and those among them that a person looks for."""
    return history_of(access, request.run)


@resource.operation("GET", "/v1/runs/{run}/timeline", role="viewer", errors=FINDABLE)
def get_timeline(access: StoreAccess, request: GetHistoryRequest) -> Timeline:
    """When what ran where: a span for each attempt, in all generations, 50,000 of the newest; the critical path, and
    the slack of each task."""
    return timeline_of(access, request.run)
