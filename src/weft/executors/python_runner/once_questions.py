"""What functions ask of their node while they run, for weft.once: a question goes out, its answer comes back.

A plain function has the main thread, so whoever asks reads the socket for itself until the answer is there. While
async functions run side by side their loop reads, and a thread of theirs only waits.
"""

import select
import threading
from typing import TYPE_CHECKING

from weft.executors.python.messages import ASK
from weft.executors.spawner.messages import Message

if TYPE_CHECKING:
    from weft.executors.python_runner.runner import Runner

_LOOK_S = 0.02  # another thread that asks may have read our answer

#: (status, value), as in protocol.Answer.
Answered = tuple[str, str | None]


class Questions:
    def __init__(self, runner: "Runner", fd: int) -> None:
        self._runner = runner
        self._fd = fd
        self._last = 0
        self._waiting: dict[int, threading.Event] = {}
        self._answers: dict[int, Answered] = {}

    @property
    def asking(self) -> bool:
        return bool(self._waiting)

    def ask(self, id: int, key: str, ending: str | None, value: str | None, take_over: bool) -> Answered:
        """From any thread; blocks until the store has answered. A stop is raised before an effect begins, but not
        while its end is being stored."""
        runner = self._runner
        event = threading.Event()
        with runner.uninterrupted():
            with runner.lock:
                self._last = number = self._last + 1
                self._waiting[number] = event
                runner.send([(ASK, id, number, key, ending, value, take_over)])
            while not (event.is_set() or runner.ended or (ending is None and runner.stop_due)):
                self._wait(event)
            with runner.lock:
                del self._waiting[number]
                answer = self._answers.pop(number, ("stale", "its node is gone"))
                runner.look_again()
        return answer

    def _wait(self, event: threading.Event) -> None:
        runner = self._runner
        if runner.side_by_side and threading.get_ident() != runner.main_thread:
            event.wait(_LOOK_S)
            return
        readable, _, _ = select.select([self._fd], [], [], _LOOK_S)
        if readable:
            with runner.lock:
                runner.receive()

    def answered(self, message: Message) -> None:
        """The runner's lock is held."""
        _, number, status, value = message
        event = self._waiting.get(number)
        if event is not None:
            self._answers[number] = (status, value)
            event.set()

    def give_up(self) -> None:
        """The node is gone: nobody will answer."""
        for event in self._waiting.values():
            event.set()
