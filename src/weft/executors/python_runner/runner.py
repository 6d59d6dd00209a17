"""A Python runner: a warm process that calls functions for a node, plain ones one at a time, async ones side by side.

The main thread runs the functions and, while there is none, reads the socket. A second thread, which sleeps while
nothing runs, does what cannot wait for a long function to return: it names and cuts output files, hands back what
waits behind the function, and passes a stop on to the main thread as a signal.

The runner is an attempt of the shell executor's: the spawner started it, and kills it and all below it when told to,
or when the node is gone. It imports little, so that it is there in a few hundredths of a second; asyncio, for one,
only with the first async function.
"""

import faulthandler
import marshal
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.executors import linux
from weft.executors.python.messages import (
    ANSWER,
    ASKED,
    CHANGED,
    FILES,
    GROWN,
    HELLO,
    KIND,
    LEAVING,
    LEFT_PROCESSES,
    OWN,
    QUIT,
    START,
    STOP,
    UNBEGUN,
    WORN,
    Mark,
)
from weft.executors.python_functions.attempt_context import IN_RUNNER, RunningAttempt, Stopped, current, plain
from weft.executors.python_functions.failure import Failure
from weft.executors.python_functions.json_values import encode_value
from weft.executors.python_functions.load import Function, load
from weft.executors.python_runner.call_result import CallResult, ended_message
from weft.executors.python_runner.once_questions import Questions
from weft.executors.python_runner.output_streams import NOTHING, CallFiles, OwnFiles, Routed
from weft.executors.python_runner.process_state import Directory, Environment, Sources, processes_left, resident_bytes
from weft.executors.spawner.messages import Message, Unframer, frame

if TYPE_CHECKING:
    from weft.executors.python_runner.async_functions import AsyncSide

STOP_SIGNAL = signal.SIGUSR2
_WATCH_S = 0.05
_LOOK_S = 0.05  # between looks at what changes slowly: memory, source files
_RECEIVE_BYTES = 1 << 16
_STOPPED_UNBEGUN: Failure = ("stopped before it started", "Stopped", "", "")


def main() -> None:
    """Started in the directory that heads sys.path, with its socket as standard input and the arguments TASKS_MAX
    GROWTH_MAX VALUE_MAX [own]."""
    tasks_max, growth_max, value_max = map(int, sys.argv[1:4])
    own = sys.argv[4:] == [OWN]
    sys.argv[1:] = []
    linux.become_subreaper()
    if own:
        linux.deny_inspection()  # it is about to get secrets, or runs as a user who may be others' as well
    faulthandler.enable()
    connection = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    mark = Mark(linux.nameless_memory())
    runner = Runner(connection, mark, tasks_max, growth_max, value_max, own)
    sys.path.insert(0, runner.root)
    IN_RUNNER.append(True)
    runner.send([(HELLO,)], [mark.fd])  # now that nothing can keep it from running what it is given
    runner.serve()


