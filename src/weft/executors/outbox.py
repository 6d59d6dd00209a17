"""What a node sends to a process of its own: messages gather during one turn of the event loop and leave as one
frame (see spawner/messages.py). What the socket does not take at once follows when it has room. A message may carry a
descriptor, which arrives no later than the message does."""

import asyncio
import os
import socket
from collections import deque

from weft.executors.spawner.messages import Message, frame


class Outbox:
    def __init__(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        self._loop = loop
        self._socket: socket.socket | None = connection
        self._messages: list[Message] = []
        self._unsent: deque[tuple[memoryview, int | None]] = deque()  # what leaves together, and its descriptor
        self._flush_due = False

    def send(self, message: Message, fd: int | None = None) -> None:
        """`fd` is this object's from now on. Nothing happens after `close`: there is nobody to tell."""
        if self._socket is None:
            if fd is not None:
                os.close(fd)
            return
        if fd is not None:
            self._gather()
            self._unsent.append((memoryview(frame([message])), fd))
        else:
            self._messages.append(message)
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """To be called before the socket is."""
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
            self._socket = None
        for _, fd in self._unsent:
            if fd is not None:
                os.close(fd)
        self._unsent.clear()

    def _gather(self) -> None:
        if self._messages:
            self._unsent.append((memoryview(frame(self._messages)), None))
            self._messages = []

    def _flush(self) -> None:
        self._flush_due = False
        self._gather()
        while self._unsent and self._socket is not None:
            data, fd = self._unsent[0]
            try:
                sent = self._socket.send(data) if fd is None else socket.send_fds(self._socket, [data], [fd])
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # it died: the reader sees the end, and may have reports to read before it
            if sent and fd is not None:
                os.close(fd)
                fd = None
            if sent < len(data):
                self._unsent[0] = data[sent:], fd
                self._flush_due = True
                self._loop.add_writer(self._socket.fileno(), self._flush_rest)
                return
            self._unsent.popleft()

    def _flush_rest(self) -> None:
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
        self._flush()
