"""A workflow made ready to run: names turned into positions, defaults merged, edges as tuples.

`pos` is a task's place in the document. Everything that runs speaks of positions; names are for people.
A workflow is built once per content hash and shared by all runs of it, so nothing in here ever changes.
"""

import re
from typing import Any, Final, Literal

import msgspec

When = Literal["all_success", "none_failed", "any_success", "on_failure", "always"]
#: What a task is made of without plugins, which add kinds of their own.
BUILT_IN_KINDS: Final = frozenset(
    ("shell", "python", "inline", "wait", "workflow", "container", "kubernetes", "cloud_run", "http", "agent")
)
#: Kinds whose attempts run on an engine: each has a handle in the store.
REMOTE_KINDS: Final = ("container", "kubernetes", "cloud_run")
MICROS: Final = 1_000_000  # of a US dollar: all amounts of money are counted in these
#: Kinds whose attempts cost money and tokens.
SPENDING_KINDS: Final = ("agent",)
OnFailure = Literal["halt", "halt_now", "continue"]
Mode = Literal["eager", "levels"]
Order = Literal["longest_path", "fifo"]
CatchUp = Literal["none", "last", "all"]
Overlap = Literal["skip", "queue", "replace", "allow"]
_ELEMENT: Final = re.compile(r"(.+)\.([0-9]{1,9})")
TIMED = ("cron", "every")  # kinds of triggers that fire by time
#: What notifications are about.
NOTIFY_EVENTS: Final = ("failed", "recovered", "dead_letter", "late", "waiting")
#: How they are delivered: a target has exactly one of these.
NOTIFY_KINDS: Final = ("webhook", "slack", "email", "command")


class Retry(msgspec.Struct, frozen=True):
    """`max` counts retries after the first attempt."""

    max: int = 0
    backoff_ms: int = 1000
    multiplier: float = 2.0
    max_backoff_ms: int = 3_600_000
    jitter: float = 0.1  # the share of the delay that is spread, by hash(task, attempt)
    #: false: a lost lease fails the task instead of queueing it again; adopt: the next attempt has its handle
    on_lost: bool | Literal["adopt"] = True
    on: tuple[int | str, ...] | None = None  # failures that are retried: exit codes, exceptions, words; None: all
    not_on: tuple[int | str, ...] = ()  # those that are not, all the same
    memory: float | None = None  # after an oom the next attempt requires so many times the memory


class Tolerate(msgspec.Struct, frozen=True):
    """How many elements of a mapped task may fail before it fails: a number, or a share of them."""

    count: int = 0
    share: float = 0.0

    def of(self, elements: int) -> int:
        # 29% of 100 is 28.999… in binary, and means 29
        return max(self.count, int(self.share * elements + 1e-6))


class Cache(msgspec.Struct, frozen=True):
    """When a task's result may stand for a later one's."""

    key: str | None = None  # text with templates; None: all that the attempt is made of
    ttl_ms: int | None = None  # how long; None: until it is removed


class Usage(msgspec.Struct, frozen=True):
    """What an attempt has spent so far, or what may be spent: millionths of a US dollar, and tokens. None, of a
    limit: there is none."""

    usd: int | None = None
    tokens: int | None = None


def usage_of(value: dict[str, Any] | None) -> Usage | None:
    """Of `budget: {usd, tokens}` as a definition has it."""
    if value is None:
        return None
    usd = value.get("usd")
    return Usage(None if usd is None else max(1, round(usd * MICROS)), value.get("tokens"))


