"""A session's lease as its own node sees it: renewed in time, or not to be trusted any more.

Trust counts from the moment before the renewal was *sent*, on CLOCK_BOOTTIME, less a margin: whatever delays the
reply, the store can never believe the session dead while the node believes it alive.
"""

import asyncio
from collections.abc import Callable

from weft.node.ports import LinkLost, NodeSettings, Ports

MARGIN = 1 / 6  # of the TTL


class Lease:
    def __init__(self, ports: Ports, settings: NodeSettings, session: str, lost: Callable[[str], None]) -> None:
        self._ports = ports
        self._settings = settings
        self._session = session
        self._lost = lost
        self.trusted_until = float("-inf")

    def granted(self, sent: float) -> None:
        """The store took a renewal (or the registration) that was sent at this moment."""
        until = sent + self._settings.lease_ttl_s * (1 - MARGIN)
        if until > self.trusted_until:
            self.trusted_until = until
            for executor in dict.fromkeys(self._ports.executors.values()):
                executor.trust(until)

    @property
    def trusted(self) -> bool:
        return self._ports.clock() < self.trusted_until

    async def keep(self) -> None:
        """Renew until cancelled; calls `lost` once when the lease is gone."""
        ttl_ms = int(self._settings.lease_ttl_s * 1000)
        while True:
            every = self._settings.renew_every_s * (0.8 + 0.4 * self._ports.random.random())
            left = self.trusted_until - self._ports.clock()
            if left <= 0:
                self._lost("the lease could not be renewed in time")
                return
            await asyncio.sleep(min(every, left))
            if not self.trusted:
                continue
            sent = self._ports.clock()
            try:
                async with asyncio.timeout(max(0.05, self.trusted_until - sent)):
                    alive = await self._ports.link.renew(self._session, ttl_ms)
            except (LinkLost, TimeoutError):
                continue
            if not alive:
                self._lost("the store has ended this session")
                return
            self.granted(sent)
