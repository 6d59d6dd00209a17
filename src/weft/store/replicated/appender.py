"""Puts this process's commands into the log: one entry at a time, and commands that come meanwhile gather for the
next.

An append whose outcome is not known is made again, with the same number: replicas apply a number once.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from weft.store.etcd.log import LogFull, LogSilent
from weft.store.protocol import StoreBusy, StoreError, StoreFull, StoreUnusable
from weft.store.replicated.entry import Entry, Sent, values_of

COMMANDS_MAX = 1000  # of one entry
BYTES_MAX = 4_000_000  # of its commands, unless a single one is larger
RETRY_S = 0.02


class Log(Protocol):
    """A total order of values that survives the loss of any minority of machines."""

    name: str

    def append(self, value: bytes) -> int: ...


class WaitingCommands:
    """Commands that were sent together, and what comes of each."""

    def __init__(self, commands: Sequence[Sent]) -> None:
        self.commands = commands
        self.outcomes: Future[list[Any]] = Future()
        self.given_up = False  # nobody waits any more: what was not appended yet need not be

    @property
    def size(self) -> int:
        return sum(len(sent.body) for sent in self.commands)


class Appender:
    """`make` gives an entry with this number and these commands, in log time of that moment."""

    def __init__(self, log: Log, make: Callable[[int, list[Sent]], Entry]) -> None:
        self._log = log
        self._make = make
        self._queue: list[WaitingCommands] = []
        self._changed = threading.Condition()
        self._number = 0
        self._under_way: dict[int, list[WaitingCommands]] = {}  # by number: appended, perhaps, and not applied here
        self._closed = False
        self._failure: Exception | None = None
        self.last_revision = 0  # of what was appended
        self.silent_since: str | None = None  # what etcd said, while it takes nothing
        self.is_full = False
        self._thread = threading.Thread(target=self._run, name="weft-append", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, commands: Sequence[Sent], patience_s: float) -> list[Any]:
        """The outcome of each: a reply, or an exception. StoreBusy: not known in this time."""
        waiting = WaitingCommands(commands)
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise StoreUnusable(f"{self._log.name}: this replica is closed")
            self._queue.append(waiting)
            self._changed.notify()
        try:
            return waiting.outcomes.result(patience_s)
        except TimeoutError:
            waiting.given_up = True
            why = self.silent_since or "the entry was not applied here in time"
            raise StoreBusy(f"{self._log.name} did not answer within {patience_s:g} s: {why}") from None

    def applied(self, number: int, outcomes: list[Any]) -> None:
        """The entry of this process with this number was applied, with these outcomes."""
        waiting = self._under_way.pop(number, None)
        at = 0
        for one in waiting or ():
            one.outcomes.set_result(outcomes[at : at + len(one.commands)])
            at += len(one.commands)

    def fail(self, error: Exception) -> None:
        """Nothing is appended any more, and all who wait are given this error."""
        with self._changed:
            self._failure = error
            left = [*self._queue, *(one for entry in self._under_way.values() for one in entry)]
            self._queue = []
            self._under_way = {}
            self._changed.notify()
        for one in left:
            _set_error(one, error)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
        self.fail(StoreUnusable(f"{self._log.name}: this replica is closed"))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closed and self._failure is None:
                    self._changed.wait()
                if self._closed or self._failure is not None:
                    return
                batch = self._take()
            if batch:
                self._number += 1
                self._under_way[self._number] = batch
                self._append(self._number, batch)

    def _take(self) -> list[WaitingCommands]:
        self._queue = [one for one in self._queue if not one.given_up]
        commands = size = count = 0
        for one in self._queue:
            commands += len(one.commands)
            size += one.size
            if count and (commands > COMMANDS_MAX or size > BYTES_MAX):
                break
            count += 1
        batch, self._queue = self._queue[:count], self._queue[count:]
        return batch

    def _append(self, number: int, batch: list[WaitingCommands]) -> None:
        entry = self._make(number, [sent for one in batch for sent in one.commands])
        try:
            for value in values_of(entry):
                revision = self._append_value(value)
                if revision is None:
                    return
                self.last_revision = revision
            self.silent_since = None
            self.is_full = False
        except LogFull as error:
            self._under_way.pop(number, None)
            self.is_full = True
            full = StoreFull(
                f"{self._log.name}: etcd's space quota is used up ({error}), and nothing was stored. Weft compacts"
                " the log; then run `etcdctl defrag` and `etcdctl alarm disarm`, or raise --quota-backend-bytes"
            )
            self.silent_since = str(full)
            for one in batch:
                _set_error(one, full)

    def _append_value(self, value: bytes) -> int | None:
        """Until it stands in the log; None: the replica was closed meanwhile."""
        while not self._closed and self._failure is None:
            try:
                return self._log.append(value)
            except LogSilent as error:
                self.silent_since = str(error)
                with self._changed:
                    self._changed.wait(RETRY_S)
        return None


def _set_error(one: WaitingCommands, error: Exception) -> None:
    if not one.outcomes.done():
        one.outcomes.set_exception(error if isinstance(error, StoreError) else StoreUnusable(str(error)))
