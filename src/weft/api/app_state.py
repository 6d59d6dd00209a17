"""What all handlers share: the control, who may ask, and the threads in which the store is asked."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from weft.api.access.auth import Gate
from weft.api.access.sign_in_codes import COOKIE_GOOD_S, SignInCodes
from weft.api.streams.hub import Hub, Listen
from weft.api.submission_batcher import SubmissionBatcher
from weft.client.definition_loader import DefinitionLoader
from weft.client.verbs import Connection
from weft.core.commands import Reply, Submit
from weft.node.attempts.secrets import Secrets
from weft.node.workers.service import WorkerService
from weft.operations.errors import ApiError
from weft.operations.reading.figures import Figures

T = TypeVar("T")
#: More would only wait for each other: they share one interpreter lock, and on SQLite one writer.
THREADS = 8
WAITING_MAX = 1000
HEARTBEAT_S = 15.0
SMALL = 16 * 1024  # bytes of a submission that take no time to speak of
PATIENCE_S = 1.0  # then the store is asked whether it is there: whoever asks hears of it within 5 s


class StoreProbe:
    """Is the store there? Asked on a thread of its own, once for all requests that have waited for long."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weft-probe")
        self._asked: asyncio.Future[bool] | None = None

    async def answers(self) -> bool:
        if self._asked is None or self._asked.done():
            self._asked = asyncio.get_running_loop().run_in_executor(self._thread, self._connection.answers)
        return await asyncio.shield(self._asked)

    def close(self) -> None:
        self._thread.shutdown()


def _ignore_late(late: "asyncio.Future[Any]") -> None:
    """Nothing waits for it any more; its error was reported as the store's silence."""
    if not late.cancelled():
        late.exception()


class AppState:
    """`ready` says why the server should get no requests right now; None: it may."""

    def __init__(
        self,
        connection: Connection,
        gate: Gate,
        definitions: DefinitionLoader,
        ready: Callable[[], str | None],
        threads: int,
        secrets: Secrets,
        listen: Listen | None = None,
        figures: Callable[[], Figures] | None = None,
        workers: WorkerService | None = None,
    ) -> None:
        self.connection = connection
        self.workers = workers
        self.gate = gate
        self.definitions = definitions
        self.ready = ready
        self.secrets = secrets
        self.stopping = asyncio.Event()  # streams end when it is set
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="weft-api")
        self.waiting = 0
        self.figures = figures  # for /metrics
        self.hub = Hub(connection.last_event, self.off_loop, listen)
        self.heartbeat_s = HEARTBEAT_S
        self.sign_ins = SignInCodes()
        self.cookies = SignInCodes(good_s=COOKIE_GOOD_S)
        self._batcher = SubmissionBatcher(connection)
        self._probe = StoreProbe(connection)

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Off the event loop, in one of a few threads."""
        return await self._while_store_answers(lambda: asyncio.get_running_loop().run_in_executor(self._pool, work))

    async def submit(
        self, make: Callable[[], Submit], size: int, command_id: str | None, actor: str | None
    ) -> tuple[Submit, Reply]:
        """In one transaction with what else is submitted then. A large one is decoded elsewhere: it would delay the
        others."""
        if size > SMALL:
            made = await self.off_loop(make)
            return await self.submit(lambda: made, 0, command_id, actor)
        return await self._while_store_answers(lambda: self._batcher.submit(make, command_id, actor))

    async def _while_store_answers(self, begin: "Callable[[], asyncio.Future[T]]") -> T:
        """Beyond a bound a request is refused rather than kept waiting."""
        if self.waiting >= WAITING_MAX:
            raise ApiError("overloaded", f"{WAITING_MAX:,} requests wait already", "come back in a moment")
        self.waiting += 1
        try:
            working = begin()
            while not (await asyncio.wait({working}, timeout=PATIENCE_S))[0]:
                if not await self._probe.answers():
                    working.add_done_callback(_ignore_late)
                    raise ApiError(
                        "store_busy", "the store does not answer",
                        "try again in a moment; a write may have been applied: send it again with its Weft-Command",
                    )  # fmt: skip
            return working.result()
        finally:
            self.waiting -= 1

    def begin_stopping(self) -> None:
        """On the event loop: no new requests are wanted, those under way may end."""
        self.stopping.set()
        self.hub.wake_all()
        if self.workers is not None:
            self.workers.close()

    def close(self) -> None:
        self._pool.shutdown()
        self._batcher.close()
        self._probe.close()
