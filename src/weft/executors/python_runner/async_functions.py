"""Runs async functions in a runner: up to a hundred concurrently on one event loop.

Each attempt is a task of the loop with a context of its own, in which print and logging find its files. While a task
runs, its attempt's id is in ActiveCall, tasks that a task created included, so that a crash is attributed to the
attempt that caused it.
"""

import asyncio
import marshal
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from weft.executors import linux
from weft.executors.framing import AnyMessage
from weft.executors.python.active_call import ActiveCall
from weft.executors.python.messages import FunctionKind, StartCall
from weft.executors.python_functions.attempt_context import RunningAttempt, current
from weft.executors.python_functions.json_values import encode_value
from weft.executors.python_runner.call_result import NO_OUTPUT, CallResult
from weft.executors.python_runner.output_streams import AsyncCallOutput
from weft.executors.python_runner.process_state import processes_left

if TYPE_CHECKING:
    from weft.executors.python_runner.runner import Runner

_PRUNE_EVERY = 1000  # child tasks of an attempt, after which finished ones are dropped from the list


class _ActiveCoroutine(Coroutine[Any, Any, Any]):
    """A coroutine whose attempt is the active call while it runs."""

    def __init__(self, inner: Coroutine[Any, Any, Any], active: ActiveCall, id: int) -> None:
        self._inner = inner
        self._active = active
        self._id = id

    def send(self, value: Any) -> Any:
        self._active.switch(self._id)
        try:
            return self._inner.send(value)
        finally:
            self._active.clear()

    def throw(self, *error: Any) -> Any:
        self._active.switch(self._id)
        try:
            return self._inner.throw(*error)
        finally:
            self._active.clear()

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()


