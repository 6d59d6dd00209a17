"""Workers over messages in a simulated world: their calls go through the real encoding, two servers and the store,
without sockets. Requests and replies are lost, late or doubled, and servers forget all that they knew."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from weft.core import commands as c
from weft.core.workflow import Workflow
from weft.node.ports import LinkFull, LinkLost
from weft.node.workers.checks import WorkerToken
from weft.node.workers.service import ServiceLimits, WorkerService
from weft.store.protocol import Reader, Store, Woken

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")
TOKEN = WorkerToken("token", "worker")
SERVERS = 2
RESTART, DOUBLE = 0.002, 0.02  # chances per call
LIMITS = ServiceLimits(refused_kinds=())


class SimulatedReach:
    def __init__(self, world: "World", number: int) -> None:
        self._world = world
        self._number = number
        self.store: Store = world.store

    def commit(self, command: c.Command) -> Any:
        if self._world.loop.time() < self._world.full_until:
            raise LinkFull("no space left")
        return self._world.commit(command)

    def reader(self) -> Reader:
        return self._world.store.reader()

    def workflow(self, hash: str) -> Workflow:
        return self._world.committer.workflows[hash]

    async def in_thread(self, work: Callable[[], T]) -> T:
        if self._world.loop.time() < self._world.away_until:
            raise LinkLost("the store is away")
        return work()

    def listen(self, woken: Woken) -> Callable[[], None]:
        self._world.listeners[-1 - self._number] = woken
        return lambda: None


class SimulatedServers:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.restarts = self.doubled = 0
        self.services = [self._start(number) for number in range(SERVERS)]

    def _start(self, number: int) -> WorkerService:
        return WorkerService(SimulatedReach(self._world, number), f"server-{number}", limits=LIMITS)

    def restart(self, number: int) -> None:
        """It forgets everything; whoever waits there gets no answer."""
        self.restarts += 1
        self._world.tell(f"server {number} restarts")
        self.services[number].close()
        self.services[number] = self._start(number)


class SimulatedTransport:
    """Sticks to a server until a call fails there."""

    def __init__(self, world: "World", servers: SimulatedServers, at: int) -> None:
        self._world = world
        self._servers = servers
        self._at = at % SERVERS
        self._changed: Callable[[], None] = lambda: None

    def changed(self, woken: Callable[[], None]) -> None:
        self._changed = woken

    async def close(self) -> None: ...

    async def send(self, call: str, data: bytes, timeout_s: float) -> bytes:
        at = self._at
        try:
            async with asyncio.timeout(timeout_s):
                return await self._sent(at, call, data)
        except (TimeoutError, LinkLost) as error:
            if self._at == at:
                self._at = (at + 1) % SERVERS
                self._changed()
            raise LinkLost(str(error)) from None

    async def _sent(self, at: int, call: str, data: bytes) -> bytes:
        world, rng = self._world, self._world.random
        done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        times = 2 if rng.random() < DOUBLE else 1
        self._servers.doubled += times > 1
        for _ in range(times):
            wire = contextvars.Context()
            world.loop.call_later(world.delay(), self._arrive, at, call, data, done, context=wire)
        return await done

    def _arrive(self, at: int, call: str, data: bytes, done: "asyncio.Future[bytes]") -> None:
        world = self._world
        if world.random.random() < world.faults.lose_request:
            world.loop.call_later(0.1, _fail, done, "request lost", context=contextvars.Context())
            return
        if world.random.random() < RESTART:
            self._servers.restart(at)
        wire = contextvars.Context()
        world.loop.create_task(self._answer(at, call, data, done), context=wire)

    async def _answer(self, at: int, call: str, data: bytes, done: "asyncio.Future[bytes]") -> None:
        world, service = self._world, self._servers.services[at]
        try:
            answer = await service.answer(TOKEN, call, data)
        except Exception as error:  # of a server: the client sees a connection that ends
            world.tell(f"server {at} failed on {call}: {error!r}")
            _fail(done, repr(error))
            return
        if self._servers.services[at] is not service or world.random.random() < world.faults.lose_reply:
            _fail(done, "reply lost after commit")
            return
        world.loop.call_later(world.delay(), _succeed, done, answer, context=contextvars.Context())


def _fail(done: "asyncio.Future[bytes]", why: str) -> None:
    if not done.done():
        done.set_exception(LinkLost(why))


def _succeed(done: "asyncio.Future[bytes]", answer: bytes) -> None:
    if not done.done():
        done.set_result(answer)
