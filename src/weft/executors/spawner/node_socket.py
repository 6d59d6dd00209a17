"""The spawner's end of the socket. It never blocks: a node that is stopped (SIGSTOP) must not stop its spawner."""

import _socket  # `socket` itself takes 12 ms to import, which is as long as the spawner takes to start
import os
import select
from sys import byteorder

from weft.executors.framing import AnyMessage, FrameReader
from weft.executors.spawner.messages import TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RECEIVE_BYTES = 1 << 15  # larger buffers come from mmap, at twice the cost of a read
_INT_BYTES = 4
_ANCILLARY_BYTES = _socket.CMSG_SPACE(_INT_BYTES)


class NodeSocket:
    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        os.set_blocking(fd, False)
        self.fd = fd
        self.ended = False  # the node has closed its end, or is gone
        self.received_fds: list[int] = []  # in the order of the messages that they came with
        self._socket = _socket.socket(fileno=fd)
        self._frames = FrameReader(TYPES)
        self._outbox: list[AnyMessage] = []
        self._unsent = b""

    def receive(self) -> "list[Any]":
        try:
            data, ancillary, _, _ = self._socket.recvmsg(_RECEIVE_BYTES, _ANCILLARY_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data, ancillary = b"", []
        for _, _, raw in ancillary:
            fd = int.from_bytes(raw[:_INT_BYTES], byteorder)
            os.set_inheritable(fd, False)
            self.received_fds.append(fd)
        if not data:
            self.ended = True
            return []
        return self._frames.feed(data)

    def send(self, message: AnyMessage) -> None:
        """Queue the message until the next flush."""
        self._outbox.append(message)

    def flush(self) -> None:
        if self._outbox:
            self._unsent += TYPES.frame(self._outbox)
            self._outbox = []
        if not self._unsent:
            return
        try:
            sent = os.write(self.fd, self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self.ended = True
            return
        self._unsent = self._unsent[sent:]

    @property
    def drained(self) -> bool:
        return not self._unsent and not self._outbox

    @property
    def poll_events(self) -> int:
        return select.POLLIN | select.POLLOUT if self._unsent else select.POLLIN
