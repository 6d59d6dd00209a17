"""Everything somebody may want of the store, and what they get back.

Ids, hashes and randomness travel in the command; `now` is sampled by the committer under the locks.
"""

from typing import Any, Literal

import msgspec

from weft.core.rows import ApiRole, Pin
from weft.core.workflow import NotifyTarget, TriggerDef, Usage

Role = Literal["auto", "leader", "worker", "observer"]
ReportOutcome = Literal["succeeded", "failed", "cancelled", "returned"]
BY_REQUEST = "cancelled by request"  # the reason of a cancel that gives none


class Report(msgspec.Struct, gc=False):
    """What one attempt did. Ages count back from the moment the exchange is sent."""

    task_id: int
    pos: int
    idx: int
    attempt: int
    outcome: ReportOutcome
    exit_code: int | None = None
    error: str | None = None
    started_ago_ms: int | None = None  # None: it never started
    ended_ago_ms: int = 0
    result: str | None = None  # JSON
    result_hash: str | None = None
    context: dict[str, Any] | None = None  # keys it sets in the run's context, on success
    retryable: bool = True
    stopped: str | None = None
    unverified: bool = False  # of a remote attempt that it was to adopt: its engine was not asked
    keep: tuple[str, int | None] | None = None  # on success, keep the result under this key, for so long
    cached: dict[str, Any] | None = None  # nothing ran: the result is that of this run, task and attempt
    cause: int | str | None = None  # of a failure, where `retry` has a word for it
    retry_after_ms: int | None = None  # of a failure: the other side asked for as long a delay
    error_type: str | None = None  # the exception that a function raised, with its module if it is not a built-in
    usage: tuple[int, int] | None = None  # millionths of a dollar and tokens that no exchange has named yet


class Exchange(msgspec.Struct):
    """I am alive, this is what my attempts did, and I have room for `want` more."""

    session: str
    number: int
    reports: list[Report]
    want: int
    demands: list[str]  # eligible ones, of those known to the node
    known_demands: int  # how many demands the node has looked at; it is told of new ones
    scope: int | None = None  # claim only of this run's family
    #: task, attempt, how long ago in ms, how long it may last: those that outlive a moment
    started: list[tuple[int, int, int, int | None]] = []
    free: dict[str, int] = {}  # what the node has left of what it counts: memory, disk, gpu, places of a task
    costs: dict[str, dict[str, int]] = {}  # by demand: what a task of it takes of that
    following: list[tuple[int, int, int]] = []  # a hint, places of what needs the reported tasks: loaded with them
    remote: list[int] = []  # of the reported tasks, those that run on engines
    adopt: list[tuple[int, int]] = []  # task, attempt of orphaned handles that this node would go on watching
    notes: list[tuple[int, int, str]] = []  # task, attempt of open handles, what it waits for
    slotless: list[str] = []  # more demands: of tasks that take no slot, because they only wait
    want_slotless: int = 0  # so many of those
    spends: bool = False  # the session may hold attempts that spend
    spent: list[tuple[int, int, int, int]] = []  # task, attempt, what it has spent since it was said last
    workflows: list[str] = []  # claim only of these (core/placement/worker_binding.py); none: of all
    #: nothing but ends of its own attempts has woken the node since the last one: what that one saw may count as well
    undisturbed: bool = False


class Claim(msgspec.Struct, gc=False):
    task_id: int
    attempt: int
    run_no: int
    pos: int
    idx: int
    generation: int
    waited_ms: int = 0  # in the queue
    memory: int | None = None  # bytes, if earlier attempts ran out of what the task requires
    adopted: bool = False  # an earlier attempt has started it on its engine, where it goes on
    allowance: Usage | None = None  # the most that it may spend; None: it has no budget


class ExchangeReply(msgspec.Struct):
    claims: list[Claim]
    stops: list[tuple[int, int, str]]  # task, attempt, why
    stale: list[tuple[int, int]]
    wake_in_ms: int | None  # until the next scheduled task is due
    more: bool  # the store has chores left over: exchange again at once
    dead: bool = False  # this session is over
    draining: bool = False
    drain_in_ms: int | None = None  # of a draining session: until what still runs goes back
    demands: list[tuple[int, str, str]] = []  # new ones: number, id, body
    retries: int = 0  # of the reports: so many will be tried again


