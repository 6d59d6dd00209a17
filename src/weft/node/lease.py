"""A session's lease as its own node sees it: renewed in time, or not to be trusted any more.

Trust counts from the moment before the renewal was *sent*, on CLOCK_BOOTTIME, less a margin: whatever delays the
reply, the store can never believe the session dead while the node believes it alive.

A renewal says that the node works, so one is sent only by a loop that turns (this one) and while the store answers:
with an exchange that has been under way for a third of the lease, none is. It carries what the node holds, in short;
where the store sees it differently, the whole list goes over.

A node that asks a server for work may rest: while it holds nothing, each wait for work renews its lease, and trust
may lapse meanwhile. Nothing is lost by that: the session goes on, and is renewed before the next exchange.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.core.commands import Reconcile
from weft.core.liveness import digest
from weft.node.ports import LinkLost, NodeSettings, Ports, Renewal, RestRenewal

if TYPE_CHECKING:
    from weft.node.exchange import ExchangeLoop

MARGIN = 1 / 6  # of the TTL
STUCK = 1 / 3  # of the TTL
RETRY = 1 / 30  # of the TTL: a renewal that failed is sent again while there is time, perhaps to another server
FRESH = 1 / 2  # of the TTL: with less trust than this, a node that rested renews its lease when it claims


class Outage:
    """Logs once that something fails, and once that it works again, whatever else is tried meanwhile."""

    def __init__(
        self, ports: Ports, fails: str = "the store did not answer", works: str = "the store answers again"
    ) -> None:
        self._ports = ports
        self._fails = fails
        self._works = works
        self._since: float | None = None

    def goes_on(self, error: Exception) -> None:
        if self._since is None:
            self._since = self._ports.clock()
            self._ports.log(self._fails, {"error": str(error) or "no answer in time"})

    def is_over(self) -> None:
        if self._since is not None:
            self._ports.log(self._works, {"after_s": round(self._ports.clock() - self._since, 1)})
            self._since = None


class LeaseKeeper:
    def __init__(
        self, ports: Ports, settings: NodeSettings, session: str, lost: Callable[[str], None], outage: Outage,
        renewals: Outage,
    ) -> None:  # fmt: skip
        self.outage = outage
        self._renewals = renewals  # they may fail while exchanges are answered, and have a line of their own
        self._ports = ports
        self._settings = settings
        self._session = session
        self._lost = lost
        self._hurry = asyncio.Event()
        self._granted = asyncio.Event()
        self._facts: str | None = None
        self._unanswered = False  # the last renewal, or the exchange that holds the next one up
        self._resting = False  # a wait for work renews the lease
        self._may_rest = False  # this link has such waits
        self.loop: ExchangeLoop | None = None
        self.trusted_until = float("-inf")

    def granted(self, sent: float) -> None:
        """The store took a renewal (or the registration) that was sent at this moment."""
        until = sent + self._settings.lease_ttl_s * (1 - MARGIN)
        self._unanswered = False
        self._granted.set()
        self._renewals.is_over()
        if until > self.trusted_until:
            self.trusted_until = until
            for executor in dict.fromkeys(self._ports.executors.values()):
                executor.trust(until)

    @property
    def trusted(self) -> bool:
        return self._ports.clock() < self.trusted_until

    @property
    def given_up(self) -> bool:
        """It has just ended because the store did not answer. A process that stood still itself notices it late."""
        late_s = self._ports.clock() - self.trusted_until
        return self._unanswered and 0 <= late_s < self._settings.lease_ttl_s * MARGIN

    def publish(self, facts: str, *, now: bool) -> None:
        """What the node measured of its machine: goes with the next renewal, or with one at once."""
        self._facts = facts
        if now:
            self._hurry.set()

    @property
    def may_lapse(self) -> bool:
        """Without trust nothing is lost: the session holds nothing, and what becomes of it is asked."""
        return self._may_rest and self.loop is not None and self.loop.holds_nothing

    def rest(self) -> RestRenewal | None:
        self._may_rest, self._resting = True, self.loop is not None and self.loop.can_rest
        if not self._resting or self.loop is None:
            return None
        facts, self._facts = self._facts, None
        return RestRenewal(self._ports.clock(), int(self._settings.lease_ttl_s * 1000), facts, self._short(self.loop))

    def rested(self, renewal: RestRenewal, *, renewed: bool) -> None:
        if renewed:
            self.granted(renewal.sent)
        else:
            self._resting = False
            self._facts = self._facts or renewal.facts
            self._hurry.set()

    async def refresh(self) -> None:
        """The node is about to claim: after a rest its lease is renewed at once, and before that if trust could lapse
        until the claim is there."""
        left, ttl_s = self.trusted_until - self._ports.clock(), self._settings.lease_ttl_s
        if not self._resting or left > ttl_s * FRESH:
            return
        self._resting = False
        self._granted.clear()
        self._hurry.set()
        if left < ttl_s * STUCK:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ttl_s * STUCK):
                    await self._granted.wait()

    async def keep(self, loop: "ExchangeLoop") -> None:
        """Renew until cancelled; calls `lost` once when the lease is gone."""
        while True:
            every = self._settings.renew_every_s * (0.8 + 0.4 * self._ports.random.random())
            if self._unanswered:
                every = min(every, self._settings.lease_ttl_s * RETRY)
            left = self.trusted_until - self._ports.clock()
            if left <= 0 and not self.may_lapse:
                self._lost("the lease could not be renewed in time")
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(every, left) if left > 0 else every):
                    await self._hurry.wait()
            hurried = self._hurry.is_set()
            self._hurry.clear()
            if not self.trusted and not self.may_lapse:
                continue
            if self._resting and self.may_lapse and not hurried:
                continue
            if loop.stuck_s > self._settings.lease_ttl_s * STUCK:
                self._unanswered = True
                continue
            sent = self._ports.clock()
            renewal = await self._renew(loop, sent)
            if renewal is None:
                continue
            if not renewal.alive:
                self._lost("the store has ended this session")
                return
            self.granted(sent)
            if not renewal.agrees:
                await self._reconcile(loop)

    async def _renew(self, loop: "ExchangeLoop", sent: float) -> Renewal | None:
        """None: nobody knows whether it was taken."""
        ttl_ms = int(self._settings.lease_ttl_s * 1000)
        facts, self._facts = self._facts, None
        patience_s = self._settings.lease_ttl_s if self.may_lapse else max(0.05, self.trusted_until - sent)
        try:
            async with asyncio.timeout(patience_s):
                return await self._ports.link.renew(self._session, ttl_ms, facts, self._short(loop))
        except (LinkLost, TimeoutError) as error:
            self._renewals.goes_on(error)
            self._facts = self._facts or facts
            self._unanswered = True
            return None

    @staticmethod
    def _short(loop: "ExchangeLoop") -> tuple[int, int, int] | None:
        """What the node holds, in short."""
        said = loop.attempts()
        return None if said is None else (said[0], *digest(said[1]))

    async def _reconcile(self, loop: "ExchangeLoop") -> None:
        said = loop.attempts()
        if said is None:
            return  # the next renewal will ask again
        try:
            async with asyncio.timeout(max(0.05, self.trusted_until - self._ports.clock())):
                reply = await self._ports.link.reconcile(Reconcile(self._session, said[0], sorted(said[1])))
        except (LinkLost, TimeoutError):
            return
        unknown = reply.data.get("unknown", [])
        if reply.changed or unknown:
            data = {"queued_again": reply.changed, "given_up": len(unknown)}
            self._ports.log("the store and this node differed about what it holds", data)
        for task_id, attempt in unknown:
            loop.worker.disown(task_id, attempt)
