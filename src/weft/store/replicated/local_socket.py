"""How other processes of this machine hand their commands to the node that has the replica: a socket beside it.

Only the replica's user can reach it. A message is its length in four bytes and MessagePack.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from weft.core import commands as c
from weft.core.artifacts import ArtifactReference, FilesNeeded
from weft.store.protocol import CommandUsed, StoreBusy, StoreError, StoreFull, StoreUnusable
from weft.store.replicated.entry import Failed, Sent

SOCKET = "node.sock"
MESSAGE_MAX = 1 << 30
_REPLIES = {kind.__name__: kind for kind in (c.Reply, c.ExchangeReply, c.OnceReply, c.LeadReply, c.HandleReply)}
_ERRORS = {kind.__name__: kind for kind in (StoreBusy, StoreFull, StoreUnusable, CommandUsed, Failed)}

Send = Callable[[Sequence[Sent]], list[Any]]


class WireOutcome(msgspec.Struct, array_like=True):
    """What came of a command, as bytes."""

    kind: str = ""  # of the reply or of the error
    value: bytes = b""  # of the reply, encoded
    refused: tuple[c.RefusalCode, str] | None = None
    needs: tuple[str, list[ArtifactReference]] | None = None
    error: str | None = None

    @classmethod
    def of(cls, found: Any) -> "WireOutcome":
        if isinstance(found, c.Refused):
            return cls(refused=(found.code, found.message))
        if isinstance(found, FilesNeeded):
            return cls(needs=(found.run_id, found.references))
        if isinstance(found, Exception):
            name = type(found).__name__
            return cls(name if name in _ERRORS else "StoreUnusable", error=str(found))
        return cls(type(found).__name__, msgspec.msgpack.encode(found))

    def found(self) -> Any:
        if self.refused is not None:
            return c.Refused(*self.refused)
        if self.needs is not None:
            return FilesNeeded(*self.needs)
        if self.error is not None:
            return _ERRORS[self.kind](self.error)
        return msgspec.msgpack.decode(self.value, type=_REPLIES.get(self.kind, Any))


class CommandServer:
    """In the node that has the replica."""

    def __init__(self, directory: Path, send: Send) -> None:
        self._send = send
        self._listener = socket.socket(socket.AF_UNIX)
        path = directory / SOCKET
        path.unlink(missing_ok=True)  # the lock is ours: the process that made it is gone
        with _short(path) as name:
            self._listener.bind(name)
        path.chmod(0o600)
        self._listener.listen(64)
        threading.Thread(target=self._accept, name="weft-commands", daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(connection,), name="weft-command", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while (message := _receive(connection)) is not None:
                _send(connection, msgspec.msgpack.encode(self._outcomes(message)))

    def _outcomes(self, message: bytes) -> list[WireOutcome]:
        try:
            return [WireOutcome.of(found) for found in self._send(msgspec.msgpack.decode(message, type=list[Sent]))]
        except (StoreError, msgspec.DecodeError) as error:
            return [WireOutcome.of(error)]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class CommandClient:
    """One connection for each thread."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / SOCKET
        self._own = threading.local()

    def send(self, commands: Sequence[Sent], patience_s: float) -> list[Any]:
        """What came of each. StoreBusy: not known, the node went away."""
        try:
            connection = self._connection()
            connection.settimeout(patience_s * 2)
            _send(connection, msgspec.msgpack.encode(list(commands)))
            answer = _receive(connection)
        except OSError as error:
            self.close()
            raise StoreBusy(f"the node that has the replica did not answer: {error}") from None
        if answer is None:
            self.close()
            raise StoreBusy("the node that has the replica went away")
        found = [outcome.found() for outcome in msgspec.msgpack.decode(answer, type=list[WireOutcome])]
        if len(found) == 1 and isinstance(found[0], StoreError) and not isinstance(found[0], CommandUsed):
            raise found[0]
        return found

    def _connection(self) -> socket.socket:
        connection: socket.socket | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = socket.socket(socket.AF_UNIX)
            with _short(self._path) as name:
                connection.connect(name)
            self._own.connection = connection
        return connection

    def close(self) -> None:
        """This thread's."""
        connection: socket.socket | None = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()
            self._own.connection = None


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for a socket whose path may be longer than the 107 bytes that a socket's name has."""
    if len(os.fsencode(path)) < 100:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(len(message).to_bytes(4, "big") + message)


def _receive(connection: socket.socket) -> bytes | None:
    head = _exactly(connection, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > MESSAGE_MAX:
        raise OSError("a message that is too large")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    read = bytearray()
    while len(read) < size:
        piece = connection.recv(min(1 << 20, size - len(read)))
        if not piece:
            return None
        read += piece
    return bytes(read)
