"""Replies that are not a record by themselves: pages, and answers to commands."""

from typing import Any

import msgspec

from weft.control.records import (
    AttemptInfo,
    EventInfo,
    Explanation,
    FireInfo,
    NodeInfo,
    PoolInfo,
    RunInfo,
    TaskInfo,
    TokenInfo,
    TriggerInfo,
    VersionInfo,
    WantedSignal,
    WorkflowInfo,
)  # fmt: skip


class RunPage(msgspec.Struct, kw_only=True):
    runs: list[RunInfo]
    next: str | None  # the cursor of the next page; null: this was the last


class TaskPage(msgspec.Struct, kw_only=True):
    """A filter that few tasks pass may leave a page short, or empty: the list goes on while `next` is there."""

    tasks: list[TaskInfo]
    next: str | None


class EventPage(msgspec.Struct, kw_only=True):
    events: list[EventInfo]
    next: str | None  # also of the last page, as long as more may happen: ask again later
    last: int  # the number of the newest event told, to be followed from


class WorkflowPage(msgspec.Struct, kw_only=True):
    workflows: list[WorkflowInfo]
    next: str | None


class VersionPage(msgspec.Struct, kw_only=True):
    versions: list[VersionInfo]
    next: str | None


class NodeList(msgspec.Struct, kw_only=True):
    nodes: list[NodeInfo]
    next: str | None


class TriggerList(msgspec.Struct, kw_only=True):
    triggers: list[TriggerInfo]
    next: str | None


class FireList(msgspec.Struct, kw_only=True):
    fires: list[FireInfo]


class TimeList(msgspec.Struct, kw_only=True):
    """`time` in the trigger's own zone, `due_at` the same in ms since 1970, `at` with its jitter."""

    times: list[dict[str, Any]]


class TriggerDone(msgspec.Struct, kw_only=True):
    """What became of it; of a fire: started, queued, skipped or failed, and the run if there is one."""

    trigger: str
    outcome: str | None
    run: str | None
    existing: bool
    reason: str | None = None


class HookTaken(msgspec.Struct, kw_only=True):
    """What became of the call: started, queued, skipped, failed, or ignored because its condition did not hold."""

    trigger: str
    outcome: str
    run: str | None
    existing: bool  # this delivery had come before


class Applied(msgspec.Struct, kw_only=True):
    """`existing`: this version was the current one already. What changed about its triggers, by their names."""

    workflow: str
    hash: str
    existing: bool
    triggers: int
    added: list[str]
    changed: list[str]
    removed: list[str]


class PoolList(msgspec.Struct, kw_only=True):
    pools: list[PoolInfo]
    next: str | None


class RunDetail(msgspec.Struct, kw_only=True):
    """A run with the first of its tasks."""

    run: RunInfo
    tasks: list[TaskInfo]
    next: str | None  # where GET /v1/runs/{run}/tasks goes on
    resting: bool  # moved by hand, and nothing to do until somebody advances it


class TaskDetail(msgspec.Struct, kw_only=True):
    task: TaskInfo
    attempts: list[AttemptInfo]


class RunWorkflows(msgspec.Struct, kw_only=True):
    """Hashes: the run's own workflow first, then those that its tasks run."""

    workflows: list[str]


class Member(msgspec.Struct, kw_only=True):
    no: int
    id: str


class Family(msgspec.Struct, kw_only=True):
    """A run and all that its tasks started, in the order of their numbers."""

    runs: list[Member]
    next: str | None


class Starter(msgspec.Struct, kw_only=True):
    task: TaskInfo | None  # null: no task started this run


class WantedSignals(msgspec.Struct, kw_only=True):
    signals: list[WantedSignal]


class Stored(msgspec.Struct, kw_only=True):
    hash: str
    document: dict[str, Any]


class Current(msgspec.Struct, kw_only=True):
    """Hashes, by the names of workflows."""

    current: dict[str, str]
    next: str | None


class Clock(msgspec.Struct, kw_only=True):
    now: int
    last_event: int


class RunOutput(msgspec.Struct, kw_only=True):
    """The value of the workflow's `output`; `error` says why a run that succeeded has none after all."""

    output: Any
    error: str | None = None


class RunContext(msgspec.Struct, kw_only=True):
    context: dict[str, Any]


class Explanations(msgspec.Struct, kw_only=True):
    explanations: list[Explanation]


class Records(msgspec.Struct, kw_only=True):
    """The records of a run in levels, one JSON text each: the same bytes whatever order its tasks ended in."""

    lines: list[str]


class Started(msgspec.Struct, kw_only=True):
    """`existing`: there was a run with this key already, and it is this one. `warnings`: what it would wait for
    with the nodes that are alive now."""

    run: str
    name: str
    workflow: str
    state: str | None
    existing: bool
    warnings: list[str] = []


class BatchItem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One run of a batch: started, or why not."""

    run: str | None = None
    existing: bool = False
    warnings: list[str] = []  # what it would wait for with the nodes that are alive now
    code: str | None = None
    detail: str | None = None
    errors: list[dict[str, Any]] | None = None


class Batch(msgspec.Struct, kw_only=True):
    """In the order of the request."""

    runs: list[BatchItem]
    started: int
    refused: int


class Changed(msgspec.Struct, kw_only=True):
    """`existing`: it was so already. `changed` counts tasks."""

    run: str | None
    state: str | None
    existing: bool
    changed: int


class Draining(msgspec.Struct, kw_only=True):
    node: str
    session: str
    drain_at: int
    existing: bool


class PoolSet(msgspec.Struct, kw_only=True):
    name: str
    size: int
    used: int
    existing: bool


class TokenList(msgspec.Struct, kw_only=True):
    tokens: list[TokenInfo]
    next: str | None


class TokenRevoked(msgspec.Struct, kw_only=True):
    id: str
    revoked_at: int
    existing: bool


class Pruned(msgspec.Struct, kw_only=True):
    runs: list[str]
    more: bool  # there are more: ask again


class Health(msgspec.Struct, kw_only=True):
    status: str
    version: str
