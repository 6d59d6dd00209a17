"""Tools for what happened and what is set up: events, how runs differ, what a task was given, triggers."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from weft.core.history.kinds import EventKind
from weft.mcp import arguments as a
from weft.mcp import replies as r
from weft.mcp.tools import RequestContext, Tools
from weft.operations.parameters import EventCursor, EventNumber, Moment, RunRef, TaskCursor, TaskRef, TriggerCursor
from weft.operations.replies import EventInfo, TaskDiff, TriggerInfo
from weft.operations.resources import events, history, runs, tasks, triggers

tools = Tools()
DIFF_LINES = 200
DIFF_TASKS = 100
EVENT_MAX = 4 * 1024  # of an event's data, as JSON


class EventLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    seq: int
    at: int
    kind: str
    run: str | None = None
    task: str | None = None
    node: str | None = None
    data: dict[str, Any] = {}
    data_cut: str | None = None  # the beginning of data that is too long, as JSON


class EventLines(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`next` is there after the last event, too: more may happen."""

    events: list[EventLine]
    next: str | None = None


class ListEventsArguments(a.Arguments):
    run: Annotated[RunRef | None, Meta(description="Of this run; without it, of all runs and nodes")] = None
    kinds: Annotated[list[EventKind], Meta(description="Only of these kinds")] | None = None
    task: TaskRef | None = None
    since: Moment | None = None
    until: Moment | None = None
    cursor: EventCursor | None = None
    limit: a.Limit = 50


@tools(role="viewer", scope="run")
def list_events(context: RequestContext, request: ListEventsArguments) -> EventLines:
    """What happened, in order: to a run and its tasks, or to all runs and nodes; who asked for it, and why."""
    filters: dict[str, Any] = {
        "kind": request.kinds, "task": request.task, "since": request.since, "until": request.until,
        "cursor": request.cursor, "limit": request.limit,
    }  # fmt: skip
    if request.run is None:
        page = context.connection.call(events.list_events, events.ListEventsRequest(**filters))
    else:
        asked = events.ListRunEventsRequest(run=request.run, **filters)
        page = context.connection.call(events.list_run_events, asked)
    return EventLines(events=[_event_line(one) for one in page.events], next=page.next or request.cursor)


def _event_line(event: EventInfo) -> EventLine:
    text = msgspec.json.encode(event.data)
    cut = None if len(text) <= EVENT_MAX else text[:EVENT_MAX].decode(errors="ignore") + "…"
    return EventLine(
        seq=event.seq, at=event.at, kind=event.kind, run=event.run_id, task=event.task, node=event.node,
        data={} if cut else event.data, data_cut=cut,
    )  # fmt: skip


