"""A node's part in leading: it stands by while another leads, and while it leads itself it does the chores.

A node that stands by does one chore too: it ends sessions whose leases have passed (chores/expire.py).

Like a lease, a term is trusted from before the renewal was *sent*. That only keeps two leaders from working beside
each other; what makes it safe is the term that every chore carries.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from weft.core.commands import Lead, LeadReply, Refused, Resign
from weft.node.chores.expire import end_late, expire, standby_every_s
from weft.node.chores.fire import fire
from weft.node.chores.notify import Deliveries
from weft.node.chores.overdue import overdue
from weft.node.chores.prune import prune
from weft.node.lease import MARGIN
from weft.node.ports import LinkLost, NodeSettings, Ports

Chore = Callable[[Ports, NodeSettings, int], Awaitable[None]]
LOOKS = 2  # looks at who leads, per renewal interval
RETRY_S = 0.2
DELIVER_MAX_S = 10.0  # for what a run has left to deliver when its node goes


class Leader:
    def __init__(self, ports: Ports, settings: NodeSettings, session: str) -> None:
        self._ports = ports
        self._settings = settings
        self._session = session
        self._look = asyncio.Event()
        self._resigned = False
        self._until = float("-inf")
        self._late_at = float("-inf")  # when to look for late sessions again
        self.term: int | None = None
        self._deliveries = Deliveries()

    def look(self) -> None:
        """The cluster has no leader, or may have none."""
        if self._settings.role != "worker":
            self._look.set()

    async def keep(self) -> None:
        """Until cancelled: lead when nobody does, and end late sessions also while another leads. A node that is here
        for one run only is in no hurry."""
        if self._settings.role == "observer":
            return
        if self._settings.scope is not None:
            await self._pause(self._settings.leader_renew_s / LOOKS)
        while not self._resigned:
            left_s = await self._others_left_s()
            if self._settings.role == "worker":
                left_s = float("inf")
            if left_s <= 0 and await self._ask():
                await self._serve()
                continue
            every = min(self._settings.leader_renew_s / LOOKS, self._late_at - self._ports.clock())
            await self._pause(max(min(every, left_s), RETRY_S))

    async def deliver_rest(self) -> None:
        """Before a node that was here for one run goes, and no longer leads: what that run left to deliver, under a
        term of its own. If another node leads, that one delivers it."""
        ports, settings = self._ports, self._settings
        term: int | None = None
        try:
            async with asyncio.timeout(min(DELIVER_MAX_S, settings.notify_timeout_s)):
                box = await ports.chore_link.outbox(0, 1)
                if (box.due or box.late) and ports.notifier is not None:
                    reply: LeadReply = await ports.chore_link.commit(
                        Lead(self._session, int(settings.leader_ttl_s * 1000))
                    )
                    term = reply.term
                if term is not None:
                    await self._deliveries.notify_all(ports, settings, term)
        except (LinkLost, Refused, TimeoutError) as error:
            ports.log("notifications are left to be delivered", {"error": str(error) or repr(error)})
        finally:
            await self._deliveries.stop()
            if term is not None:
                with contextlib.suppress(LinkLost):
                    await ports.chore_link.commit(Resign(self._session, term))

    async def resign(self) -> None:
        """Hand it over now, instead of letting the term run out."""
        self._resigned = True
        self._look.set()
        term, self.term = self.term, None
        if term is not None:
            with contextlib.suppress(LinkLost):
                await self._ports.chore_link.commit(Resign(self._session, term))

    async def _others_left_s(self) -> float:
        """How long the cluster is led by another node for certain."""
        late = self._ports.clock() >= self._late_at - RETRY_S  # rather now than in an extra look
        try:
            watch = await self._ports.chore_link.watch(late=late)
            if late:
                every_s = standby_every_s(self._settings, watch.live, self._ports.random.random())
                self._late_at = self._ports.clock() + every_s
                await end_late(self._ports, watch.late)
        except LinkLost:
            return RETRY_S
        return 0.0 if watch.leader == self._session else watch.left_ms / 1000

    async def _ask(self) -> bool:
        """Begin a term, or renew ours; True if we lead."""
        sent = self._ports.clock()
        ttl_ms = int(self._settings.leader_ttl_s * 1000)
        try:
            reply: LeadReply = await self._ports.chore_link.commit(Lead(self._session, ttl_ms))
        except LinkLost:
            return self._trusted
        if reply.term is None or self._resigned:
            self._until = float("-inf")
            return False
        self.term = reply.term
        self._until = sent + self._settings.leader_ttl_s * (1 - MARGIN)
        return self._trusted

    @property
    def _trusted(self) -> bool:
        return self.term is not None and self._ports.clock() < self._until

    async def _serve(self) -> None:
        """Do the chores, and renew the term, until it is lost or handed over."""
        settings, term = self._settings, self.term
        assert term is not None
        chores = [
            asyncio.create_task(self._repeat(expire, settings.expire_every_s, term)),
            asyncio.create_task(self._repeat(overdue, settings.overdue_every_s, term)),
            asyncio.create_task(self._repeat(prune, settings.prune_every_s, term)),
            asyncio.create_task(self._repeat(fire, settings.fire_every_s, term)),
            asyncio.create_task(self._repeat(self._deliveries.notify, settings.notify_every_s, term)),
        ]
        try:
            while self._trusted and self.term == term and not self._resigned:
                left = self._until - self._ports.clock()
                await self._pause(min(settings.leader_renew_s, left))
                if not self._resigned and not await self._ask():
                    break
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            await self._deliveries.stop()
            if not self._resigned:
                self.term = None

    async def _repeat(self, chore: Chore, every_s: float, term: int) -> None:
        """At once, and then again and again, until cancelled. While the term is in doubt (this node was paused, say)
        nothing is done; it may be renewed yet."""
        while True:
            if self._trusted:
                await self._do(chore, term)
            await asyncio.sleep(every_s * (0.8 + 0.4 * self._ports.random.random()))

    async def _do(self, chore: Chore, term: int) -> None:
        try:
            async with asyncio.timeout(self._settings.leader_ttl_s):  # a call that hangs must not end the chore
                await chore(self._ports, self._settings, term)
        except (LinkLost, TimeoutError):
            pass
        except Exception as error:
            if isinstance(error, Refused) and error.code == "stale_term":
                self._until = float("-inf")  # somebody else leads by now
                self._look.set()
            else:
                self._ports.log("a chore failed", {"chore": chore.__name__, "error": repr(error)})

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds * (0.9 + 0.2 * self._ports.random.random())):
                await self._look.wait()
        self._look.clear()
