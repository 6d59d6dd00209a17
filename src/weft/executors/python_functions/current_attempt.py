"""weft.current: which attempt of which task the calling code belongs to; and what stands in for one in tests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from weft.executors.python_functions.attempt_context import IN_RUNNER, RunningAttempt, running_attempt
from weft.executors.python_functions.attempt_context import current as _current


@dataclass(frozen=True, slots=True)
class CurrentAttempt:
    """The attempt that calls: `idempotency_key` is the same for all attempts of its task, in all generations."""

    run_id: str
    task: str  # as people know it: "transform" or "transform.3"
    attempt: int
    index: int | None  # of an element of a mapped task
    idempotency_key: str


class StandIn(RunningAttempt):
    """An attempt that there is not, for a function that is called directly. `context` is what it has changed."""

    __slots__ = ()
    stands_in = True

    def __init__(
        self,
        task: str,
        run_id: str,
        attempt: int = 1,
        index: int | None = None,
        idempotency_key: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        name = task if index is None else f"{task}.{index}"
        own = {
            "WEFT_RUN_ID": run_id,
            "WEFT_TASK": name,
            "WEFT_ATTEMPT": str(attempt),
            "WEFT_INDEX": "" if index is None else str(index),
            "WEFT_IDEMPOTENCY_KEY": idempotency_key or f"{run_id}/{name}",
        }
        super().__init__(attempt, {**(variables or {}), **own})


def current() -> CurrentAttempt:
    """The attempt that calls. A function that is called directly, in a test say, has a stand-in: attempt 1 of a run
    that there is not, with an id of its own; `weft.fake_attempt` says which."""
    attempt = running_attempt()
    if attempt is None:
        if IN_RUNNER:
            raise RuntimeError(
                "current() finds no attempt here: a thread that was started by hand must be given the context"
                " (contextvars.copy_context().run)"
            )
        attempt = StandIn("direct", direct_run_id())
    own = attempt.variables
    index = own.get("WEFT_INDEX", "")
    return CurrentAttempt(
        own["WEFT_RUN_ID"], own["WEFT_TASK"], int(own["WEFT_ATTEMPT"]), int(index) if index else None,
        own["WEFT_IDEMPOTENCY_KEY"],
    )  # fmt: skip


@contextmanager
def fake_attempt(
    task: str = "test",
    *,
    run_id: str = "test",
    attempt: int = 1,
    index: int | None = None,
    idempotency_key: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Iterator[StandIn]:
    """For tests: what functions find while they are called directly. `weft.current()` and `weft.variables()` tell
    what is said here, `weft.once` just calls its function, and `weft.context_update` changes `context` of what this
    gives.

    >>> import weft
    >>> def charge(order: str) -> str:
    ...     weft.context_update(last=order)
    ...     return weft.current().idempotency_key
    >>> with weft.fake_attempt("charge", run_id="r1", index=2) as attempt:
    ...     charge("o-17")
    'r1/charge.2'
    >>> attempt.context
    {'last': 'o-17'}
    """
    stand_in = StandIn(task, run_id, attempt, index, idempotency_key, variables)
    with standing_in(stand_in):
        yield stand_in


@contextmanager
def standing_in(attempt: StandIn) -> Iterator[None]:
    token = _current.set(attempt)
    try:
        yield
    finally:
        _current.reset(token)


def direct_run_id() -> str:
    """Of a call without a run. Each has its own: keys made from it must not meet those of another call."""
    import os

    return f"direct-{os.urandom(6).hex()}"
