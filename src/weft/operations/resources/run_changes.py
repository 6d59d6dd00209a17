"""Runs: change their course."""

import shutil
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from weft.core import commands as c
from weft.core.definition.inputs import resolve_inputs
from weft.core.invariants import current_rows
from weft.core.rules.takeover import positions_from
from weft.core.states import RunState
from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource, ToolHints
from weft.operations.errors import REFUSABLE, NotFound
from weft.operations.ids import id_from
from weft.operations.parameters import (
    TASK_PATTERN,
    TIME_MAX,
    BudgetTokens,
    BudgetUsd,
    Reason,
    RunRef,
    TaskRef,
    micros,
)
from weft.operations.reading.runs import find_run, pins_of, run_info, run_row, workflow_of
from weft.operations.reading.verification import tasks_of
from weft.operations.resources.runs import OneRunRequest
from weft.operations.submission import same_again

resource = Resource("runs")
PRUNED_AT_ONCE: Final = 100  # runs of one transaction
PRUNED_MAX: Final = 1000  # of one request


class Changed(msgspec.Struct, kw_only=True):
    """`existing`: it was so already. `changed` counts tasks."""

    run: str | None
    state: str | None
    existing: bool
    changed: int


def changed(reply: c.Reply) -> Changed:
    return Changed(run=reply.run_id, state=reply.state, existing=reply.existing, changed=reply.changed)


class CancelRunRequest(Request):
    run: RunRef
    reason: Reason = c.BY_REQUEST
    now: Annotated[bool, Meta(description="Skip its handlers, too (`when: always`)")] = False


@resource.operation(
    "POST", "/v1/runs/{run}/cancel", role="operator", errors=REFUSABLE, example={"reason": "not needed"},
    tool=ToolHints(destructive=True, idempotent=True),
)  # fmt: skip
def cancel_run(access: StoreAccess, request: CancelRunRequest) -> Changed:
    """Stop a run: what runs is stopped, and nothing more starts but handlers (`when: always`). With `now`, not even
    those, and handlers that run after an earlier cancel are stopped."""
    _, run_id = find_run(access, request.run)
    return changed(access.finish(access.commit(c.CancelRun(run_id, request.reason, request.now))))


class CancelTaskRequest(Request):
    run: RunRef
    task: TaskRef
    reason: Reason = c.BY_REQUEST


@resource.operation(
    "POST", "/v1/runs/{run}/tasks/{task}/cancel", role="operator", errors=REFUSABLE,
    example={"reason": "not needed"}, tool=ToolHints(destructive=True, idempotent=True),
)  # fmt: skip
def cancel_task(access: StoreAccess, request: CancelTaskRequest) -> Changed:
    """Stop one task of a run. What needs it is treated as after a failure. cancel_run stops all of a run."""
    _, run_id = find_run(access, request.run)
    return changed(access.finish(access.commit(c.CancelTask(run_id, request.task, request.reason))))


class ReleaseTaskRequest(Request):
    run: RunRef
    task: TaskRef
    reason: Reason = "released by request"


@resource.operation(
    "POST", "/v1/runs/{run}/tasks/{task}/release", role="operator", errors=REFUSABLE,
    example={"reason": "the machine was scrapped"},
)  # fmt: skip
def release_task(access: StoreAccess, request: ReleaseTaskRequest) -> Changed:
    """Go on without the proof that a lost attempt was stopped: its engine (a container engine, a Kubernetes cluster)
    cannot be asked. If the attempt still runs there, it may run twice."""
    _, run_id = find_run(access, request.run)
    return changed(access.commit(c.ReleaseTask(run_id, request.task, request.reason)))


@resource.operation(
    "POST", "/v1/runs/{run}/resume", role="operator", errors=REFUSABLE,
    tool=ToolHints(destructive=True, open_world=True),
)  # fmt: skip
def resume_run(access: StoreAccess, request: OneRunRequest) -> Changed:
    """Run again what did not succeed of a run that has ended, and what needs it, as a new generation. What succeeded
    keeps its results. A run that has not ended just goes on."""
    _, run_id = find_run(access, request.run)
    return changed(access.commit(c.Resume(run_id)))


FromTasks = Annotated[
    list[Annotated[str, Meta(pattern=TASK_PATTERN)]],
    Meta(max_length=1000, description="Run only these whole tasks and what follows; take over all other results"),
]


class RerunRunRequest(Request):
    run: RunRef
    fresh: Annotated[bool, Meta(description="Run tasks with `cache` all the same")] = False
    inputs: Annotated[dict[str, Any], Meta(description="Other values of these inputs")] = msgspec.field(
        default_factory=dict
    )
    from_tasks: FromTasks = msgspec.field(default_factory=list)