class Runner:
    def __init__(
        self, connection: socket.socket, mark: Mark, tasks_max: int, growth_max: int, value_max: int, own: bool
    ) -> None:
        self._connection = connection
        self._unframer = Unframer()
        self.lock = threading.Lock()  # over the queue, what is read and written, and which attempt runs
        self.queue: deque[Message] = deque()
        self.mark = mark
        self.value_max = value_max
        self._tasks_left = tasks_max
        self._rss_max = resident_bytes() + growth_max
        self._directory = Directory()
        self.root = self._directory.path
        self._environment = Environment()
        self._sources = Sources(self.root)
        self.own_files = OwnFiles() if own else None
        self._files = self.own_files or CallFiles(lambda fds: self.send([(FILES,)], fds))
        self._functions: dict[str, Function] = {}
        self._looked = self._weighed = 0.0
        self._current = 0  # the plain function's attempt
        self._stop_target = 0  # to be raised in, by the signal's handler
        self._stopped = False  # was raised in
        self._interruptible = False
        self.ended = False  # the node has closed its end
        self.leaving: str | None = None
        self.questions = Questions(self, connection.fileno())
        self._async: AsyncSide | None = None
        self.side_by_side = False  # the async side is at work, and reads the socket
        self._busy = threading.Event()
        self._out, self._err = Routed(0), Routed(1)
        sys.stdout, sys.stderr = self._out, self._err
        self.main_thread = threading.get_ident()
        signal.signal(STOP_SIGNAL, self._interrupt)
        threading.Thread(target=self._watch, name="weft-watch", daemon=True).start()

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN)
        while True:
            message = self._take()
            if message is not None:
                self._run(message)
            elif self.ended or (self.leaving is not None and self.leaving != LEFT_PROCESSES):
                return
            else:
                poll.poll()
                with self.lock:
                    self.receive()

    # The socket; the lock is held where nothing else is said

    def receive(self) -> None:
        try:
            data = self._connection.recv(_RECEIVE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.ended = True
            self.queue.clear()
            self.questions.give_up()
            return
        for message in self._unframer.feed(data):
            kind = message[0]
            if kind == START:
                self.queue.append(message)
            elif kind == STOP:
                self._stop(message[1])
            elif kind == ANSWER:
                self.questions.answered(message)
            elif kind == QUIT:
                self.leaving = self.leaving or ASKED
        if self.leaving is not None:
            self.hand_back()

    def send(self, messages: list[Message], fds: list[int] | None = None) -> None:
        """Blocks while the node reads nothing. A node that is gone has its spawner end us."""
        try:
            if fds:
                socket.send_fds(self._connection, [frame(messages)], fds)
            else:
                self._connection.sendall(frame(messages))
        except OSError:
            self.ended = True

    def hand_back(self) -> None:
        if self.queue:
            self.send([(UNBEGUN, [message[1] for message in self.queue])])
            self.queue.clear()

    def leave(self, why: str) -> None:
        """Take no more."""
        if self.leaving is None:
            self.leaving = why
            self.send([(LEAVING, why)])
        self.hand_back()

    def _take(self) -> Message | None:
        with self.lock:
            if not self.queue:
                return None
            if self.is_stale():
                self.leave(CHANGED)
                return None
            message = self.queue.popleft()
            self._current = message[1]
            return message

    def is_stale(self) -> bool:
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return False
        self._looked = now
        return self._sources.changed()

    def _stop(self, id: int) -> None:
        if self.side_by_side:
            assert self._async is not None
            self._async.cancel(id)
        if id == self._current:
            self._stop_target = id
            signal.pthread_kill(self.main_thread, STOP_SIGNAL)
            return
        for message in self.queue:
            if message[1] == id:
                self.queue.remove(message)
                result = CallResult(_STOPPED_UNBEGUN, stopped=True)
                self.send([ended_message(id, None, result, NOTHING, NOTHING, 0)])
                return

    # Plain functions

    def function(self, text: str) -> Function:
        function = self._functions.get(text)
        if function is None:
            function = self._functions[text] = load(text, self.root)
        return function

    def _run(self, message: Message) -> None:
        _, id, text, arguments, variables, directory, stem, cap = message
        started = linux.boottime()
        self.mark.set(id, started)
        if not self._busy.is_set():
            self._busy.set()
        attempt = RunningAttempt(id, variables, self.questions.ask)
        token = current.set(attempt)
        plain.append(attempt)
        out = err = NOTHING
        begun = False
        try:
            self._files.begin(directory, stem, cap)
            begun = True
            result = self._call(text, marshal.loads(arguments), variables, attempt)
        except OSError as error:
            result = CallResult((f"cannot make the output files: {error.strerror}", "OSError", str(error), ""))
        plain.clear()
        current.reset(token)
        self._put_back(result)
        try:
            if begun:
                out, err = self._files.end()
        except OSError as error:
            result.not_stored(error)
        if result.is_async:
            self._go_async(message)
            return
        with self.lock:
            self._current = 0
            left = processes_left()
            self.mark.clear()
            self.send([ended_message(id, started, result, out, err, left)])
            self.count(left)

    def _call(
        self, text: str, arguments: dict[str, Any], variables: dict[str, str], attempt: RunningAttempt
    ) -> CallResult:
        result = CallResult()
        self._stopped = False
        try:
            try:
                self._interruptible = True
                self._interrupt(0, None)  # a stop may have come just before
                self._environment.enter(variables)
                function = self.function(text)
                if function.is_async:
                    result.is_async = True
                else:
                    value = function.call(**function.bind(arguments))
                    if hasattr(value, "__await__"):
                        value = self._async_side().wait_for(value)
                    result.output = encode_value(value, self.value_max)
                    result.take_context(attempt)
            finally:
                self._interruptible = False
        except BaseException as error:
            # A stop may be raised at the very end of the inner block, before it took effect there.
            self._interruptible = False
            result.fail(error)
        result.stopped = self._stopped
        return result

    def _put_back(self, result: CallResult) -> None:
        sys.stdout, sys.stderr = self._out, self._err
        try:
            if result.failure is not None and result.failure[3] and not result.stopped:
                self._err.write(result.failure[3])
            self._out.flush()
            self._err.flush()
        except OSError as error:
            result.not_stored(error)
        self._environment.restore()
        self._directory.restore()

    def _interrupt(self, number: int, frame: Any) -> None:
        if self._interruptible and self._stop_target == self._current:
            self._stop_target = 0
            self._stopped = True
            raise Stopped("the attempt was cancelled, or its time is up")

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """A stop is raised after this, not within: it must not cut a message in two."""
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
    def stop_due(self) -> bool:
        """A stop waits to be raised in the plain function that asks this."""
        return self._stop_target == self._current != 0 and threading.get_ident() == self.main_thread

    def look_again(self) -> None:
        """The socket was read by somebody who does not work off the queue."""
        if self.side_by_side and self.queue and self._async is not None:
            self._async.look_again()

    def count(self, left: int) -> None:
        """After an attempt; the lock is held."""
        self._tasks_left -= 1
        if left:
            self.leave(LEFT_PROCESSES)
        elif self._tasks_left <= 0:
            self.leave(WORN)
        elif self._has_grown():
            self.leave(GROWN)

    def _has_grown(self) -> bool:
        now = time.monotonic()
        if now - self._weighed < _LOOK_S:
            return False
        self._weighed = now
        return resident_bytes() > self._rss_max

    # Async functions

    def _async_side(self) -> "AsyncSide":
        if self._async is None:
            from weft.executors.python_runner.async_functions import AsyncSide

            self._async = AsyncSide(self, self._connection.fileno())
        return self._async

    def _go_async(self, message: Message) -> None:
        # Side by side they can have no variables of their own; one that is alone here has its secrets in them.
        self._environment.enter({} if self.own_files is None else message[4])
        self._files.lead_home()
        side = self._async_side()
        with self.lock:
            self._current = 0
            self.side_by_side = True
            stopped = self._stop_target == message[1]
            self.send([(KIND, message[1], True)])
        side.run(message, stopped)
        with self.lock:
            self.side_by_side = False

    # The second thread

    def _watch(self) -> None:
        before = 0
        quiet = 0
        while True:
            self._busy.wait()
            time.sleep(_WATCH_S)
            with self.lock:
                now = self._current
                long = now != 0 and now == before
                before = now
                if long:
                    self.hand_back()
                    self._files.sweep()
                elif self.side_by_side:
                    assert self._async is not None
                    self._async.sweep()
                quiet = 0 if now or self.side_by_side else quiet + 1
                if quiet > 1:
                    self._busy.clear()
            if long:
                self._watch_socket()

    def _watch_socket(self) -> None:
        """A long function has the main thread: read for it what the node says meanwhile."""
        readable, _, _ = select.select([self._connection], [], [], _WATCH_S)
        with self.lock:
            # Whoever asks something reads for itself: taking the answer from under it would let it wait in vain.
            if readable and self._current and not self.ended and not self.questions.asking:
                self.receive()
                self.hand_back()
