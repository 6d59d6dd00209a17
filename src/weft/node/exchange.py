"""The loop between a node's attempts and the store: one exchange at a time, the next batch gathers meanwhile.

Reasons to exchange: an end, a wake-up, a due time, free slots after a full claim. Otherwise it waits for the poll.
A lost reply is asked for again under the same number, with the same reports.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from weft.core.commands import Claim, Exchange, ExchangeReply, Report
from weft.core.decision.draft import Hint
from weft.core.expressions import ExpressionError
from weft.core.workflow import Workflow
from weft.node.attempts.handles import HandleKeeper
from weft.node.attempts.memos import Attempting, ResultKeeper
from weft.node.attempts.usage import UsageKeeper
from weft.node.attempts.values import Values
from weft.node.attempts.worker import Worker
from weft.node.eligibility import Eligibility, requirements
from weft.node.lease import LeaseKeeper
from weft.node.meter import Meter
from weft.node.ports import LinkFull, LinkLost, NodeSettings, Ports, RunFacts
from weft.store.protocol import EVERYONE, Look, StoreUnusable

T = TypeVar("T")
FACTS_MAX = 1000
GATHER_S, GATHER_LONG_S = 0.02, 0.05
ONLOOKER_S = 0.05  # a node without slots need not see each submission by itself
ROUNDS = 2  # of the event loop in which what was just started may end: that needs no timer and no waiter
LEAST_S = 0.001  # a wait below the resolution of the loop's clock ends at once, and would be repeated for ever
RETRY_S = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)


class ExchangeLoop:
    def __init__(
        self,
        ports: Ports,
        settings: NodeSettings,
        session: str,
        scope: int | None,
        lease: LeaseKeeper,
        meter: Meter | None = None,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._session = session
        self._scope = scope
        self._lease = lease
        self._meter = meter or Meter()
        self._reason = asyncio.Event()
        self._disturbed = True  # since the last exchange, by more than the ends of its own attempts
        self._number = 0
        self._facts: OrderedDict[int, RunFacts] = OrderedDict()
        self._values = Values(ports.link, ports.artifacts)
        self.eligible = Eligibility(settings.facts(ports.executors, session), ports.checked, ports.slotless)
        self._memos = ResultKeeper(ports, settings, session, lease)
        self._handles = HandleKeeper(ports, session, lambda: lease.trusted)
        self._usage = UsageKeeper()
        self.worker = Worker(
            ports, settings, lambda: lease.trusted, self._reason.set, self._memos.ask, self._meter, self._handles,
            self._usage,
        )  # fmt: skip
        self.worker.session = session
        self._takes_part = self.worker.accepting = settings.slots > 0 and settings.role != "observer"
        self.drained: Callable[[float], None] = lambda left_s: None  # somebody drains this session
        self.unled: Callable[[], None] = lambda: None  # the cluster has no leader
        self._in_flight: Exchange | None = None
        self._settled: int | None = None  # the exchange whose reply is taken in; None: not quite yet
        self._round_since: float | None = None
        self.dead = False
        self.finishing = False  # leave when nothing is held any more
        self.exchanges = 0
        self.new_demands = asyncio.Event()  # an engine may have to be asked for

    def wake(self, hint: Hint = EVERYONE) -> None:
        """A node without room leaves queued tasks to others; when it has room again, it looks by itself."""
        if hint.everyone or (hint.queued and self._has_room) or (hint.ended and self._scope is not None):
            self._disturb()

    def _disturb(self) -> None:
        self._disturbed = True
        self._reason.set()

    @property
    def _has_room(self) -> bool:
        return self.worker.want() > 0 or (bool(self.eligible.slotless) and self.worker.want_slotless() > 0)

    @property
    def in_flight(self) -> bool:
        return self._in_flight is not None

    @property
    def holds_nothing(self) -> bool:
        """Neither attempts nor ends of attempts that the store may not know yet."""
        reporting = self._in_flight is not None and bool(self._in_flight.reports)
        return self._settled is not None and not (self.worker.held or self.worker.has_reports or reporting)

    @property
    def can_rest(self) -> bool:
        return self._in_flight is None and self.holds_nothing

    def learn_engines(self, down: dict[str, str]) -> None:
        """By kind: why its engine cannot be used now. Tasks for engines that answer again may be waiting."""
        self.eligible.set_down(down)
        self._disturb()

    def adopt(self, orphan: tuple[int, int]) -> None:
        """Ask for this (task, attempt) with the next exchange."""
        self._handles.offers.append(orphan)
        self._disturb()

    @property
    def stuck_s(self) -> float:
        """For how long the exchange under way has not been answered and taken in."""
        return 0.0 if self._round_since is None else self._ports.clock() - self._round_since

    def attempts(self) -> tuple[int, list[tuple[int, int]]] | None:
        """(exchange number, attempts that the store should see here after it); None: it cannot be said just now."""
        if self._settled is None:
            return None
        in_flight = [] if self._in_flight is None else [(r.task_id, r.attempt) for r in self._in_flight.reports]
        return self._settled, [*self.worker.attempts(), *in_flight]

    async def run(self) -> None:
        """Until the session is dead, or finishing and idle."""
        wake_in: float | None = 0.0
        while not self.dead:
            await self._wait_for_reason(wake_in)
            await self._lease.refresh()
            self._round_since = self._ports.clock()
            self.worker.give_back_unstarted()
            reply = await self._exchange_once()
            if reply is None:
                return
            self._settled = None
            wake_in = await self._apply(reply)
            self._settled, self._in_flight, self._round_since = self._number, None, None
            if self.finishing and self.worker.idle:
                return

    async def _wait_for_reason(self, wake_in: float | None) -> None:
        """`wake_in`: until something is due. A node that nothing wakes looks now and then whether the store has
        something for it: a read, where an exchange that finds nothing is a write."""
        for _ in range(ROUNDS):
            if self._reason.is_set():
                break
            await asyncio.sleep(0)
        due = self._ports.clock() + (float("inf") if wake_in is None else wake_in)
        while not self._reason.is_set() and (left := due - self._ports.clock()) > 0:
            poll = self._settings.poll_s * (2 if self._ports.link.hears else 1)  # then hardly a wake-up is lost
            with contextlib.suppress(TimeoutError):
                patience_s = min(left, poll * (0.9 + 0.2 * self._ports.random.random()))
                async with asyncio.timeout(max(LEAST_S, patience_s)):
                    await self._reason.wait()
            if self._reason.is_set() or self._has_news:
                break
            if (look := await self._look()) is None or look.worthwhile:
                self._disturbed = True
                break
            if look.wake_in_ms is not None:
                due = self._ports.clock() + max(0.001, look.wake_in_ms / 1000)
        if wake_in != 0.0 and not self._takes_part and not self.finishing:
            await asyncio.sleep(ONLOOKER_S)
        await self._gather()
        self._reason.clear()

    @property
    def _has_news(self) -> bool:
        self.worker.give_back_unstarted()
        return (
            self.finishing or self.worker.has_reports or self.worker.has_started
            or self._handles.has_notes or bool(self._handles.offers) or self._usage.due(self._ports.clock())
        )  # fmt: skip

    async def _look(self) -> Look | None:
        """None: the store did not answer; an exchange asks until it does."""
        self._round_since = self._ports.clock()
        demands = self.eligible.demands if self.worker.want() > 0 else []
        if self.eligible.slotless and self.worker.want_slotless() > 0:
            demands = [*demands, *self.eligible.slotless]
        try:
            look = await self._ports.link.look(self._session, demands, self.eligible.known)
        except LinkLost as error:
            self._lease.outage.goes_on(error)
            return None
        self._round_since = None
        self._lease.outage.is_over()
        if not look.led:
            self.unled()
        return look

    async def _gather(self) -> None:
        """Let the attempts that just ended join this batch. While more work is claimed than slots can take, nothing
        is lost by waiting a little: a larger batch costs hardly more than a small one."""
        if self.worker.busy and not self.finishing:
            self.worker.no_longer_busy.clear()
            self.worker.watched = True
            # Where nothing waits for what has ended, it may be reported a little later: half the exchanges for short
            # processes, and 50 µs a task less in the node.
            patience_s = GATHER_S if self.worker.followed else GATHER_LONG_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self.worker.no_longer_busy.wait()
            self.worker.watched = False

    async def _exchange_once(self) -> ExchangeReply | None:
        """One exchange, sent again until it is answered; None: the session is over."""
        worker = self.worker
        self._number += 1
        want = worker.want() if self._lease.trusted else 0
        command = Exchange(
            self._session, self._number, worker.take_reports(), want,
            self.eligible.demands, self.eligible.known, self._scope, worker.take_started(),
            self.eligible.free(requirements(held.definition, held.claim) for held in worker.held.values()),
            self.eligible.costs, worker.take_following(),
            notes=self._handles.take_notes(), adopt=self._handles.take_offers(),
            spent=self._usage.take(self._ports.clock()), spends=self._usage.known or self.eligible.spends,
        )  # fmt: skip
        command.undisturbed, self._disturbed = not self._disturbed, False
        command.remote = self._handles.take_remote(command.reports)
        if self.eligible.slotless and self._lease.trusted:
            command.slotless, command.want_slotless = self.eligible.slotless, worker.want_slotless()
        self._in_flight = command
        sent = self._ports.clock()
        reply = await self._send(command)
        if reply is None:
            return None
        took = self._ports.clock() - sent
        self.exchanges += 1
        self.worker.exchange_s += 0.3 * (took - self.worker.exchange_s)
        self._meter.exchanged(command, reply, took)
        if reply.dead:
            self.dead = True
            return None
        return reply

    async def _send(self, command: Exchange, *, replaced: bool = False) -> ExchangeReply | None:
        """Until it is answered; None: the session is over. What the store refuses is split until one report fails
        alone: that one is replaced by a failure that says so, and the others are not held up. A store without space
        has answered: the lease is renewed if that can be stored, and the reports wait for space."""
        tries = 0
        while True:
            try:
                reply = await self._ports.link.exchange(command, alone=not self.worker.held)
                self._lease.outage.is_over()
                return reply
            except LinkLost as error:
                self._lease.outage.goes_on(error)
                if isinstance(error, LinkFull):
                    self._round_since = self._ports.clock()
                await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
                tries += 1
                if self.dead or not (self._lease.trusted or self._lease.may_lapse):
                    self.dead = True  # its attempts are killed: they may be another node's by now
                    return None
            except StoreUnusable:
                raise
            except Exception as error:
                if not command.reports or replaced:
                    raise
                self._ports.log("the store refused a batch", {"error": str(error), "reports": len(command.reports)})
                return await self._split(command, error)

    async def _split(self, command: Exchange, error: Exception) -> ExchangeReply | None:
        reports = command.reports
        if len(reports) == 1:
            bad = reports[0]
            text = f"the store refused its result: {error}"
            command.reports = [
                Report(
                    bad.task_id, bad.pos, bad.idx, bad.attempt, "failed", error=text, retryable=False, usage=bad.usage
                )
            ]
            return await self._send(command, replaced=True)
        self._settled = None  # what follows is several exchanges
        half = len(reports) // 2
        first = msgspec.structs.replace(command, reports=reports[:half], want=0, started=[])
        if await self._send(first) is None:
            return None
        self._number += 1
        rest = msgspec.structs.replace(command, number=self._number, reports=reports[half:], spent=[])
        return await self._send(rest)

    async def _apply(self, reply: ExchangeReply) -> float | None:
        """Take the claims and stops; how long to wait at most before the next exchange."""
        if reply.draining:
            self.drained((reply.drain_in_ms or 0) / 1000)
        again = self.eligible.learn(reply.demands) or reply.more
        if reply.demands:
            self.new_demands.set()
        self._full = False
        if reply.claims:
            await self._learn_facts(self._unknown(reply.claims))
            caching: list[Attempting] = []
            run_no, now = -1, self._ports.clock()
            for claim in reply.claims:
                if claim.run_no != run_no:
                    run_no, facts = claim.run_no, self._facts[claim.run_no]
                    workflow = await self._workflow(facts.workflow)
                definition = workflow.tasks[claim.pos]
                if definition.kind in self._ports.remote:
                    self._handles.remote[claim.task_id] = None
                try:
                    names = await self._names(claim, facts, workflow) if definition.templated else None
                except ExpressionError as error:
                    self.worker.refuse(claim, error.message)
                    continue
                if definition.cache is None or claim.adopted:
                    self.worker.take(claim, facts, workflow, names, now=now)
                else:
                    caching.append(Attempting(claim, facts, workflow, names))
            if caching:
                await self._memos.take(caching, self.worker)
            self._full = self._is_full(reply.claims)
        for task_id, attempt, why in reply.stops:
            self.worker.stop(task_id, attempt, why)
        self.worker.start_waiting()
        if again or (self._full and self._has_room):
            self._disturbed = True
            return 0.0
        if self.worker.has_reports:
            return 0.0
        if reply.wake_in_ms is None:
            return None
        return max(0.001, reply.wake_in_ms / 1000)

    def _is_full(self, claims: list[Claim]) -> bool:
        """The store gave all that was asked for: there may be more."""
        asked = self._in_flight
        assert asked is not None
        if not asked.want_slotless:
            return 0 < asked.want <= len(claims)
        held = [self.worker.held.get((claim.task_id, claim.attempt)) for claim in claims]
        waiting = sum(one is not None and one.slotless for one in held)
        return waiting >= asked.want_slotless or 0 < asked.want <= len(claims) - waiting

    async def _workflow(self, hash: str) -> Workflow:
        return await self._answered(lambda: self._ports.link.workflow(hash))

    async def _names(self, claim: Claim, facts: RunFacts, workflow: Workflow) -> dict[str, Any]:
        return await self._answered(lambda: self._values.names(claim, facts, workflow))

    def _unknown(self, claims: list[Claim]) -> list[int]:
        """Runs that this node does not know, or that may have been corrected since."""
        newest = {claim.run_no: claim.generation for claim in claims}
        known = self._facts
        return sorted(no for no, generation in newest.items() if no not in known or known[no].generation < generation)

    async def _learn_facts(self, run_nos: list[int]) -> None:
        if run_nos:
            for facts in await self._answered(lambda: self._ports.link.facts(run_nos)):
                self._facts[facts.no] = facts
        while len(self._facts) > FACTS_MAX + len(self.worker.held):
            self._facts.popitem(last=False)

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the store says, asked again until it answers."""
        while True:
            try:
                return await ask()
            except LinkLost as error:
                self._lease.outage.goes_on(error)
                await asyncio.sleep(RETRY_S[2])