@resource.operation(
    "POST", "/v1/runs/{run}/rerun", role="operator", errors=REFUSABLE, status=201, example={"fresh": True},
    tool=ToolHints(destructive=True, open_world=True),
)  # fmt: skip
def rerun_run(access: StoreAccess, request: RerunRunRequest) -> Changed:
    """Start a new run with the same definition and inputs, but for those that are given. With `from_tasks`, only
    those tasks and what follows them run: what succeeded or was skipped before is taken over, with its results."""
    old = run_info(access, request.run)
    if request.inputs:
        values, problems = resolve_inputs(access.workflow(old.workflow).inputs, {**old.inputs, **request.inputs})
        if problems:
            raise c.Refused("invalid", "; ".join(problem.message for problem in problems[:5]))
        old = msgspec.structs.replace(old, inputs=values)
    command = same_again(old, access.document(old.workflow), pins_of(access, old.id), request.fresh)
    if request.from_tasks:
        command.taken_from, command.from_tasks = old.id, request.from_tasks
    if access.command_id is not None:
        command.run_id = id_from(f"{access.command_id} {old.id}")
    return changed(access.commit(command))


class PreviewRerunRequest(Request):
    run: RunRef
    from_tasks: FromTasks = msgspec.field(default_factory=list)


class RerunPlan(msgspec.Struct, kw_only=True):
    """By name, in the order of the definition; a mapped task stands for its elements."""

    run: str
    again: list[str]
    taken_over: list[str]


@resource.operation("GET", "/v1/runs/{run}/rerun", role="viewer", errors=REFUSABLE, tool=ToolHints(idempotent=True))
def preview_rerun(access: StoreAccess, request: PreviewRerunRequest) -> RerunPlan:
    """What a rerun from these tasks would run, and what it would take over. Nothing changes."""
    no, run_id = find_run(access, request.run)
    if not request.from_tasks:
        raise c.Refused("invalid", "from which tasks? without any, all of the run runs again")
    row = run_row(access, no)
    workflow = access.workflow(row.workflow)
    again = positions_from(workflow, row, current_rows(tasks_of(access, no)), request.from_tasks)
    running = frozenset(again)
    names = [task.name for task in workflow.tasks]
    return RerunPlan(
        run=run_id, again=[names[pos] for pos in again],
        taken_over=[name for pos, name in enumerate(names) if pos not in running],
    )  # fmt: skip


class SetRunBudgetRequest(Request):
    run: RunRef
    usd: BudgetUsd | None = None
    tokens: BudgetTokens | None = None


@resource.operation(
    "PUT", "/v1/runs/{run}/budget", role="operator", errors=REFUSABLE, example={"usd": 10},
    tool=ToolHints(destructive=True, idempotent=True),
)  # fmt: skip
def set_run_budget(access: StoreAccess, request: SetRunBudgetRequest) -> Changed:
    """Change what a run may spend in all; what is left out stays as it is. What waits for it goes on; a smaller
    budget stops nothing that runs."""
    _, run_id = find_run(access, request.run)
    return changed(access.commit(c.SetBudget(run_id, micros(request.usd), request.tokens)))


class AdvanceRunRequest(Request):
    run: RunRef
    by_task: Annotated[bool, Meta(description="By one task instead of by one level")] = False


@resource.operation("POST", "/v1/runs/{run}/advance", role="operator", errors=REFUSABLE, example={"by_task": False})
def advance_run(access: StoreAccess, request: AdvanceRunRequest) -> Changed:
    """Continue a run that is paused between levels, by one level or one task."""
    _, run_id = find_run(access, request.run)
    return changed(access.commit(c.Advance(run_id, request.by_task)))


class SignalRunRequest(Request):
    """`data` becomes the wait's output; `reject` fails it, with this reason. At most one of them."""

    run: RunRef
    name: Annotated[str, Meta(min_length=1, max_length=128, description="The signal's name, or its task's")]
    data: Annotated[Any, Meta(description="Any JSON value: it becomes the wait's output")] = None
    reject: (
        Annotated[str, Meta(min_length=1, max_length=1000, description="Say no, and why: the wait fails")] | None
    ) = None


