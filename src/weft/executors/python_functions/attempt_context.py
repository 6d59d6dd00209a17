"""The attempt that the calling code belongs to, and weft.context_update, weft.variables and weft.Stopped.

Functions need none of it. The module imports almost nothing, so that functions can import it at no cost.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from weft.executors.python_runner.output_streams import AsyncCallOutput, DedicatedOutput


class Stopped(BaseException):
    """Raised in a plain function whose attempt is cancelled or has timed out. Clean up, and let it propagate.

    Like KeyboardInterrupt it is not an Exception: `except Exception` must not swallow it. An async function gets
    asyncio.CancelledError instead.
    """

    __module__ = "weft"  # as people import it, and as tracebacks and `result.error.type` show it


Ending = Literal["completed", "failed"] | None
#: Asks the node a question of weft.once: (attempt id, key, ending, value, take_over) -> (status, value).
#: See protocol.OnceQuestion and protocol.OnceAnswer.
Ask = Callable[[int, str, Ending, str | None, bool], tuple[str, str | None]]


class RunningAttempt:
    """The attempt that the calling code belongs to."""

    __slots__ = ("ask", "context", "effects", "id", "output", "variables")
    stands_in = False  # True: there is no attempt, the function was called directly

    def __init__(self, id: int, variables: dict[str, str], ask: Ask | None = None) -> None:
        self.id = id
        self.variables = variables
        self.ask = ask  # in a runner process; blocks
        self.effects: dict[str, None] | None = None  # keys of weft.once whose effect is running
        self.context: dict[str, Any] = {}
        # Of an async function; a plain one has the descriptors 1 and 2.
        self.output: AsyncCallOutput | DedicatedOutput | None = None

    async def ask_async(self, key: str, ending: Ending, value: str | None, take_over: bool) -> tuple[str, str | None]:
        """In a thread, so that other async functions run meanwhile."""
        import asyncio

        assert self.ask is not None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self.ask, self.id, key, ending, value, take_over)


#: For async functions, and for threads that run in a copy of the context.
current: ContextVar["RunningAttempt | None"] = ContextVar("weft_attempt", default=None)
#: The attempt of the plain function that runs in this process, for threads without a copy of the context.
plain: list[RunningAttempt] = []
#: Not empty in a runner, where all functions belong to attempts: code without an attempt there has lost its context,
#: and gets an error.
IN_RUNNER: list[bool] = []


def running_attempt() -> RunningAttempt | None:
    return current.get() or (plain[0] if plain else None)


def context_update(**values: Any) -> None:
    """Change keys of the run's context once this task succeeds: `weft.context_update(last_day="2026-01-01")`.

    Values are checked at once: they must have a JSON form. Raises RuntimeError outside a task, where there is no
    context.
    """
    from weft.executors.python_functions.json_values import plain_value

    attempt = running_attempt()
    if attempt is None:
        raise RuntimeError(
            "context_update() works only in a function that Weft runs as a task; in a test, call it within"
            " `with weft.fake_attempt() as attempt:` and check attempt.context"
        )
    for key, value in values.items():
        attempt.context[key] = plain_value(value, f"context_update() got {key} =")


def variables() -> Mapping[str, str]:
    """Return the variables of this attempt: `env` of the definition and Weft's own, such as WEFT_RUN_ID.

    While a plain function runs they are in os.environ, too. Async functions run concurrently in one process, whose
    os.environ cannot hold the variables of all of them: they find their variables only here. Outside a task the
    mapping is empty.
    """
    attempt = running_attempt()
    return {} if attempt is None else dict(attempt.variables)
