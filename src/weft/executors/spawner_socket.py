"""The spawner's end of the socket. It never blocks: a node that is stopped must not stop its spawner."""

import os
import select

from weft.executors.spawner_wire import Message, Unframer, frame

_RECEIVE_BYTES = 1 << 15  # larger buffers come from mmap, at twice the cost of a read


class NodeSocket:
    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        os.set_blocking(fd, False)
        self.fd = fd
        self.ended = False  # the node has closed its end, or is gone
        self._unframer = Unframer()
        self._outbox: list[Message] = []
        self._unsent = b""

    def receive(self) -> list[Message]:
        try:
            data = os.read(self.fd, _RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.ended = True
            return []
        return self._unframer.feed(data)

    def send(self, message: Message) -> None:
        """It leaves with the next flush."""
        self._outbox.append(message)

    def flush(self) -> None:
        if self._outbox:
            self._unsent += frame(self._outbox)
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
    def interest(self) -> int:
        """What to poll for."""
        return select.POLLIN | select.POLLOUT if self._unsent else select.POLLIN
