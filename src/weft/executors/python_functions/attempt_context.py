"""What a Python function may use while it runs as a task: weft.context_update, weft.variables, weft.Stopped.

Functions need none of it. It is kept apart from the runner so that importing it costs nothing.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.executors.python_runner.output_streams import AsyncFiles, OwnFiles


class Stopped(BaseException):
    """Raised in a plain function whose attempt is cancelled or has timed out. Clean up, and let it pass.

    It is no Exception, as KeyboardInterrupt is none: `except Exception` must not swallow it. An async function sees
    asyncio.CancelledError instead.
    """


#: Of an attempt's id, and key, ending, value and take_over of a question (see protocol): status and value.
Ask = Callable[[int, str, str | None, str | None, bool], tuple[str, str | None]]


class RunningAttempt:
    """The attempt that the calling code belongs to."""

    __slots__ = ("ask", "context", "files", "id", "under_way", "variables")
    stands_in = False  # for an attempt that there is not: the function was called directly

    def __init__(self, id: int, variables: dict[str, str], ask: Ask | None = None) -> None:
        self.id = id
        self.variables = variables
        self.ask = ask  # in a runner process; blocks
        self.under_way: dict[str, None] | None = None  # effects of weft.once that have begun
        self.context: dict[str, Any] = {}
        self.files: AsyncFiles | OwnFiles | None = (
            None  # of an async function; a plain one has the descriptors 1 and 2
        )

    async def ask_async(
        self, key: str, ending: str | None, value: str | None, take_over: bool
    ) -> tuple[str, str | None]:
        """In a thread, so that what runs beside it goes on meanwhile."""
        import asyncio

        assert self.ask is not None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self.ask, self.id, key, ending, value, take_over)


#: For async functions, and for threads that were given a copy of the context.
current: ContextVar["RunningAttempt | None"] = ContextVar("weft_attempt", default=None)
#: The attempt of the plain function that runs in this process, for threads that were given nothing.
plain: list[RunningAttempt] = []
#: A runner calls functions for attempts only: code that belongs to none there has lost its context, and is told so.
IN_RUNNER: list[bool] = []


def running_attempt() -> RunningAttempt | None:
    return current.get() or (plain[0] if plain else None)


def context_update(**values: Any) -> None:
    """Change keys of the run's context, should this task succeed.

    Values are checked at once: JSON must be able to hold them. Outside a task there is no context to change, and
    RuntimeError says so.
    """
    from weft.executors.python_functions.json_values import plain_value

    attempt = running_attempt()
    if attempt is None:
        raise RuntimeError(
            "context_update() has a meaning only in a function that Weft runs as a task; in a test, call it within"
            " `with weft.fake_attempt() as attempt:` and look at attempt.context"
        )
    for key, value in values.items():
        attempt.context[key] = plain_value(value, f"context_update() got {key} =")


def variables() -> Mapping[str, str]:
    """The variables of this attempt: `env` of the definition and Weft's own, such as WEFT_RUN_ID.

    While a plain function runs they are in os.environ, too. Async functions run side by side in one process, whose
    os.environ cannot hold the variables of all of them: there, this is the only way. Outside a task it is empty.
    """
    attempt = running_attempt()
    return {} if attempt is None else dict(attempt.variables)
