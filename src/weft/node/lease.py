"""A session's lease as its own node sees it: renewed in time, or not to be trusted any more.

Trust counts from the moment before the renewal was *sent*, on CLOCK_BOOTTIME, less a margin: whatever delays the
reply, the store can never believe the session dead while the node believes it alive.

A renewal says that the node works, so one is sent only by a loop that turns (this one) and while the store answers:
with an exchange that has been under way for a third of the lease, none is. It carries what the node holds, in short;
where the store sees it differently, the whole list goes over.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.core.commands import Reconcile
from weft.core.liveness import digest
from weft.node.ports import LinkLost, NodeSettings, Ports, Renewal

if TYPE_CHECKING:
    from weft.node.exchange import ExchangeLoop

MARGIN = 1 / 6  # of the TTL
STUCK = 1 / 3  # of the TTL


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
        self._facts: str | None = None
        self._unanswered = False  # the last renewal, or the exchange that holds the next one up
        self.trusted_until = float("-inf")

    def granted(self, sent: float) -> None:
        """The store took a renewal (or the registration) that was sent at this moment."""
        until = sent + self._settings.lease_ttl_s * (1 - MARGIN)
        self._unanswered = False
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

    async def keep(self, loop: "ExchangeLoop") -> None:
        """Renew until cancelled; calls `lost` once when the lease is gone."""
        while True:
            every = self._settings.renew_every_s * (0.8 + 0.4 * self._ports.random.random())
            left = self.trusted_until - self._ports.clock()
            if left <= 0:
                self._lost("the lease could not be renewed in time")
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(every, left)):
                    await self._hurry.wait()
            self._hurry.clear()
            if not self.trusted:
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
        said = loop.attempts()
        short = None if said is None else (said[0], *digest(said[1]))
        try:
            async with asyncio.timeout(max(0.05, self.trusted_until - sent)):
                return await self._ports.link.renew(self._session, ttl_ms, facts, short)
        except (LinkLost, TimeoutError) as error:
            self._renewals.goes_on(error)
            self._facts = self._facts or facts
            self._unanswered = True
            return None

    async def _reconcile(self, loop: "ExchangeLoop") -> None:
        said = loop.attempts()
        if said is None:
            return  # the next renewal will ask again
        try:
            async with asyncio.timeout(max(0.05, self.trusted_until - self._ports.clock())):
                reply = await self._ports.link.commit(Reconcile(self._session, said[0], sorted(said[1])))
        except (LinkLost, TimeoutError):
            return
        unknown = reply.data.get("unknown", [])
        if reply.changed or unknown:
            data = {"queued_again": reply.changed, "given_up": len(unknown)}
            self._ports.log("the store and this node differed about what it holds", data)
        for task_id, attempt in unknown:
            loop.worker.disown(task_id, attempt)
