"""What people and programs get to see: plain records, the same from a store and over HTTP."""

from typing import Any, Literal

import msgspec

from weft.core.rows import ApiRole


def titled(name: str, label: str | None) -> str:
    """As people see it: "test.3 (os=linux, python=3.12)"."""
    return name if label is None else f"{name} ({label})"


class RunInfo(msgspec.Struct, kw_only=True):
    id: str
    no: int
    name: str
    workflow: str
    state: str
    generation: int
    priority: int
    max_parallel: int | None
    created_at: int
    started_at: int | None
    finished_at: int | None
    reason: str | None
    halted: bool
    stop: str | None
    total: int
    succeeded: int
    failed: int
    dead_letter: int
    cancelled: int
    skipped: int
    active: int  # queued + running
    open: int
    inputs: dict[str, Any]
    source: str | None
    key: str | None
    level: int | None = None  # of `mode: levels`: the one that is worked on, from 0
    level_open: int | None = None  # how many of its tasks have not finished; None: it has not begun
    advance_state: str | None = None  # moved by hand: go, task, rest
    owner: str | None = None  # the session that owns it
    paused: bool = False  # by a person: nothing more starts
    parent: str | None = None  # the run whose task started it
    root: str = ""  # the run that all of its family goes back to; itself if nobody's task started it
    labels: dict[str, str] = {}  # that it was submitted with
    trigger: str | None = None  # that made it: workflow/name
    backfill: str | None = None  # that it is part of
    taken_from: str | None = None  # the run whose results it took over, but for the tasks that it ran itself
    late: bool = False  # it, or a task of it, has not met a deadline

    @property
    def finished(self) -> bool:
        return self.state in ("succeeded", "failed", "cancelled")


class TaskDiff(msgspec.Struct, kw_only=True):
    """One task in two runs; null where a run does not have it, or where it did not run."""

    task: str
    old_state: str | None
    new_state: str | None
    old_ms: int | None
    new_ms: int | None
    changed: bool  # its definition
    taken_over: bool = False  # the new run did not run it, and has the result of an earlier one


class RunDiff(msgspec.Struct, kw_only=True):
    """How a run differs from an older one."""

    old: RunInfo
    new: RunInfo
    definition: list[str]  # lines of a unified diff; none if both ran the same
    inputs: dict[str, list[Any]]  # those that differ: [the old value, the new one]; null where one has none
    tasks: list[TaskDiff]  # in the order of the new definition, then those that only the old one has
    left_out: int = 0  # tasks beyond the limit


class TaskInfo(msgspec.Struct, kw_only=True):
    run_id: str
    name: str  # "transform", or "transform.3" for an element
    pos: int
    idx: int
    level: int
    kind: str
    needs: list[str]
    state: str
    generation: int
    attempt: int
    failures: int
    lost: int
    elements: int | None  # of a mapped task: how many; its elements are listed too
    open: int
    ready_at: int | None
    wake_at: int | None
    claimed_at: int | None
    started_at: int | None
    finished_at: int | None
    reason: str | None
    node: str | None  # that runs it, or ran it last
    session: str | None
    exit_code: int | None
    allow_failure: bool
    cached: dict[str, Any] | None = (
        None  # the run, task and attempt whose result it took, and taken_over if a rerun did
    )
    held: str | None = None  # finished; its level's commit will make this its state
    claimed_by: str | None = None  # while it runs: the node's name,
    claim_expires_at: int | None = None  # until when its lease lasts,
    claim_attempt: int | None = None  # and the attempt that it holds
    child: str | None = None  # the run that it started, the last one
    label: str | None = None  # of an element: what people call it, from `label` or `matrix`

    @property
    def title(self) -> str:
        """Its name, and its label if it has one."""
        return titled(self.name, self.label)

    @property
    def by_hand(self) -> bool:
        """It was marked as succeeded: nothing ran."""
        return self.state == "succeeded" and self.reason is not None and self.node is None and self.elements is None


class TaskLaunch(msgspec.Struct, kw_only=True):
    """What a task is given, worked out anew when it is read; long values are cut. No value of a secret is in it."""

    kind: str
    item: Any  # of an element of a mapped task
    spec: dict[str, Any]  # what runs, by kind: run, argv, function, with …; values in `run` are variables WEFT_V1 …
    env: dict[str, str]  # of the workflow and the task; not the node's own
    cwd: str | None  # as it is written: relative to the definition's directory
    secrets: list[str]  # names of the variables that the node adds
    error: str | None = None  # why an expression has no value


