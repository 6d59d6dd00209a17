"""The rows that rules read and change, as the store keeps them.

Times are the store's clock in milliseconds. A row is a working copy inside one transaction: rules change it
through the Draft, which remembers what it was when loaded, and the store writes it back under that guard.

What a new row begins with are the defaults. Statements name columns in the order of these fields (store/queries.py).

`gc=False`: rows come by the thousand and never form cycles; without it a tenth of the time goes to the collector.
"""

from typing import Any, Literal

import msgspec

from weft.core.states import RunState, TaskState

#: A task id is run number × 2^24 + an ordinal within the run: no id has to be drawn from the store, and
#: it stays below 2^53, so that it survives any JSON reader.
ORDINAL_BITS = 24
TASKS_MAX = 1 << ORDINAL_BITS
#: The run number of events that belong to the cluster, not to a run.
CLUSTER = 0
WHOLE = -1  # the `idx` of a task that is not an element of a mapped one


class Guard(msgspec.Struct, frozen=True, gc=False):
    """What a task row must still be when a change to it is written."""

    state: str
    attempt: int
    session: str | None
    stop: str | None = None


class TaskRow(msgspec.Struct, gc=False):
    id: int
    run_no: int
    pos: int
    idx: int
    demand: str
    generation: int = 1
    state: TaskState = "pending"
    attempt: int = 0
    failures: int = 0  # of this generation, counted against retry.max
    lost: int = 0  # leases lost, counted apart
    open: int = 0  # needs not yet ended; of an opened mapped task: elements not yet ended
    failed: int = 0  # of those ended: failed
    skipped: int = 0  # of those ended: skipped by their own condition; of an opened mapped task: cancelled
    tolerated: int = 0  # of those ended: failed, but this task's condition asks about them; of an opened map: kept
    elements: int | None = None  # of an opened mapped task: how many
    admitted: int = 0  # of an opened mapped task: how many may run so far; 1: `weft advance` let it start
    ready_at: int | None = None  # since when nothing but room is missing
    rank: int = 0  # order in the queue, fixed when it became ready
    wake_at: int | None = None
    session: str | None = None
    claim_no: int | None = None  # the exchange that claimed it
    stop: str | None = None  # its node shall stop the attempt: cancel, timeout
    upstream: bool = False  # skipped because of an earlier failure
    settled: bool = True  # the tasks that need it have counted its end
    claimed_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    reason: str | None = None
    held: TaskState | None = None  # finished; its level's commit will move it to this state
    deadline_at: int | None = None  # of a running attempt with a timeout: when its node should long have ended it
    child: int | None = None  # of a task that runs another workflow: the number of that run
    child_action: str | None = None  # what a chore has yet to do about its child: begin, stop
    head_start: int = 0  # in the queue, in ms, for the length of the path from it to the end of its run
    guard: Guard | None = None  # set on the first change

    @property
    def element(self) -> bool:
        return self.idx >= 0

    @property
    def own_child(self) -> int | None:
        """The run that it started itself, which has a higher number than its own. One that was taken over with its
        end is another run's."""
        return self.child if self.child is not None and self.child > self.run_no else None


class RunRow(msgspec.Struct):
    no: int
    id: str
    name: str
    workflow: str
    created_at: int
    state: RunState = "pending"
    generation: int = 1
    priority: int = 0
    max_parallel: int | None = None
    halted: bool = False  # a failure stopped it: only failure handlers start
    stop: str | None = None  # cancel, timeout: only handlers start, and not even those once `deadline_at` is None
    sweep: int | None = None  # tasks up to this id are already cancelled; None: nothing to sweep
    ordinals: int = 0  # ids handed out
    active: int = 0  # queued + running
    open: int = 0  # rows not ended
    open_main: int = 0  # of those, the ones that handlers of the whole run wait for
    total: int = 0
    succeeded: int = 0
    failed: int = 0
    dead_letter: int = 0
    cancelled: int = 0
    skipped: int = 0
    broken: int = 0  # ended failures that make the run a failed one
    started_at: int | None = None
    finished_at: int | None = None
    deadline_at: int | None = None  # when its timeout passes; once it was stopped: when its handlers must be over
    reason: str | None = None
    level: int | None = None  # of `mode: levels`: the cursor: the level that is worked on
    level_open: int | None = None  # rows of that level neither held nor ended; None: it has not begun
    advance_state: str | None = None  # with manual advance: level (run until its end), task (one more), paused
    owner: str | None = None  # the session that has taken a run which one node owns
    root: int = 0  # the run that the first of its ancestors is; its own number if a task did not start it
    parent: int | None = None  # the task that started it
    reported: bool = True  # its end has been reported to that task
    paused: bool = False  # by a person: nothing more starts
    dirty: bool = False

    @property
    def bounded(self) -> bool:
        """It bounds how much of it runs at a time, or waits to be advanced."""
        return self.max_parallel is not None or self.advance_state is not None

    @property
    def limited(self) -> bool:
        """Being ready is not enough to be queued."""
        return self.paused or self.max_parallel is not None or self.advance_state is not None


