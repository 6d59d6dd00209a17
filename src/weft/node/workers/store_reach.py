"""How the service of workers reaches a store in its own process."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from weft.core import commands as c
from weft.core.decision.draft import Hint
from weft.core.workflow import Workflow
from weft.node.local import LocalLink
from weft.store.protocol import Reader, Store, Woken

T = TypeVar("T")
THREADS = 4  # each may hold a connection that reads; what is written goes through one


class StoreReach:
    def __init__(self, store: Store, link: LocalLink) -> None:
        self.store = store
        self._link = link
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="weft-workers")
        self._own = threading.local()

    def commit(self, command: c.Command) -> Any:
        return self._link.committer.commit(command)

    def reader(self) -> Reader:
        """This thread's own."""
        reader: Reader | None = getattr(self._own, "reader", None)
        if reader is None:
            reader = self._own.reader = self.store.reader()
        return reader

    def workflow(self, hash: str) -> Workflow:
        return self._link.read_workflow(hash)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def listen(self, woken: Woken) -> Callable[[], None]:
        """Also to the exchanges of a node in this process, which wakes nobody here by them."""
        loop = asyncio.get_running_loop()

        def heard(hint: Hint) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(woken, hint)

        self._link.beside = heard
        stop = self._link.listen(woken)

        def unlisten() -> None:
            self._link.beside = None
            stop()

        return unlisten

    def close(self) -> None:
        self._threads.shutdown()
