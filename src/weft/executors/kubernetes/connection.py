"""One HTTP/1.1 connection to an API server, for one request at a time, on the event loop.

Answers are read in pieces and with backpressure: at most BUFFERED_MAX bytes wait here for their reader, however much
a container prints. A connection without traffic costs no task and no thread.
"""

import asyncio
import socket
import ssl
from collections import deque
from typing import Any, cast

import httptools

BUFFERED_MAX = 256 * 1024
#: A peer that vanished without a word is noticed after about a minute, on streams that may be silent for days.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


class Unreachable(Exception):
    """The API server does not answer, or broke off in the middle of an answer."""


class ApiConnection(asyncio.Protocol):
    """Callbacks named on_… are called by the parser."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._waiter: asyncio.Future[None] | None = None
        self._reset()
        self.broken: str | None = None  # why nothing more can be read

    def _reset(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.complete = False
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False

    @property
    def usable(self) -> bool:
        """Its last answer was read to the end, and it takes another request."""
        return self.broken is None and self.complete and not self._chunks and self._parser.should_keep_alive()

    async def send(self, request: bytes) -> int:
        """Send the bytes of a request, and wait for the status and the headers of its answer."""
        if self._transport is None or self.broken is not None:
            raise Unreachable(self.broken or "not connected")
        self._reset()
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(request)
        while self.status is None:
            await self._wait()
        return self.status

    async def read(self) -> bytes:
        """The next bytes of the answer's body; empty at its end."""
        while not self._chunks:
            if self.complete:
                return b""
            await self._wait()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        self.broken = self.broken or "closed"
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self) -> None:
        if self.broken is not None:
            raise Unreachable(self.broken)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- called by the transport -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self.broken is not None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.broken = f"its answer is not HTTP: {error}"
            if self._transport is not None:
                self._transport.abort()
        if self._buffered > BUFFERED_MAX and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if self.status is not None and not self.complete and self._until_close():
            self.complete = True
        self.broken = self.broken or (str(error) if error else "it closed the connection")
        self._transport = None
        self._wake()

    def _until_close(self) -> bool:
        """The answer has neither a length nor chunks: it ends with the connection."""
        return "content-length" not in self.headers and "transfer-encoding" not in self.headers

    # -- called by the parser ----------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self._chunks.append(data)
        self._buffered += len(data)

    def on_message_complete(self) -> None:
        self.complete = True


async def connect(host: str, port: int, tls: ssl.SSLContext | None, server_name: str | None) -> ApiConnection:
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(
            ApiConnection, host, port, ssl=tls, server_hostname=(server_name or host) if tls else None
        )
    except (OSError, ssl.SSLError) as error:
        raise Unreachable(f"cannot connect to {host}:{port}: {_reason(error)}") from None
    return connection


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return error.strerror or str(error) or type(error).__name__
