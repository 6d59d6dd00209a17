"""A client of the Docker Engine API over a socket: plain HTTP/1.1, one connection for each request.

Weft needs ten requests of that API and four kinds of streams. aiodocker would bring aiohttp with its seven compiled
packages for them; this brings nothing, and a waiting attempt costs one open connection and no thread.
"""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from weft.executors.boot_clock import boottime
from weft.executors.container.address import EngineAddress

_HEAD_BYTES_MAX = 64 * 1024
_READ_BYTES = 1 << 16
_BODY_BYTES_MAX = 16 << 20
REQUEST_S = 30.0  # an engine that takes longer to answer counts as one that does not answer
CONNECT_S = 5.0
#: Requests that an engine works on at the same time for this process: each may start several processes there.
_REQUESTS_MAX = 8


class EngineUnreachable(Exception):
    """The engine did not answer, or stopped in the middle of its answer. It may have done what was asked."""


class EngineRefused(Exception):
    """The engine answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class EngineStream:
    """The body of one response, read as it arrives."""

    __slots__ = ("_left", "_reader", "_writer", "headers", "status")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self._left: int | None = None  # bytes left of the body or of its current chunk; None: up to the end

    async def read_head(self) -> None:
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ", 2)[1])
        for line in lines:
            name, colon, value = line.partition(":")
            if colon:
                self.headers[name.strip().lower()] = value.strip()
        if self.status in (204, 304) or self._chunked:
            self._left = 0
        elif "content-length" in self.headers and self.status != 101:
            self._left = int(self.headers["content-length"])

    @property
    def _chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    async def read(self) -> bytes:
        """The next bytes; empty at the end of the body. Raises EngineUnreachable if the body is cut off."""
        try:
            return await self._read()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise EngineUnreachable(str(error) or type(error).__name__) from None

    async def _read(self) -> bytes:
        if self._left is None:
            return await self._reader.read(_READ_BYTES)
        if self._left == 0 and (not self._chunked or not await self._next_chunk()):
            return b""
        data = await self._reader.read(min(_READ_BYTES, self._left))
        if not data:
            raise EngineUnreachable("the connection was closed in the middle of an answer")
        self._left -= len(data)
        if self._left == 0 and self._chunked:
            await self._reader.readexactly(2)
        return data

    async def _next_chunk(self) -> bool:
        if self.status in (204, 304):
            return False
        line = await self._reader.readuntil(b"\r\n")
        self._left = int(line.split(b";")[0], 16)
        return self._left > 0

    async def body(self) -> bytes:
        parts = []
        size = 0
        while data := await self.read():
            size += len(data)
            if size > _BODY_BYTES_MAX:
                raise EngineUnreachable("its answer is too long")
            parts.append(data)
        return b"".join(parts)

    def close(self) -> None:
        self._writer.transport.abort()


class EngineClient:
    def __init__(self, address: EngineAddress) -> None:
        self.address = address
        self.api = ""  # the version of the API that is spoken, such as 1.41; empty until the engine was asked for it
        self.answered = 0.0  # when the engine last answered, CLOCK_BOOTTIME
        self._turns = asyncio.Semaphore(_REQUESTS_MAX)
        self._lives = 0
        self._watching = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = REQUEST_S,
    ) -> Any:
        """The decoded JSON of the answer, None if it has no body. Raises EngineRefused for an error status."""
        async with self._turns:
            try:
                async with asyncio.timeout(timeout_s):
                    stream = await self.stream(method, path, body, headers=headers)
                    try:
                        data = await stream.body()
                    finally:
                        stream.close()
            except TimeoutError:
                raise EngineUnreachable(f"no answer within {timeout_s:g} s") from None
        if not data.strip():
            return None
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError:
            return data.decode("utf-8", "replace")

    async def stream(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        upgrade: bool = False,
    ) -> EngineStream:
        """The answer's head is read. Raises EngineRefused for an error status. The caller closes the stream."""
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await self.address.connect()
        except (OSError, TimeoutError) as error:
            raise EngineUnreachable(_reason(error)) from None
        stream = EngineStream(reader, writer)
        try:
            if self.api and path != "/version":  # an engine that was upgraded may not speak it any more
                path = f"/v{self.api}{path}"
            writer.write(_request(method, path, body, headers or {}, upgrade))
            await stream.read_head()
            self.answered = boottime()
            if stream.status >= 400:
                raise EngineRefused(stream.status, _message(await stream.body(), stream.status))
        except (OSError, EOFError, asyncio.LimitOverrunError, ValueError, IndexError) as error:
            stream.close()
            raise EngineUnreachable(_reason(error)) from None
        except BaseException:
            stream.close()
            raise
        return stream

    async def life(self) -> int:
        """A number that changes with each restart of the engine. A stream that ends while it stays the same was ended
        by the engine; one that does not may have been cut off. A stream of events that never come is what shows it:
        it ends with the engine, and before a new engine can answer anything."""
        async with self._watching:
            if self._watch is None or self._watch.done():
                never = quote(msgspec.json.encode({"label": ["weft.none"], "type": ["container"]}).decode())
                async with asyncio.timeout(REQUEST_S):
                    stream = await self.stream("GET", f"/events?filters={never}")
                self._lives += 1
                self._watch = asyncio.get_running_loop().create_task(_until_end(stream))
            return self._lives

    def is_alive_since(self, life: int) -> bool:
        return self._lives == life and self._watch is not None and not self._watch.done()

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])


async def _until_end(stream: EngineStream) -> None:
    try:
        while await stream.read():
            pass
    except EngineUnreachable:
        return
    finally:
        stream.close()


def _request(method: str, path: str, body: Any, headers: Mapping[str, str], upgrade: bool) -> bytes:
    data = b"" if body is None else msgspec.json.encode(body)
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}"]
    lines += ["Connection: Upgrade", "Upgrade: tcp"] if upgrade else ["Connection: close"]
    if body is not None:
        lines.append("Content-Type: application/json")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


def _message(data: bytes, status: int) -> str:
    """One line of the engine's error."""
    try:
        message = msgspec.json.decode(data)["message"]
    except (msgspec.DecodeError, KeyError, TypeError):
        message = data.decode("utf-8", "replace")
    return " ".join(str(message).split())[:1000] or f"status {status}"


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no connection"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return "the connection was closed before an answer came"
