"""weft.current: the attempt that the calling code belongs to; and weft.fake_attempt, which replaces it in tests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from weft.executors.python_functions.attempt_context import IN_RUNNER, RunningAttempt, running_attempt
from weft.executors.python_functions.attempt_context import current as _current


@dataclass(frozen=True, slots=True)
class CurrentAttempt:
    """The attempt that calls `weft.current`."""

    run_id: str  # of its run
    task: str  # its name for people: "transform" or "transform.3"
    attempt: int  # its number, from 1
    index: int | None  # of an element of a mapped task
    idempotency_key: str  # the same for all attempts of the task, in all generations


class StandIn(RunningAttempt):
    """Stands in for an attempt when a function is called directly. `context` holds the keys that it has changed."""

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
    """Return the attempt that the calling code belongs to.

    A function that is called directly, for example in a test, has a stand-in: attempt 1 of a run that does not exist,
    with an id of its own; `weft.fake_attempt` sets another.
    """
    attempt = running_attempt()
    if attempt is None:
        if IN_RUNNER:
            raise RuntimeError(
                "current() finds no attempt in this thread: a thread that you start must run in a copy of the context"
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
    """Set, for tests, the attempt that functions see when they are called directly.

    Within the `with` statement `weft.current()` and `weft.variables()` return these values, `weft.once` just calls
    its function, and `weft.context_update` changes `attempt.context`.

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
    """A run id for a call without a run. Each call has its own, so that idempotency keys of two calls differ."""
    import os

    return f"direct-{os.urandom(6).hex()}"
