"""Runs functions on the node's own event loop: for applications that embed Weft, and to measure the engine alone.

Nothing can end a coroutine but itself: a stop cancels it, and cancels it again every second should it not heed that.
One that blocks the loop blocks its node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from weft.executors.protocol import Ended, Launch, Outcome, Question, StopReason
from weft.executors.python_functions.attempt_context import RunningAttempt, current

#: A plain function returns its output; an async one is awaited.
InlineFunction = Callable[[Launch], Any]

_INSIST_S = 1.0
_CLOSING_ROUNDS = 5


class InlineAttempt(RunningAttempt):
    """What weft.once, weft.current and weft.context_update find in an inline function."""

    __slots__ = ("launch",)

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch.attempt, launch.env)
        self.launch = launch

    async def ask_async(self, key: str, ending: Any, value: str | None, take_over: bool) -> tuple[str, str | None]:
        launch = self.launch
        if launch.ask is None:
            return "stale", "nobody here can answer"
        answer = await launch.ask(launch.task_id, launch.attempt, Question(key, ending, value, take_over))
        return answer.status, answer.value


class InlineExecutor:
    kinds = frozenset({"inline"})

    def __init__(self, functions: Mapping[str, InlineFunction], clock: Callable[[], float]) -> None:
        self._functions = functions
        self._clock = clock
        self._tasks: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._reasons: dict[tuple[int, int], StopReason] = {}
        self._over: list[tuple[Ended, Outcome]] = []  # told together, in the loop's next round

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    def start(self, launch: Launch, ended: Ended) -> None:
        started = self._clock()
        function = self._functions.get(launch.spec["inline"])
        if function is None:
            error = f"this node knows no inline function {launch.spec['inline']!r}"
            self._tell(ended, Outcome(launch.task_id, launch.attempt, False, None, None, started, error))
            return
        attempt = InlineAttempt(launch)
        token = current.set(attempt)
        try:
            value = function(launch)
            if asyncio.iscoroutine(value):
                key = (launch.task_id, launch.attempt)
                self._tasks[key] = self._loop.create_task(self._await(attempt, ended, started, value))
                return
        except Exception as error:
            self._end(attempt, ended, started, error=error)
            return
        finally:
            current.reset(token)
        self._end(attempt, ended, started, value=value)

    async def _await(self, attempt: InlineAttempt, ended: Ended, started: float, value: Awaitable[Any]) -> None:
        result, failure = None, None
        try:
            result = await value
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            failure = error
        self._tasks.pop((attempt.launch.task_id, attempt.launch.attempt), None)
        self._end(attempt, ended, started, value=result, error=failure)

    def _end(
        self,
        attempt: InlineAttempt,
        ended: Ended,
        started: float,
        *,
        value: Any = None,
        error: BaseException | None = None,
    ) -> None:
        launch = attempt.launch
        outcome = Outcome(launch.task_id, launch.attempt, error is None, None, started, self._clock())
        reason = self._reasons.pop((launch.task_id, launch.attempt), None) if self._reasons else None
        if error is not None:
            self._fail(outcome, error, reason)
        else:
            outcome.exit_code = 0
            if value is not None:
                outcome.output = value
            if attempt.context:
                outcome.context = attempt.context
        self._tell(ended, outcome)

    def _fail(self, outcome: Outcome, error: BaseException, reason: StopReason | None) -> None:
        if reason is not None:
            outcome.stopped = reason
            outcome.error = f"stopped ({reason})"
            return
        from weft.executors.python_functions.failure import describe

        line, kind, message, traceback = describe(error)
        outcome.exit_code = 1
        outcome.error = line
        outcome.result = {"exitCode": 1, "error": {"type": kind, "message": message, "traceback": traceback}}

    def _tell(self, ended: Ended, outcome: Outcome) -> None:
        if not self._over:
            self._loop.call_soon(self._tell_all)
        self._over.append((ended, outcome))

    def _tell_all(self) -> None:
        over, self._over = self._over, []
        for ended, outcome in over:
            ended(outcome)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        key = (task_id, attempt)
        task = self._tasks.get(key)
        if task is None:
            return
        if key not in self._reasons:
            self._loop.call_later(_INSIST_S, self._insist, key, task)
        self._reasons[key] = reason
        task.cancel()

    def _insist(self, key: tuple[int, int], task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            task.cancel()
            self._loop.call_later(_INSIST_S, self._insist, key, task)

    def trust(self, until: float) -> None:
        """Runs in the node itself: there is nothing that could outlive it."""

    async def close(self) -> None:
        for _ in range(_CLOSING_ROUNDS):
            if not self._tasks:
                return
            for task in self._tasks.values():
                task.cancel()
            await asyncio.wait(self._tasks.values(), timeout=_INSIST_S)
