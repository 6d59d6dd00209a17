"""What a page draws: graphs of runs and workflows, the states of tasks, and how many runs there are in each state."""

from typing import Annotated

import msgspec
from msgspec import Meta

from weft.operations.access import StoreAccess
from weft.operations.declare import NoArguments, Request, Resource
from weft.operations.errors import FINDABLE
from weft.operations.graph.reading import (
    ElementStates,
    RunGraph,
    RunStates,
    WorkflowGraph,
    element_states_of,
    graph_of,
    states_of,
    workflow_graph_of,
)
from weft.operations.history.moments import element_states_at, states_at
from weft.operations.parameters import EventNumber, Hash, RunRef, TaskRef, WorkflowName
from weft.operations.resources.workflows import version

resource = Resource("graph")


class GetGraphRequest(Request):
    run: RunRef


@resource.operation("GET", "/v1/runs/{run}/graph", role="viewer", errors=FINDABLE)
def get_graph(access: StoreAccess, request: GetGraphRequest) -> RunGraph:
    """The graph of a run's workflow as compact lists, with a place for each task in a picture of it. The same for all
    runs of a version."""
    return graph_of(access, request.run)


class GetWorkflowGraphRequest(Request):
    name: WorkflowName
    version: Annotated[Hash, Meta(description="A version's hash, or the beginning of it")] | None = None


@resource.operation("GET", "/v1/workflows/{name}/graph", role="viewer", errors=("not_found",))
def get_workflow_graph(access: StoreAccess, request: GetWorkflowGraphRequest) -> WorkflowGraph:
    """The graph of a version of a workflow, as `get_graph` gives a run's. Without `version` it is the newest."""
    return workflow_graph_of(access, version(access, request.name, request.version).hash)


class GetStatesRequest(Request):
    run: RunRef
    times: Annotated[bool, Meta(description="Also when each task began and ended")] = False
    event: EventNumber | None = None


@resource.operation("GET", "/v1/runs/{run}/states", role="viewer", errors=FINDABLE)
def get_states(access: StoreAccess, request: GetStatesRequest) -> RunStates:
    """The states of all tasks of a run, a letter each, and the event from which to follow what changes. With `event`:
    as they were after it."""
    if request.event is not None:
        return states_at(access, request.run, request.event, request.times)
    return states_of(access, request.run, request.times)


class GetElementStatesRequest(Request):
    run: RunRef
    task: TaskRef
    event: EventNumber | None = None


@resource.operation("GET", "/v1/runs/{run}/tasks/{task}/states", role="viewer", errors=FINDABLE)
def get_element_states(access: StoreAccess, request: GetElementStatesRequest) -> ElementStates:
    """The states of the elements of a mapped task, a letter each. With `event`: as they were after it."""
    if request.event is not None:
        return element_states_at(access, request.run, request.task, request.event)
    return element_states_of(access, request.run, request.task)


class Counts(msgspec.Struct, kw_only=True):
    runs: dict[str, int]  # by state; those that tasks of other runs started, too
    children: dict[str, int]  # of them those that tasks started
    dead_letters: int
    now: int
    last_event: int  # counted at this event or a little later: follow from there


@resource.operation("GET", "/v1/counts", role="viewer")
def get_counts(access: StoreAccess, request: NoArguments) -> Counts:
    """How many runs are in each state, and how many dead letters there are."""
    last = int(access.read("event_last")[0][0])
    counted = access.read("count_runs_and_children")
    return Counts(
        runs={state: all for state, all, _ in counted}, children={state: some for state, _, some in counted if some},
        dead_letters=int(access.read("metrics_dead_letters")[0][0]), now=access.now(), last_event=last,
    )  # fmt: skip
