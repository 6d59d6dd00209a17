"""The node's end of a spawner: its process, its socket, and what to do should it die.

Messages leave through an Outbox; reports come in as lists.
"""

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
from weft.executors.outbox import Outbox
from weft.executors.run_as import User
from weft.executors.spawner.messages import CLOSE, ENDED, HELLO, PIDS, TOKEN, Message, Unframer
from weft.executors.spawner.process_tree import kill_tree

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
_OF_THE_LOADER = ("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH")  # an interpreter may not start without
_RECEIVE_BYTES = 1 << 16
_CLEAR_S = 0.005

Attempt = TypeVar("Attempt")


class SpawnerLink(Generic[Attempt]):
    """One spawner process, and the attempts that its owner gave to it.

    `on_ended` gets each report, `on_dead` is called when the spawner has ended, asked or not, and `on_gone` when
    everything that it had started is gone, too.
    """

    def __init__(
        self,
        base_env: dict[bytes, bytes],
        user: User | None,
        on_ended: Callable[["SpawnerLink[Attempt]", Message], None],
        on_dead: Callable[["SpawnerLink[Attempt]"], None],
        on_gone: Callable[["SpawnerLink[Attempt]"], None],
    ) -> None:
        self.running: dict[int, Attempt] = {}  # kept by the owner
        self._loop = asyncio.get_running_loop()
        self._on_ended = on_ended
        self._on_dead = on_dead
        self._on_gone = on_gone
        self._unframer = Unframer()
        self._alive = True
        self._gone = asyncio.Event()
        self._leaders: dict[int, int] = {}  # id -> pid, of attempts that outlived a sweep
        self._orphans: list[int] = []
        self._token_prefix = secrets.token_hex(8).encode() + b"."
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _SCRIPT, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
                env={name: os.environ[name] for name in _OF_THE_LOADER if name in os.environ},
            )
        self._socket.setblocking(False)
        self._outbox = Outbox(self._loop, self._socket)
        self._loop.add_reader(self._socket.fileno(), self._receive)
        as_user = None if user is None else (user.name, user.uid, user.gid, user.groups)
        self.send((HELLO, base_env, self._token_prefix, os.getpid(), as_user))

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Message, fd: int | None = None) -> None:
        self._outbox.send(message, fd)

    async def close(self) -> None:
        """Have everything killed, reported and reaped."""
        if self._alive:
            self.send((CLOSE,))
        await self._gone.wait()

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
        for message in self._unframer.feed(data):
            if message[0] == ENDED:
                self._leaders.pop(message[1], None)
                self._on_ended(self, message)
            elif message[0] == PIDS:
                self._leaders.update(message[1])
                self._orphans = message[2]

    # When the spawner is gone

    def _spawner_ended(self) -> None:
        self._alive = False
        self._outbox.close()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._on_dead(self)
        self._clear(set())

    def _clear(self, victims: set[int]) -> None:
        """Kill and reap what the spawner left to this process (a subreaper, too), until there is nothing."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)  # without its socket it is of no use
        left = self._left_over()
        victims.update(left)
        victims.update(kill_tree(left))
        for pid in list(victims):
            if _is_reaped(pid):
                victims.discard(pid)
        if victims or self._process.poll() is None or self._left_over():
            self._loop.call_later(_CLEAR_S, self._clear, victims)
            return
        self._gone.set()
        self._on_gone(self)

    def _left_over(self) -> list[int]:
        """This process's children that were the spawner's: by session, by token, or told so by the spawner."""
        sessions = set(self._leaders.values())
        known = sessions.union(self._orphans)
        found = []
        for pid in linux.children(os.getpid()):
            stat = linux.read_stat(pid)
            if stat is None or pid == self._process.pid:
                continue
            token = linux.environment_value(pid, TOKEN) or b""
            if pid in known or stat.session in sessions or token.startswith(self._token_prefix):
                found.append(pid)
        return found


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return linux.read_stat(pid) is None  # another's child, until that one dies as well
