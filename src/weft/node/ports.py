"""What a node is handed when it is made. Everything outside comes in through here, so that the same node runs
under a virtual clock with seeded faults."""

import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from weft.core import commands as c
from weft.core.expressions.run_names import Ended
from weft.core.placement.eligibility import NodeFacts
from weft.core.rows import BackfillRow, HandleRow, MemoRow, NotificationRow, TriggerRow
from weft.core.workflow import Workflow
from weft.executors.protocol import Executor, is_checked, is_remote, takes_slot
from weft.node.attempts.files import AttemptFiles
from weft.node.attempts.secrets import Secrets
from weft.node.attempts.workspaces import Workspaces
from weft.store.artifact_files import ArtifactStorage
from weft.store.protocol import Look, OutboxLook, Watch, Woken
from weft.store.shipment import Shipment

#: Takes output to the store; (task, attempt) of what it refused. May raise LinkLost.
Ship = Callable[[Shipment], Awaitable[list[tuple[int, int]]]]


class RunFacts(msgspec.Struct, frozen=True):
    """What does not change about a run within a generation."""

    no: int
    id: str
    name: str
    workflow: str
    inputs: dict[str, Any]
    source: str | None  # the definition's directory
    fresh: bool = False  # results kept by `cache` are not used
    generation: int = 1


class LinkLost(Exception):
    """The store did not answer; whether the command was applied is unknown. Say it again, with the same number."""


class LinkFull(LinkLost):
    """The store answers that it has no space, or no connection, left: nothing was applied. Say it again, with the
    same number."""


class Renewal(msgspec.Struct, frozen=True):
    alive: bool  # False: the store has ended this session
    agrees: bool = True  # about the attempts that it holds


class RestRenewal(NamedTuple):
    """A renewal that goes with a wait for work: when it is sent, and what `Link.renew` would be told."""

    sent: float
    ttl_ms: int
    facts: str | None
    digest: tuple[int, int, int] | None


class RestingLease(Protocol):
    """The lease of a node that may hold nothing. Then its waits for work renew it, and nothing else does."""

    def rest(self) -> RestRenewal | None:
        """A wait is about to be sent: with this renewal, or with none, because the node holds something."""
        ...

    def rested(self, renewal: RestRenewal, *, renewed: bool) -> None:
        """The wait is over; `renewed`: the store took its renewal."""
        ...


class Link(Protocol):
    """What every node needs of the store to work: on the store itself, or over HTTP. Every call may raise LinkLost.
    The commands that a node commits are named one by one: a server takes no others."""

    off_loop: bool  # an exchange leaves the node's own loop free: attempts go on meanwhile

    async def register(self, command: c.Register) -> c.Reply:
        """`data` of the reply may hold the `node` and `labels` that the session has instead of those asked for."""
        ...

    async def exchange(self, command: c.Exchange, *, alone: bool = False) -> c.ExchangeReply:
        """`alone`: this node holds no attempt, so nothing waits for its loop meanwhile."""
        ...

    @property
    def hears(self) -> bool:
        """Wake-ups are known to arrive."""
        ...

    async def renew(
        self, session: str, ttl_ms: int, facts: str | None, digest: tuple[int, int, int] | None, *, own: bool = False
    ) -> Renewal:
        """`facts`: what the node measured (JSON), if anything is new. `digest`: (exchange number, how many attempts
        it holds after that, their checksum), where that can be said. `own`: on the connection for renewals only."""
        ...

    async def look(self, session: str, demands: list[str], known_demands: int) -> Look:
        """Is an exchange worthwhile for a node that has nothing to report?"""
        ...

    async def reconcile(self, command: c.Reconcile) -> c.Reply: ...
    async def drain(self, command: c.Drain) -> c.Reply:
        """May raise Refused."""
        ...

    async def leave(self, session: str) -> None: ...
    def forget(self, session: str) -> None:
        """This node works under it no more, whatever the store knows of that: its lease ends it."""
        ...

    async def open_handle(self, command: c.OpenHandle) -> c.HandleReply: ...
    async def orphans(self, engines: list[str]) -> list[tuple[HandleRow, bool]]:
        """Handles on these engines whose sessions are over, the first hundred; and whether their tasks shall stop."""
        ...

    async def close_handles(self, command: c.CloseHandles) -> c.Reply: ...
    async def facts(self, run_nos: list[int]) -> list[RunFacts]: ...
    async def workflow(self, hash: str) -> Workflow: ...
    async def ends(self, run_no: int, positions: list[int]) -> list[Ended]:
        """How the tasks at these positions of a run ended, for the templates of those that follow."""
        ...

    async def context(self, run_no: int) -> dict[str, Any]:
        """The run's context as it is now."""
        ...

    async def cached(self, keys: list[str]) -> list[MemoRow]:
        """Results kept under these keys that may be used now."""
        ...

    async def once(self, command: c.Once) -> c.OnceReply: ...

    async def array(self, run_no: int, pos: int, generation: int) -> Any:
        """What a map over the context maps over, as it was when the map opened; or the outcome of a run."""
        ...

    def listen(self, woken: Woken, rest: RestingLease | None = None) -> Callable[[], None]:
        """Call `woken` on the event loop when something may be there to do; returns how to stop that. A link that has
        to ask for wake-ups renews a resting lease with that."""
        ...


