"""Tools that look: workflows, runs, tasks, nodes; why something does not run, and what made a run long."""

from typing import Annotated

from msgspec import Meta

from weft.api.paging import cursor, keys
from weft.control.protocol import Control
from weft.control.records import RunInfo
from weft.control.timing import measured_path
from weft.core.commands import Refused
from weft.core.states import RunState, TaskState
from weft.core.workflow import TaskKind
from weft.mcp import arguments as a
from weft.mcp import replies as r
from weft.mcp.tools import Asking, Tools

tools = Tools()
TASKS_SHOWN = 20  # of a run's status, of either kind
WHY_SHOWN = 20
DETAILS_SHOWN = 20
SLACK_SHOWN = 20
FAILED = ["failed", "dead_letter"]
OPEN = ["running", "waiting", "scheduled", "queued"]


class ListWorkflows(a.Given):
    cursor: a.Cursor | None = None
    limit: a.Limit = 50


@tools(role="viewer")
def list_workflows(asking: Asking, given: ListWorkflows) -> r.WorkflowPage:
    """List the workflows that the store knows by name, each with its newest version. submit_workflow starts one."""
    after = keys(given.cursor, "workflows", str)
    found = asking.control.workflow_names(after="" if after is None else after[0], limit=given.limit)
    lines = [r.WorkflowLine(name=f.name, hash=f.hash, versions=f.versions, created_at=f.created_at) for f in found]
    more = len(found) == given.limit
    return r.WorkflowPage(workflows=lines, next=cursor("workflows", found[-1].name) if more else None)


class ListRuns(a.Given):
    states: Annotated[list[RunState], Meta(description="Only runs in one of these states")] | None = None
    workflow: a.WorkflowName | None = None
    children: Annotated[bool, Meta(description="Also runs that tasks of other runs started")] = False
    cursor: a.Cursor | None = None
    limit: a.Limit = 20


@tools(role="viewer")
def list_runs(asking: Asking, given: ListRuns) -> r.RunPage:
    """List runs, newest first."""
    at = keys(given.cursor, "runs", int)
    found = asking.control.runs(
        states=None if given.states is None else [str(state) for state in given.states], name=given.workflow,
        before=None if at is None else at[0], limit=given.limit, children=given.children,
    )  # fmt: skip
    more = len(found) == given.limit
    return r.RunPage(runs=[r.run_line(run) for run in found], next=cursor("runs", found[-1].no) if more else None)


class GetWorkflowStatus(a.Given):
    run: a.Run
    wait_s: a.WaitS = 0


@tools(role="viewer")
async def get_workflow_status(asking: Asking, given: GetWorkflowStatus) -> r.Status:
    """How a run is: its state, how many tasks ended how, which failed and why, which are under way, which signals it
    waits for, and its output once it has ended. With wait_s it waits for the end."""
    await asking.until(given.wait_s, lambda: asking.control.run(given.run), lambda run: run.finished)
    return await asking.look(lambda: _status(asking.control, given.run))


def _status(control: Control, ref: str) -> r.Status:
    run = control.run(ref)
    now = control.now()
    failed, _ = control.tasks(run.id, states=FAILED, limit=TASKS_SHOWN)
    under_way, _ = ([], None) if run.finished else control.tasks(run.id, states=OPEN, limit=TASKS_SHOWN)
    output, cut, error = _output(control, run)
    workflow = control.workflow(run.id)
    signals = [
        workflow.tasks[task.pos].spec["signal"]
        for task in under_way
        if task.state == "waiting" and "signal" in workflow.tasks[task.pos].spec
    ]
    return r.Status(
        run=r.run_line(run), ended=run.finished, failed=[r.task_line(task, now) for task in failed],
        open=[r.task_line(task, now) for task in under_way], signals=list(dict.fromkeys(signals)),
        resting=control.resting(run.id), output=output, output_cut=cut, output_error=error,
    )  # fmt: skip


def _output(control: Control, run: RunInfo) -> tuple[object, str | None, str | None]:
    if not run.finished:
        return None, None, None
    try:
        return *r.bounded(control.output(run.id)), None
    except Refused as refused:
        return None, None, r.shortened(refused.message)


