"""weft.current: which attempt of which task the calling code belongs to."""

from dataclasses import dataclass

from weft.executors.python_context import running_attempt


@dataclass(frozen=True, slots=True)
class CurrentAttempt:
    """The attempt that calls: `idempotency_key` is the same for all attempts of its task, in all generations."""

    run_id: str
    task: str  # as people know it: "transform" or "transform.3"
    attempt: int
    index: int | None  # of an element of a mapped task
    idempotency_key: str


def current() -> CurrentAttempt:
    """The attempt that calls. Outside a task there is none, and RuntimeError says so."""
    attempt = running_attempt()
    if attempt is None:
        raise RuntimeError("current() has a meaning only in a function that Weft runs as a task")
    own = attempt.variables
    index = own.get("WEFT_INDEX", "")
    return CurrentAttempt(
        own["WEFT_RUN_ID"], own["WEFT_TASK"], int(own["WEFT_ATTEMPT"]), int(index) if index else None,
        own["WEFT_IDEMPOTENCY_KEY"],
    )  # fmt: skip
