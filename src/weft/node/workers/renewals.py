"""Renewals of all workers of a server, many in one transaction: a thousand idle workers renew a hundred leases a
second, and each by itself would be a commit. While one batch is under way the next one gathers."""

import asyncio
from collections.abc import Awaitable, Callable

from weft.core.liveness import agree
from weft.node.ports import Renewal
from weft.store.protocol import LeaseRenewal

GATHER_S = 0.05  # little beside a lease, and trust counts from before a renewal was sent
BATCH_MAX = 500
RenewEach = Callable[[list[LeaseRenewal]], Awaitable[list[tuple[int, int, int] | None]]]


class Renewals:
    def __init__(self, renew_each: RenewEach) -> None:
        self._renew_each = renew_each
        self._waiting: dict[str, tuple[LeaseRenewal, asyncio.Future[tuple[int, int, int] | None]]] = {}
        self._flushing: asyncio.Task[None] | None = None

    async def renew(
        self, session: str, ttl_ms: int, facts: str | None, digest: tuple[int, int, int] | None
    ) -> Renewal:
        before = self._waiting.get(session)
        if before is not None:  # asked again meanwhile: the first answer is for both
            facts = facts if facts is not None else before[0][2]
            done = before[1]
        else:
            done = asyncio.get_running_loop().create_future()
        self._waiting[session] = ((session, ttl_ms, facts), done)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())
        stored = await asyncio.shield(done)
        return Renewal(stored is not None, stored is None or digest is None or agree(digest, stored))

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(GATHER_S)
                batch = sorted(self._waiting)[:BATCH_MAX]
                await self._send([self._waiting.pop(session) for session in batch])
        finally:
            self._flushing = None

    async def _send(self, batch: "list[tuple[LeaseRenewal, asyncio.Future[tuple[int, int, int] | None]]]") -> None:
        try:
            found = await self._renew_each([renewal for renewal, _ in batch])
        except Exception as error:
            for _, done in batch:
                if not done.done():
                    done.set_exception(error)
                    done.exception()  # its caller may have gone
            return
        for (_, done), stored in zip(batch, found, strict=True):
            if not done.done():
                done.set_result(stored)
