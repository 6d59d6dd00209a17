"""Tools that look: workflows, runs, tasks, nodes; why something does not run, and what made a run long."""

from typing import Annotated

from msgspec import Meta

from weft.client.critical_path import measured_path
from weft.client.verbs import Connection
from weft.core.commands import Refused
from weft.core.states import RunState, TaskState
from weft.mcp import arguments as a
from weft.mcp import replies as r
from weft.mcp.tools import RequestContext, Tools
from weft.operations.parameters import (
    DeadCursor,
    EventNumber,
    Moment,
    NodeCursor,
    NodeRef,
    Pairs,
    RunCursor,
    RunLate,
    RunRef,
    RunText,
    RunTrigger,
    TaskCursor,
    TaskRef,
    WorkflowCursor,
    number_in,
)
from weft.operations.replies import RunInfo, TaskInfo
from weft.operations.resources import nodes, runs, tasks, workflows

tools = Tools()
TASKS_SHOWN = 20  # of a run's status, of either kind
WHY_SHOWN = 20
DETAILS_SHOWN = 20
SLACK_SHOWN = 20
FAILED = ["failed", "dead_letter"]
OPEN = ["running", "waiting", "scheduled", "queued"]


class ListWorkflowsArguments(a.Arguments):
    cursor: WorkflowCursor | None = None
    limit: a.Limit = 50


@tools(role="viewer")
def list_workflows(context: RequestContext, request: ListWorkflowsArguments) -> r.WorkflowLines:
    """List the workflows that the store knows by name, each with its newest version. submit_workflow starts one."""
    page = context.connection.call(
        workflows.list_workflows, workflows.ListWorkflowsRequest(cursor=request.cursor, limit=request.limit)
    )
    lines = [
        r.WorkflowLine(name=f.name, hash=f.hash, versions=f.versions, created_at=f.created_at) for f in page.workflows
    ]
    return r.WorkflowLines(workflows=lines, next=page.next)


class ListRunsArguments(a.Arguments):
    states: Annotated[list[RunState], Meta(description="Only runs in one of these states")] | None = None
    workflow: a.Workflow | None = None
    labels: Annotated[Pairs, Meta(description="Only runs with all of these labels, each `k=v`")] | None = None
    inputs: Annotated[Pairs, Meta(description="Only runs with all of these inputs, each `k=v`")] | None = None
    trigger: RunTrigger | None = None
    since: Moment | None = None
    until: Moment | None = None
    text: RunText | None = None
    late: RunLate = False
    children: Annotated[bool, Meta(description="Also runs that tasks of other runs started")] = False
    cursor: RunCursor | None = None
    limit: a.Limit = 20


@tools(role="viewer")
def list_runs(context: RequestContext, request: ListRunsArguments) -> r.RunLines:
    """List runs, newest first."""
    page = context.connection.call(
        runs.list_runs,
        runs.ListRunsRequest(
            state=request.states, name=request.workflow, children=request.children, cursor=request.cursor,
            limit=request.limit, label=request.labels, input=request.inputs, trigger=request.trigger,
            since=request.since, until=request.until, text=request.text,
            late=request.late,
        ),
    )  # fmt: skip
    return r.RunLines(runs=[r.run_line(run) for run in page.runs], next=page.next)


class GetWorkflowStatusArguments(a.Arguments):
    run: RunRef
    wait_s: a.WaitS = 0


@tools(role="viewer", scope="run")
async def get_workflow_status(context: RequestContext, request: GetWorkflowStatusArguments) -> r.Status:
    """How a run is: its state, how many tasks ended how, which failed and why, which are under way, which signals it
    waits for, and its output once it has ended. With wait_s it waits for the end."""
    await context.until(request.wait_s, lambda: context.connection.run(request.run), lambda run: run.finished)
    return await context.read(lambda: _status(context.connection, request.run))


def _status(connection: Connection, ref: str) -> r.Status:
    run = connection.run(ref)
    now = connection.now()
    failed, _ = connection.tasks(run.id, states=FAILED, limit=TASKS_SHOWN)
    under_way, _ = ([], None) if run.finished else connection.tasks(run.id, states=OPEN, limit=TASKS_SHOWN)
    output, cut, error = _output(connection, run)
    budget = connection.call(runs.get_run_budget, runs.OneRunRequest(run=run.id))
    workflow = connection.workflow(run.id)
    signals = [
        workflow.tasks[task.pos].spec["signal"]
        for task in under_way
        if task.state == "waiting" and "signal" in workflow.tasks[task.pos].spec
    ]
    return r.Status(
        run=r.run_line(run), ended=run.finished, failed=[r.task_line(task, now) for task in failed],
        open=[r.task_line(task, now) for task in under_way], signals=list(dict.fromkeys(signals)),
        awaiting_advance=connection.awaiting_advance(run.id), output=output, output_cut=cut, output_error=error,
        budget=budget.budget if budget.spends else None,
    )  # fmt: skip