class AsyncFunctions:
    def __init__(self, runner: "Runner", fd: int) -> None:
        self._runner = runner
        self._fd = fd
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(self._create_task)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._attempts: dict[int, RunningAttempt] = {}
        self._child_tasks: dict[int, list[asyncio.Task[Any]]] = {}  # tasks that an attempt's own tasks created
        self._stopped: dict[int, None] = {}
        self._outbox: list[AnyMessage] = []
        self._idle: asyncio.Future[None] | None = None

    def wait_for(self, value: Awaitable[Any]) -> Any:
        """Await a value that a plain function returned, while nothing else runs."""

        async def wait() -> Any:
            return await value

        task = self._loop.create_task(wait())
        try:
            return self._loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # a stop was raised in the loop itself
                task.cancel()
                self._loop.run_until_complete(asyncio.wait([task]))
            raise

    def run(self, first: StartCall, stopped: bool) -> None:
        """Run this call and all further async calls, until none is running. The caller does not hold the lock."""
        self._loop.add_reader(self._fd, self._receive)
        self._start(first)
        if stopped:
            self.cancel(first.id)
        self._receive()
        try:
            while self._running:  # the last may end, and others start, before the loop has stopped
                self._idle = self._loop.create_future()
                self._loop.run_until_complete(self._idle)
        finally:
            self._loop.remove_reader(self._fd)
            self._flush()

    def cancel(self, id: int) -> None:
        """On the main thread: either from _receive, or before the loop runs."""
        task = self._running.get(id)
        if task is not None:
            self._stopped[id] = None
            task.cancel()

    def sweep(self) -> None:
        for attempt in list(self._attempts.values()):
            if attempt.output is not None:
                attempt.output.sweep()

    def recheck_queue(self) -> None:
        """Another thread has read the socket, and may have queued calls."""
        self._loop.call_soon_threadsafe(self._receive)

    # On the loop

    def _receive(self) -> None:
        runner = self._runner
        with runner.lock:
            runner.receive()
            while runner.queue:
                if runner.source_changed():
                    runner.retire("source changed")
                    break
                if not self._start(runner.queue[0]):
                    break
                runner.queue.popleft()
            if self._running:
                runner.return_queued()  # a plain function would have to wait for all running calls
        self._end_if_idle()

    def _start(self, call: StartCall) -> bool:
        """False: it is a plain function, which waits until it can have the runner to itself."""
        attempt = RunningAttempt(call.id, call.variables, self._runner.once_questions.ask)
        attempt.output = self._runner.dedicated_output or AsyncCallOutput(
            call.output_dir, call.file_stem, call.output_max
        )
        context = copy_context()
        context.run(current.set, attempt)
        try:
            if not context.run(self._runner.function, call.function).is_async:
                self._runner.send([FunctionKind(call.id, False)])
                return False
        except BaseException:
            pass  # the task itself raises it again, and reports it
        self._attempts[call.id] = attempt
        self._child_tasks[call.id] = []
        # Within the context, and not with `context=`, which Python 3.10 does not have.
        self._running[call.id] = context.run(
            self._loop.create_task, self._run(attempt, call.function, marshal.loads(call.arguments))
        )
        return True

    async def _run(self, attempt: RunningAttempt, name: str, arguments: dict[str, Any]) -> None:
        started = linux.boottime()
        result = CallResult()
        try:
            function = self._runner.function(name)
            value = await function.call(**function.bind(arguments))
            result.output = encode_value(value, self._runner.value_max)
            result.take_context(attempt)
        except BaseException as error:
            # SystemExit as well: it must not end the loop, and with it all other calls.
            result.fail(error)
        await self._cancel_child_tasks(attempt.id)
        result.stopped = attempt.id in self._stopped
        self._report(attempt, started, result)

    async def _cancel_child_tasks(self, id: int) -> None:
        """No task of an attempt may outlive it."""
        own = self._running[id]
        while unfinished := [task for task in self._child_tasks[id] if task is not own and not task.done()]:
            for task in unfinished:
                task.cancel()
            try:
                await asyncio.wait(unfinished)
            except asyncio.CancelledError:
                continue

    def _report(self, attempt: RunningAttempt, started: float, result: CallResult) -> None:
        id = attempt.id
        written = NO_OUTPUT
        assert attempt.output is not None
        try:
            if result.failure is not None and result.failure[3] and not result.stopped:
                attempt.output.writer(1).write(result.failure[3])
            written = attempt.output.end()
        except OSError as error:
            result.fail_output(error)
        del self._running[id], self._attempts[id], self._child_tasks[id]
        self._stopped.pop(id, None)
        with self._runner.lock:
            # A child process could belong to any running call: they are counted when the last one ends.
            left = processes_left() if not self._running else 0
            self._outbox.append(result.ended(id, started, written, left))
            if len(self._outbox) == 1:
                self._loop.call_soon(self._flush)
            if left:
                self._flush_locked()
            self._runner.count_call(left)
        self._end_if_idle()

    def _flush(self) -> None:
        with self._runner.lock:
            self._flush_locked()

    def _flush_locked(self) -> None:
        if self._outbox:
            outbox, self._outbox = self._outbox, []
            self._runner.send(outbox)

    def _end_if_idle(self) -> None:
        if not self._running and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _create_task(
        self, loop: asyncio.AbstractEventLoop, inner: Any, *, context: Context | None = None, **options: Any
    ) -> "asyncio.Task[Any]":
        attempt = context.get(current) if context is not None else current.get()
        if context is not None:
            options["context"] = context
        if attempt is None or attempt.output is None:
            return asyncio.Task(inner, loop=loop, **options)
        task: asyncio.Task[Any] = asyncio.Task(
            _ActiveCoroutine(inner, self._runner.active, attempt.id), loop=loop, **options
        )
        child_tasks = self._child_tasks.get(attempt.id)
        if child_tasks is not None:
            child_tasks.append(task)
            if len(child_tasks) % _PRUNE_EVERY == 0:
                child_tasks[:] = [task for task in child_tasks if not task.done()]
        return task
