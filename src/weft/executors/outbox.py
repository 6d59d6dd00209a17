"""What a node sends to a process of its own: messages gather during one turn of the event loop and leave as one
frame (see spawner_wire). What the socket does not take at once follows when it has room."""

import asyncio
import socket

from weft.executors.spawner_wire import Message, frame


class Outbox:
    def __init__(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        self._loop = loop
        self._socket: socket.socket | None = connection
        self._messages: list[Message] = []
        self._unsent = memoryview(b"")  # of which a part can be dropped without a copy of the rest
        self._flush_due = False

    def send(self, message: Message) -> None:
        """Nothing happens after `close`: there is nobody to tell."""
        if self._socket is None:
            return
        self._messages.append(message)
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """To be called before the socket is."""
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
            self._socket = None

    def _flush(self) -> None:
        self._flush_due = False
        if self._socket is None:
            return
        if self._messages:
            self._unsent = memoryview(bytes(self._unsent) + frame(self._messages))
            self._messages = []
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it died: the reader sees the end, and may have reports to read before it
        self._unsent = self._unsent[sent:]
        if self._unsent:
            self._flush_due = True
            self._loop.add_writer(self._socket.fileno(), self._flush_rest)

    def _flush_rest(self) -> None:
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
        self._flush()
