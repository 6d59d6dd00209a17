"""The connection as screens use it: asked in threads that end with the process, and since when it has been silent."""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from weft.client.local import StoreConnection
from weft.client.remote import ServerConnection
from weft.client.verbs import Connection
from weft.operations.declare import RANK, Role
from weft.store.protocol import StoreError

T = TypeVar("T")
THREADS: Final = 3  # one may wait for a server that does not answer while a person goes on
#: Errors that pass by themselves: the next poll asks again.
UNANSWERED: Final = (StoreError, OSError)


class TopLink:
    """`changed` is called when the connection falls silent, and when it answers again."""

    def __init__(self, connection: Connection, place: str) -> None:
        self.connection = connection
        self.place = place  # what it is connected to, for people
        self.changed: Callable[[], None] = lambda: None
        self.role = "viewer"  # until the server has said what the token may
        self.heard_at = time.time()
        self.silent = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: queue.SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        if isinstance(connection, ServerConnection):
            connection.notify(self._fall_silent)
        elif isinstance(connection, StoreConnection):
            connection.store.log = self._fall_silent

    def may(self, role: Role) -> bool:
        return RANK[self.role] >= RANK[role]

    async def learn_role(self) -> None:
        self.role = (await self.ask(lambda connection: connection.caller())).role

    async def ask(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns or raises, from a thread."""
        self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = self._loop.create_future()
        self._start_threads()
        self._asked.put((future, lambda: work(self.connection)))
        try:
            found = await future
        except UNANSWERED:
            self._set_silent()
            raise
        self.heard_at = time.time()
        if self.silent:
            self.silent = False
            self.changed()
        return found

    def _start_threads(self) -> None:
        # Daemons: a thread that waits for a silent server must not keep the process from ending.
        while len(self._threads) < THREADS:
            thread = threading.Thread(target=self._serve, daemon=True, name=f"weft-top-{len(self._threads)}")
            self._threads.append(thread)
            thread.start()

    def _serve(self) -> None:
        while True:
            future, work = self._asked.get()
            value: Any = None
            error: BaseException | None = None
            try:
                value = work()
            except BaseException as raised:
                error = raised
            loop = future.get_loop()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits for it
                loop.call_soon_threadsafe(_settle, future, value, error)

    def _fall_silent(self, text: str) -> None:
        """Called in the thread that waits."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._set_silent)

    def _set_silent(self) -> None:
        if not self.silent:
            self.silent = True
            self.changed()


def _settle(future: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
