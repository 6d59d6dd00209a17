"""Tools that change the course of runs, tasks and nodes; and dead letters."""

from typing import Annotated, Any

from msgspec import Meta

from weft.api.paging import cursor, keys
from weft.core.commands import Refused
from weft.mcp import arguments as a
from weft.mcp import replies as r
from weft.mcp.tools import Asking, Tools

tools = Tools()
DAY_S = 86_400


class CancelTask(a.Given):
    run: a.Run
    task: a.Task
    reason: a.Reason = "cancelled by request"


@tools(role="operator", destructive=True, idempotent=True)
def cancel_task(asking: Asking, given: CancelTask) -> r.Changed:
    """Stop one task of a run. What needs it is treated as after a failure. cancel_run stops all of a run."""
    return r.changed(asking.control.cancel(given.run, given.task, given.reason))


class CancelRun(a.Given):
    run: a.Run
    reason: a.Reason = "cancelled by request"
    now: Annotated[bool, Meta(description="Skip its handlers, too (`when: always`)")] = False


@tools(role="operator", destructive=True, idempotent=True)
def cancel_run(asking: Asking, given: CancelRun) -> r.Changed:
    """Stop a run: what runs is stopped, and nothing more of it starts but its handlers (`when: always`)."""
    return r.changed(asking.control.cancel(given.run, None, given.reason, now=given.now))


class ResumeRun(a.Given):
    run: a.Run


@tools(role="operator", destructive=True, open_world=True)
def resume_run(asking: Asking, given: ResumeRun) -> r.Changed:
    """Run again what did not succeed of a run that ended, and what needs it. What succeeded keeps its results."""
    return r.changed(asking.control.resume(given.run))


Rejection = Annotated[str, Meta(min_length=1, max_length=1000, description="Say no, and why: the wait fails")]


class Signal(a.Given):
    run: a.Run
    name: Annotated[str, Meta(min_length=1, max_length=128, description="The signal's name, or its task's")]
    data: Annotated[Any, Meta(description="Any JSON value: it becomes the wait's output")] = None
    reject: Rejection | None = None


@tools(role="operator", destructive=True, idempotent=True)
def signal(asking: Asking, given: Signal) -> r.Changed:
    """Answer a task that waits for a signal (an approval, say), now or before it is reached. Each signal is applied
    once: said again with other data it is refused."""
    if given.data is not None and given.reject is not None:
        raise Refused("invalid", "data and reject exclude each other")
    return r.changed(asking.control.signal(given.run, given.name, given.data, given.reject))


class ListDead(a.Given):
    cursor: a.Cursor | None = None
    limit: a.Limit = 30


@tools(role="viewer")
def list_dead_letter_tasks(asking: Asking, given: ListDead) -> r.TaskPage:
    """List dead letters of all runs: tasks whose retries are used up. get_task_result says how they failed."""
    at = keys(given.cursor, "dead", int)
    found, after = asking.control.dead_letters(after=0 if at is None else at[0], limit=given.limit)
    now = asking.control.now()
    lines = [r.task_line(task, now) for task in found]
    return r.TaskPage(tasks=lines, next=None if after is None else cursor("dead", after))


class RetryDead(a.Given):
    run: a.Run
    task: Annotated[a.Task | None, Meta(description="Only this one; without it, all dead letters of the run")] = None


@tools(role="operator", destructive=True, open_world=True)
def retry_dead_letter_task(asking: Asking, given: RetryDead) -> r.Changed:
    """Run a dead letter of a run that has ended again, with a new budget of retries, and then what needs it."""
    return r.changed(asking.control.retry_dead(given.run, None if given.task is None else [given.task]))


class DrainNode(a.Given):
    node: a.Node
    deadline_s: Annotated[float, Meta(ge=0, le=DAY_S, description="What still runs then goes back, at no cost")] = 60
    reason: a.Reason = "drained by request"


@tools(role="operator", destructive=True, idempotent=True)
def drain_node_tasks(asking: Asking, given: DrainNode) -> r.Draining:
    """Let a node finish and leave: it claims nothing more, and what still runs at the deadline goes back to the
    queue, for other nodes, without costing an attempt. list_nodes says which there are."""
    node, done = asking.control.drain(given.node, int(given.deadline_s * 1000), given.reason)
    return r.Draining(node=node.node, session=node.session, drain_at=done.data["drain_at"], existing=done.existing)
