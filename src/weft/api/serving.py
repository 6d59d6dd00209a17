"""One process with everything: the API on this thread's event loop, a node on a loop of its own beside it.

The node has a thread to itself because a slow request (a page of a thousand tasks to be encoded) would otherwise hold
up its exchanges and its lease. Told to stop, both do: requests under way are answered, streams are ended, running
tasks may end within the drain time. Told again: what still runs is killed.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from weft.api.access.request_guard import HEADERS
from weft.api.app import GuardedApplication
from weft.api.responses import problem
from weft.operations.errors import ApiError

Log = Callable[[str, str, dict[str, Any]], None]
REQUESTS_MAX_S = 10  # for requests under way, once we are told to stop
BACKLOG = 2048
WRITE_BUFFER_MAX = 16 * 1024
HEAD_MAX = 64 * 1024
HEAD_MAX_S = 10.0
INTERRUPTED = 130


class BoundedHttpProtocol(HttpToolsProtocol):
    """A request's head is bounded in its bytes and in its time, before anybody knows whose it is: neither uvicorn nor
    its parser bounds them. What is written and not yet taken by the kernel is little: a thousand readers may all be
    slow."""

    _parsed = 0  # bytes of the request's address and headers (and of the trailers of its body)
    _pending = 0  # bytes that came since the parser last made something of them
    _in_head = False  # of a request whose headers have not all come
    _head_timer: asyncio.TimerHandle | None = None  # for a head that comes in several parts: most come in one
    _refusal: ApiError | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_whole()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._pending += len(data)
        super().data_received(data)
        if self._in_head:
            self._expect_head()
        if self._pending > HEAD_MAX:
            self._refuse(_head_too_large())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._parsed = self._pending = 0
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)  # ": " and the line's end
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._pending, self._in_head = 0, False
        self._head_is_whole()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """The parser gave up: of what it read, or because a callback said so."""
        self._refuse(self._refusal or ApiError("http", msg))

    def _count(self, size: int) -> None:
        self._parsed += size
        if self._parsed > HEAD_MAX:
            self._refusal = _head_too_large()
            raise self._refusal

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_MAX_S, self._head_is_late)

    def _head_is_whole(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._refuse(ApiError("slow", f"a request's headers must arrive within {HEAD_MAX_S} s"))

    def _refuse(self, error: ApiError) -> None:
        """Say why, unless an answer is under way, and hang up."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            response = problem(error)
            headers = [*response.raw_headers, *HEADERS, (b"connection", b"close")]
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
            status = f"HTTP/1.1 {error.problem.status} {error.problem.title}\r\n".encode()
            self.transport.write(status + lines + b"\r\n" + bytes(response.body))
        self.transport.close()


def _head_too_large() -> ApiError:
    return ApiError("headers_too_large", f"a request's address and headers may have {HEAD_MAX:,} bytes")


class Server(uvicorn.Server):
    """Signals are ours: a node has to hear of them, too."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listening(host: str, port: int) -> socket.socket:
    """Bound before anything else starts: an address that is taken is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio sets no TCP_NODELAY on what it accepts: a body then waits 40 ms for its head's ACK.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except BaseException:
        found.close()
        raise
    return found


def url_of(listener: socket.socket, host: str, *, secure: bool = False) -> str:
    """Where others find it: an address that stands for all of them is no use to anybody else."""
    scheme = "https" if secure else "http"
    name, port = listener.getsockname()[:2]
    if name in ("0.0.0.0", "::"):
        name = socket.gethostname()
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


class Serving:
    """`node` begins a node and gives what is done when it has left; `stop_node` drains it, called twice it kills.
    `trusted_proxies` are those whose X-Forwarded-For says who asks; `tls` are files: certificate, key."""

    def __init__(
        self,
        app: GuardedApplication,
        listener: socket.socket,
        node: Callable[[], "Future[None]"] | None,
        stop_node: Callable[[], None],
        log: Log,
        trusted_proxies: Sequence[str] = (),
        tls: tuple[Path, Path | None] | None = None,
    ) -> None:
        self._app = app
        self._state = app.state
        self._listener = listener
        self._node = node
        self._stop_node = stop_node
        self._log = log
        self._stops = 0
        self._server = Server(
            uvicorn.Config(
                app, log_config=None, access_log=False, server_header=False, date_header=False, lifespan="on",
                backlog=BACKLOG, timeout_graceful_shutdown=REQUESTS_MAX_S, timeout_keep_alive=75, ws="none",
                http=BoundedHttpProtocol, proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                ssl_certfile=None if tls is None else tls[0], ssl_keyfile=None if tls is None else tls[1],
            )
        )  # fmt: skip

    def stop(self) -> None:
        self._stops += 1
        if self._stops > 2:
            os._exit(INTERRUPTED)
        if self._stops == 1:
            self._log("info", "stopping: requests under way are answered, running tasks may end", {})
        else:
            self._log("info", "killing what still runs", {})
            self._server.force_exit = True
        self._state.begin_stopping()
        self._server.should_exit = True
        self._stop_node()

    async def run(
        self, signals: list[int], ready: dict[str, Any], when_ready: Callable[[], None] = lambda: None
    ) -> None:
        """Until a signal, or until the node has failed. A node that was drained has left: the API goes on."""
        loop = asyncio.get_running_loop()
        for number in signals:
            loop.add_signal_handler(number, self.stop)
        serving = asyncio.create_task(self._server.serve([self._listener]))
        working = None if self._node is None else asyncio.wrap_future(self._node())
        try:
            while not self._server.started and not serving.done():
                await asyncio.sleep(0.005)
            self._log("info", "ready", ready)
            when_ready()
            await asyncio.wait({serving, working or serving}, return_when=asyncio.FIRST_COMPLETED)
            if working is not None and working.done() and working.exception() is None and not self._stops:
                self._log("info", "the node was drained and has left; the API goes on", {})
                await serving
        finally:
            self._state.begin_stopping()
            self._server.should_exit = True
            if not self._stops:
                self._stop_node()
            await serving
        if working is not None:
            await working