class Pin(msgspec.Struct, frozen=True):
    """What a task's `workflow: name` means, settled when the root was submitted. The same name may mean something
    else in another definition, and in the same definition in another directory."""

    workflow: str  # where it is named: the hash of that definition
    source: str | None  # and its directory
    name: str
    child: str  # the hash of what it means
    child_source: str | None


class StoredWorkflow(msgspec.Struct):
    """A workflow, and the newest run of it: `source` is that run's directory, `root` has its pins."""

    workflow: str
    name: str
    source: str | None = None
    root: int | None = None


class SessionRow(msgspec.Struct):
    id: str
    node: str
    state: str  # live, draining, dead, left
    exchange: int  # the last exchange number applied
    scope: int | None  # works only for this run and what its tasks start
    started_at: int
    ended_at: int | None
    body: str  # JSON: host, pid, boot, slots, labels, executors, the lease's length
    role: str = "auto"  # auto, leader, worker, observer
    drain_at: int | None = None  # of a draining one: what still runs then goes back
    gave_up: bool = False  # its process goes on, and gave it up because the store did not answer
    token: str | None = None  # the id of the worker's token that it came with; None: it has the store itself


class LeadershipRow(msgspec.Struct):
    """The one row that says who leads. A new holder is a new term; nobody holds a term that was resigned."""

    term: int
    session: str | None
    expires_at: int


class BudgetRow(msgspec.Struct):
    """What a run (`run:7`) or all tasks in a pool (`pool:llm`) may spend, have spent, and have reserved: millionths
    of a US dollar, and tokens. No limit: it is counted all the same."""

    scope: str
    usd: int | None = None
    tokens: int | None = None
    usd_spent: int = 0
    tokens_spent: int = 0
    usd_reserved: int = 0
    tokens_reserved: int = 0


class PoolRow(msgspec.Struct):
    """A limit across the cluster: at most `size` running tasks hold a place in it."""

    name: str
    size: int
    used: int


class AttemptRow(msgspec.Struct, gc=False):
    """Written once, when an attempt is over."""

    task_id: int
    attempt: int
    generation: int
    session: str
    outcome: str  # succeeded, failed, cancelled, lost, returned
    exit_code: int | None
    error: str | None
    claimed_at: int | None
    started_at: int | None
    finished_at: int
    result: str | None  # JSON
    result_hash: str | None
    cached: str | None = None  # JSON: the run, task and attempt whose result it took; it ran nothing itself


class HandleRow(msgspec.Struct, gc=False):
    """An attempt on an engine, written before the engine is asked for anything. A task has at most one that is not
    closed: open (its node watches it) or orphaned (its session is over, and nobody has said that it is gone)."""

    task_id: int
    attempt: int
    session: str
    kind: str  # the executor's
    engine: str
    name: str
    place: str
    adoptable: bool
    state: Literal["open", "orphaned", "gone", "adopted", "released"]
    opened_at: int
    closed_at: int | None = None
    note: str | None = None  # what it waits for, as its executor said last


class EventRow(msgspec.Struct, gc=False):
    run_no: int
    pos: int | None
    idx: int | None
    kind: str
    session: str | None
    data: dict[str, Any] | str  # or JSON already


#: Events that one row of history can hold; PostgreSQL draws numbers this far apart.
EVENT_BLOCK = 1024


class EventBatch(msgspec.Struct, gc=False):
    """Events of one kind that follow each other in a run: `assigned`, or `finished` with success. A list a fact."""

    run_no: int
    kind: str
    session: str | None
    pos: list[int] = []
    idx: list[int] = []
    attempt: list[int] = []
    started_at: list[int | None] = []
    exit_code: list[int | None] = []
    hash: list[str | None] = []