class ListTasks(a.Given):
    run: a.Run | None = None
    states: Annotated[list[TaskState], Meta(description="Only tasks in one of these states")] | None = None
    types: Annotated[list[TaskKind], Meta(description="Only of these types")] | None = None
    workflow: a.WorkflowName | None = None
    node: a.Node | None = None
    cursor: a.Cursor | None = None
    limit: a.Limit = 30


@tools(role="viewer")
def list_tasks(asking: Asking, given: ListTasks) -> r.TaskPage:
    """List tasks in the order in which they were made: of a run or of all, by state, type, workflow and node. A page
    may be short or empty and still have a `next`."""
    at = keys(given.cursor, "tasks", int)
    found, after = asking.control.tasks(
        given.run, states=None if given.states is None else [str(state) for state in given.states],
        kinds=None if given.types is None else [str(kind) for kind in given.types], workflow=given.workflow,
        node=given.node, after=0 if at is None else at[0],
        limit=given.limit,
    )  # fmt: skip
    now = asking.control.now()
    lines = [r.task_line(task, now) for task in found]
    return r.TaskPage(tasks=lines, next=None if after is None else cursor("tasks", after))


class ListNodes(a.Given):
    ended: Annotated[bool, Meta(description="Also those that ended")] = False
    cursor: a.Cursor | None = None
    limit: a.Limit = 30


@tools(role="viewer")
def list_nodes(asking: Asking, given: ListNodes) -> r.NodePage:
    """List nodes, those that started first come first: how they are, what they can run, how much they have to do."""
    at = keys(given.cursor, "nodes", int, str)
    nodes = sorted(asking.control.nodes(ended=given.ended), key=lambda node: (node.started_at, node.session))
    rest = [node for node in nodes if at is None or (node.started_at, node.session) > (at[0], at[1])]
    shown = rest[: given.limit]
    more = len(rest) > len(shown)
    return r.NodePage(
        nodes=[r.node_line(node) for node in shown],
        next=cursor("nodes", shown[-1].started_at, shown[-1].session) if more else None,
    )


class ExplainTask(a.Given):
    run: a.Run
    task: Annotated[a.Task | None, Meta(description="One task; without it, those not ended, or failed")] = None


@tools(role="viewer")
def explain_task(asking: Asking, given: ExplainTask) -> r.Why:
    """Why a task is where it is: what it waits for, which nodes could run it and why the others cannot, why it was
    skipped or failed. The same rules answer that decide."""
    found = asking.control.why(given.run, given.task)
    return r.Why(
        explanations=[
            r.WhyLine(
                task=one.task, state=one.state, summary=r.shortened(one.summary) or "",
                details=[r.shortened(line) or "" for line in one.details[:DETAILS_SHOWN]],
            )
            for one in found[:WHY_SHOWN]
        ]
    )  # fmt: skip


class GetCriticalPath(a.Given):
    run: a.Run
    cursor: a.Cursor | None = None
    limit: a.Limit = 50


@tools(role="viewer")
def get_critical_path(asking: Asking, given: GetCriticalPath) -> r.CriticalPathPage:
    """The chain of tasks that made a run as long as it was, by measured durations, and how much slack others had:
    what to make faster first. Of a run under way: so far."""
    control = asking.control
    run = control.run(given.run)
    workflow = control.workflow(run.id)
    found, durations = measured_path(workflow, control.all_tasks(run.id), control.now())
    at = keys(given.cursor, "path", str, int)
    begin = 0 if at is None or at[0] != run.id else at[1]
    end = begin + given.limit
    on_path = dict.fromkeys(found.path)
    others = [pos for pos in range(len(workflow.tasks)) if pos not in on_path and durations[pos]]
    others.sort(key=lambda pos: (found.slack[pos], pos))
    return r.CriticalPathPage(
        run=run.id, state=run.state, length_ms=found.length, tasks=len(found.path),
        path=[r.PathTask(task=workflow.tasks[pos].name, took_ms=durations[pos]) for pos in found.path[begin:end]],
        slack=[
            r.Slack(task=workflow.tasks[pos].name, took_ms=durations[pos], slack_ms=found.slack[pos])
            for pos in others[:SLACK_SHOWN]
        ],
        next=cursor("path", run.id, end) if end < len(found.path) else None,
    )  # fmt: skip