class NotifyTarget(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where notifications of some events go. Its JSON is what the store keeps with each of them."""

    on: tuple[str, ...]  # of NOTIFY_EVENTS
    webhook: str | None = None
    slack: str | None = None
    email: dict[str, Any] | None = None  # to, subject
    command: tuple[str, ...] | None = None
    headers: dict[str, str] = {}
    secrets: tuple[str, ...] = ()  # `$NAME` in the address and the headers stands for these
    text: str | None = None  # with templates; None: the text that Weft writes

    @property
    def kind(self) -> str:
        return next(kind for kind in NOTIFY_KINDS if getattr(self, kind) is not None)


class TaskDef(msgspec.Struct, frozen=True):
    """One task of a workflow, complete: nothing has to be looked up in defaults any more."""

    name: str
    kind: str  # which executor runs it: shell, python, inline, …, or a plugin's; wait and workflow run nowhere
    spec: dict[str, Any]  # what that executor needs, e.g. {"run": "make"} or {"argv": ["make", "all"]}
    needs: tuple[int, ...] = ()
    when: When = "all_success"
    condition: str | None = None  # `if`, as source text
    long_form: bool = False  # `parent.x.state` reads `completed` for succeeded
    env: dict[str, str] = {}
    env_files: tuple[str, ...] = ()  # read where it runs; `env` wins
    cwd: str | None = None
    timeout_ms: int | None = None
    grace_ms: int = 10_000
    retry: Retry = Retry()
    priority: int = 0
    allow_failure: bool = False
    replicas: int | None = None  # a map over 0 … n-1
    map: Any = None  # the array to map over: a list, text that is one ${{ }}, or a matrix with ${{ }} in it
    matrix: bool = False  # its elements are the combinations of a matrix
    label: str | None = None  # names its elements: text with templates
    map_reads: tuple[int, ...] = ()  # tasks whose results that reads
    map_reads_context: bool = False  # then what it maps over is stored when it opens
    batch: int | None = None  # elements of the array that one element takes
    tolerate: Tolerate = Tolerate()
    max_parallel: int | None = None  # of a mapped task's elements
    requires: dict[str, Any] = {}  # placement demand, canonical
    accepts: tuple[int, ...] = ()  # needs whose state the condition asks about: accepted as they come
    accepts_failure: bool = False  # its rule can be true with a failed need
    survives_halt: bool = False  # a failure handler, or what follows one
    final: bool = False  # starts after all other tasks (a handler without needs), or follows one that does
    reads: tuple[int, ...] = ()  # tasks whose results the condition reads, in the order of the document
    template_reads: tuple[int, ...] = ()  # tasks whose results its other templates read, those of `map` left out
    reads_outcome: bool = False  # a handler that asks for run.state, run.reason or run.failed
    reads_context: bool = False  # its templates ask for the run's context
    templated: bool = False  # there is a ${{ in one of those
    secrets: tuple[str, ...] = ()  # variables that the running node adds, and masks in all that comes back
    artifacts: tuple[str, ...] = ()  # paths of files that are kept after a success
    files: tuple[int, ...] = ()  # tasks whose files it gets
    cache: Cache | None = None
    pools: tuple[
        str, ...
    ] = ()  # it takes a place of each while it runs: named ones and the workflow's own, ascending
    scored: bool = False  # the leader picks its node
    allow: tuple[str, ...] | None = None  # what its token may do besides looking at its run; None: it has no `allow`
    plain: bool = False  # it starts from its spec as it stands: nothing to resolve, to mask, to fetch or to keep

    def called(self, idx: int) -> str:
        """As people know it: "transform", or "transform.3" for an element."""
        return self.name if idx < 0 else f"{self.name}.{idx}"

    @property
    def remote(self) -> bool:
        """Its attempts may run on engines; those of a plugin's kind do if its executor says so."""
        return self.kind in REMOTE_KINDS or self.kind not in BUILT_IN_KINDS

    @property
    def spends(self) -> bool:
        """Its attempts cost money and tokens, which are counted."""
        return self.kind in SPENDING_KINDS

    @property
    def budget(self) -> Usage | None:
        """What all attempts of a generation may spend together."""
        return usage_of(self.spec[self.kind].get("budget")) if self.kind in SPENDING_KINDS else None

    @property
    def labelled(self) -> bool:
        """Its elements have labels, stored when it opens."""
        return self.matrix or self.label is not None

    @property
    def mapped(self) -> bool:
        return self.replicas is not None or self.map is not None


class InputDef(msgspec.Struct, frozen=True):
    type: str
    required: bool
    default: Any = None
    enum: tuple[Any, ...] | None = None
    description: str | None = None
    format: str | None = None  # of a text: a name in formats.FORMATS


class LevelPlan(msgspec.Struct, frozen=True):
    """The order in which `mode: levels` works. The wait tasks of a level are a level of their own behind it; handlers
    come last."""

    at: tuple[int, ...]  # by position: which level
    tasks: tuple[tuple[int, ...], ...]  # by level: positions, by name
    handlers: int  # the first level of handlers
    place: tuple[int, ...]  # by position: its place among all names


class TriggerDef(msgspec.Struct, frozen=True, omit_defaults=True):
    """One trigger, complete. Its JSON is what the store keeps of it."""

    name: str
    kind: str
    overlap: Overlap
    inputs: dict[str, Any] = {}
    catch_up: CatchUp = "none"
    jitter_ms: int = 0
    paused: bool = False
    cron: str | None = None
    timezone: str = "UTC"
    every_ms: int | None = None
    hook: str | None = None
    secret: str | None = None
    token: str | None = None
    condition: str | None = None
    rate: tuple[int, int] | None = None  # so many in so many milliseconds
    after: str | None = None
    after_state: str = "succeeded"
    start_by_ms: int | None = None  # a time for which no run has started so long after it is reported

    @property
    def timed(self) -> bool:
        return self.kind in TIMED

    @property
    def key(self) -> str | None:
        """By what others find it: a webhook's name, the workflow that is followed."""
        return self.hook or self.after


class Workflow(msgspec.Struct, frozen=True):
    hash: str
    name: str
    tasks: tuple[TaskDef, ...]
    successors: tuple[tuple[int, ...], ...]  # by position
    levels: tuple[int, ...]  # topological level by position, 0 first
    position: dict[str, int]  # by name
    inputs: dict[str, InputDef]
    on_failure: OnFailure
    max_parallel: int | None
    timeout_ms: int | None
    env: dict[str, str]
    chain: bool  # written as a bare list of commands
    description: str | None = None
    context: dict[str, Any] = {}  # what a run's context begins with
    output: Any = None  # the run's result: a JSON value with templates in it, as the document has it
    output_reads: tuple[int, ...] = ()  # tasks whose results it reads
    secrets: tuple[str, ...] = ()  # of all its tasks and triggers
    concurrency: int | None = None  # how many tasks of all its runs may run at a time
    level_plan: LevelPlan | None = None  # of `mode: levels`
    own: tuple[str, str] | None = None  # one node owns a run of it: the demand (id, body) for that node
    triggers: tuple[TriggerDef, ...] = ()
    handlers_timeout_ms: int = 600_000  # how long handlers may take once the run was stopped
    order: Order = "fifo"  # of the ready tasks of a run
    budget: Usage | None = None  # what one run may spend in all
    workspace: bool = False  # its tasks start in a directory of their run
    head_starts: tuple[int, ...] = ()  # by position, if no earlier run says how long tasks take; empty: all are alike
    deadlines: tuple[tuple[int, str, int], ...] = ()  # position (-1: the run), start_by or finish_by, ms
    notify: tuple[NotifyTarget, ...] = ()

    def place(self, name: str) -> tuple[int, int] | None:
        """(position, index) of a task, whose index is -1, or of an element such as "transform.3", which need not
        exist. None: there is no such task."""
        element = None if name in self.position else _ELEMENT.fullmatch(name)
        pos = self.position.get(name if element is None else element[1])
        return None if pos is None else (pos, -1 if element is None else int(element[2]))