class StaleRow(msgspec.Struct, gc=False):
    """A report that came too late, kept for inspection."""

    task_id: int
    attempt: int
    session: str
    why: str
    body: str


class MemoRow(msgspec.Struct, gc=False):
    """What outlives an attempt: a result kept for `cache`, or an effect that `weft.once` has seen through."""

    key: str
    kind: str  # cache, once
    status: str  # pending, completed, failed
    value: str | None  # JSON: a result; what an effect gave, or why it failed
    hash: str | None
    run: str
    task: str
    task_id: int
    attempt: int  # that wrote it last
    session: str
    created_at: int
    expires_at: int | None


class TriggerRow(msgspec.Struct):
    """A trigger that `weft apply` has activated. Whatever is due up to `since_ms` has been decided."""

    id: str  # "workflow/name"
    workflow: str  # by name
    kind: str  # cron, every, webhook, after
    key: str | None  # of a webhook its name; of `after` the workflow that it follows
    body: str  # JSON of its TriggerDef
    hash: str  # the version of the workflow that its runs get
    source: str | None  # the definition's directory
    active: bool  # false: no longer in the definition
    paused: bool
    since_ms: int
    next_ms: int | None  # when to look at it next, of those that fire by time
    cursor: int  # of `after`: events up to this one have been looked at
    checked_ms: int = 0  # of one with `start_by`: times up to this one have been looked at for lateness
    check_ms: int | None = None  # when to look at the next one


class FireRow(msgspec.Struct):
    """What became of one fire. A trigger has at most one for each cause, for ever."""

    trigger: str
    cause: str  # the fire time in ms, the run that ended, a delivery, a person's wish
    due_at: int | None  # the fire time, of those that fire by time
    at: int
    outcome: str  # started, queued, skipped, missed, failed
    run: str | None = None
    reason: str | None = None
    names: str | None = None  # JSON: what `trigger` is to expressions, while it is queued


class BackfillRow(msgspec.Struct):
    """One run for each fire time of a range that has passed. Whatever lies before `cursor`, in its direction, has
    been decided."""

    id: str
    trigger: str
    first_ms: int  # the range, both ends included
    last_ms: int
    parallel: int  # so many of its runs may be unfinished at a time
    reverse: bool  # the newest time first
    again: bool  # also for times that have a run
    inputs: str  # JSON: instead of what the trigger gives
    total: int  # fire times in the range
    created_at: int
    by: str | None = None
    state: Literal["active", "complete", "cancelled"] = "active"
    cursor: int | None = None  # the fire time that was decided last
    started: int = 0
    existing: int = 0  # times that had a run already
    failed: int = 0  # times for which no run could be made
    reason: str | None = None  # of the last of those, or of its end


class DeadlineRow(msgspec.Struct):
    """A moment by which a run, or a task of it, should have started or ended. Judged once, after that moment."""

    run_no: int
    pos: int  # WHOLE: the run itself
    by: str  # start_by, finish_by
    at: int
    state: Literal["open", "met", "late"] = "open"


class NotificationRow(msgspec.Struct):
    """A message that the leader has to deliver, at least once, under this id. Written with the event it is about."""

    id: str  # the same for the same event and target, whoever writes it
    run_no: int | None
    run: str | None
    pos: int | None  # the task that it is about, or whose output it quotes
    workflow: str
    event: str  # of workflow.NOTIFY_EVENTS
    target: str  # JSON of a NotifyTarget
    facts: str  # JSON: what happened
    created_at: int
    state: Literal["pending", "delivered", "failed"] = "pending"
    tries: int = 0
    next_at: int | None = None  # of a pending one: when it is tried next
    term: int | None = None  # of one that is being delivered: the term of the leader that does
    error: str | None = None  # of the last try
    delivered_at: int | None = None


#: Of a token: looks; starts and stops work; changes what everybody works with.
ApiRole = Literal["viewer", "operator", "admin", "worker"]


class TokenRow(msgspec.Struct):
    """A bearer token: its hash only. The token itself was shown once, to whoever made it."""

    id: str
    hash: str
    label: str
    role: ApiRole
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    binding: str | None = None  # JSON of a WorkerBinding, of a worker's
