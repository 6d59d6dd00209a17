"""Runs: list and inspect them."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from weft.core.commands import Refused
from weft.core.history.kinds import RECORD_KINDS, canonical_lines
from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource
from weft.operations.errors import FINDABLE, REFUSABLE
from weft.operations.parameters import (
    RUN_PATTERN,
    EventNumber,
    FamilyCursor,
    Limit,
    Moment,
    Pairs,
    RunCursor,
    RunLate,
    RunRef,
    RunStates,
    RunText,
    RunTrigger,
    number_in,
)
from weft.operations.reading import results
from weft.operations.reading import verification as verifying
from weft.operations.reading.budgets import RunBudget, run_budget
from weft.operations.reading.explanations import Explanations, why
from weft.operations.reading.run_diff import diff_of
from weft.operations.reading.run_filters import RunFilter, counts_of_runs, page_of_runs
from weft.operations.reading.runs import (
    TaskFilter,
    family_of,
    find_run,
    is_resting,
    run_info,
    run_infos,
    run_row,
    task_info,
    task_page,
    workflow_hashes,
)
from weft.operations.replies import RunDiff, RunInfo, TaskInfo, Verification, WantedSignal
from weft.operations.resources.events import events_page
from weft.store.queries import TaskView

resource = Resource("runs")
TASKS_SHOWN: Final = 200
BUCKETS_MAX: Final = 1000
WHOLE_MAX: Final = 64 * 1024 * 1024  # of artifacts, in one output: they are held in memory


class OneRunRequest(Request):
    run: RunRef


class RunPage(msgspec.Struct, kw_only=True):
    runs: list[RunInfo]
    next: str | None  # the cursor of the next page; null: this was the last


class ListRunsRequest(Request):
    state: RunStates | None = None
    name: Annotated[str, Meta(max_length=128, description="Only runs of this workflow")] | None = None
    label: Annotated[Pairs, Meta(description="Only runs with this label, `k=v`; may be repeated")] | None = None
    input: (
        Annotated[Pairs, Meta(description="Only runs with this value of an input, `k=v`; may be repeated")] | None
    ) = None
    trigger: RunTrigger | None = None
    since: Moment | None = None
    until: Moment | None = None
    text: RunText | None = None
    late: RunLate = False
    children: Annotated[bool, Meta(description="Also runs that tasks of other runs started")] = False
    cursor: RunCursor | None = None
    limit: Limit = 50
    backfill: Annotated[str, Meta(pattern=RUN_PATTERN, description="Only runs of this backfill")] | None = None


@resource.operation("GET", "/v1/runs", role="viewer")
def list_runs(access: StoreAccess, request: ListRunsRequest) -> RunPage:
    """List runs, newest first. `since`, `until`: only those that were submitted at or after the one, and before the
    other. Values of inputs are compared as text; in `text`, A to Z are as a to z."""
    found = run_infos(page_of_runs(access, filter_of(request), number_in(request.cursor, 2**62), request.limit))
    more = len(found) == request.limit
    return RunPage(runs=found, next=f"r{found[-1].no}" if more else None)


def filter_of(request: ListRunsRequest) -> RunFilter:
    return RunFilter(
        states=request.state, name=request.name, labels=request.label, inputs=request.input, trigger=request.trigger,
        since=request.since, until=request.until, text=request.text, children=request.children,
        backfill=request.backfill, late=request.late,
    )  # fmt: skip


class CountRunsRequest(Request):
    since: Moment
    until: Moment
    bucket_ms: Annotated[int, Meta(ge=1000, le=10**12, description="The length of one bucket")] = 3_600_000
    name: Annotated[str, Meta(max_length=128, description="Only runs of this workflow")] | None = None
    trigger: RunTrigger | None = None
    children: Annotated[bool, Meta(description="Also runs that tasks of other runs started")] = False


class RunsInBucket(msgspec.Struct, kw_only=True):
    at: int  # when the bucket begins
    states: dict[str, int]


class RunsOverTime(msgspec.Struct, kw_only=True):
    """Buckets in which runs were submitted, in their order; by the states that these runs have now."""

    bucket_ms: int
    buckets: list[RunsInBucket]


@resource.operation("GET", "/v1/runs:counts", role="viewer", errors=REFUSABLE)
def count_runs(access: StoreAccess, request: CountRunsRequest) -> RunsOverTime:
    """How many runs were submitted over time, by state."""
    if not 0 < request.until - request.since <= BUCKETS_MAX * request.bucket_ms:
        raise Refused("invalid", f"since must be before until, with {BUCKETS_MAX:,} buckets between them at the most")
    buckets: dict[int, RunsInBucket] = {}
    for at, state, many in counts_of_runs(
        access, request.since, request.until, request.bucket_ms, request.name, request.trigger, request.children
    ):
        buckets.setdefault(at, RunsInBucket(at=at, states={})).states[state] = many
    return RunsOverTime(bucket_ms=request.bucket_ms, buckets=list(buckets.values()))


class RunDetail(msgspec.Struct, kw_only=True):
    """A run with the first of its tasks."""

    run: RunInfo
    tasks: list[TaskInfo]
    next: str | None  # where GET /v1/runs/{run}/tasks goes on
    awaiting_advance: bool  # advanced by hand, and nothing to do until it is advanced
    last_event: int  # the number of its newest event: where to begin to follow


class GetRunRequest(Request):
    run: RunRef
    tasks: Annotated[int, Meta(ge=0, le=TASKS_SHOWN, description="At most so many of its tasks")] = TASKS_SHOWN


@resource.operation("GET", "/v1/runs/{run}", role="viewer", errors=FINDABLE)
def get_run(access: StoreAccess, request: GetRunRequest) -> RunDetail:
    """A run, with the first of its tasks."""
    info = run_info(access, request.run)
    tasks: list[TaskInfo] = []
    after: int | None = 0
    if request.tasks:
        tasks, after = task_page(access, info.id, None, TaskFilter(), 0, request.tasks)
    return RunDetail(
        run=info, tasks=tasks, next=None if after is None else f"t{after}", awaiting_advance=is_resting(access, info),
        last_event=int(access.read("event_last_of_run", info.no)[0][0]),
    )  # fmt: skip


class DiffRunsRequest(Request):
    run: RunRef
    other: RunRef


@resource.operation("GET", "/v1/runs/{run}/diff/{other}", role="viewer", errors=FINDABLE)
def diff_runs(access: StoreAccess, request: DiffRunsRequest) -> RunDiff:
    """How the run `other` differs from this one: definition, inputs, durations and outcomes of tasks."""
    return diff_of(access, request.run, request.other)


class RunWorkflows(msgspec.Struct, kw_only=True):
    """Hashes: the run's own workflow first, then those that its tasks run."""

    workflows: list[str]


