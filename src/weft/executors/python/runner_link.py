"""A Python runner as the node knows it: its socket, what it was given, and how quick it is."""

import asyncio
import os
import socket
from collections.abc import Callable

import msgspec

from weft.executors.outbox import Outbox
from weft.executors.protocol import Ended, Launch, Outcome, StopReason
from weft.executors.python.messages import FILES, HELLO, Mark
from weft.executors.spawner.messages import Message, Unframer

_RECEIVE_BYTES = 1 << 16
_FDS_MAX = 8
_QUICK_S = 0.005  # functions that take less are given ahead: the way to the node and back would take longer
_AHEAD_S = 0.01  # how much may wait in a runner
_AHEAD_MAX = 32
SIDE_BY_SIDE_MAX = 100


class Attempt(msgspec.Struct, eq=False):
    """One attempt from its start to its report."""

    id: int
    launch: Launch
    ended: Ended
    arguments: bytes
    root: str
    accepted: float
    runner: "RunnerLink | None" = None
    sent: float = 0.0
    stop: StopReason | None = None
    over: bool = False  # its outcome is known, and will be told
    kill: asyncio.TimerHandle | None = None  # the end of its grace, or of a timeout that was put off


class RunnerLink:
    """`on_message` gets each message but FILES, `on_closed` is called when the runner closed its end. It is ready
    when it has said HELLO."""

    def __init__(self, number: int, root: str, born: float) -> None:
        self.number = number
        self.root = root
        self.born = born
        self.given: dict[int, Attempt] = {}  # in the order in which plain functions run
        self.ready = False
        self.leaving: str | None = None
        self.killed = False
        self.is_async = False  # what it was given are async functions
        self.slow = False  # it handed back what waited behind a long function
        self.idle_since = born
        self.mean_s: float | None = None
        self.mark: Mark | None = None
        self.files: list[int] = []  # what plain functions print to
        self.left: tuple[Attempt, Outcome] | None = None  # to be told when it, or what it left running, is gone
        self.owner: Attempt | None = None  # the one attempt that it is for, which has secrets
        self.reaper: asyncio.TimerHandle | None = None
        self._socket: socket.socket | None = None
        self._outbox: Outbox | None = None
        self._unframer = Unframer()

    # What it has to do

    @property
    def idle(self) -> bool:
        return self.ready and not self.given and self.leaving is None

    @property
    def room(self) -> int:
        """How many more plain functions it may be given now."""
        if not self.ready or self.leaving is not None or self.slow or (self.is_async and self.given):
            return 0
        if self.mean_s is None or self.mean_s > _QUICK_S:
            return 1 - len(self.given)
        return min(_AHEAD_MAX, int(_AHEAD_S / max(self.mean_s, 1e-4))) - len(self.given)

    @property
    def room_beside(self) -> int:
        """How many more async functions."""
        if not self.ready or self.leaving is not None:
            return 0
        if self.given and not self.is_async:
            return 0
        return SIDE_BY_SIDE_MAX - len(self.given)

    @property
    def place(self) -> tuple[int, int]:
        """What the shell executor knows its process by."""
        return -self.number, 1 if self.owner is None else self.owner.launch.attempt

    def has_begun(self, attempt: Attempt) -> bool:
        return self.is_async or (self.mark is not None and self.mark.id == attempt.id)

    def took(self, seconds: float) -> None:
        self.mean_s = seconds if self.mean_s is None else self.mean_s + 0.2 * (seconds - self.mean_s)

    # The socket

    def connect(
        self,
        connection: socket.socket,
        on_message: Callable[["RunnerLink", Message], None],
        on_closed: Callable[["RunnerLink"], None],
    ) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._on_message = on_message
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(self._loop, connection)
        self._loop.add_reader(connection.fileno(), self.receive)

    def send(self, message: Message) -> None:
        if self._outbox is not None:
            self._outbox.send(message)

    def receive(self) -> bool:
        """Take in what is there; False if there is nothing (more)."""
        if self._socket is None:
            return False
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, _RECEIVE_BYTES, _FDS_MAX)
        except BlockingIOError:
            return False
        except OSError:
            data, fds = b"", []
        for fd in fds:
            os.set_inheritable(fd, False)
        if not data:
            self.disconnect()
            self._on_closed(self)
            return False
        for message in self._unframer.feed(data):
            if message[0] == FILES:
                self._close_files()
                self.files = fds
                continue
            if message[0] == HELLO:
                self.ready = True
                self.mark = Mark(fds[0])
            self._on_message(self, message)
        return True

    def disconnect(self) -> None:
        if self._socket is not None:
            assert self._outbox is not None
            self._outbox.close()
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _close_files(self) -> None:
        for fd in self.files:
            os.close(fd)
        self.files = []

    def discard(self) -> None:
        """It is gone, and what it left has been looked at."""
        self.disconnect()
        self._close_files()
        if self.reaper is not None:
            self.reaper.cancel()
        if self.mark is not None:
            os.close(self.mark.fd)
            self.mark = None
