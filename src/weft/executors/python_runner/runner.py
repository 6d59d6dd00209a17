"""A Python runner: a warm process that calls functions for a node, plain ones one at a time, async ones concurrently.

The main thread runs the functions and, while there is none, reads the socket. A second thread, the watcher, sleeps
while no function runs. During a long function it does the work that cannot wait for it to return: it sweeps the
output files, returns the calls that are queued behind the function, and passes a stop on to the main thread as a
signal.

The runner is an attempt of the shell executor: a spawner started it, and kills it and all its descendants on request,
or when the node is gone. It imports little, so that it starts in a few hundredths of a second; asyncio, for example,
only with the first async function.
"""

import _socket  # `socket` itself would add 3 ms to the 40 that a runner takes to start
import faulthandler
import marshal
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.executors import linux
from weft.executors.framing import AnyMessage, FrameReader
from weft.executors.python.active_call import ActiveCall
from weft.executors.python.messages import (
    DEDICATED,
    TYPES,
    CallsReturned,
    FunctionKind,
    OnceResponse,
    OutputOpened,
    RetireReason,
    RetireRunner,
    RunnerReady,
    RunnerRetiring,
    StartCall,
    StopCall,
)
from weft.executors.python_functions.attempt_context import IN_RUNNER, RunningAttempt, Stopped, current, plain
from weft.executors.python_functions.failure import Failure
from weft.executors.python_functions.json_values import encode_value
from weft.executors.python_functions.load import Function, load
from weft.executors.python_runner.call_result import NO_OUTPUT, CallResult
from weft.executors.python_runner.once_questions import OnceQuestions
from weft.executors.python_runner.output_streams import DedicatedOutput, PlainCallOutput, RoutedStream
from weft.executors.python_runner.process_state import (
    Environment,
    ModuleFiles,
    WorkingDirectory,
    processes_left,
    resident_bytes,
)

if TYPE_CHECKING:
    from weft.executors.python_runner.async_functions import AsyncFunctions

STOP_SIGNAL = signal.SIGUSR2
_WATCH_S = 0.05
_CHECK_S = 0.05  # between checks of memory and source files, which change slowly
_RECEIVE_BYTES = 1 << 16
_INT_BYTES = 4
_STOPPED_EARLY: Failure = ("stopped before it started", "Stopped", "", "")


def main() -> None:
    """Started in the directory that heads sys.path, with its socket as standard input and the arguments TASKS_MAX
    GROWTH_MAX VALUE_MAX [dedicated]."""
    tasks_max, growth_max, value_max = map(int, sys.argv[1:4])
    dedicated = sys.argv[4:] == [DEDICATED]
    sys.argv[1:] = []
    linux.become_subreaper()
    if dedicated:
        linux.deny_inspection()  # it is about to get secrets, or runs as a user who may have other processes
    faulthandler.enable()
    connection = _socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    active = ActiveCall(linux.nameless_memory())
    runner = Runner(connection, active, tasks_max, growth_max, value_max, dedicated)
    sys.path.insert(0, runner.root)
    IN_RUNNER.append(True)
    runner.send([RunnerReady()], [active.fd])  # last: from now on every call can run
    runner.serve()