class Once(msgspec.Struct):
    """An attempt is about to have an effect that later ones must not repeat, or has had it."""

    session: str
    task_id: int
    attempt: int
    key: str  # the author's, within the task
    ending: Literal["completed", "failed"] | None = None  # None: may it begin?
    value: str | None = None  # JSON
    hash: str | None = None
    take_over: bool = True  # begin again what an earlier attempt left without an outcome


class OnceReply(msgspec.Struct):
    """call: it may begin; completed: it is done, with this value; unknown: an earlier attempt began, and nobody
    knows how it ended; kept: its ending is stored; stale: the attempt is no longer the one that may say so."""

    status: Literal["call", "completed", "unknown", "kept", "stale"]
    value: str | None = None  # JSON of what is completed; else a reason in words


class OpenHandle(msgspec.Struct):
    """An attempt is about to be created on an engine, under this name."""

    session: str
    task_id: int
    attempt: int
    kind: str
    engine: str
    name: str
    place: str = ""
    adoptable: bool = False


class HandleReply(msgspec.Struct):
    """open: create it; adopted: it is there already, and earlier attempts have watched it; stale: the attempt is no
    longer the one that may run."""

    status: Literal["open", "adopted", "stale"]
    engine: str = ""
    name: str = ""
    place: str = ""
    #: The attempts that watched it before, ascending, with the bytes of stdout and stderr that the store has of each.
    earlier: list[tuple[int, int, int]] = []


class CloseHandles(msgspec.Struct):
    """The engine says that nothing is left of what these handles of ended sessions stand for."""

    gone: list[tuple[int, int]]  # task, attempt


class ReleaseTask(msgspec.Struct):
    """Go on without the engine's word that the attempt is gone: a person knows better, or takes the risk."""

    run_id: str
    task: str  # "name" or "name.3"
    reason: str = "released by request"


class Register(msgspec.Struct):
    session: str
    node: str
    ttl_ms: int
    scope: str | None  # a run id
    body: str
    role: Role = "auto"
    gave_up: str | None = None  # this process's session before, given up because the store did not answer
    token: str | None = None  # the id of the worker's token that it comes with


class Expire(msgspec.Struct):
    """End a session: its lease has passed by the store's clock, its process is provably gone, or it leaves."""

    session: str
    proof: Literal["lease", "process", "left"]


class Lead(msgspec.Struct):
    """Let me lead the cluster, or go on leading it."""

    session: str
    ttl_ms: int


class LeadReply(msgspec.Struct):
    term: int | None  # the one that the asker holds now; None: it does not lead
    leader: str | None = None  # the session that does


class Resign(msgspec.Struct):
    session: str
    term: int


class Drain(msgspec.Struct):
    """No new claims for this session; what still runs at the deadline goes back without cost; then it leaves."""

    session: str
    deadline_ms: int  # from now
    reason: str = "drained by request"


class Reconcile(msgspec.Struct):
    """These attempts, and no others, does the session hold, after its exchange of this number."""

    session: str
    number: int
    held: list[tuple[int, int]]  # task, attempt


class Overdue(msgspec.Struct):
    """Look after attempts that their nodes should have ended long ago."""

    term: int
    limit: int = 100


class Submit(msgspec.Struct):
    run_id: str
    workflow: str
    name: str
    document: bytes
    inputs: str
    priority: int = 0
    max_parallel: int | None = None
    key: str | None = None  # idempotency: one run per key
    body_hash: str = ""
    source: str | None = None  # the definition's directory, where its tasks start
    labels: str = "{}"
    fresh: bool = False  # results kept by `cache` are not used, only made anew
    manual_advance: bool = False  # pause after each level until somebody advances it
    children: list[tuple[str, str, bytes]] = []  # hash, name, document of workflows that its tasks run, at any depth
    pins: list[Pin] = []  # what is known already of the names in them; the store is asked about the others
    trigger: str | None = None  # the trigger that makes this run
    cause: str | None = None  # the fire that it is for
    taken_from: str | None = None  # the run whose results it takes over
    from_tasks: list[str] = []  # but for those of these tasks, and of what follows them
    backfill: str | None = None  # that this run is part of