class ArtifactInfo(msgspec.Struct, kw_only=True):
    """A file that a task has kept."""

    task: str
    attempt: int
    path: str  # relative to the directory in which the task started
    bytes: int
    sha256: str


class ArtifactList(msgspec.Struct, kw_only=True):
    artifacts: list[ArtifactInfo]
    more: bool


class AttemptInfo(msgspec.Struct, kw_only=True):
    run_id: str
    task: str
    attempt: int
    generation: int
    outcome: str  # running, succeeded, failed, cancelled, lost, returned
    exit_code: int | None
    error: str | None
    claimed_at: int | None
    started_at: int | None
    finished_at: int | None
    node: str | None
    session: str
    result: dict[str, Any] | None
    cached: dict[str, Any] | None = None  # nothing ran: the result is that of this run, task and attempt


class EventInfo(msgspec.Struct, kw_only=True):
    seq: int
    at: int
    run_id: str | None  # None: it happened to the cluster, to no run
    kind: str
    task: str | None
    node: str | None
    session: str | None
    data: dict[str, Any]
    label: str | None = None  # of the element that it is about


class ExecutorInfo(msgspec.Struct, kw_only=True):
    """What a node, or this machine, runs tasks of one type with."""

    usable: bool
    error: str | None = None  # why it cannot be used now
    engine: str | None = None  # the engine that answers, if it needs one
    plugin: str | None = None  # the distribution that adds it; None: Weft itself
    version: str | None = None  # of that


class NodeInfo(msgspec.Struct, kw_only=True):
    session: str
    node: str
    state: str
    scope: str | None
    started_at: int
    ended_at: int | None
    lease_ms: int | None  # left, by the store's clock
    running: int
    pid: int | None
    slots: int | None
    labels: dict[str, str]
    kinds: list[str]  # of tasks it has executors for
    capabilities: list[str]
    memory: int | None  # that its tasks may reserve
    disk: int | None
    gpus: int
    gpu_memory: int | None  # of each GPU
    functions: list[str] | None  # inline ones that its application gave it; None: whatever is asked for
    role: str = "auto"
    health: str = "healthy"  # healthy, stale, draining, dead, left: by the store's clock
    leader: bool = False
    term: int | None = None  # of the leader: the one it holds
    host: str | None = None
    drain_at: int | None = None
    seen_at: int | None = None  # its last renewal
    server: str | None = None  # that it came through, of a worker without the store
    workflows: list[str] = []  # that its token is bound to: names, or beginnings with a * after them; none: all
    resources: dict[str, Any] = {}  # as it measured them last
    cpus: float | None = None  # that its tasks may reserve
    measured_at: int | None = None
    stale_reports: int | None = None  # refused ones, counted where one node is shown
    url: str | None = None  # of its HTTP server, if it has one
    executors: dict[str, ExecutorInfo] = {}  # by type of task
    behind: int | None = None  # revisions of the log that its replica had not applied yet when it was last heard of

    @property
    def address(self) -> str:
        return f"{self.host or '?'}:{self.pid or '?'}"


class LeaderInfo(msgspec.Struct, kw_only=True):
    """Who leads, or led last."""

    term: int
    session: str | None  # None: nobody does
    node: str | None
    address: str | None
    expires_in_ms: int | None
    url: str | None = None  # of its HTTP server, if it has one


class BudgetInfo(msgspec.Struct, kw_only=True):
    """What may be spent, was spent, and is reserved for running tasks. A limit of null: there is none."""

    usd: float | None
    tokens: int | None
    usd_spent: float
    tokens_spent: int
    usd_reserved: float
    tokens_reserved: int


class PoolInfo(msgspec.Struct, kw_only=True):
    name: str
    size: int
    used: int
    waiting: int  # queued tasks that need a place
    holders: list[str]  # RUN/TASK, those that began first come first
    budget: BudgetInfo | None = None  # what its tasks may spend, and have spent


class ClaimInfo(msgspec.Struct, kw_only=True):
    """One attempt that a node holds."""

    run_id: str
    task: str
    attempt: int
    claimed_at: int | None
    started_at: int | None
    lease_expires_at: int | None


