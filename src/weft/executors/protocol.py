"""The interface of every executor: start, stop, and one callback when an attempt has ended.

An executor tries once. It never retries, never touches the store, and never decides what an outcome means: `core`
does. It reports every attempt that it started exactly once, after the last process of the attempt has ended.

A remote attempt runs on an engine (a container engine, a Kubernetes cluster) and not below the node's process. Its
handle is in the store before the engine is asked for anything, so that other nodes can stop it, or adopt it. It ends
when the engine says that it is gone, never earlier.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from weft.core.workflow import Usage as Usage

#: Why a node stops an attempt.
StopReason = Literal["cancel", "timeout", "drain", "lease"]


class OnceQuestion(msgspec.Struct, gc=False):
    """A request of `weft.once` to the node: may the effect start, or how did it end?"""

    key: str
    ending: Literal["completed", "failed"] | None = None  # None: may it start?
    value: str | None = None  # JSON
    take_over: bool = True  # start an effect again that an earlier attempt left without an outcome


class OnceAnswer(msgspec.Struct, gc=False):
    status: Literal["call", "completed", "unknown", "kept", "stale"]
    value: str | None = None  # JSON of a completed effect's value; else the reason, as text


#: Answers the question of an attempt: (task id, attempt number, question).
Ask = Callable[[int, int, OnceQuestion], Awaitable[OnceAnswer]]


class Handle(msgspec.Struct, frozen=True):
    """A remote attempt, as its engine knows it. No name is used twice: it holds the attempt's number."""

    engine: str  # the engine's identity, the same on every node that reaches it
    name: str
    place: str = ""  # what else the engine needs to find it, such as a Kubernetes namespace


#: Says what an attempt is waiting for: (task id, attempt number, text). Called when the text changes.
Progress = Callable[[int, int, str], None]


#: Says what an attempt has spent so far: (task id, attempt number, usage). The numbers never fall.
Spent = Callable[[int, int, Usage], None]


class Launch(msgspec.Struct, gc=False):
    """One attempt, ready to start: templates are resolved, the environment is complete except for the node's own."""

    task_id: int
    attempt: int
    run_id: str
    task: str  # its name for people: "transform" or "transform.3"
    kind: str
    spec: dict[str, Any]
    env: dict[str, str]  # added to the node's own environment; with Weft's own variables
    cwd: str | None  # absolute, or None for the executor's default
    output_dir: str  # a directory of this attempt's run; the executor creates it
    output_max: int  # bytes kept of each stream
    secrets: dict[str, str] = {}  # variables whose values must be masked in output and results
    hidden: tuple[str, ...] = ()  # variables of the node's own environment that are secrets of other tasks
    input: bytes | None = None  # content of $WEFT_INPUT; None: no such file
    ask: Ask | None = None  # answers the questions of `weft.once`
    credentials: str | None = None  # the secret with which its image is pulled; no variable of the attempt
    requires: dict[str, Any] = {}  # what was reserved for it: memory (bytes), cpus, gpu
    source: str | None = None  # the definition's directory; None: it came without one
    artifacts: tuple[str, ...] = ()  # paths of files to keep
    files: str | None = None  # the directory of what other tasks have kept for it
    workspace: str | None = None  # the run's own directory on this machine
    handle: Handle | None = None  # of a remote attempt
    adopted: bool = False  # an earlier attempt has started it under this handle: go on watching it
    adoptable: bool = False  # a later attempt may adopt it: it may outlive the node
    stored: tuple[int, int] = (0, 0)  # bytes of stdout and stderr that earlier attempts have stored of an adopted one
    progress: Progress | None = None
    allowance: Usage | None = None  # the most that this attempt may spend; None: no budget applies
    spent: Spent | None = None


class Outcome(msgspec.Struct, gc=False):
    """How an attempt ended, as the executor saw it. Times are CLOCK_BOOTTIME seconds."""

    task_id: int
    attempt: int
    ok: bool
    exit_code: int | None
    started: float | None  # None: it never started
    ended: float
    error: str | None = None  # one line for people when not ok
    stopped: StopReason | None = None  # set if a stop ended it
    startable: bool = True  # false: this node could not even start it (no such executor, no processes left)
    result: dict[str, Any] | None = None  # {exitCode, stdout, stderr, …}
    output: Any = msgspec.UNSET  # the parsed value of $WEFT_OUTPUT
    context: dict[str, Any] | None = None  # the parsed value of $WEFT_CONTEXT
    killed: int = 0  # processes that had to be killed after the leader was gone
    cause: int | str | None = None  # a failure that `retry` can name, such as oom, besides exit codes and exceptions
    retryable: bool = True  # false: another attempt would end in the same way
    retry_after_s: float | None = None  # the other side asked for as long a delay before another attempt
    usage: Usage | None = None  # all that it has spent
    termination: dict[str, Any] | None = None  # of a stopped remote attempt: what was asked, what is confirmed
    forgotten: bool = False  # an adopted attempt that the engine does not know any more


Ended = Callable[[Outcome], None]


class Executor(Protocol):
    kinds: frozenset[str]

    async def open(self) -> None:
        """Prepare. No attempt may be started before."""
        ...

    def start(self, launch: Launch, on_ended: Ended) -> None:
        """Start the attempt; `on_ended` is called on the event loop, once, later."""
        ...

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        """Ask the attempt to end, kill it after the grace. Unknown or ended attempts are ignored."""
        ...

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        """When an attempt that `start` accepted then has started (CLOCK_BOOTTIME). None: not yet, it waits for a
        place, such as a warm runner."""
        ...

    def trust(self, until: float) -> None:
        """Every attempt must be dead at this CLOCK_BOOTTIME unless a later call postpones it."""
        ...

    async def close(self) -> None:
        """Kill all attempts at once, and return when none is left."""
        ...


class CheckedExecutor(Executor, Protocol):
    """An executor that depends on something which may be missing. `open` succeeds without it."""

    async def check(self) -> str | None:
        """Why it cannot be used now, in one line; None: it can. Called every few seconds."""
        ...


class RemoteExecutor(CheckedExecutor, Protocol):
    """An executor whose attempts run on an engine: that is what `check` asks."""

    @property
    def engine(self) -> str | None:
        """The identity of the engine that answered the last check; None: none did."""
        ...

    def handle(self, launch: Launch) -> Handle:
        """What the attempt will be called. Asks nobody."""
        ...

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        """Stop and remove what sessions that are over have left; those of which the engine says that nothing is
        left. What it could not ask about is not in the list."""
        ...


def takes_slot(executor: Executor) -> bool:
    """An executor whose attempts only wait for something elsewhere says `takes_slot = False`."""
    return bool(getattr(executor, "takes_slot", True))


def is_checked(executor: Executor) -> bool:
    return hasattr(executor, "check")


def is_remote(executor: Executor) -> bool:
    return hasattr(executor, "remove")
