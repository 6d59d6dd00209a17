"""Workers that wait for something to do: one look at the store for all of them.

A wait is answered when an exchange is worthwhile, at once if it is already: so a lost answer costs nothing but time.
One task must not bring a thousand workers to the store. Of those that could claim a task that waits, two are woken,
then four, then eight, 20 ms apart, until nothing waits any more; the worker that has waited longest is first.

A worker that holds nothing sends no renewals: its wait says that it is alive, and its lease is renewed here while the
wait lasts, all leases that are due in one transaction. A thousand idle workers took 133 requests a second before, and
take 33. The store may believe in such a worker for longer than its lease: it has nothing that others could run.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from weft.core.decision.draft import Hint
from weft.core.liveness import agree
from weft.node.workers.messages import Rest, WaitReply, Woken
from weft.node.workers.renewals import RenewEach
from weft.node.workers.sessions import WorkerSession
from weft.store.protocol import EVERYONE

WAIT_MAX_S = 30.0  # proxies close what is silent for a minute
RENEW = 1 / 3  # of the lease
LOOK_EVERY_S = 1.0  # whatever was heard: wake-ups may be lost
SOON_S = 0.5  # after a wait began, for what came just before it: one look for all that begin meanwhile
SOON_MAX = 50  # while more than these wait, another one takes what came, and waits begin all the time
APART_S = 0.02
FIRST_GROUP = 2


def wait_max_s(ttl_s: float | None) -> float:
    """How long a wait lasts at the most, with the lease that it renews."""
    return WAIT_MAX_S if ttl_s is None else min(WAIT_MAX_S, ttl_s)


class Waiter(msgspec.Struct):
    """A session, what its worker asked for, of which workflows (none: of all), and the demands that it knows."""

    session: WorkerSession
    asked: list[str]
    workflows: tuple[str, ...]
    known_demands: int
    rest: Rest | None = None
    demands: list[str] = []  # what it may claim of
    renewed: bool = False
    renew_at: float = 0.0  # by the clock of the event loop


class WorkFound(NamedTuple):
    """What one look has found: sessions for which tasks wait, and those that are drained or have attempts to stop."""

    claimable: frozenset[str]
    concerned: frozenset[str]


LookForAll = Callable[[list[Waiter]], Awaitable[WorkFound]]


class WaitingWorkers:
    def __init__(self, look: LookForAll, renew_each: RenewEach) -> None:
        self._look = look
        self._renew_each = renew_each
        self._waiters: dict[str, tuple[Waiter, asyncio.Future[Woken]]] = {}  # oldest first
        self._signal = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._group = FIRST_GROUP
        self._soon: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiters)

    async def wait(self, waiter: Waiter) -> WaitReply:
        woken = "nothing" if self._closed else await self._woken(waiter)
        return WaitReply(woken, waiter.renewed)

    def holds_something(self, session: str) -> None:
        """From now on its worker renews its lease itself, and loses it when it does not."""
        if session in self._waiters:
            self._waiters[session][0].rest = None

    async def _woken(self, waiter: Waiter) -> Woken:
        id = waiter.session.id
        before = self._waiters.pop(id, None)
        if before is not None and not before[1].done():
            before[1].set_result("nothing")  # the worker waits for something else now
        done: asyncio.Future[Woken] = asyncio.get_running_loop().create_future()
        entry = self._waiters[id] = (waiter, done)
        if self._soon is None and len(self._waiters) <= SOON_MAX:
            self._soon = asyncio.get_running_loop().call_later(SOON_S, self._look_soon)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._keep_looking())
        try:
            async with asyncio.timeout(wait_max_s(None if waiter.rest is None else waiter.rest.ttl_ms / 1000)):
                return await done
        except TimeoutError:
            return "nothing"
        finally:
            if self._waiters.get(id) is entry:
                del self._waiters[id]

    def wake(self, hint: Hint = EVERYONE) -> None:
        """Something may be there to do. On the event loop."""
        if hint.everyone or hint.queued:
            self._signal.set()

    def _look_soon(self) -> None:
        self._soon = None
        self._signal.set()

    def close(self) -> None:
        """All are answered: the server goes."""
        self._closed = True
        for _, done in self._waiters.values():
            if not done.done():
                done.set_result("nothing")
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _keep_looking(self) -> None:
        """While anybody waits."""
        try:
            while self._waiters:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await self._signal.wait()
                self._signal.clear()
                more = await self._wake_some()
                self._group = self._group * 2 if more else FIRST_GROUP
                if more:
                    self._signal.set()
                await asyncio.sleep(APART_S)
        finally:
            self._looking = None

    async def _wake_some(self) -> bool:
        """True: tasks wait that those who were woken may not be able to take all."""
        try:
            await self._renew_due()
            found = await self._look([waiter for waiter, _ in self._waiters.values()])
        except Exception:  # the store does not answer: a worker that renews hears of it
            return False
        woken = 0
        for id, (_, done) in list(self._waiters.items()):
            if done.done():
                continue
            if id in found.concerned:
                done.set_result("everyone")
            elif id in found.claimable and woken < self._group:
                done.set_result("queued")
                woken += 1
        return woken >= self._group

    async def _renew_due(self) -> None:
        """Leases of those that rest. A worker whose session is over, or holds attempts by what the store knows, is
        answered, and asks by itself."""
        now = asyncio.get_running_loop().time()
        due = [
            (waiter, done, waiter.rest)
            for waiter, done in self._waiters.values()
            if waiter.renew_at <= now and waiter.rest is not None
        ]
        if not due:
            return
        due.sort(key=lambda one: one[0].session.id)  # as all who lock leases do
        found = await self._renew_each([(waiter.session.id, rest.ttl_ms, rest.facts) for waiter, _, rest in due])
        for (waiter, done, rest), stored in zip(due, found, strict=True):
            waiter.renewed = stored is not None and (rest.digest is None or agree(rest.digest, stored))
            waiter.renew_at, rest.facts = now + rest.ttl_ms / 1000 * RENEW, None
            if not waiter.renewed and not done.done():
                done.set_result("everyone")