class Advance(msgspec.Struct):
    """Continue a run that is paused between levels, by one level or by one task."""

    run_id: str
    by_task: bool = False


class CancelRun(msgspec.Struct):
    run_id: str
    reason: str = BY_REQUEST
    now: bool = False  # its handlers do not run either


class CancelTask(msgspec.Struct):
    run_id: str
    task: str  # "name" or "name.3"
    reason: str = BY_REQUEST


class Resume(msgspec.Struct):
    """Work on a run again: what did not succeed gets a new generation. `tasks` limits it (dead letters)."""

    run_id: str
    tasks: list[str] | None = None
    only_dead: bool = False


class CorrectRun(msgspec.Struct):
    """Go on with a corrected definition: what it changes runs again, with what follows, and so does what did not
    succeed."""

    run_id: str
    workflow: str
    name: str
    document: bytes
    pins: list[Pin] = []  # what the names of workflows in it mean
    by: str | None = None  # who


class DecideTasks(msgspec.Struct):
    """These tasks end like this without running: a person knows better, or has done it by hand."""

    run_id: str
    tasks: list[str]
    state: Literal["succeeded", "skipped"]
    output: str | None = None  # JSON, of a success
    reason: str = "by request"
    by: str | None = None  # who


class PauseRun(msgspec.Struct):
    """Nothing more of a paused run starts; what runs goes on to its end."""

    run_id: str
    paused: bool
    reason: str = "by request"
    by: str | None = None  # who


class Signal(msgspec.Struct):
    """An outside answer for a wait task; kept if its wait has not been reached yet."""

    run_id: str
    name: str
    data: str | None = None  # JSON
    rejected: str | None = None


class Prune(msgspec.Struct):
    finished_before: int | None
    limit: int = 100
    states: list[str] | None = None
    cache: bool = False  # results kept by `cache` before that moment go too
    older_ms: int | None = None  # instead of `finished_before`: by the store's clock
    term: int | None = None  # of the leader whose chore this is; None: a person asks
    nos: list[int] | None = None  # only these of them, with what their tasks started; nothing else is tidied up


class Tidy(msgspec.Struct):
    """Go on with what was too much for one transaction."""

    run_no: int | None = None


class SetPool(msgspec.Struct):
    """Make a pool, or change its size; 0 lets nothing more start. What its tasks may spend stays as it is where
    nothing is said."""

    name: str
    size: int
    usd: int | None = None  # millionths of a dollar
    tokens: int | None = None
    renew: bool = False  # what they have spent no longer counts


class SetBudget(msgspec.Struct):
    """Change what a run may spend in all. What is None stays as it is."""

    run_id: str
    usd: int | None = None  # millionths of a dollar
    tokens: int | None = None


class CreateToken(msgspec.Struct):
    """Let whoever holds the token with this hash act with this role."""

    id: str
    hash: str
    label: str
    role: ApiRole
    expires_ms: int | None = None  # from now; None: it never does
    binding: str | None = None  # JSON of a WorkerBinding, of a worker's


class RevokeToken(msgspec.Struct):
    id: str


class Place(msgspec.Struct):
    """Pick nodes for the tasks that wait for it (`placement: scored`), and take back what was not claimed in time."""

    term: int | None = None  # the leader's; None: while nobody leads, anybody may
    limit: int = 100  # tasks of each demand


class Apply(msgspec.Struct):
    """This is the workflow's current version; its triggers are active from now on, and no others of it."""

    workflow: str
    name: str
    document: bytes
    source: str | None
    triggers: tuple[TriggerDef, ...] = ()
    by: str | None = None


class PauseTrigger(msgspec.Struct):
    """Nothing is fired while a trigger is paused, nor made up for afterwards."""

    trigger: str
    paused: bool