@resource.operation(
    "POST", "/v1/runs/{run}/signal", role="operator", errors=REFUSABLE,
    example={"name": "approve", "data": {"by": "me"}}, tool=ToolHints("signal", destructive=True, idempotent=True),
)  # fmt: skip
def signal_run(access: StoreAccess, request: SignalRunRequest) -> Changed:
    """Answer a task that waits for a signal (an approval, say), now or before it is reached. Each signal is applied
    once: sent again with other data it is refused."""
    if request.data is not None and request.reject is not None:
        raise c.Refused("conflict", "data and reject exclude each other")
    if access.scope is not None and not access.scope.is_own(request.run):
        raise NotFound(f"there is no run {request.run} that this token may signal")
    _, run_id = find_run(access, request.run)
    name = _signal_name(access, run_id, request.name)
    data = None if request.data is None else msgspec.json.encode(request.data, order="deterministic").decode()
    return changed(access.commit(c.Signal(run_id, name, data, request.reject)))


def _signal_name(access: StoreAccess, run_id: str, name: str) -> str:
    """A wait task's own name does as well, where it is no other signal's."""
    tasks = workflow_of(access, run_id).tasks
    names = {task.name: task.spec["signal"] for task in tasks if "signal" in task.spec}
    return name if name in names.values() else names.get(name, name)


class RetryDeadRequest(Request):
    run: RunRef
    tasks: (
        Annotated[
            list[Annotated[str, Meta(pattern=TASK_PATTERN)]],
            Meta(min_length=1, max_length=1000, description="Only these, and what needs them; without it, all"),
        ]
        | None
    ) = None


@resource.operation(
    "POST", "/v1/runs/{run}/dead/retry", role="operator", errors=REFUSABLE, example={"tasks": ["load"]},
    tool=ToolHints("retry_dead_letter_task", destructive=True, open_world=True),
)  # fmt: skip
def retry_dead(access: StoreAccess, request: RetryDeadRequest) -> Changed:
    """Run dead letters of a run that has ended again, with a new budget of retries, and then what needs them."""
    _, run_id = find_run(access, request.run)
    return changed(access.commit(c.Resume(run_id, request.tasks, only_dead=True)))


@resource.operation("POST", "/v1/runs/{run}/tidy", role="operator", errors=REFUSABLE)
def tidy_run(access: StoreAccess, request: OneRunRequest) -> Changed:
    """Do what is left over of a run that was stopped, where no node is there to do it."""
    no, run_id = find_run(access, request.run)
    access.finish(c.Reply(run_id, no, more=True))
    return Changed(run=run_id, state=run_info(access, run_id).state, existing=False, changed=0)


class KeptRun(msgspec.Struct, kw_only=True):
    """A run that is not removed, because another one took over its results."""

    run: str
    taken_over_by: str


class PrunedRuns(msgspec.Struct, kw_only=True):
    runs: list[str]
    more: bool  # there are more: ask again
    kept: list[KeptRun] = []  # some of those that stay, though they ended before that


class PruneRunsRequest(Request):
    """`before` is a moment of the store's clock: runs that ended earlier go."""

    before: Annotated[int, Meta(ge=0, le=TIME_MAX)]
    states: list[RunState] | None = None
    cache: Annotated[bool, Meta(description="Also results that `cache` has kept since before that")] = False


@resource.operation(
    "POST", "/v1/runs:prune", role="admin", errors=("command_used", "observer"),
    example={"before": 1_769_821_200_000, "states": ["succeeded"]},
)  # fmt: skip
def prune_runs(access: StoreAccess, request: PruneRunsRequest) -> PrunedRuns:
    """Remove runs that ended long ago, with their output, about a thousand at a time. A run stays as long as one that
    took over its results."""
    removed: list[str] = []
    more = True
    states = None if request.states is None else [str(state) for state in request.states]
    while more and len(removed) < PRUNED_MAX:
        reply = access.commit(c.Prune(request.before, PRUNED_AT_ONCE, states, request.cache))
        removed += remove_files(access, reply)
        more = reply.more
    kept = [KeptRun(run=run_id, taken_over_by=by) for run_id, by in reply.data["kept"]]
    return PrunedRuns(runs=removed, more=more, kept=kept)


def remove_families(access: StoreAccess, nos: list[int]) -> frozenset[str]:
    """Ended runs with these numbers and what their tasks started; the ids of all that are gone."""
    gone: list[str] = []
    more = bool(nos)
    while more:
        reply = access.commit(c.Prune(TIME_MAX, PRUNED_AT_ONCE, nos=nos))
        gone += remove_files(access, reply)
        more = reply.more and reply.changed > 0
    return frozenset(gone)


def remove_files(access: StoreAccess, pruned: c.Reply) -> list[str]:
    """Of runs that were just pruned; their ids. Rows first, files after: files without rows are only waste, rows
    without files would lie."""
    ids = [run_id for _, run_id in pruned.data["runs"]]
    for run_id in ids:
        for root in (access.output_root, access.artifact_root, access.workspace_root):
            shutil.rmtree(root / run_id, ignore_errors=True)
    return ids
