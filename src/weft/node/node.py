"""A running node: one session after another, each with its lease, its exchange loop and its chores.

A session that dies (its lease passed, the store ended it) takes all its attempts with it: they are killed, and the
node begins a new session under a new id. Stop once: no new claims, running attempts get the drain time, the rest
goes back. Stop twice: kill. Somebody may also drain the session in the store; then the node leaves, for good.
"""

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Iterator
from typing import Any

import msgspec

from weft.core.commands import Drain, Refused, Register, Reply
from weft.node.attempts.output import OutputShipper
from weft.node.chores.engines import Engines, watch_engines
from weft.node.chores.gone import bury_forever
from weft.node.chores.place import place_forever
from weft.node.chores.resources import measure_forever
from weft.node.chores.workspaces import tidy, tidy_forever
from weft.node.exchange import ExchangeLoop
from weft.node.leader import Leader
from weft.node.lease import MARGIN, LeaseKeeper, Outage
from weft.node.meter import Meter
from weft.node.ports import LinkLost, NodeSettings, Ports

BACK_OFF_S = (0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 15.0)  # after so many lost sessions, or tries, in a row
FLUSH_MAX_S = 10.0  # for output that was not sent when the node ends
#: The shortest wait for the drain's deadline: a wait below the resolution of the loop's clock ends at once, and the
#: drain would spin.
DRAIN_LOOK_S = 0.001


def granted(settings: NodeSettings, reply: Reply) -> NodeSettings:
    """With the name and the labels that the session got, where a server gave it others than it asked for."""
    given = {name: reply.data[key] for key, name in (("node", "name"), ("labels", "labels")) if key in reply.data}
    return msgspec.structs.replace(settings, **given) if given else settings


