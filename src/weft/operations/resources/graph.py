"""What a page draws: graphs of runs and workflows, the states of tasks, and how many runs there are in each state."""

from typing import Annotated

import msgspec
from msgspec import Meta

from weft.operations.access import StoreAccess
from weft.operations.declare import NoArguments, Request, Resource
from weft.operations.errors import FINDABLE
from weft.operations.graph.reading import RunGraph, RunStates, WorkflowGraph, graph_of, states_of, workflow_graph_of
from weft.operations.parameters import Hash, RunRef, WorkflowName
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


@resource.operation("GET", "/v1/runs/{run}/states", role="viewer", errors=FINDABLE)
def get_states(access: StoreAccess, request: GetStatesRequest) -> RunStates:
    """The states of all tasks of a run, a letter each, and the event from which to follow what changes."""
    return states_of(access, request.run, request.times)


class Counts(msgspec.Struct, kw_only=True):
    runs: dict[str, int]  # by state; those that tasks of other runs started, too
    dead_letters: int
    now: int
    last_event: int  # counted at this event or a little later: follow from there


@resource.operation("GET", "/v1/counts", role="viewer")
def get_counts(access: StoreAccess, request: NoArguments) -> Counts:
    """How many runs are in each state, and how many dead letters there are."""
    last = int(access.read("event_last")[0][0])
    return Counts(
        runs=dict(access.read("count_runs")), dead_letters=int(access.read("metrics_dead_letters")[0][0]),
        now=access.now(), last_event=last,
    )  # fmt: skip
