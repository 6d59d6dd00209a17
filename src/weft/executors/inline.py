"""Runs functions on the node's own event loop: for embedding, and to measure the engine without processes."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from weft.executors.protocol import Ended, Launch, Outcome, Question, StopReason
from weft.executors.python_context import RunningAttempt, current, inline_threads

#: A plain function returns its output; an async one is awaited.
InlineFunction = Callable[[Launch], Any]


class InlineAttempt(RunningAttempt):
    """What weft.once, weft.current and weft.context_update find in an async inline function."""

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
        self._thread = threading.get_ident()

    def start(self, launch: Launch, ended: Ended) -> None:
        started = self._clock()
        function = self._functions.get(launch.spec["inline"])
        if function is None:
            error = f"this node knows no inline function {launch.spec['inline']!r}"
            self._tell(ended, Outcome(launch.task_id, launch.attempt, False, None, None, started, error))
            return
        inline_threads[self._thread] = None
        try:
            value = function(launch)
        except Exception as error:
            self._end(launch, ended, started, error=error)
            return
        finally:
            del inline_threads[self._thread]
        if asyncio.iscoroutine(value):
            key = (launch.task_id, launch.attempt)
            self._tasks[key] = self._loop.create_task(self._await(launch, ended, started, value))
        else:
            self._end(launch, ended, started, value=value)

    async def _await(self, launch: Launch, ended: Ended, started: float, value: Awaitable[Any]) -> None:
        key = (launch.task_id, launch.attempt)
        attempt = InlineAttempt(launch)
        current.set(attempt)  # of this task of the loop alone
        try:
            result = await value
        except asyncio.CancelledError as cancelled:
            self._end(launch, ended, started, error=cancelled)
        except Exception as error:
            self._end(launch, ended, started, error=error)
        else:
            self._end(launch, ended, started, value=result, context=attempt.context)
        finally:
            self._tasks.pop(key, None)

    def _end(
        self,
        launch: Launch,
        ended: Ended,
        started: float,
        *,
        value: Any = None,
        error: BaseException | None = None,
        context: dict[str, Any] | None = None,
    ) -> None:
        outcome = Outcome(launch.task_id, launch.attempt, error is None, None, started, self._clock())
        if error is not None:
            outcome.stopped = self._reasons.pop((launch.task_id, launch.attempt), None)
            outcome.error = f"{type(error).__name__}: {error}"
        elif value is not None:
            outcome.output = value
        if context:
            outcome.context = context
        self._tell(ended, outcome)

    def _tell(self, ended: Ended, outcome: Outcome) -> None:
        if not self._over:
            self._loop.call_soon(self._tell_all)
        self._over.append((ended, outcome))

    def _tell_all(self) -> None:
        over, self._over = self._over, []
        for ended, outcome in over:
            ended(outcome)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        task = self._tasks.get((task_id, attempt))
        if task is not None:
            self._reasons[(task_id, attempt)] = reason
            task.cancel()

    def trust(self, until: float) -> None:
        """Runs in the node itself: there is nothing that could outlive it."""

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