@resource.operation("GET", "/v1/runs/{run}/workflows", role="viewer", errors=FINDABLE)
def list_run_workflows(access: StoreAccess, request: OneRunRequest) -> RunWorkflows:
    """The run's own workflow, and those that its tasks run."""
    return RunWorkflows(workflows=workflow_hashes(access, request.run))


class FamilyMember(msgspec.Struct, kw_only=True):
    no: int
    id: str


class Family(msgspec.Struct, kw_only=True):
    """A run and all that its tasks started, in the order of their numbers."""

    runs: list[FamilyMember]
    next: str | None


class ListFamilyRequest(Request):
    run: RunRef
    cursor: FamilyCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/runs/{run}/family", role="viewer", errors=FINDABLE)
def list_family(access: StoreAccess, request: ListFamilyRequest) -> Family:
    """The run and all that its tasks started, at any depth."""
    after = number_in(request.cursor, -1)
    found = [FamilyMember(no=no, id=id) for no, id in family_of(access, request.run) if no > after]
    shown = found[: request.limit]
    return Family(runs=shown, next=f"f{shown[-1].no}" if len(found) > len(shown) else None)


class Starter(msgspec.Struct, kw_only=True):
    task: TaskInfo | None  # null: no task started this run


@resource.operation("GET", "/v1/runs/{run}/starter", role="viewer", errors=FINDABLE)
def get_starter(access: StoreAccess, request: OneRunRequest) -> Starter:
    """The task that started this run, if one did."""
    no, _ = find_run(access, request.run)
    parent = run_row(access, no).parent
    rows = [] if parent is None else access.read("tasks_page", parent - 1, parent + 1, None, True, 1)
    return Starter(task=task_info(access, TaskView.of(rows[0])) if rows else None)


