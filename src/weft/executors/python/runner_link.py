"""The node's link to a Python runner: its socket, the attempts assigned to it, and how fast its functions are."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from weft.executors.framing import AnyMessage, FrameReader
from weft.executors.outbox import Outbox
from weft.executors.protocol import Ended, Launch, Outcome, StopReason
from weft.executors.python.active_call import ActiveCall
from weft.executors.python.messages import TYPES, OutputOpened, RunnerReady

_RECEIVE_BYTES = 1 << 16
_FDS_MAX = 8
_QUICK_S = 0.005  # functions that take less are assigned ahead: the round trip to the node would take longer
_AHEAD_S = 0.01  # how much work may wait in a runner
_AHEAD_MAX = 32
_MEAN_WEIGHT = 0.2  # of the latest duration
ASYNC_CALLS_MAX = 100  # concurrent calls in one runner


class RunnerPlace(NamedTuple):
    """What all attempts in a runner have in common."""

    root: str  # the directory that heads sys.path
    python: str | None = None  # an interpreter of its own; None: the node's


class PythonAttempt(msgspec.Struct, eq=False):
    """One attempt from its start to its report."""

    id: int
    launch: Launch
    on_ended: Ended
    arguments: bytes
    place: RunnerPlace
    accepted: float
    runner: "RunnerLink | None" = None
    sent: float = 0.0
    stop: StopReason | None = None
    ended: bool = False  # its outcome is known, and will be reported
    timer: asyncio.TimerHandle | None = None  # the end of its grace, or of a timeout that was postponed


class RunnerLink:
    """`on_message` gets each message except OutputOpened, `on_closed` is called when the runner closed its end. The
    runner is ready when it has sent RunnerReady."""

    def __init__(self, number: int, place: RunnerPlace, created: float) -> None:
        self.number = number
        self.place = place
        self.created = created
        self.assigned: dict[int, PythonAttempt] = {}  # in the order in which plain functions run
        self.ready = False
        self.call_ended = 0.0  # the one before
        self.retiring: str | None = None  # why it gets no more attempts
        self.killed = False
        self.is_async = False  # the assigned attempts call async functions
        self.slow = False  # it returned calls that waited behind a long one
        self.idle_since = created
        self.mean_s: float | None = None
        self.active: ActiveCall | None = None
        self.output_fds: list[int] = []  # the files that plain functions print to
        self.unreported: tuple[PythonAttempt, Outcome] | None = None  # until its processes, or this runner, are gone
        self.owner: PythonAttempt | None = None  # the only attempt of a dedicated runner
        self.exit_timer: asyncio.TimerHandle | None = None
        self._socket: socket.socket | None = None
        self._outbox: Outbox | None = None
        self._frames = FrameReader(TYPES)

    # Capacity

    @property
    def idle(self) -> bool:
        return self.ready and not self.assigned and self.retiring is None

    @property
    def plain_capacity(self) -> int:
        """How many more plain functions may be assigned now."""
        if not self.ready or self.retiring is not None or self.slow or (self.is_async and self.assigned):
            return 0
        if self.mean_s is None or self.mean_s > _QUICK_S:
            return 1 - len(self.assigned)
        return min(_AHEAD_MAX, int(_AHEAD_S / max(self.mean_s, 1e-4))) - len(self.assigned)

    @property
    def async_capacity(self) -> int:
        """How many more async functions may be assigned now."""
        if not self.ready or self.retiring is not None:
            return 0
        if self.assigned and not self.is_async:
            return 0
        return ASYNC_CALLS_MAX - len(self.assigned)

    @property
    def shell_attempt(self) -> tuple[int, int]:
        """The task id and attempt number under which the shell executor runs this process."""
        return -self.number, 1 if self.owner is None else self.owner.launch.attempt

    def started(self, attempt: PythonAttempt) -> float | None:
        """When its function was called; None: it is behind another."""
        if self.is_async:
            return attempt.sent
        return max(attempt.sent, self.call_ended) if self.has_started(attempt) else None

    def has_started(self, attempt: PythonAttempt) -> bool:
        return self.is_async or (self.active is not None and self.active.id == attempt.id)

    def record_duration(self, seconds: float) -> None:
        self.mean_s = seconds if self.mean_s is None else self.mean_s + _MEAN_WEIGHT * (seconds - self.mean_s)

    # The socket

    def connect(
        self,
        connection: socket.socket,
        on_message: Callable[["RunnerLink", Any], None],
        on_closed: Callable[["RunnerLink"], None],
    ) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._on_message = on_message
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(self._loop, connection, TYPES)
        self._loop.add_reader(connection.fileno(), self.receive)

    def send(self, message: AnyMessage) -> None:
        if self._outbox is not None:
            self._outbox.send(message)

    def receive(self) -> bool:
        """Read once and handle the messages; False if there is nothing (more) to read."""
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
        for message in self._frames.feed(data):
            if type(message) is OutputOpened:
                self._close_output_fds()
                self.output_fds = fds
                continue
            if type(message) is RunnerReady:
                self.ready = True
                self.active = ActiveCall(fds[0])
            self._on_message(self, message)
        return True

    def disconnect(self) -> None:
        if self._socket is not None:
            assert self._outbox is not None
            self._outbox.close()
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _close_output_fds(self) -> None:
        for fd in self.output_fds:
            os.close(fd)
        self.output_fds = []

    def discard(self) -> None:
        """Release everything: the runner is gone, and its output has been read."""
        self.disconnect()
        self._close_output_fds()
        if self.exit_timer is not None:
            self.exit_timer.cancel()
        if self.active is not None:
            os.close(self.active.fd)
            self.active = None