class NodeWork(msgspec.Struct, kw_only=True):
    """What a node has done and does: of its session that lives, or lived last."""

    node: str
    session: str
    health: str
    claims: int  # attempts it has claimed, all together
    outcomes: dict[str, int]  # how those that are over ended: succeeded, failed, cancelled, lost, returned
    #: What those two cover: `all` attempts in the store; in one with more than 100,000, what the `node` told of
    #: itself, up to ten seconds ago; if it told nothing, only the `newest` 100,000 of all nodes.
    counted: Literal["all", "node", "newest"]
    running: list[ClaimInfo]  # the first hundred
    running_count: int
    leases_expired: int  # sessions under this node's name whose lease passed or whose process was gone
    stale_reports: int  # refused: they came too late
    exchanges: int  # how often it asked for work or told of some
    active_at: int | None  # its last claim or report, by the store's clock


class OutputPart(msgspec.Struct, kw_only=True):
    """Some bytes of what an attempt printed."""

    data: bytes
    offset: int  # where they stand; beyond what was asked for if something before was not kept
    next: int  # where to go on
    size: int  # of all there is now
    ended: bool  # the attempt is over: nothing will follow


class NotificationInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message that the leader delivers, at least once."""

    id: str
    event: str  # failed, recovered, dead_letter, late, waiting
    run: str | None = None
    workflow: str
    task: str | None = None
    target: str  # how it is delivered, and where to: without what may be secret
    state: str  # pending, delivered, failed
    tries: int
    next_at: int | None = None  # of a pending one: when it is tried next
    error: str | None = None  # of the last try
    created_at: int
    delivered_at: int | None = None
    facts: dict[str, Any]  # what happened


class TokenInfo(msgspec.Struct, kw_only=True):
    """A token of the API; what it is itself was shown once, and is not kept."""

    id: str
    label: str
    role: ApiRole
    state: str  # valid, expired, revoked
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    labels: dict[str, str] | None = None  # of a worker's: those that all its nodes have; null: each says its own
    workflows: list[str] = []  # of a worker's: those whose tasks its nodes may run; none: all


class CallerInfo(msgspec.Struct, kw_only=True):
    """Who asks, as the history names them, and what they may do here."""

    name: str
    role: ApiRole
    version: str  # of Weft, where it is carried out


class NewToken(msgspec.Struct, kw_only=True):
    id: str
    token: str
    label: str
    role: ApiRole
    created_at: int
    expires_at: int | None


class WorkflowInfo(msgspec.Struct, kw_only=True):
    """A name, and its newest version."""

    name: str
    hash: str
    created_at: int
    versions: int


class VersionInfo(msgspec.Struct, kw_only=True):
    name: str
    hash: str
    created_at: int
    document: dict[str, Any] | None = None  # where one version is asked for


class VersionDiff(msgspec.Struct, kw_only=True):
    name: str
    old: str
    new: str
    lines: list[str]  # a unified diff of both documents as YAML


class WantedSignal(msgspec.Struct, kw_only=True):
    """What a task waits for, somewhere among the runs that a run's tasks started."""

    run: str
    task: str
    signal: str


class Explanation(msgspec.Struct, kw_only=True):
    """Why a task is where it is: the first line answers, the others are the evidence."""

    task: str
    state: str
    summary: str
    details: list[str]


class Verification(msgspec.Struct, kw_only=True):
    run_id: str
    events: int
    tasks: int
    differences: list[str]

    @property
    def ok(self) -> bool:
        return not self.differences


class StoreInfo(msgspec.Struct, kw_only=True):
    location: str
    kind: str
    schema: int
    size_bytes: int
    runs: dict[str, int]
    tasks: dict[str, int]
    events: int
    sessions_live: int
    stale_reports: int
    library: str


class FireInfo(msgspec.Struct):
    """What became of one fire of a trigger."""

    trigger: str
    cause: str
    due_at: int | None  # the fire time
    at: int
    outcome: str  # started, queued, skipped, missed, failed
    run: str | None
    reason: str | None


class TriggerInfo(msgspec.Struct, kw_only=True):
    id: str
    workflow: str
    name: str
    kind: str
    hash: str  # the version that its runs get
    what: str  # when it fires, for people
    paused: bool
    overlap: str
    catch_up: str
    next_at: int | None
    last: FireInfo | None
    queued: int
    unfinished: int
    problem: str | None = None  # why it cannot fire on this machine
