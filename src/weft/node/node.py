"""A running node: one session after another, each with its lease, its exchange loop and its chores.

A session that dies (its lease passed, the store ended it) takes all its attempts with it: they are killed, and the
node begins a new session under a new id. Stop once: no new claims, running attempts get the drain time, the rest
goes back. Stop twice: kill.
"""

import asyncio
import contextlib
import json

from weft.core.commands import Register
from weft.node.chores.expire import expire_forever
from weft.node.chores.place import place_forever
from weft.node.exchange import ExchangeLoop
from weft.node.lease import Lease
from weft.node.ports import LinkLost, NodeSettings, Ports


class Node:
    def __init__(self, ports: Ports, settings: NodeSettings, facts: dict[str, object] | None = None) -> None:
        self._ports = ports
        self._settings = settings
        self._facts = facts or {}
        self._stopping = asyncio.Event()
        self._killing = asyncio.Event()
        self._ready = asyncio.Event()
        self.session = ""
        self.loop: ExchangeLoop | None = None

    async def run(self) -> None:
        """Until stopped. Executors are opened first and closed last."""
        executors = list(dict.fromkeys(self._ports.executors.values()))
        for executor in executors:
            await executor.open()
        try:
            while not self._stopping.is_set():
                await self._session()
        finally:
            for executor in executors:
                await executor.close()

    def stop(self) -> None:
        """First call: drain. Second call: kill."""
        if self._stopping.is_set():
            self._killing.set()
        self._stopping.set()

    async def ready(self) -> None:
        """The node has a session and can claim."""
        await self._ready.wait()

    async def _session(self) -> None:
        registered = await self._register()
        if registered is None:
            return
        sent, scope = registered
        lease = Lease(self._ports, self._settings, self.session, self._lease_lost)
        lease.granted(sent)
        self.loop = loop = ExchangeLoop(self._ports, self._settings, self.session, scope, lease)
        unlisten = self._ports.link.listen(loop.wake)
        chores = [
            asyncio.create_task(lease.keep()),
            asyncio.create_task(expire_forever(self._ports, self._settings, self.session)),
            asyncio.create_task(place_forever(self._ports, self._settings, lambda: loop.eligible.scored)),
            asyncio.create_task(self._drain(loop)),
        ]
        self._ready.set()
        exchange = asyncio.create_task(loop.run())
        self._over = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait([exchange, self._over], return_when=asyncio.FIRST_COMPLETED)
            if exchange.done():
                exchange.result()  # a bug in the loop must not pass for an end
        finally:
            unlisten()
            for task in [*chores, exchange]:
                task.cancel()
            await asyncio.gather(*chores, exchange, return_exceptions=True)
            await self._end_session(loop)

    async def _register(self) -> tuple[float, int | None] | None:
        """(when it was sent, the scope's run number); None: stopped before it was done. Every try has a new
        session id: a registration whose reply was lost may have been applied, and then expires by itself."""
        ttl_ms = int(self._settings.lease_ttl_s * 1000)
        body = json.dumps(
            {
                **self._facts,
                "slots": self._settings.slots,
                "labels": self._settings.labels,
                "kinds": sorted(self._ports.executors),
                "capabilities": self._settings.capabilities,
                "memory": self._settings.memory,
                "disk": self._settings.disk,
                "gpus": self._settings.gpus,
                "gpu_memory": self._settings.gpu_memory,
                "functions": self._settings.functions,
            }
        )
        while not self._stopping.is_set():
            self.session = self._ports.new_id()
            try:
                await self._ports.link.expire_dead(self.session)
                sent = self._ports.clock()
                command = Register(self.session, self._settings.name, ttl_ms, self._settings.scope, body)
                reply = await self._ports.link.register(command)
            except LinkLost as error:
                self._ports.log("cannot register yet", {"error": str(error)})
                await asyncio.sleep(0.5)
                continue
            return sent, reply.run_no
        return None

    def _lease_lost(self, why: str) -> None:
        self._ports.log("the session is over", {"session": self.session, "why": why})
        if self.loop is not None:
            self.loop.dead = True
        if not self._over.done():
            self._over.set_result(None)

    async def _drain(self, loop: ExchangeLoop) -> None:
        await self._stopping.wait()
        loop.worker.accepting = False
        loop.finishing = True
        loop.worker.give_back_unstarted(0)
        loop.wake()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_s):
                await self._killing.wait()
        loop.worker.hand_back(0.0 if self._killing.is_set() else 2.0)
        loop.wake()
        if not self._killing.is_set():
            await self._killing.wait()
            loop.worker.hand_back(0.0)

    async def _end_session(self, loop: ExchangeLoop) -> None:
        if loop.dead:
            await self._kill_all(loop)
            return
        with contextlib.suppress(LinkLost):  # if it cannot be said, the lease ends the session
            await self._ports.link.leave(self.session)

    async def _kill_all(self, loop: ExchangeLoop) -> None:
        """Nothing of a dead session may go on: the attempts belong to somebody else now."""
        worker = loop.worker
        for held in worker.held.values():
            if held.started:
                claim = held.claim
                self._ports.executors[held.definition.kind].stop(claim.task_id, claim.attempt, "lease", 0.0)
        worker.forget()