class WantedSignals(msgspec.Struct, kw_only=True):
    signals: list[WantedSignal]


class ListWaitingRequest(Request):
    run: RunRef
    limit: Limit = 100


@resource.operation("GET", "/v1/runs/{run}/waiting", role="viewer", errors=FINDABLE)
def list_waiting(access: StoreAccess, request: ListWaitingRequest) -> WantedSignals:
    """The signals that tasks wait for in runs that this one's tasks started."""
    no, run_id = find_run(access, request.run)
    found = []
    for _, child_id, hash, pos in access.read("tasks_waiting_of_family", no, request.limit):
        task = access.workflow(hash).tasks[pos]
        if child_id != run_id and "signal" in task.spec:
            found.append(WantedSignal(run=child_id, task=task.name, signal=task.spec["signal"]))
    return WantedSignals(signals=found)


class RunOutput(msgspec.Struct, kw_only=True):
    """The value of the workflow's `output`; `error` says why a run that succeeded has none after all."""

    output: Any
    error: str | None = None


class GetRunOutputRequest(Request):
    run: RunRef
    whole: Annotated[bool, Meta(description="Large outputs in their places, not references to their files")] = False


@resource.operation("GET", "/v1/runs/{run}/output", role="viewer", errors=(*FINDABLE, "conflict"))
def get_run_output(access: StoreAccess, request: GetRunOutputRequest) -> RunOutput:
    """What the run's workflow says is its `output`; null if it says nothing. 409 while it is under way. Large outputs
    stand there as `{"$artifact": {…}}`; with `whole` they are read, 64 MiB of them together."""
    try:
        return RunOutput(output=results.output_of(access, request.run, WHOLE_MAX if request.whole else 0))
    except Refused as refused:
        if refused.code != "invalid":
            raise
        return RunOutput(output=None, error=refused.message)


@resource.operation("GET", "/v1/runs/{run}/budget", role="viewer", errors=FINDABLE)
def get_run_budget(access: StoreAccess, request: OneRunRequest) -> RunBudget:
    """What a run may spend, has spent, and has reserved for its running tasks, in US dollars and tokens; and what
    each of its tasks has spent."""
    with access.snapshot():
        return run_budget(access, request.run)


class RunContext(msgspec.Struct, kw_only=True):
    context: dict[str, Any]


@resource.operation("GET", "/v1/runs/{run}/context", role="viewer", errors=FINDABLE)
def get_run_context(access: StoreAccess, request: OneRunRequest) -> RunContext:
    """The run's context, by key, as it is now."""
    return RunContext(context=results.context_of(access, request.run))


class ExplainRunRequest(OneRunRequest, kw_only=True):
    event: EventNumber | None = None


@resource.operation("GET", "/v1/runs/{run}/why", role="viewer", errors=FINDABLE)
def explain_run(access: StoreAccess, request: ExplainRunRequest) -> Explanations:
    """What the tasks that have not ended wait for; of a run that has ended, why they ended as they did. With `event`:
    as it was after it, as far as the run's history says."""
    if request.event is not None:
        from weft.operations.history.explanations import why_at

        return Explanations(explanations=why_at(access, request.run, None, request.event))
    return Explanations(explanations=why(access, request.run, None))


@resource.operation("GET", "/v1/runs/{run}/verify", role="viewer", errors=FINDABLE)
def verify_run(access: StoreAccess, request: OneRunRequest) -> Verification:
    """Rebuild the run's state from its events and compare it with what is stored."""
    return verifying.verify(access, request.run)


class LevelRecords(msgspec.Struct, kw_only=True):
    """The records of a run in levels, one JSON text each: the same bytes whatever order its tasks ended in."""

    lines: list[str]


@resource.operation("GET", "/v1/runs/{run}/records", role="viewer", errors=FINDABLE)
def get_run_records(access: StoreAccess, request: OneRunRequest) -> LevelRecords:
    """The records of a run in levels, the same whatever order its tasks ended in."""
    found: list[tuple[str, str | None, dict[str, Any]]] = []
    after = 0
    while page := events_page(access, request.run, after, 1000):
        found += [(e.kind, e.task, e.data) for e in page if e.kind in RECORD_KINDS]
        after = page[-1].seq
    return LevelRecords(lines=canonical_lines(found))
