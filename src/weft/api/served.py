"""What all routes share: the control, who may ask, and the threads in which the store is asked."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from weft.api.auth import Gate
from weft.api.hub import Hub, Listen
from weft.api.problems import Trouble
from weft.api.submitting import Submitting
from weft.control.metrics import Figures
from weft.control.protocol import Control
from weft.node.secrets import Secrets

T = TypeVar("T")
#: More would only wait for each other: they share one interpreter lock, and on SQLite one writer.
THREADS = 8
WAITING_MAX = 1000
HEARTBEAT_S = 15.0


class Served:
    """`ready` says why the server should get no requests right now; None: it may."""

    def __init__(
        self,
        control: Control,
        gate: Gate,
        submitting: Submitting,
        ready: Callable[[], str | None],
        threads: int,
        secrets: Secrets,
        listen: Listen | None = None,
        figures: Callable[[], Figures] | None = None,
    ) -> None:
        self.control = control
        self.gate = gate
        self.submitting = submitting
        self.ready = ready
        self.secrets = secrets
        self.stopping = asyncio.Event()  # streams end when it is set
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="weft-api")
        self.waiting = 0
        self.figures = figures  # for /metrics
        self.hub = Hub(control.last_event, self.carry_out, listen)
        self.heartbeat_s = HEARTBEAT_S

    async def carry_out(self, work: Callable[[], T]) -> T:
        """Off the event loop. Beyond a bound a request is told to come back rather than kept waiting."""
        if self.waiting >= WAITING_MAX:
            raise Trouble(503, "overloaded", f"{WAITING_MAX:,} requests wait already", "come back in a moment")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self.waiting -= 1

    def begin_stopping(self) -> None:
        """On the event loop: no new requests are wanted, those under way may end."""
        self.stopping.set()
        self.hub.wake_all()

    def close(self) -> None:
        self._pool.shutdown()