class Node:
    def __init__(self, ports: Ports, settings: NodeSettings, facts: dict[str, object] | None = None) -> None:
        self._ports = ports
        self._settings = settings
        self._facts = facts or {}
        self._stopping = asyncio.Event()
        self._killing = asyncio.Event()
        self._ready = asyncio.Event()
        self._hurry = asyncio.Event()  # the drain's deadline has moved
        self._stops = 0
        self._drain_until = float("inf")
        self.drained = False  # somebody asked the store for it
        self.session = ""
        self._gave_up: str | None = None  # the session before, if the store did not answer; the next one reports it
        self._outage = Outage(ports)
        self._renewals = Outage(ports, "the lease could not be renewed", "the lease is renewed again")
        self._lost = 0  # sessions in a row that did not outlive two leases
        self.leader: Leader | None = None
        self.loop: ExchangeLoop | None = None
        self._meter = Meter()  # one session after another: what the process has done
        self._engines: Engines = {}
        self._measure_again = asyncio.Event()
        self._output: OutputShipper | None = None
        if ports.ship is not None:
            self._output = OutputShipper(ports.ship, ports.clock, ports.log, settings.output_rate)

    async def run(self) -> None:
        """Until stopped. Executors are opened first and closed last."""
        executors = list(dict.fromkeys(self._ports.executors.values()))
        for executor in executors:
            await executor.open()
        try:
            while not self._stopping.is_set():
                began = self._ports.clock()
                await self._session()
                short = self._ports.clock() - began < 2 * self._settings.lease_ttl_s
                self._lost = self._lost + 1 if short else 0
                await self._pause(BACK_OFF_S[min(self._lost, len(BACK_OFF_S) - 1)])
        finally:
            for executor in executors:
                await executor.close()

    def stop(self) -> None:
        """First call: drain. Second call: kill."""
        self._stops += 1
        if self._stops > 1:
            self._killing.set()
        self._leave_within(self._settings.drain_s)

    def _leave_within(self, seconds: float) -> None:
        self._drain_until = min(self._drain_until, self._ports.clock() + seconds)
        self._hurry.set()
        self._stopping.set()

    def _counted(self) -> dict[str, object]:
        """What others may read of this node, besides its machine."""
        self._meter.contended = self._ports.contended()
        counted: dict[str, object] = {"counted": self._meter.snapshot()}
        return counted | {"engines": self._engines} if self._engines else counted

    def _engines_checked(self, engines: Engines) -> None:
        self._engines = engines
        self._measure_again.set()

    def _drained(self, left_s: float) -> None:
        if not self._stopping.is_set():
            self._ports.log("drained", {"session": self.session, "running_tasks_may_end_within_s": left_s})
            self.drained = True
            self._leave_within(left_s)

    async def ready(self) -> None:
        """The node has a session and can claim."""
        await self._ready.wait()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set() and not self._stopping.is_set()

    async def _session(self) -> None:
        registered = await self._register()
        if registered is None:
            return
        sent, reply = registered
        lease = LeaseKeeper(self._ports, self._settings, self.session, self._lease_lost, self._outage, self._renewals)
        lease.granted(sent)
        settings = granted(self._settings, reply)
        self.loop = loop = ExchangeLoop(self._ports, settings, self.session, reply.run_no, lease, self._meter)
        lease.loop = loop
        loop.drained = self._drained
        if self._output is not None:
            self._output.session = self.session
            loop.worker.output = self._output
        self.leader = leader = None
        if self._ports.chores is not None:
            self.leader = leader = Leader(self._ports, self._settings, self.session)
            loop.unled = leader.look
        unlisten = self._ports.link.listen(loop.wake, lease)
        chores = [asyncio.create_task(chore) for chore in self._chores(loop, lease, leader)]
        self._ready.set()
        exchange = asyncio.create_task(loop.run())
        self._over = asyncio.get_running_loop().create_future()
        for chore in chores:
            chore.add_done_callback(self._chore_done)
        try:
            await asyncio.wait([exchange, self._over], return_when=asyncio.FIRST_COMPLETED)
            if loop.dead and lease.given_up:
                self._gave_up = self.session
            if exchange.done():
                exchange.result()  # a bug in the loop must not pass for an end
            else:
                self._over.result()  # nor one in a chore
        finally:
            self._ready.clear()
            unlisten()
            for task in [*chores, exchange]:
                task.cancel()
            await asyncio.gather(*chores, exchange, return_exceptions=True)
            await self._end_session(loop)

    def _chores(
        self, loop: ExchangeLoop, lease: LeaseKeeper, leader: Leader | None
    ) -> Iterator[Coroutine[Any, Any, None]]:
        """What goes on beside the exchanges for as long as the session lives."""
        ports, settings = self._ports, self._settings
        yield lease.keep(loop)
        if leader is not None:
            yield leader.keep()
            yield bury_forever(ports, settings, self.session, leader.look)
            yield place_forever(ports, settings, lambda: loop.eligible.scored, lambda: leader.term)
        yield watch_engines(ports, settings, loop, self._engines_checked)
        yield measure_forever(
            ports, settings, lambda facts, now: lease.publish(facts, now=now), self._counted, self._measure_again
        )
        yield self._drain(loop, leader)
        if ports.workspaces is not None:
            yield tidy_forever(ports, settings)
        if self._output is not None:
            yield self._output.keep()

    async def _register(self) -> tuple[float, Reply] | None:
        """(when its first renewal was sent, what the store said); None: stopped before it was done. Every try has
        a new session id: a registration whose reply was lost may have been applied, and then expires by itself."""
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
                "cpus": self._settings.cpus,
                "gpus": self._settings.gpus,
                "gpu_memory": self._settings.gpu_memory,
                "functions": self._settings.functions,
                "slotless": sorted(self._ports.slotless),
                "lease_ttl_ms": ttl_ms,
            }
        )
        while not self._stopping.is_set():
            self.session = self._ports.new_id()
            try:
                if self._ports.chores is not None:
                    await self._ports.chores.expire_dead(self.session)
                command = Register(
                    self.session, self._settings.name, ttl_ms, self._settings.scope, body, self._settings.role,
                    self._gave_up,
                )  # fmt: skip
                reply = await self._ports.link.register(command)
            except LinkLost as error:
                self._outage.goes_on(error)
                await self._pause(0.5)
                continue
            self._gave_up = None
            self._outage.is_over()
            sent = await self._first_renewal(ttl_ms)
            if sent is not None:
                return sent, reply
            with contextlib.suppress(LinkLost):
                await self._ports.link.leave(self.session)
        return None

    async def _first_renewal(self, ttl_ms: int) -> float | None:
        """When it was sent; None: the lease ran out before one was taken, or the node was stopped. Nothing is claimed
        before: a session that cannot renew its lease would lose whatever it took, again and again."""
        until = self._ports.clock() + self._settings.lease_ttl_s * (1 - MARGIN)
        tries = 0
        while not self._stopping.is_set() and (sent := self._ports.clock()) < until:
            try:
                renewal = await self._ports.link.renew(self.session, ttl_ms, None, None, own=True)
                if not renewal.alive:
                    return None
            except LinkLost as error:
                self._renewals.goes_on(error)
                tries += 1
                await self._pause(BACK_OFF_S[min(tries, len(BACK_OFF_S) - 1)])
            else:
                self._renewals.is_over()
                return sent
        return None

    async def _pause(self, seconds: float) -> None:
        """Shorter if the node is stopped."""
        if seconds and not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds * (0.75 + 0.5 * self._ports.random.random())):
                    await self._stopping.wait()

    def _chore_done(self, chore: "asyncio.Task[None]") -> None:
        error = None if chore.cancelled() else chore.exception()
        if error is not None and not self._over.done():
            self._over.set_exception(error)

    def _lease_lost(self, why: str) -> None:
        self._ports.log("the session is over", {"session": self.session, "why": why})
        if self.loop is not None:
            self.loop.dead = True
        if not self._over.done():
            self._over.set_result(None)

    async def _drain(self, loop: ExchangeLoop, leader: Leader | None) -> None:
        await self._stopping.wait()
        loop.worker.accepting = False
        loop.finishing = True
        loop.worker.give_back_unstarted(0)
        loop.wake()
        if leader is not None:
            await leader.resign()
        if loop.worker.held and not self.drained:
            await self._say_drained()
        while not self._killing.is_set() and (left := self._drain_until - self._ports.clock()) > 0:
            self._hurry.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(left, DRAIN_LOOK_S)):
                    await self._hurry.wait()
        loop.worker.hand_back(0.0 if self._killing.is_set() else 2.0)
        loop.wake()
        if not self._killing.is_set():
            await self._killing.wait()
            loop.worker.hand_back(0.0)

    async def _say_drained(self) -> None:
        """So that people see it; nothing depends on it: this node claims nothing any more anyway."""
        left_ms = int(max(0.0, self._drain_until - self._ports.clock()) * 1000)
        with contextlib.suppress(LinkLost, Refused):
            await self._ports.link.drain(Drain(self.session, left_ms, "its process was asked to stop"))

    async def _end_session(self, loop: ExchangeLoop) -> None:
        if loop.dead:
            await self._kill_all(loop)
            self._ports.link.forget(self.session)
            return
        if self._output is not None:  # before it leaves: what is not there afterwards counts as lost
            await self._output.flush(min(FLUSH_MAX_S, self._settings.lease_ttl_s / 2))
        if self._settings.scope is not None and self.leader is not None and not self._killing.is_set():
            await self._deliver_rest(self.leader)
        with contextlib.suppress(LinkLost):  # if it cannot be said, the lease ends the session
            await self._ports.link.leave(self.session)
        await tidy(self._ports)

    async def _deliver_rest(self, leader: Leader) -> None:
        """What the run has left to deliver, unless somebody is in a hurry."""
        delivering = asyncio.create_task(leader.deliver_rest())
        killing = asyncio.create_task(self._killing.wait())
        await asyncio.wait([delivering, killing], return_when=asyncio.FIRST_COMPLETED)
        for task in (delivering, killing):
            task.cancel()
        await asyncio.gather(delivering, killing, return_exceptions=True)

    async def _kill_all(self, loop: ExchangeLoop) -> None:
        """Nothing of a dead session may go on: the attempts belong to somebody else now."""
        worker = loop.worker
        for held in worker.held.values():
            if held.started:
                claim = held.claim
                self._ports.executors[held.definition.kind].stop(claim.task_id, claim.attempt, "lease", 0.0)
        worker.forget()
        if self._output is not None:
            self._output.forget()
