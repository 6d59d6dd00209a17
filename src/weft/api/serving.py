"""One process with everything: the API on this thread's event loop, a node on a loop of its own beside it.

The node has a thread to itself because a slow request (a page of a thousand tasks to be encoded) would otherwise hold
up its exchanges and its lease. Told to stop, both do: requests under way are answered, streams are ended, running
tasks may end within the drain time. Told again: what still runs is killed.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from weft.api.served import Served

Say = Callable[[str, str, dict[str, Any]], None]
REQUESTS_MAX_S = 10  # for requests under way, once we are told to stop
BACKLOG = 2048
WRITE_BUFFER_MAX = 16 * 1024
INTERRUPTED = 130


class Connection(HttpToolsProtocol):
    """What is written and not yet taken by the kernel is little: a thousand readers may all be slow."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        super().connection_made(transport)


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


def url_of(listener: socket.socket, host: str) -> str:
    """Where others find it: an address that stands for all of them is no use to anybody else."""
    name, port = listener.getsockname()[:2]
    if name in ("0.0.0.0", "::"):
        name = socket.gethostname()
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


class Serving:
    """`node` begins a node and gives what is done when it has left; `stop_node` drains it, called twice it kills."""

    def __init__(
        self,
        app: FastAPI,
        listener: socket.socket,
        node: Callable[[], "Future[None]"] | None,
        stop_node: Callable[[], None],
        say: Say,
    ) -> None:
        self._app = app
        self._served: Served = app.state.served
        self._listener = listener
        self._node = node
        self._stop_node = stop_node
        self._say = say
        self._stops = 0
        self._server = Server(
            uvicorn.Config(
                app, log_config=None, access_log=False, server_header=False, date_header=False, lifespan="on",
                backlog=BACKLOG, timeout_graceful_shutdown=REQUESTS_MAX_S, timeout_keep_alive=75, ws="none",
                http=Connection,
            )
        )  # fmt: skip

    def stop(self) -> None:
        self._stops += 1
        if self._stops > 2:
            os._exit(INTERRUPTED)
        if self._stops == 1:
            self._say("info", "stopping: requests under way are answered, running tasks may end", {})
        else:
            self._say("info", "killing what still runs", {})
            self._server.force_exit = True
        self._served.begin_stopping()
        self._server.should_exit = True
        self._stop_node()

    async def run(self, signals: list[int], ready: dict[str, Any]) -> None:
        """Until told to stop, or until the node has left (somebody drained it, or it failed)."""
        loop = asyncio.get_running_loop()
        for number in signals:
            loop.add_signal_handler(number, self.stop)
        serving = asyncio.create_task(self._server.serve([self._listener]))
        working = None if self._node is None else asyncio.wrap_future(self._node())
        try:
            while not self._server.started and not serving.done():
                await asyncio.sleep(0.005)
            self._say("info", "ready", ready)
            await asyncio.wait({serving, working or serving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._served.begin_stopping()
            self._server.should_exit = True
            if not self._stops:
                self._stop_node()
            await serving
        if working is not None:
            await working
