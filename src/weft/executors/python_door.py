"""The door by which runners come in: a socket in a directory that nobody else can enter.

The spawner starts runners and hands on no sockets, so each connects by itself and says its number first.
"""

import asyncio
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress

from weft.executors.python_wire import HELLO
from weft.executors.spawner_wire import Unframer

_PATH_MAX = 90  # of the 107 bytes that a socket's path may have, with room for names
_RECEIVE_BYTES = 1 << 16
_PREFIX = "weft-python-"
_DESERTED_S = 60.0  # a younger one may be about to open

#: Of a runner's number, its connection, what has been read of it, and the descriptor of its mark. True: it is known.
Entered = Callable[[int, socket.socket, Unframer, int], bool]


class Door:
    def __init__(self, entered: Entered) -> None:
        self._entered = entered
        self._loop = asyncio.get_running_loop()
        self.directory = tempfile.mkdtemp(prefix=_PREFIX)
        if len(os.fsencode(self.directory)) > _PATH_MAX:
            os.rmdir(self.directory)
            self.directory = tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")
        _remove_deserted(os.path.dirname(self.directory))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"{self.directory}/door")
        self._socket.listen(128)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            connection, _ = self._socket.accept()
            connection.setblocking(False)
            self._loop.add_reader(connection.fileno(), self._greet, connection)

    def _greet(self, connection: socket.socket) -> None:
        """The first message is so short that it comes whole."""
        self._loop.remove_reader(connection.fileno())
        unframer = Unframer()
        data, fds, _, _ = socket.recv_fds(connection, _RECEIVE_BYTES, 1)
        messages = unframer.feed(data)
        known = (
            len(messages) == 1
            and messages[0][0] == HELLO
            and len(fds) == 1
            and self._entered(messages[0][1], connection, unframer, fds[0])
        )
        if not known:
            for fd in fds:
                os.close(fd)
            connection.close()


def _remove_deserted(parent: str) -> None:
    """A node that was killed could not remove its directory. Nobody answers at its door."""
    for entry in os.scandir(parent):
        if not entry.name.startswith(_PREFIX):
            continue
        with suppress(OSError):
            info = entry.stat(follow_symlinks=False)
            if info.st_uid != os.getuid() or time.time() - info.st_mtime < _DESERTED_S:
                continue
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
                try:
                    knock.connect(f"{entry.path}/door")
                except (ConnectionRefusedError, FileNotFoundError):
                    shutil.rmtree(entry.path, ignore_errors=True)
