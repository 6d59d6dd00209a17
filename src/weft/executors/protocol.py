"""What every executor offers: start, stop, and one call back when an attempt is over.

An executor tries once. It never retries, never touches the store, and never decides what an outcome means:
that is core's. It reports every attempt that it started exactly once, after nothing of it is left running.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

import msgspec

#: Why an attempt is stopped from outside.
StopReason = Literal["cancel", "timeout", "drain", "lease"]


class Question(msgspec.Struct, gc=False):
    """What a function asks of its node while it runs, for `weft.once`."""

    key: str
    ending: Literal["completed", "failed"] | None = None  # None: may it begin?
    value: str | None = None  # JSON
    take_over: bool = True  # begin again what an earlier attempt left without an outcome


class Answer(msgspec.Struct, gc=False):
    status: Literal["call", "completed", "unknown", "kept", "stale"]
    value: str | None = None  # JSON of what is completed; else a reason in words


#: Of a task id, an attempt's number and its question.
Ask = Callable[[int, int, Question], Awaitable[Answer]]


class Launch(msgspec.Struct, gc=False):
    """One attempt, ready to start: templates are resolved, the environment is complete but for the node's own."""

    task_id: int
    attempt: int
    run_id: str
    task: str  # as people know it: "transform" or "transform.3"
    kind: str
    spec: dict[str, Any]
    env: dict[str, str]  # on top of the node's own environment; Weft's own variables included
    cwd: str | None  # absolute, or None for the executor's default
    output_dir: str  # a directory of this attempt's run; the executor makes it
    output_max: int  # bytes kept of each stream
    secrets: dict[str, str] = {}  # variables whose values must be masked in whatever the attempt leaves
    hidden: tuple[str, ...] = ()  # variables of the node's own environment that are others' secrets
    input: bytes | None = None  # what $WEFT_INPUT holds; None: there is no such file
    ask: Ask | None = None  # who answers the questions of a function


class Outcome(msgspec.Struct, gc=False):
    """How an attempt ended, as the executor saw it. Times are CLOCK_BOOTTIME seconds."""

    task_id: int
    attempt: int
    ok: bool
    exit_code: int | None
    started: float | None  # None: it never started
    ended: float
    error: str | None = None  # one line for people when not ok
    stopped: StopReason | None = None  # set when a stop ended it
    startable: bool = True  # false: this node could not even start it (no such executor, no processes left)
    result: dict[str, Any] | None = None  # {exitCode, stdout, stderr, …}
    output: Any = msgspec.UNSET  # what it wrote to $WEFT_OUTPUT, parsed
    context: dict[str, Any] | None = None  # what it wrote to $WEFT_CONTEXT, parsed
    killed: int = 0  # processes that had to be killed after the leader was gone


Ended = Callable[[Outcome], None]


class Executor(Protocol):
    kinds: frozenset[str]

    async def open(self) -> None:
        """Get ready. Nothing may be started before."""
        ...

    def start(self, launch: Launch, ended: Ended) -> None:
        """Start the attempt; `ended` is called on the event loop, once, later."""
        ...

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        """Ask it to end, kill it after the grace. Unknown or ended attempts are ignored."""
        ...

    def trust(self, until: float) -> None:
        """Everything must be dead at this CLOCK_BOOTTIME unless a later call moves it."""
        ...

    async def close(self) -> None:
        """Kill what is left, at once, and return when nothing is."""
        ...
