"""One HTTP/1.1 connection to a server, for one request at a time, on the event loop; and those that are kept open for
the next request.

Answers are read in pieces and with backpressure: at most BUFFERED_MAX bytes wait here for their reader, however much
a container prints. A connection without traffic costs no task and no thread. Compressed answers are not unpacked.

TLS is done here, with ssl's memory buffers: asyncio's own keeps 256 KiB for each connection, and every running
attempt has one for its log. Measured to kube-apiserver: 299 KB a stream with asyncio's, 36 KB with this.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, cast

try:
    import httptools
except ImportError as missing:
    raise ImportError("httptools is not installed: pip install 'weft[http]'") from missing

BUFFERED_MAX = 256 * 1024
HEAD_BYTES_MAX = 64 * 1024  # of an answer's status and headers
_RECEIVED = bytearray(64 * 1024)
_RECORD_BYTES = 16 * 1024  # a record of TLS has no more
#: A peer that vanished without a word is noticed after about a minute, on streams that may be silent for days.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


class Unreachable(Exception):
    """The server does not answer, or broke off in the middle of an answer."""


class TooLong(Unreachable):
    """An answer with more bytes than its reader takes."""


class ApiConnection(asyncio.BufferedProtocol):
    """Callbacks named on_… are called by the parser."""

    def __init__(self, tls: ssl.SSLContext | None, server_name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        if tls is not None:
            self._tls = tls.wrap_bio(self._received, self._to_send, server_hostname=server_name)
        self._secured = tls is None
        self._closed_well = False  # the server said that it closes, and nobody cut the connection
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._waiter: asyncio.Future[None] | None = None
        self._bodyless = False
        self._reset()
        self.broken: str | None = None  # why nothing more can be read

    def _reset(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.complete = False
        self._head_bytes = 0
        self._stays = False  # the server keeps the connection after this answer
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._paused = False

    @property
    def usable(self) -> bool:
        """Its last answer was read to the end, and it takes another request."""
        return self.broken is None and self.complete and not self._chunks and self._stays and not self._bodyless

    async def secure(self) -> None:
        """Wait for the TLS handshake."""
        while not self._secured:
            await self._wait()

    async def send(self, request: bytes, bodyless: bool = False) -> int:
        """Send the bytes of a request, and wait for the status and the headers of its answer. `bodyless`: the answer
        has no body, whatever its headers say, because the request was HEAD."""
        if self._transport is None or self.broken is not None:
            raise Unreachable(self.broken or "not connected")
        self._reset()
        self._bodyless = bodyless
        self._parser = httptools.HttpResponseParser(self)
        if self._tls is None:
            self._transport.write(request)
        else:
            self._tls.write(request)
            self._flush()
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
        self._decrypt()

    def get_buffer(self, sizehint: int) -> bytearray:
        """All connections share one: what it holds is taken before anything else is received."""
        return _RECEIVED

    def buffer_updated(self, size: int) -> None:
        data = bytes(memoryview(_RECEIVED)[:size])
        if self.broken is not None:
            return
        if self._tls is None:
            self._parse(data)
        else:
            self._received.write(data)
            self._decrypt()
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
        """The answer has neither a length nor chunks: it ends with the connection, if nobody cut that."""
        if self._tls is not None and not self._closed_well:
            return False
        return "content-length" not in self.headers and "transfer-encoding" not in self.headers

    def _parse(self, data: bytes) -> None:
        if self._parser is None:
            return
        if self.status is None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX + len(_RECEIVED):  # the head may have come with some of its body
                self._break("the head of its answer does not end")
                return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._break(f"its answer is not HTTP: {error}")

    def _decrypt(self) -> None:
        """Go on with the handshake, then read all that was received."""
        if self._tls is None:
            return
        try:
            if not self._secured:
                self._tls.do_handshake()
                self._secured = True
            while self.broken is None:
                data = self._tls.read(_RECORD_BYTES)
                if not data:
                    self._closed_well = True
                    if self._transport is not None:
                        self._transport.close()
                    break
                self._parse(data)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._flush()  # the alert that says why
            self._break(_reason(error))
        self._flush()
        self._wake()

    def _flush(self) -> None:
        if self._transport is not None and self._to_send.pending:
            self._transport.write(self._to_send.read())

    def _break(self, why: str) -> None:
        self.broken = self.broken or why
        if self._transport is not None:
            self._transport.close()

    # -- called by the parser ----------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self.headers = {}  # the answer itself follows
            return
        self.status = status
        if self._bodyless:
            self.complete = True

    def on_body(self, data: bytes) -> None:
        self._chunks.append(data)
        self._buffered += len(data)

    def on_message_complete(self) -> None:
        if self.status is None:
            return
        self.complete = True
        self._stays = self._parser.should_keep_alive()


async def connect(host: str, port: int, tls: ssl.SSLContext | None, server_name: str | None) -> ApiConnection:
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(lambda: ApiConnection(tls, server_name or host), host, port)
    except (OSError, ValueError) as error:
        raise Unreachable(f"cannot connect to {host}:{port}: {_reason(error)}") from None
    try:
        await connection.secure()
    except Unreachable as error:
        raise Unreachable(f"cannot connect to {host}:{port}: {error}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class KeptConnections:
    """To one server: a few stay open for the next request."""

    def __init__(self, connect: Callable[[], Awaitable[ApiConnection]], most: int = 8) -> None:
        self._connect = connect
        self._most = most
        self._idle: list[ApiConnection] = []

    async def send(self, request: bytes, fresh: bool = False) -> tuple[ApiConnection, int]:
        """Over a kept connection if there is one. The server may have closed that just now: then the request is sent
        again over a new one. `fresh`: it must not arrive twice, so it gets a connection of its own."""
        while self._idle and not fresh:
            connection = self._idle.pop()
            if not connection.usable:
                connection.close()
                continue
            try:
                return connection, await connection.send(request)
            except Unreachable:
                connection.close()
            except BaseException:
                connection.close()
                raise
        connection = await self._connect()
        try:
            return connection, await connection.send(request)
        except BaseException:
            connection.close()
            raise

    def keep(self, connection: ApiConnection) -> None:
        """Its answer was read."""
        if connection.usable and len(self._idle) < self._most:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()


async def read_all(connection: ApiConnection, bytes_max: int) -> bytes:
    """The rest of the answer's body. Raises TooLong, and closes nothing."""
    parts = []
    size = 0
    while data := await connection.read():
        parts.append(data)
        size += len(data)
        if size > bytes_max:
            raise TooLong(f"its answer has more than {bytes_max:,} bytes")
    return b"".join(parts)