class RunThenLines(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`event` is the last one of the run that is not later than the one asked for."""

    run: r.RunLine
    event: EventLine
    tasks: list[r.TaskLine]
    next: str | None = None


class GetRunAtArguments(a.Arguments):
    run: RunRef
    event: EventNumber
    task: TaskRef | None = None
    cursor: TaskCursor | None = None
    limit: a.Limit = 50


@tools(role="viewer", scope="run")
def get_run_at(context: RequestContext, request: GetRunAtArguments) -> RunThenLines:
    """A run and its tasks as they were after an event of its history; list_events has the numbers of events. What led
    to a failure: go back from the event before it. explain_task takes `event`, too."""
    found = context.connection.call(
        history.get_run_at,
        history.GetRunAtRequest(
            run=request.run, event=request.event, task=request.task, cursor=request.cursor, limit=request.limit
        ),
    )
    event = found.past.event
    return RunThenLines(
        run=r.run_line(found.run), event=EventLine(seq=event.seq, at=event.at, kind=event.kind, task=event.task),
        tasks=[r.task_line(task, event.at) for task in found.tasks], next=found.next,
    )  # fmt: skip


class RunsDiffer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`definition` is a unified diff; `inputs` are those that differ, as [old, new]."""

    old: r.RunLine
    new: r.RunLine
    definition: list[str] = []
    inputs: dict[str, Any] = {}
    tasks: list[TaskDiff] = []
    left_out: int = 0  # lines and tasks beyond the limit


class DiffRunsArguments(a.Arguments):
    old: RunRef
    new: RunRef


@tools(role="viewer")
def diff_runs(context: RequestContext, request: DiffRunsArguments) -> RunsDiffer:
    """How a run differs from an older one: definition, inputs, durations and outcomes of tasks."""
    asked = runs.DiffRunsRequest(run=request.old, other=request.new)
    found = context.connection.call(runs.diff_runs, asked)
    shown, cut = r.bounded(found.inputs)
    left_out = found.left_out + max(0, len(found.tasks) - DIFF_TASKS) + max(0, len(found.definition) - DIFF_LINES)
    return RunsDiffer(
        old=r.run_line(found.old), new=r.run_line(found.new),
        definition=[r.shortened(line) or "" for line in found.definition[:DIFF_LINES]],
        inputs={"…": cut} if cut else shown or {}, tasks=found.tasks[:DIFF_TASKS], left_out=left_out,
    )  # fmt: skip


class GivenToTask(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`spec` is what runs, by kind; values in `run` are variables WEFT_V1 …. No value of a secret is in it."""

    kind: str
    item: Any = None
    spec: dict[str, Any] = {}
    env: dict[str, str] = {}
    cwd: str | None = None
    secrets: list[str] = []
    error: str | None = None
    cut: str | None = None  # the beginning of all of it, as JSON, if it is too long


class GetTaskLaunchArguments(a.Arguments):
    run: RunRef
    task: TaskRef


@tools(role="viewer", scope="run")
def get_task_launch(context: RequestContext, request: GetTaskLaunchArguments) -> GivenToTask:
    """What a task is given: its command or function with resolved values, arguments, item, variables."""
    asked = tasks.OneTaskRequest(run=request.run, task=request.task)
    found = context.connection.call(tasks.get_task_launch, asked)
    _, cut = r.bounded(msgspec.to_builtins(found))
    if cut:
        return GivenToTask(kind=found.kind, cut=cut)
    return GivenToTask(
        kind=found.kind, item=found.item, spec=found.spec, env=found.env, cwd=found.cwd, secrets=found.secrets,
        error=r.shortened(found.error),
    )  # fmt: skip


class TriggerLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    workflow: str
    trigger: str
    what: str  # when it fires
    paused: bool = False
    next_at: int | None = None
    last_at: int | None = None
    last_outcome: str | None = None
    last_run: str | None = None
    queued: int = 0
    problem: str | None = None


class TriggerLines(msgspec.Struct, kw_only=True, omit_defaults=True):
    triggers: list[TriggerLine]
    next: str | None = None


class ListTriggersArguments(a.Arguments):
    workflow: a.Workflow | None = None
    cursor: TriggerCursor | None = None
    limit: a.Limit = 30


@tools(role="viewer")
def list_triggers(context: RequestContext, request: ListTriggersArguments) -> TriggerLines:
    """List what starts runs by itself (schedules, webhooks, after other runs): when each fires next, what its last
    fire became. apply_workflow sets them up."""
    asked = triggers.ListTriggersRequest(workflow=request.workflow, cursor=request.cursor, limit=request.limit)
    page = context.connection.call(triggers.list_triggers, asked)
    return TriggerLines(triggers=[_trigger_line(one) for one in page.triggers], next=page.next)


def _trigger_line(one: TriggerInfo) -> TriggerLine:
    line = TriggerLine(
        workflow=one.workflow, trigger=one.name, what=one.what, paused=one.paused, next_at=one.next_at,
        queued=one.queued, problem=r.shortened(one.problem),
    )  # fmt: skip
    if one.last is not None:
        line.last_at, line.last_outcome, line.last_run = one.last.at, one.last.outcome, one.last.run
    return line
