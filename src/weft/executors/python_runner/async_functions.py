"""The runner's async side: up to a hundred async functions side by side on one event loop.

Each attempt is a task of the loop with a context of its own, from which print and logging find its files. Whoever
has the processor is written to the mark, tasks made by tasks included, so that a crash is blamed on its cause.
"""

import asyncio
import marshal
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from weft.executors import linux
from weft.executors.python.messages import CHANGED, KIND, Mark
from weft.executors.python_functions.attempt_context import RunningAttempt, current
from weft.executors.python_functions.json_values import encode_value
from weft.executors.python_runner.call_result import CallResult, ended_message
from weft.executors.python_runner.output_streams import NOTHING, AsyncFiles
from weft.executors.python_runner.process_state import processes_left
from weft.executors.spawner.messages import Message

if TYPE_CHECKING:
    from weft.executors.python_runner.runner import Runner


class _Marked(Coroutine[Any, Any, Any]):
    """A coroutine that is known by its attempt's id while it runs."""

    def __init__(self, inner: Coroutine[Any, Any, Any], mark: Mark, id: int) -> None:
        self._inner = inner
        self._mark = mark
        self._id = id

    def send(self, value: Any) -> Any:
        self._mark.switch(self._id)
        try:
            return self._inner.send(value)
        finally:
            self._mark.clear()

    def throw(self, *error: Any) -> Any:
        self._mark.switch(self._id)
        try:
            return self._inner.throw(*error)
        finally:
            self._mark.clear()

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()


class AsyncSide:
    def __init__(self, runner: "Runner", fd: int) -> None:
        self._runner = runner
        self._fd = fd
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(self._make_task)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._attempts: dict[int, RunningAttempt] = {}
        self._below: dict[int, list[asyncio.Task[Any]]] = {}  # tasks that an attempt's own task made
        self._stopped: dict[int, None] = {}
        self._outbox: list[Message] = []
        self._idle: asyncio.Future[None] | None = None

    def wait_for(self, value: Awaitable[Any]) -> Any:
        """What a plain function returned must be awaited: do it, alone."""

        async def wait() -> Any:
            return await value

        task = self._loop.create_task(wait())
        try:
            return self._loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # a stop, raised in the loop itself
                task.cancel()
                self._loop.run_until_complete(asyncio.wait([task]))
            raise

    def run(self, first: Message, stopped: bool) -> None:
        """Until there is nothing left that could run beside others. The lock is not held."""
        self._loop.add_reader(self._fd, self._receive)
        self._begin(first)
        if stopped:
            self.cancel(first[1])
        self._receive()
        try:
            while self._running:  # the last may end, and others begin, before the loop has stopped
                self._idle = self._loop.create_future()
                self._loop.run_until_complete(self._idle)
        finally:
            self._loop.remove_reader(self._fd)
            self._flush()

    def cancel(self, id: int) -> None:
        """By the main thread: either from _receive, or before the loop runs."""
        task = self._running.get(id)
        if task is not None:
            self._stopped[id] = None
            task.cancel()

    def sweep(self) -> None:
        for attempt in list(self._attempts.values()):
            if attempt.files is not None:
                attempt.files.sweep()

    def look_again(self) -> None:
        """Somebody else has read the socket, and may have left work in the queue."""
        self._loop.call_soon_threadsafe(self._receive)

    # On the loop

    def _receive(self) -> None:
        runner = self._runner
        with runner.lock:
            runner.receive()
            while runner.queue:
                if runner.is_stale():
                    runner.leave(CHANGED)
                    break
                if not self._begin(runner.queue[0]):
                    break
                runner.queue.popleft()
            if self._running:
                runner.hand_back()  # a plain function would have to wait for all that run now
        self._end_if_idle()

    def _begin(self, message: Message) -> bool:
        """False: it is a plain function, which waits until it can have the runner to itself."""
        _, id, text, arguments, variables, directory, stem, cap = message
        attempt = RunningAttempt(id, variables, self._runner.questions.ask)
        attempt.files = self._runner.own_files or AsyncFiles(directory, stem, cap)
        context = copy_context()
        context.run(current.set, attempt)
        try:
            if not context.run(self._runner.function, text).is_async:
                self._runner.send([(KIND, id, False)])
                return False
        except BaseException:
            pass  # the task itself finds out again, and reports it
        self._attempts[id] = attempt
        self._below[id] = []
        self._running[id] = self._loop.create_task(
            self._attempt(attempt, text, marshal.loads(arguments)), context=context
        )
        return True

    async def _attempt(self, attempt: RunningAttempt, text: str, arguments: dict[str, Any]) -> None:
        started = linux.boottime()
        result = CallResult()
        try:
            function = self._runner.function(text)
            value = await function.call(**function.bind(arguments))
            result.output = encode_value(value, self._runner.value_max)
            result.take_context(attempt)
        except BaseException as error:
            # SystemExit as well: it must not end the loop, and with it everybody else.
            result.fail(error)
        await self._end_below(attempt.id)
        result.stopped = attempt.id in self._stopped
        self._report(attempt, started, result)

    async def _end_below(self, id: int) -> None:
        """Nothing of an attempt goes on after it."""
        own = self._running[id]
        while left := [task for task in self._below[id] if task is not own and not task.done()]:
            for task in left:
                task.cancel()
            try:
                await asyncio.wait(left)
            except asyncio.CancelledError:
                continue

    def _report(self, attempt: RunningAttempt, started: float, result: CallResult) -> None:
        id = attempt.id
        out = err = NOTHING
        assert attempt.files is not None
        try:
            if result.failure is not None and result.failure[3] and not result.stopped:
                attempt.files.text(1).write(result.failure[3])
            out, err = attempt.files.end()
        except OSError as error:
            result.not_stored(error)
        del self._running[id], self._attempts[id], self._below[id]
        self._stopped.pop(id, None)
        with self._runner.lock:
            # With others still running nobody can tell whose a process is: the last one to end finds out.
            left = processes_left() if not self._running else 0
            self._outbox.append(ended_message(id, started, result, out, err, left))
            if len(self._outbox) == 1:
                self._loop.call_soon(self._flush)
            if left:
                self._flush_locked()
            self._runner.count(left)
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

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, inner: Any, *, context: Context | None = None, **more: Any
    ) -> "asyncio.Task[Any]":
        attempt = context.get(current) if context is not None else current.get()
        if attempt is None or attempt.files is None:
            return asyncio.Task(inner, loop=loop, context=context, **more)
        task: asyncio.Task[Any] = asyncio.Task(
            _Marked(inner, self._runner.mark, attempt.id), loop=loop, context=context, **more
        )
        below = self._below.get(attempt.id)
        if below is not None:
            below.append(task)
            if len(below) % 1000 == 0:
                below[:] = [task for task in below if not task.done()]
        return task