class Runner:
    def __init__(
        self,
        connection: _socket.socket,
        active: ActiveCall,
        tasks_max: int,
        growth_max: int,
        value_max: int,
        dedicated: bool,
    ) -> None:
        self._connection = connection
        self._frames = FrameReader(TYPES)
        self.lock = threading.Lock()  # guards the queue, the socket, and which attempt runs
        self.queue: deque[StartCall] = deque()
        self.active = active
        self.value_max = value_max
        self._calls_left = tasks_max
        self._rss_max = resident_bytes() + growth_max
        self._directory = WorkingDirectory()
        self.root = self._directory.path
        self._environment = Environment()
        self._module_files = ModuleFiles(self.root)
        self.dedicated_output = DedicatedOutput() if dedicated else None
        self._output = self.dedicated_output or PlainCallOutput(lambda fds: self.send([OutputOpened()], fds))
        self._functions: dict[str, Function] = {}
        self._source_checked = self._memory_checked = 0.0
        self._current = 0  # the id of the running plain function's attempt
        self._stop_target = 0  # the id of the attempt in which the signal handler must raise Stopped
        self._stopped = False  # Stopped was raised in the running plain function
        self._interruptible = False
        self.ended = False  # the node has closed its end
        self.retiring: RetireReason | None = None
        self.once_questions = OnceQuestions(self, connection.fileno())
        self._async: AsyncFunctions | None = None
        self.async_active = False  # async functions run, and their loop reads the socket
        self._busy = threading.Event()
        self._stdout, self._stderr = RoutedStream(0), RoutedStream(1)
        sys.stdout, sys.stderr = self._stdout, self._stderr
        self.main_thread = threading.get_ident()
        signal.signal(STOP_SIGNAL, self._interrupt)
        threading.Thread(target=self._watch, name="weft-watch", daemon=True).start()

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN)
        while True:
            call = self._next_call()
            if call is not None:
                self._run(call)
            elif self.ended or (self.retiring is not None and self.retiring != "left processes"):
                return
            else:
                poll.poll()
                with self.lock:
                    self.receive()

    # The socket. The caller holds the lock, except where stated

    def receive(self) -> None:
        try:
            data = self._connection.recv(_RECEIVE_BYTES, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.ended = True
            self.queue.clear()
            self.once_questions.abandon()
            return
        for message in self._frames.feed(data):
            kind = type(message)
            if kind is StartCall:
                self.queue.append(message)
            elif kind is StopCall:
                self._stop(message.id)
            elif kind is OnceResponse:
                self.once_questions.answered(message)
            elif kind is RetireRunner:
                self.retiring = self.retiring or "requested"
        if self.retiring is not None:
            self.return_queued()

    def send(self, messages: Sequence[AnyMessage], fds: list[int] | None = None) -> None:
        """Blocks while the node does not read. If the node is gone, the spawner kills this process."""
        try:
            if fds:
                rights = b"".join(fd.to_bytes(_INT_BYTES, sys.byteorder) for fd in fds)
                ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)]
                self._connection.sendmsg([TYPES.frame(messages)], ancillary)
            else:
                self._connection.sendall(TYPES.frame(messages))
        except OSError:
            self.ended = True

    def return_queued(self) -> None:
        if self.queue:
            self.send([CallsReturned([call.id for call in self.queue])])
            self.queue.clear()

    def retire(self, reason: RetireReason) -> None:
        """Accept no more calls."""
        if self.retiring is None:
            self.retiring = reason
            self.send([RunnerRetiring(reason)])
        self.return_queued()

    def _next_call(self) -> StartCall | None:
        """The caller does not hold the lock."""
        with self.lock:
            if not self.queue:
                return None
            if self.source_changed():
                self.retire("source changed")
                return None
            call = self.queue.popleft()
            self._current = call.id
            return call

    def source_changed(self) -> bool:
        now = time.monotonic()
        if now - self._source_checked < _CHECK_S:
            return False
        self._source_checked = now
        return self._module_files.changed()

    def _stop(self, id: int) -> None:
        if self.async_active:
            assert self._async is not None
            self._async.cancel(id)
        if id == self._current:
            self._stop_target = id
            signal.pthread_kill(self.main_thread, STOP_SIGNAL)
            return
        for call in self.queue:
            if call.id == id:
                self.queue.remove(call)
                result = CallResult(_STOPPED_EARLY, stopped=True)
                self.send([result.ended(id, None, NO_OUTPUT, 0)])
                return

    # Plain functions

    def function(self, name: str) -> Function:
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = load(name, self.root)
        return function

    def _run(self, call: StartCall) -> None:
        started = linux.boottime()
        self.active.set(call.id, started)
        if not self._busy.is_set():
            self._busy.set()
        attempt = RunningAttempt(call.id, call.variables, self.once_questions.ask)
        token = current.set(attempt)
        plain.append(attempt)
        written = NO_OUTPUT
        output_started = False
        try:
            self._output.start(call.output_dir, call.file_stem, call.output_max)
            output_started = True
            result = self._call(call, attempt)
        except OSError as error:
            result = CallResult((f"cannot create the output files: {error.strerror}", "OSError", str(error), ""))
        plain.clear()
        current.reset(token)
        self._restore_process(result)
        try:
            if output_started:
                written = self._output.end()
        except OSError as error:
            result.fail_output(error)
        if result.is_async:
            self._run_async(call)
            return
        with self.lock:
            self._current = 0
            left = processes_left()
            self.active.clear()
            self.send([result.ended(call.id, started, written, left)])
            self.count_call(left)

    def _call(self, call: StartCall, attempt: RunningAttempt) -> CallResult:
        arguments: dict[str, Any] = marshal.loads(call.arguments)
        result = CallResult()
        self._stopped = False
        try:
            try:
                self._interruptible = True
                self._interrupt(0, None)  # a stop may have arrived just before
                self._environment.enter(call.variables)
                if call.start_in is not None:
                    os.chdir(call.start_in)  # it is left again after the call
                function = self.function(call.function)
                if function.is_async:
                    result.is_async = True
                else:
                    value = function.call(**function.bind(arguments))
                    if hasattr(value, "__await__"):
                        value = self._async_functions().wait_for(value)
                    result.output = encode_value(value, self.value_max)
                    result.take_context(attempt)
            finally:
                self._interruptible = False
        except BaseException as error:
            # A stop may be raised at the very end of the inner block, before `finally` took effect.
            self._interruptible = False
            result.fail(error)
        result.stopped = self._stopped
        return result

    def _restore_process(self, result: CallResult) -> None:
        """Undo what the function changed in this process, and write its traceback to stderr if it failed."""
        sys.stdout, sys.stderr = self._stdout, self._stderr
        try:
            if result.failure is not None and result.failure[3] and not result.stopped:
                self._stderr.write(result.failure[3])
            self._stdout.flush()
            self._stderr.flush()
        except OSError as error:
            result.fail_output(error)
        self._environment.restore()
        self._directory.restore()

    def _interrupt(self, number: int, frame: Any) -> None:
        if self._interruptible and self._stop_target == self._current:
            self._stop_target = 0
            self._stopped = True
            raise Stopped("the attempt was cancelled, or has timed out")

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Postpone a stop until after this block: it must not cut a message in two."""
        if threading.get_ident() != self.main_thread or not self._interruptible:
            yield
            return
        self._interruptible = False
        try:
            yield
        finally:
            self._interruptible = True
        self._interrupt(0, None)

    @property
    def stop_pending(self) -> bool:
        """A stop is about to be raised in the plain function that calls this."""
        return self._stop_target == self._current != 0 and threading.get_ident() == self.main_thread

    def recheck_queue(self) -> None:
        """The socket was read by a thread that does not run the queued calls."""
        if self.async_active and self.queue and self._async is not None:
            self._async.recheck_queue()

    def count_call(self, left: int) -> None:
        """After each call, with the number of processes that it left; the caller holds the lock."""
        self._calls_left -= 1
        if left:
            self.retire("left processes")
        elif self._calls_left <= 0:
            self.retire("tasks_max")
        elif self._has_grown():
            self.retire("growth_max")

    def _has_grown(self) -> bool:
        now = time.monotonic()
        if now - self._memory_checked < _CHECK_S:
            return False
        self._memory_checked = now
        return resident_bytes() > self._rss_max

    # Async functions

    def _async_functions(self) -> "AsyncFunctions":
        if self._async is None:
            from weft.executors.python_runner.async_functions import AsyncFunctions

            self._async = AsyncFunctions(self, self._connection.fileno())
        return self._async

    def _run_async(self, call: StartCall) -> None:
        """Run this call and further async calls, until none is running."""
        # Concurrent functions cannot have their own os.environ; in a dedicated runner it holds the attempt's secrets.
        self._environment.enter({} if self.dedicated_output is None else call.variables)
        self._output.use_runner_output()
        functions = self._async_functions()
        with self.lock:
            self._current = 0
            self.async_active = True
            stopped = self._stop_target == call.id
            self.send([FunctionKind(call.id, True)])
        functions.run(call, stopped)
        with self.lock:
            self.async_active = False

    # The watcher thread

    def _watch(self) -> None:
        before = 0
        idle_rounds = 0
        while True:
            self._busy.wait()
            time.sleep(_WATCH_S)
            with self.lock:
                now = self._current
                is_long = now != 0 and now == before
                before = now
                if is_long:
                    self.return_queued()
                    self._output.sweep()
                elif self.async_active:
                    assert self._async is not None
                    self._async.sweep()
                idle_rounds = 0 if now or self.async_active else idle_rounds + 1
                if idle_rounds > 1:
                    self._busy.clear()
            if is_long:
                self._watch_socket()

    def _watch_socket(self) -> None:
        """Read messages from the node while a long function occupies the main thread."""
        readable, _, _ = select.select([self._connection], [], [], _WATCH_S)
        with self.lock:
            # A thread that asks a question reads the socket itself: it would wait in vain for an answer read here.
            if readable and self._current and not self.ended and not self.once_questions.pending:
                self.receive()
                self.return_queued()
