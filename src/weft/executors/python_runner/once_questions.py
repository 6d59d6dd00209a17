"""Sends the questions of weft.once to the node, and waits for the answers.

A plain function occupies the main thread, so the thread that asks reads the socket itself until the answer has
arrived. While async functions run, their event loop reads the socket, and the thread that asks only waits.
"""

import select
import threading
from typing import TYPE_CHECKING, Literal

from weft.executors.python.messages import OnceRequest, OnceResponse

if TYPE_CHECKING:
    from weft.executors.python_runner.runner import Runner

_RECHECK_S = 0.02  # another thread that asks may have read our answer

#: (status, value), as in protocol.OnceAnswer.
Answered = tuple[str, str | None]


class OnceQuestions:
    def __init__(self, runner: "Runner", fd: int) -> None:
        self._runner = runner
        self._fd = fd
        self._last = 0
        self._waiting: dict[int, threading.Event] = {}
        self._answers: dict[int, Answered] = {}

    @property
    def pending(self) -> bool:
        return bool(self._waiting)

    def ask(
        self, id: int, key: str, ending: Literal["completed", "failed"] | None, value: str | None, take_over: bool
    ) -> Answered:
        """From any thread; blocks until the store has answered. A stop is raised before an effect starts, but not
        while its end is being stored."""
        runner = self._runner
        event = threading.Event()
        with runner.uninterrupted():
            with runner.lock:
                self._last = number = self._last + 1
                self._waiting[number] = event
                runner.send([OnceRequest(id, number, key, ending, value, take_over)])
            while not (event.is_set() or runner.ended or (ending is None and runner.stop_pending)):
                self._wait(event)
            with runner.lock:
                del self._waiting[number]
                answer = self._answers.pop(number, ("stale", "the node is gone"))
                runner.recheck_queue()
        return answer

    def _wait(self, event: threading.Event) -> None:
        runner = self._runner
        if runner.async_active and threading.get_ident() != runner.main_thread:
            event.wait(_RECHECK_S)
            return
        readable, _, _ = select.select([self._fd], [], [], _RECHECK_S)
        if readable:
            with runner.lock:
                runner.receive()

    def answered(self, reply: OnceResponse) -> None:
        """The caller holds the runner's lock."""
        event = self._waiting.get(reply.number)
        if event is not None:
            self._answers[reply.number] = (reply.status, reply.value)
            event.set()

    def abandon(self) -> None:
        """Wake all waiting threads: the node is gone, and no answer will arrive."""
        for event in self._waiting.values():
            event.set()