class ChoreLink(Protocol):
    """What a node needs besides that may lead: only one that has the store itself."""

    async def commit(self, command: c.Command) -> Any:
        """Any command and its reply. May raise Refused."""
        ...

    async def expire_dead(self, own: str) -> int:
        """End other sessions whose processes are provably gone; how many. Anybody may."""
        ...

    async def watch(self, *, late: bool = False) -> Watch:
        """Who leads; with `late`, also which sessions have leases that have passed."""
        ...

    async def place(self, term: int | None) -> int:
        """Give tasks that wait for it to the best nodes; how many."""
        ...

    async def due_triggers(self) -> tuple[int, int | None, bool, list[TriggerRow]]:
        """(the store's time, when the next trigger's time comes, whether one follows runs, those whose time or
        turn has come)."""
        ...

    async def backfills_to_step(self, limit: int) -> list[tuple[BackfillRow, TriggerRow]]:
        """Backfills that are under way and may have one more run, with their triggers."""
        ...

    async def outbox(self, term: int, limit: int) -> OutboxLook:
        """What the leader of this term has to do about deadlines, late triggers and notifications."""
        ...

    async def ends_to_follow(self, limit: int) -> list[tuple[Any, ...]]:
        """(trigger, event's number, run id, its name, the event's JSON) of ended runs that triggers follow."""
        ...

    async def triggers_behind(self, lag: int) -> tuple[int, list[TriggerRow]]:
        """(the newest event's number, triggers that follow runs and are so many events behind it)."""
        ...


class Delivery(msgspec.Struct, frozen=True):
    """How a try to deliver a notification has ended."""

    error: str | None = None
    final: bool = False  # another try would end in the same way


class NotificationSender(Protocol):
    """The way from the leader to those who are notified."""

    async def send(self, row: NotificationRow, result: str | None) -> Delivery:
        """Once, under the row's id. `result`: of the failed attempt that it quotes, as JSON. A cancel stops it, and
        leaves nothing running."""
        ...


class SmtpSettings(msgspec.Struct, frozen=True):
    """Where e-mail goes first."""

    host: str | None = None
    port: int = 587
    user: str | None = None
    password: str | None = None  # the name of the secret
    sender: str | None = None
    starttls: bool = True


