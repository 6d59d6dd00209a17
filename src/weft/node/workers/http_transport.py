"""Messages to servers over HTTP: kept connections, one server for as long as it answers, then the next one."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from weft.executors.remote.http_connection import (
    ApiConnection,
    KeptConnections,
    TooLong,
    Unreachable,
    connect,
    read_all,
)
from weft.node.ports import LinkLost
from weft.node.workers.messages import INFLATED_MAX, MEDIA_TYPE, Rejected
from weft.node.workers.remote_link import TokenRefused

PATH: Final = "/v1/workers/"
REFUSED: Final = (400, 404, 405, 413, 415, 422)  # statuses that another try would have, too
SHOWN_MAX: Final = 300


class WorkerServer:
    """One server: its address, and connections to it."""

    def __init__(self, url: str, token: str, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        self.url = url
        secure = parts.scheme == "https"
        host, port = parts.hostname or "", parts.port or (443 if secure else 80)
        context = (tls or ssl.create_default_context()) if secure else None
        self._prefix = parts.path.rstrip("/")
        self._head = (
            f"Host: {parts.netloc.rpartition('@')[2]}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: {MEDIA_TYPE}\r\nAccept: {MEDIA_TYPE}\r\n"
        )
        self.connections = KeptConnections(lambda: connect(host, port, context, host))

    def request(self, call: str, data: bytes) -> bytes:
        line = f"POST {self._prefix}{PATH}{call} HTTP/1.1\r\n{self._head}Content-Length: {len(data)}\r\n\r\n"
        return line.encode("latin-1") + data


class HttpTransport:
    def __init__(
        self,
        urls: list[str],
        token: str,
        log: Callable[[str, dict[str, Any]], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._servers = [WorkerServer(url, token, tls) for url in urls]
        self._at = 0
        self._log = log
        self._changed: Callable[[], None] = lambda: None

    def changed(self, woken: Callable[[], None]) -> None:
        self._changed = woken

    @property
    def server(self) -> str:
        return self._servers[self._at].url

    async def send(self, call: str, data: bytes, timeout_s: float) -> bytes:
        server = self._servers[self._at]
        try:
            async with asyncio.timeout(timeout_s):
                status, body = await self._exchange(server, call, data)
        except TimeoutError:
            self._next(server, why := f"{server.url} did not answer {call} within {timeout_s:g} s")
            raise LinkLost(why) from None
        except (Unreachable, OSError) as error:
            self._next(server, why := f"{server.url}: {error}")
            raise LinkLost(why) from None
        if status == 200:
            return body
        text = f"{server.url} answered {call} with {status}: {body[:SHOWN_MAX].decode('utf-8', 'replace')}"
        if status in (401, 403):
            raise TokenRefused(text)
        if status in REFUSED:
            raise Rejected(text)
        self._next(server, text)
        raise LinkLost(text)

    async def _exchange(self, server: WorkerServer, call: str, data: bytes) -> tuple[int, bytes]:
        connection: ApiConnection | None = None
        try:
            connection, status = await server.connections.send(server.request(call, data))
            body = await read_all(connection, INFLATED_MAX)
        except TooLong as error:
            raise Rejected(f"{server.url}: {error}") from None
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        server.connections.keep(connection)
        return status, body

    def _next(self, failed: WorkerServer, why: str) -> None:
        """Calls that were under way fail one by one: only the first of them leads elsewhere."""
        if len(self._servers) > 1 and failed is self._servers[self._at]:
            self._at = (self._at + 1) % len(self._servers)
            failed.connections.close()
            self._log("another server is asked from now on", {"server": self.server, "because": why})
            self._changed()

    async def close(self) -> None:
        for server in self._servers:
            server.connections.close()
