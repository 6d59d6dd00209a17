"""One stream of a server (text/event-stream), read by a thread of its own from one connection to its end.

What breaks off is not mended here: whoever reads it starts it again after the last message that they have, and asks
the server meanwhile. So nothing is lost, whatever became of the connection.
"""

import http.client
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from weft.client.http_connection import HttpConnection

KEPT_MAX: Final = 256  # messages; then the server has to wait, which is what it is made for
START_EVERY_S: Final = 0.5
PART: Final = 1 << 16


class EventStreamReader:
    """`news` is called by its thread when there are messages, and when it ends."""

    def __init__(
        self, wire: HttpConnection, path: str, query: Iterable[tuple[str, Any]], news: Callable[[], None]
    ) -> None:
        self._wire = wire
        self._path = path
        self._query = list(query)
        self._news = news
        self._kept: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._start_at = 0.0
        self._closed = False
        self.live = False  # what happens is told

    def start(self, last_id: str) -> None:
        """After this message, if it is not being read already, and not too soon after it broke off."""
        if self._closed or (self._thread is not None and self._thread.is_alive()):
            return
        if time.monotonic() < self._start_at:
            return
        self._start_at = time.monotonic() + START_EVERY_S
        self._kept.clear()
        self._thread = threading.Thread(target=self._read, args=(last_id,), name="weft-stream", daemon=True)
        self._thread.start()

    def take(self) -> bytes | None:
        """The data of the next message, if it has come."""
        with self._changed:
            if not self._kept:
                return None
            self._changed.notify()
            return self._kept.popleft()

    def give_back(self, data: bytes) -> None:
        with self._changed:
            self._kept.appendleft(data)

    def drop(self) -> None:
        with self._changed:
            self._kept.clear()
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _read(self, last_id: str) -> None:
        connection = self._connection = self._wire.new_connection()
        try:
            reply = self._wire.open_stream(connection, self._path, self._query, last_id)
            if reply.status == 200:
                self._hear(reply)
        except (OSError, ValueError, http.client.HTTPException):
            pass  # whoever asks the server meanwhile hears why
        finally:
            self.live = False
            self._connection = None
            connection.close()
            self._news()

    def _hear(self, reply: http.client.HTTPResponse) -> None:
        for event, data in messages(reply.read1):
            if event == b"end" or self._closed:
                return
            self.live = True
            if data is None:
                continue
            with self._changed:
                self._changed.wait_for(lambda: len(self._kept) < KEPT_MAX or self._closed)
                if self._closed:
                    return
                self._kept.append(data)
            self._news()


def messages(read: Callable[[int], bytes]) -> Iterator[tuple[bytes, bytes | None]]:
    """(event, data) of each; no data: a comment, that somebody is there."""
    rest = b""
    while part := read(PART):
        *whole, rest = (rest + part).split(b"\n\n")
        for text in whole:
            fields = dict(_field(line) for line in text.split(b"\n"))
            yield fields.get(b"event", b"message"), fields.get(b"data")


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.removeprefix(b" ")