class NodeSettings(msgspec.Struct, frozen=True):
    name: str
    slots: int
    output_root: str
    workdir: str
    waiting_slots: int = 1000  # for attempts that only wait for something elsewhere
    output_max: int = 64 * 2**20
    output_rate: int = 8 * 2**20  # bytes a second that go to a store that takes output
    scope: str | None = None  # a run id: work for this run only
    lease_ttl_s: float = 30.0
    renew_every_s: float = 5.0
    poll_s: float = 1.0
    expire_every_s: float = 1.0
    place_every_s: float = 0.25
    drain_s: float = 10.0
    labels: dict[str, str] = {}
    role: c.Role = "auto"
    leader_ttl_s: float = 30.0
    leader_renew_s: float = 10.0
    keep_s: float | None = None  # finished runs are pruned after this long, by the leader
    overdue_every_s: float = 5.0
    fire_every_s: float = 0.5
    prune_every_s: float = 60.0
    notify_every_s: float = 1.0
    smtp: SmtpSettings = SmtpSettings()
    public_url: str | None = None  # where people find the server: for links in notifications
    notify_timeout_s: float = 30.0  # of one try to deliver a notification
    notify_backoff_s: float = 5.0  # before the second try; three times as long before each further one
    measure_every_s: float = 10.0
    result_max: int = 2**20  # bytes of an output that the store keeps; a larger one becomes an artifact
    artifact_max: int = 64 * 2**20
    files_max: int = 256 * 2**20  # bytes of files that one attempt may keep
    files_in_store: bool = False  # the store keeps them, because nodes share no directory
    artifact_root: str | None = None  # where artifacts are, for all nodes that shall read them
    workspace_root: str | None = None  # where the workspaces of runs are; None: it has none
    secrets_dir: str | None = None
    run_as: str | None = None  # the user of its attempts; None: its own
    container_socket: str | None = None  # of the container engine; None: it is looked for
    agent_command: tuple[str, ...] = ("claude",)  # the program of agents
    http_allow: tuple[str, ...] = ()  # hosts and networks that http tasks may reach; none: all that is public
    http_private: bool = False  # without `http_allow`, also what is not public
    cloud_run_endpoint: str | None = None  # of the Cloud Run API; None: Google's own
    cloud_run_token_file: str | None = None  # that holds an access token; None: google-auth finds credentials
    capabilities: tuple[str, ...] = ()
    memory: int | None = None  # bytes that its tasks may reserve; None: it does not know
    disk: int | None = None
    cpus: float | None = None
    gpus: int = 0
    gpu_memory: int | None = None  # of each GPU
    functions: tuple[str, ...] | None = None  # inline ones that it has; None: whatever is asked for
    log_all: bool = False  # log every attempt, not only those that fail

    @property
    def patience_ms(self) -> int:
        """How long transactions may hold each other up: well below a lease and a term, so that a node that was cut
        off in the middle of one takes nobody along."""
        return int(min(self.lease_ttl_s, self.leader_ttl_s) * 1000 / 6)

    def facts(self, kinds: Iterable[str], session: str = "") -> NodeFacts:
        """This node, as placement knows it."""
        return NodeFacts(
            tuple(sorted(kinds)), self.labels, self.name, session, self.capabilities, self.memory, self.disk,
            self.gpus, self.gpu_memory, self.functions, self.cpus,
        )  # fmt: skip


class Ports(msgspec.Struct):
    link: Link
    executors: dict[str, Executor]  # by task kind
    clock: Callable[[], float]  # CLOCK_BOOTTIME seconds
    random: random.Random
    new_id: Callable[[], str]  # session ids
    log: Callable[[str, dict[str, Any]], None] = lambda message, fields: None
    measure: Callable[[], dict[str, Any]] | None = None  # what the machine has left; called in a thread
    secrets: Secrets = msgspec.field(default_factory=lambda: Secrets({}))
    token_key: str | None = None  # with which tokens of attempts are made; the session's row has it, too
    server: Callable[[], str | None] = lambda: None  # through which the node works, if it has no store
    chores: ChoreLink | None = None  # None: it never leads, and ends nobody else's session
    ship: Ship | None = None  # None: whoever wants output reads the files
    artifacts: ArtifactStorage | None = None  # None: an output that is too large fails its attempt
    workspaces: Workspaces | None = None
    files: AttemptFiles | None = None  # keeps and fetches the files of attempts
    notifier: NotificationSender | None = None  # None: this node delivers nothing
    contended: Callable[[], int] = lambda: 0  # how often commits of this process met another writer
    #: (level, message, fields) of single attempts; None: nobody wants to know
    log_line: Callable[[str, str, dict[str, Any]], None] | None = None
    checked: frozenset[str] = frozenset()  # kinds whose executors depend on something that may be missing
    remote: frozenset[str] = frozenset()  # of those, the kinds whose attempts run on engines
    slotless: frozenset[str] = frozenset()  # kinds whose attempts only wait, and take no slot

    def __post_init__(self) -> None:
        self.checked = frozenset(kind for kind, executor in self.executors.items() if is_checked(executor))
        self.remote = frozenset(kind for kind, executor in self.executors.items() if is_remote(executor))
        self.slotless = frozenset(kind for kind, executor in self.executors.items() if not takes_slot(executor))

    @property
    def chore_link(self) -> ChoreLink:
        """Of a node that may lead."""
        assert self.chores is not None
        return self.chores
