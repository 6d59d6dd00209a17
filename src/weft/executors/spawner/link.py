"""The node's link to a spawner: its process, its socket, and the cleanup after its death."""

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Generic, TypeVar

from weft.executors import linux
from weft.executors.framing import AnyMessage, FrameReader
from weft.executors.outbox import Outbox
from weft.executors.run_as import User
from weft.executors.spawner.messages import TOKEN, TYPES, CloseSpawner, Hello, LivePids, ProcessEnded
from weft.executors.spawner.process_tree import kill_tree

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
_LOADER_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH")  # some interpreters need them to start
_RECEIVE_BYTES = 1 << 16
_CLEANUP_S = 0.005  # between rounds of the cleanup

AttemptT = TypeVar("AttemptT")


class SpawnerLink(Generic[AttemptT]):
    """One spawner process, and the attempts that its owner sent to it.

    `on_ended` gets each report. `on_spawner_ended` is called when the spawner has ended, by request or not, and
    `on_cleaned_up` when all processes that it had started are gone, too.
    """

    def __init__(
        self,
        base_env: dict[bytes, bytes],
        user: User | None,
        on_ended: Callable[["SpawnerLink[AttemptT]", ProcessEnded], None],
        on_spawner_ended: Callable[["SpawnerLink[AttemptT]"], None],
        on_cleaned_up: Callable[["SpawnerLink[AttemptT]"], None],
    ) -> None:
        self.running: dict[int, AttemptT] = {}  # by id; maintained by the owner
        self._loop = asyncio.get_running_loop()
        self._on_ended = on_ended
        self._on_spawner_ended = on_spawner_ended
        self._on_cleaned_up = on_cleaned_up
        self._frames = FrameReader(TYPES)
        self._alive = True
        self._cleaned_up = asyncio.Event()
        self._leaders: dict[int, int] = {}  # id -> pid, of attempts that outlived a sweep
        self._orphans: list[int] = []
        self._token_prefix = secrets.token_hex(8).encode() + b"."
        self._socket, spawner_end = socket.socketpair()
        with spawner_end:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _SCRIPT, str(spawner_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(spawner_end.fileno(),),
                start_new_session=True,
                cwd="/",
                env={name: os.environ[name] for name in _LOADER_VARIABLES if name in os.environ},
            )
        self._socket.setblocking(False)
        self._outbox = Outbox(self._loop, self._socket, TYPES)
        self._loop.add_reader(self._socket.fileno(), self._receive)
        as_user = None if user is None else (user.name, user.uid, user.gid, user.groups)
        self.send(Hello(base_env, self._token_prefix, os.getpid(), as_user))

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: AnyMessage, fd: int | None = None) -> None:
        self._outbox.send(message, fd)

    async def close(self) -> None:
        """Return when all attempts are killed, reported and reaped."""
        if self._alive:
            self.send(CloseSpawner())
        await self._cleaned_up.wait()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._spawner_ended()
            return
        for message in self._frames.feed(data):
            if type(message) is ProcessEnded:
                self._leaders.pop(message.id, None)
                self._on_ended(self, message)
            elif type(message) is LivePids:
                self._leaders.update(message.leaders)
                self._orphans = message.orphans
        self._outbox.flush_soon()  # what follows from the ends is scheduled by now, and may send new starts

    # After the spawner has ended

    def _spawner_ended(self) -> None:
        self._alive = False
        self._outbox.close()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._on_spawner_ended(self)
        self._clean_up(set())

    def _clean_up(self, unreaped: set[int]) -> None:
        """Kill and reap the processes that this process, a subreaper too, inherited from the spawner; repeat until
        none is left."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)  # without its socket it is of no use
        inherited = self._inherited()
        unreaped.update(inherited)
        unreaped.update(kill_tree(inherited))
        for pid in list(unreaped):
            if _is_reaped(pid):
                unreaped.discard(pid)
        if unreaped or self._process.poll() is None or self._inherited():
            self._loop.call_later(_CLEANUP_S, self._clean_up, unreaped)
            return
        self._cleaned_up.set()
        self._on_cleaned_up(self)

    def _inherited(self) -> list[int]:
        """This process's children that were the spawner's: by session, by token, or reported by the spawner."""
        sessions = set(self._leaders.values())
        known = sessions.union(self._orphans)
        pids = []
        for pid in linux.children(os.getpid()):
            stat = linux.read_stat(pid)
            if stat is None or pid == self._process.pid:
                continue
            token = linux.environment_value(pid, TOKEN) or b""
            if pid in known or stat.session in sessions or token.startswith(self._token_prefix):
                pids.append(pid)
        return pids


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return linux.read_stat(pid) is None  # the child of another process that is still alive