class Firing(msgspec.Struct):
    """One reason to fire, with all that a run for it would need."""

    cause: str
    run_id: str
    names: dict[str, Any]  # what `trigger` is to expressions
    due_at: int | None = None
    state: str | None = None  # of `after`: how that run ended
    seq: int | None = None  # of `after`: the event that says so


class Fire(msgspec.Struct):
    """Fire a trigger for these reasons, oldest first. At most one run starts; the reply says if there is more to do.

    A chore carries the leader's term and where the trigger stood when it looked (`since`, `cursor`): if somebody has
    fired since, nothing happens. People and webhooks carry neither.
    """

    trigger: str
    firings: list[Firing]
    term: int | None = None
    since: int | None = None
    cursor: int | None = None
    until: int | None = None  # where it stands when all of them are decided
    next_ms: int | None = None
    run_id: str | None = None  # for a queued fire, should its turn have come


class StartBackfill(msgspec.Struct):
    """Make runs for all fire times of a range."""

    backfill: str
    trigger: str
    first_ms: int
    last_ms: int
    total: int
    parallel: int = 1
    reverse: bool = False
    again: bool = False
    inputs: str = "{}"
    by: str | None = None


class StepBackfill(msgspec.Struct):
    """The next fire times of a backfill, in its direction. At most one run starts, if it may have one more; `cursor`
    is where the backfill stood when the leader looked. `last`: there are no more times after these."""

    backfill: str
    term: int
    cursor: int | None
    firings: list[Firing]
    last: bool


class CancelBackfill(msgspec.Struct):
    """Nothing more of it starts; its runs are cancelled one by one."""

    backfill: str
    reason: str = BY_REQUEST


class ReportLate(msgspec.Struct):
    """Judge the deadlines whose moment has passed."""

    term: int
    limit: int = 100


class CheckStarts(msgspec.Struct):
    """These times of a trigger with `start_by` are so long ago that runs for them should have started. `since`: where
    the check stood when its leader looked."""

    term: int
    trigger: str
    since: int
    times: list[int]
    until: int
    next_ms: int | None


class BeginDelivery(msgspec.Struct):
    """The leader is about to deliver these notifications; the reply says which, with the number of the try."""

    term: int
    ids: list[str]
    hold_ms: int  # after so long without an end, the try counts as lost


class EndDelivery(msgspec.Struct):
    """How a try has ended. Whoever made it may say so, even after its term: the number of the try is the fence."""

    id: str
    tries: int
    error: str | None = None
    final: bool = False  # another try would end in the same way
    backoff_ms: int = 5000  # before the next try; three times as long after each


class RetryNotifications(msgspec.Struct):
    """Deliver these again, or (None) all that are no longer tried."""

    ids: list[str] | None = None


class SetNotifyDefault(msgspec.Struct):
    """Targets for the runs of all workflows; none: there are none."""

    targets: list[NotifyTarget]


Command = (
    Apply | PauseTrigger | Fire | Exchange | Once | Register | Expire | Lead | Resign | Drain | Reconcile | Overdue
    | Submit | Advance | CancelRun | CancelTask | Resume | Signal | Prune | Tidy | SetPool | SetBudget | Place
    | CreateToken | RevokeToken | OpenHandle | CloseHandles | ReleaseTask | DecideTasks | PauseRun
    | CorrectRun | StartBackfill | StepBackfill | CancelBackfill | ReportLate | CheckStarts | BeginDelivery
    | EndDelivery | RetryNotifications | SetNotifyDefault
)  # fmt: skip


RefusalCode = Literal["not_found", "conflict", "invalid", "stale_term", "observer", "rate_limited"]


class Refused(Exception):
    """The rules say no. `code` is for machines, the text for people."""

    def __init__(self, code: RefusalCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Reply(msgspec.Struct):
    """The answer to a person's command."""

    run_id: str | None = None
    run_no: int | None = None
    state: str | None = None
    existing: bool = False
    changed: int = 0
    more: bool = False
    data: dict[str, Any] = {}