def _output(connection: Connection, run: RunInfo) -> tuple[object, str | None, str | None]:
    if not run.finished:
        return None, None, None
    try:
        return *r.bounded(connection.output(run.id)), None
    except Refused as refused:
        return None, None, r.shortened(refused.message)


class ListTasksArguments(a.Arguments):
    run: RunRef | None = None
    states: Annotated[list[TaskState], Meta(description="Only tasks in one of these states")] | None = None
    types: Annotated[list[str], Meta(description="Only of these types")] | None = None
    workflow: a.Workflow | None = None
    node: NodeRef | None = None
    cursor: TaskCursor | None = None
    limit: a.Limit = 30


@tools(role="viewer", scope="run")
def list_tasks(context: RequestContext, request: ListTasksArguments) -> r.TaskLines:
    """List tasks in the order in which they were created: of a run or of all, by state, type, workflow and node. A
    page may be short or empty and still have a `next`."""
    found, after = context.connection.tasks(
        request.run, states=request.states, kinds=request.types, workflow=request.workflow, node=request.node,
        after=number_in(request.cursor), limit=request.limit,
    )  # fmt: skip
    return _task_page(context, found, None if after is None else f"t{after}")


def _task_page(context: RequestContext, found: list[TaskInfo], more: str | None) -> r.TaskLines:
    now = context.connection.now()
    return r.TaskLines(tasks=[r.task_line(task, now) for task in found], next=more)


class ListNodesArguments(a.Arguments):
    ended: Annotated[bool, Meta(description="Also those that ended")] = False
    cursor: NodeCursor | None = None
    limit: a.Limit = 30


@tools(role="viewer")
def list_nodes(context: RequestContext, request: ListNodesArguments) -> r.NodeLines:
    """List nodes, those that started first come first: how they are, what they can run, how much they have to do."""
    page = context.connection.call(
        nodes.list_nodes, nodes.ListNodesRequest(ended=request.ended, cursor=request.cursor, limit=request.limit)
    )
    return r.NodeLines(nodes=[r.node_line(node) for node in page.nodes], next=page.next)


class ExplainTaskArguments(a.Arguments):
    run: RunRef
    task: Annotated[TaskRef | None, Meta(description="One task; without it, those not ended, or failed")] = None
    event: EventNumber | None = None


@tools(role="viewer", scope="run")
def explain_task(context: RequestContext, request: ExplainTaskArguments) -> r.Why:
    """Why a task is where it is: what it waits for, which nodes could run it and why the others cannot, why it was
    skipped or failed. The same rules answer that decide."""
    found = context.connection.why(request.run, request.task, request.event)
    return r.Why(
        explanations=[
            r.WhyLine(
                task=one.task, state=one.state, summary=r.shortened(one.summary) or "",
                details=[r.shortened(line) or "" for line in one.details[:DETAILS_SHOWN]],
            )
            for one in found[:WHY_SHOWN]
        ]
    )  # fmt: skip


PathCursor = Annotated[str, Meta(pattern="^c[0-9]{1,9}$", description="`next` of the page before, as it is")]


class GetCriticalPathArguments(a.Arguments):
    run: RunRef
    cursor: PathCursor | None = None
    limit: a.Limit = 50


@tools(role="viewer", scope="run")
def get_critical_path(context: RequestContext, request: GetCriticalPathArguments) -> r.CriticalPathPage:
    """The chain of tasks that made a run as long as it was, by measured durations, and how much slack others had:
    what to make faster first. Of a run under way: so far."""
    connection = context.connection
    run = connection.run(request.run)
    workflow = connection.workflow(run.id)
    found, durations = measured_path(workflow, run, connection.all_tasks(run.id), connection.now())
    start = number_in(request.cursor)
    end = start + request.limit
    on_path = dict.fromkeys(found.path)
    others = [pos for pos in range(len(workflow.tasks)) if pos not in on_path and durations[pos]]
    others.sort(key=lambda pos: (found.slack[pos], pos))
    return r.CriticalPathPage(
        run=run.id, state=run.state, length_ms=found.length, tasks=len(found.path),
        path=[r.PathTask(task=workflow.tasks[pos].name, took_ms=durations[pos]) for pos in found.path[start:end]],
        slack=[
            r.Slack(task=workflow.tasks[pos].name, took_ms=durations[pos], slack_ms=found.slack[pos])
            for pos in others[:SLACK_SHOWN]
        ],
        next=f"c{end}" if end < len(found.path) else None,
    )  # fmt: skip


class ListDeadArguments(a.Arguments):
    cursor: DeadCursor | None = None
    limit: a.Limit = 30


@tools(role="viewer")
def list_dead_letter_tasks(context: RequestContext, request: ListDeadArguments) -> r.TaskLines:
    """List dead letters of all runs: tasks whose retries are used up. get_task_result says how they failed."""
    page = context.connection.call(tasks.list_dead, tasks.ListDeadRequest(cursor=request.cursor, limit=request.limit))
    return _task_page(context, page.tasks, page.next)
