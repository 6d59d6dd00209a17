"""The sending side of a node's socket to one of its own processes.

Messages that are sent during one turn of the event loop leave as one frame (see framing). The part of a frame that
the socket does not accept is sent when the socket is writable again. A message may carry a descriptor, which arrives
no later than the message does.
"""

import asyncio
import os
import socket
from collections import deque

from weft.executors.framing import AnyMessage, MessageTypes


class Outbox:
    def __init__(self, loop: asyncio.AbstractEventLoop, connection: socket.socket, types: MessageTypes) -> None:
        self._loop = loop
        self._socket: socket.socket | None = connection
        self._types = types
        self._messages: list[AnyMessage] = []
        self._unsent: deque[tuple[memoryview, int | None]] = deque()  # frames, each with its descriptor
        self._flush_scheduled = False

    def send(self, message: AnyMessage, fd: int | None = None) -> None:
        """Queue the message. The outbox owns `fd` from now on, and closes it. After `close` messages are dropped."""
        if self._socket is None:
            if fd is not None:
                os.close(fd)
            return
        if fd is not None:
            self._frame_queued()
            self._unsent.append((memoryview(self._types.frame([message])), fd))
        else:
            self._messages.append(message)
        self.flush_soon()

    def flush_soon(self) -> None:
        """In the loop's next round. To call this before the callbacks that send spares a round for what they send."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Call this before the socket is closed."""
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
            self._socket = None
        for _, fd in self._unsent:
            if fd is not None:
                os.close(fd)
        self._unsent.clear()

    def _frame_queued(self) -> None:
        if self._messages:
            self._unsent.append((memoryview(self._types.frame(self._messages)), None))
            self._messages = []

    def _flush(self) -> None:
        self._flush_scheduled = False
        self._frame_queued()
        while self._unsent and self._socket is not None:
            data, fd = self._unsent[0]
            try:
                sent = self._socket.send(data) if fd is None else socket.send_fds(self._socket, [data], [fd])
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # the peer died: the reader sees the end of the stream, and may have reports to read first
            if sent and fd is not None:
                os.close(fd)
                fd = None
            if sent < len(data):
                self._unsent[0] = data[sent:], fd
                self._flush_scheduled = True
                self._loop.add_writer(self._socket.fileno(), self._flush_rest)
                return
            self._unsent.popleft()

    def _flush_rest(self) -> None:
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
        self._flush()
