"""What tools give: shorter than the API's records, because whoever reads them pays by the word. Every text is cut at
a length and every list is a page, so that no reply is large. Fields that say nothing are left out."""

from typing import Any

import msgspec

from weft.client.critical_path import task_ms
from weft.operations.replies import BudgetInfo, NodeInfo, RunInfo, TaskInfo
from weft.operations.resources.definitions import DefinitionMistake, PlannedTask

REASON_MAX = 500
VALUE_MAX = 32 * 1024  # of a value, as JSON


class RunLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Times are milliseconds of the store's clock."""

    run: str
    name: str
    state: str
    total: int
    succeeded: int = 0
    failed: int = 0
    dead_letter: int = 0
    cancelled: int = 0
    skipped: int = 0
    active: int = 0  # queued or running
    generation: int = 1
    reason: str | None = None
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    key: str | None = None
    parent: str | None = None  # the run whose task started it
    labels: dict[str, str] = {}
    trigger: str | None = None  # that made it


class TaskLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    run: str
    task: str
    state: str
    type: str
    attempt: int = 0
    exit_code: int | None = None
    reason: str | None = None
    node: str | None = None  # that runs it, or ran it last
    took_ms: int | None = None  # so far, while it runs
    elements: int | None = None  # of a mapped task: how many
    child: str | None = None  # the run that it started


class NodeLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    node: str
    session: str
    health: str
    role: str
    slots: int | None = None
    running: int = 0
    leader: bool = False
    labels: dict[str, str] = {}
    capabilities: list[str] = []
    types: list[str] = []  # of tasks it can run
    run: str | None = None  # it works for this run alone


class StartedRun(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`existing`: there was a run with this key already, and it is this one. `warnings`: what it would wait for
    with the nodes that are alive now."""

    run: str
    name: str
    workflow: str
    state: str | None = None
    existing: bool = False
    task: str | None = None  # of a run of one task: its name
    warnings: list[str] = []


class WorkflowLine(msgspec.Struct, kw_only=True):
    name: str
    hash: str  # of its newest version
    versions: int
    created_at: int


class WorkflowLines(msgspec.Struct, kw_only=True, omit_defaults=True):
    workflows: list[WorkflowLine]
    next: str | None = None  # the cursor of the next page; left out: this was the last


class RunLines(msgspec.Struct, kw_only=True, omit_defaults=True):
    runs: list[RunLine]
    next: str | None = None


class TaskLines(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A filter that few tasks pass may leave a page short, or empty: the list goes on while `next` is there."""

    tasks: list[TaskLine]
    next: str | None = None


class NodeLines(msgspec.Struct, kw_only=True, omit_defaults=True):
    nodes: list[NodeLine]
    next: str | None = None


class Status(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Of tasks only those that matter: failed ones, and those under way. list_tasks has all."""

    run: RunLine
    ended: bool
    failed: list[TaskLine] = []
    open: list[TaskLine] = []
    signals: list[str] = []  # that it waits for: `signal` answers them
    awaiting_advance: bool = False  # moved by hand, and nothing to do until somebody advances it
    output: Any = None  # the run's result, if its workflow says what that is
    output_cut: str | None = None  # the beginning of one that is too long, as JSON
    output_error: str | None = None
    budget: BudgetInfo | None = None  # of a run whose tasks can spend something


class TaskResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Of the last attempt, unless another was asked for. stdout and stderr are tails: stream_task_output has all."""

    run: str
    task: str
    state: str
    ended: bool
    attempt: int = 0
    attempts: int = 0
    outcome: str | None = None  # of this attempt
    exit_code: int | None = None
    error: str | None = None
    output: Any = None
    output_cut: str | None = None  # the beginning of one that is too long, as JSON
    stdout: str = ""
    stderr: str = ""
    cut: bool = False  # there was more on stdout or stderr
    node: str | None = None
    took_ms: int | None = None
    elements: int | None = None  # of a mapped task: ask for each, by its name and number
    child: str | None = None  # the run that it started
    note: str | None = None


class TaskOutput(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`text` stands at `offset`; go on at `next`, until it has `ended`."""

    run: str
    task: str
    attempt: int
    stream: str
    state: str
    text: str
    offset: int
    next: int
    size: int  # of all there is now, in bytes
    ended: bool  # the attempt is over, and this was the last of it
    skipped: int = 0  # bytes before `offset` that were not kept
    lossy: bool = False  # bytes that are no UTF-8 were replaced


class WhyLine(msgspec.Struct, kw_only=True):
    task: str
    state: str
    summary: str
    details: list[str]


class Why(msgspec.Struct, kw_only=True):
    explanations: list[WhyLine]


class PathTask(msgspec.Struct, kw_only=True):
    task: str
    took_ms: int


class CriticalPathPage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The chain of tasks that made the run as long as it was, first task first. Making any other task faster would
    not make the run shorter; `slack` says of some others by how much they could have been slower."""

    run: str
    state: str
    length_ms: int
    tasks: int  # on the path
    path: list[PathTask]
    slack: list["Slack"] = []
    next: str | None = None


class Slack(msgspec.Struct, kw_only=True):
    task: str
    took_ms: int
    slack_ms: int


class Validated(msgspec.Struct, kw_only=True, omit_defaults=True):
    valid: bool
    name: str | None = None
    hash: str | None = None
    tasks: int = 0
    levels: int = 0
    inputs: dict[str, Any] = {}  # that it declares
    errors: list[DefinitionMistake] = []
    more: int = 0  # mistakes beyond those listed


class Preview(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`problems` would hold up the run, or have it refused. `widest` is the largest number of tasks in one level."""

    name: str
    hash: str
    total: int
    levels: int
    widest: int
    nodes: int  # alive now
    on_failure: str
    max_parallel: int | None = None
    inputs: dict[str, Any] = {}  # with defaults
    problems: list[str] = []
    tasks: list[PlannedTask] = []
    next: str | None = None


def shortened(text: str | None, most: int = REASON_MAX) -> str | None:
    return text if text is None or len(text) <= most else text[: most - 1] + "…"


def bounded(value: Any) -> tuple[Any, str | None]:
    """(the value, None), or (None, the beginning of its JSON) if that is too long."""
    if value is None:
        return None, None
    text = msgspec.json.encode(value)
    if len(text) <= VALUE_MAX:
        return value, None
    return None, text[:VALUE_MAX].decode(errors="ignore") + "…"


def run_line(run: RunInfo) -> RunLine:
    return RunLine(
        run=run.id, name=run.name, state=run.state, total=run.total, succeeded=run.succeeded, failed=run.failed,
        dead_letter=run.dead_letter, cancelled=run.cancelled, skipped=run.skipped, active=run.active,
        generation=run.generation, reason=shortened(run.reason), created_at=run.created_at,
        started_at=run.started_at, finished_at=run.finished_at, key=run.key, parent=run.parent,
        labels=run.labels, trigger=run.trigger,
    )  # fmt: skip


def task_line(task: TaskInfo, now: int) -> TaskLine:
    return TaskLine(
        run=task.run_id, task=task.name, state=task.state, type=task.kind, attempt=task.attempt,
        exit_code=task.exit_code, reason=shortened(task.reason), node=task.node, took_ms=task_ms(task, now),
        elements=task.elements, child=task.child,
    )  # fmt: skip


def node_line(node: NodeInfo) -> NodeLine:
    return NodeLine(
        node=node.node, session=node.session, health=node.health, role=node.role, slots=node.slots,
        running=node.running, leader=node.leader, labels=node.labels, capabilities=node.capabilities,
        types=node.kinds, run=node.scope,
    )  # fmt: skip
