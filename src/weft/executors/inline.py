"""The inline executor: runs functions on the node's own event loop, for applications that embed Weft, and to measure
the engine alone.

A coroutine ends only by itself: a stop cancels it, and cancels it again every second should it ignore that. A
function that blocks the loop blocks its node.
"""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from types import CoroutineType
from typing import Any

from weft.executors.protocol import Ended, Launch, OnceQuestion, Outcome, StopReason
from weft.executors.python_functions.attempt_context import RunningAttempt, current
from weft.executors.python_functions.json_values import plain_value
from weft.executors.python_functions.load import Function

#: A plain function returns its output; an async one is awaited.
InlineFunction = Callable[[Launch], Any]
#: A function of the application: `with` becomes its arguments.
AsyncFunction = Callable[..., Coroutine[Any, Any, Any]]

_CANCEL_AGAIN_S = 1.0
_CLOSE_ROUNDS_MAX = 5


class InlineAttempt(RunningAttempt):
    """The attempt that weft.once, weft.current and weft.context_update see in an inline function."""

    __slots__ = ("launch",)

    def __init__(self, launch: Launch) -> None:  # the parent's, written out: one call less for each attempt
        self.id = launch.attempt
        self.variables = launch.env
        self.ask = self.effects = self.output = None
        self.context = {}
        self.launch = launch

    async def ask_async(self, key: str, ending: Any, value: str | None, take_over: bool) -> tuple[str, str | None]:
        launch = self.launch
        if launch.ask is None:
            return "stale", "this node cannot answer weft.once"
        answer = await launch.ask(launch.task_id, launch.attempt, OnceQuestion(key, ending, value, take_over))
        return answer.status, answer.value


class InlineExecutor:
    kinds = frozenset({"inline"})

    def __init__(self, functions: Mapping[str, InlineFunction], clock: Callable[[], float]) -> None:
        self._functions = functions
        self._clock = clock
        self._tasks: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._stop_reasons: dict[tuple[int, int], StopReason] = {}
        self._unreported: list[tuple[Ended, Outcome]] = []  # reported together, in the loop's next round

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # no attempt's: what one sets there, no other shall see

    def start(self, launch: Launch, on_ended: Ended) -> None:
        started = self._clock()
        function = self._functions.get(launch.spec["inline"])
        if function is None:
            error = f"this node has no inline function {launch.spec['inline']!r}"
            outcome = Outcome(launch.task_id, launch.attempt, False, None, None, started, error)
            self._loop.call_soon(on_ended, outcome, context=self._context)
            return
        attempt = InlineAttempt(launch)
        token = current.set(attempt)
        try:
            value = function(launch)
            if type(value) is CoroutineType or (value is not None and asyncio.iscoroutine(value)):
                key = (launch.task_id, launch.attempt)
                self._tasks[key] = self._loop.create_task(
                    self._await(attempt, on_ended, started, value, isinstance(function, InlineCall)), name=launch.task
                )
                return
        except Exception as error:
            self._end(attempt, on_ended, started, None, error)
            return
        finally:
            current.reset(token)
        self._end(attempt, on_ended, started, value)

    async def _await(
        self, attempt: InlineAttempt, on_ended: Ended, started: float, value: Awaitable[Any], typed: bool
    ) -> None:
        result, failure = None, None
        try:
            result = await value
            if typed and result is not None:
                result = plain_value(result, "returned")
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            failure = error
        self._tasks.pop((attempt.launch.task_id, attempt.launch.attempt), None)
        self._end(attempt, on_ended, started, result, failure)

    def _end(
        self,
        attempt: InlineAttempt,
        on_ended: Ended,
        started: float,
        value: Any,
        error: BaseException | None = None,
    ) -> None:
        launch = attempt.launch
        outcome = Outcome(launch.task_id, launch.attempt, error is None, 0, started, self._clock())
        reason = self._stop_reasons.pop((launch.task_id, launch.attempt), None) if self._stop_reasons else None
        if error is not None:
            self._fail(outcome, error, reason)
        else:
            if value is not None:
                outcome.output = value
            if attempt.context:
                outcome.context = attempt.context
        if not self._unreported:
            self._loop.call_soon(self._report_all, context=self._context)
        self._unreported.append((on_ended, outcome))

    def _fail(self, outcome: Outcome, error: BaseException, reason: StopReason | None) -> None:
        outcome.exit_code = None
        if reason is not None:
            outcome.stopped = reason
            outcome.error = f"stopped ({reason})"
            return
        from weft.executors.python_functions.failure import describe

        line, kind, message, traceback = describe(error)
        outcome.exit_code = 1
        outcome.error = line
        outcome.result = {"exitCode": 1, "error": {"type": kind, "message": message, "traceback": traceback}}

    def _report_all(self) -> None:
        unreported, self._unreported = self._unreported, []
        for on_ended, outcome in unreported:
            on_ended(outcome)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        key = (task_id, attempt)
        task = self._tasks.get(key)
        if task is None:
            return
        if key not in self._stop_reasons:
            self._loop.call_later(_CANCEL_AGAIN_S, self._cancel_again, key, task)
        self._stop_reasons[key] = reason
        task.cancel()

    def _cancel_again(self, key: tuple[int, int], task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            task.cancel()
            self._loop.call_later(_CANCEL_AGAIN_S, self._cancel_again, key, task)

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        return accepted

    def trust(self, until: float) -> None:
        """Inline functions run in the node itself: none can outlive it."""

    async def close(self) -> None:
        for _ in range(_CLOSE_ROUNDS_MAX):
            if not self._tasks:
                return
            for task in self._tasks.values():
                task.cancel()
            await asyncio.wait(self._tasks.values(), timeout=_CANCEL_AGAIN_S)


# An application's own async functions, with the rules of Python tasks: arguments are converted to their annotated
# types, and the result must have a JSON form.


def inline_functions(functions: Mapping[str, AsyncFunction] | Iterable[AsyncFunction]) -> dict[str, InlineFunction]:
    """By name: the mapping's, or the functions' own. Raises TypeError for a function that would block the loop."""
    out: dict[str, InlineFunction] = {}
    if isinstance(functions, Mapping):
        named = list(functions.items())
    else:
        named = [(getattr(function, "__name__", repr(function)), function) for function in functions]
    for name, function in named:
        function = inspect.unwrap(function) if callable(function) else function
        if not inspect.iscoroutinefunction(function):
            kind = "a plain function" if callable(function) else f"a {type(function).__name__}"
            raise TypeError(
                f"inline: {name} is {kind}, which would block the node's event loop while it runs;"
                " write async def, or leave it out of inline: a plain function runs in a runner process"
            )
        if name in out:
            raise TypeError(f"inline: two functions are named {name}; give them names: inline={{'{name}': …, …}}")
        out[name] = InlineCall(name, function)
    return out


class InlineCall:
    __slots__ = ("_function",)

    def __init__(self, name: str, function: AsyncFunction) -> None:
        self._function = Function(name, function)

    def __call__(self, launch: Launch) -> Coroutine[Any, Any, Any]:
        """The executor awaits it, and checks what it returns."""
        arguments = self._function.bind(launch.spec.get("with") or {})
        call: Coroutine[Any, Any, Any] = self._function.call(**arguments)
        return call
