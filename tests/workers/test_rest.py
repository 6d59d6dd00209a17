"""The lease of a worker: renewals that fail, and a rest in which waits for work renew it. On a virtual clock."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.loop import SimulatedLoop
from tests.workers.conftest import Served
from weft.core import commands as c
from weft.node.lease import LeaseKeeper, Outage
from weft.node.ports import LinkLost, NodeSettings, Renewal
from weft.node.workers import messages as m

TTL_S = 30.0


class Kept:
    """A lease keeper around a link that fails when it is told to, and a loop that holds what it is told to."""

    def __init__(self) -> None:
        self.loop = SimulatedLoop(1)
        self.sent: list[float] = []
        self.fails = 0
        self.lost: list[str] = []
        self.holds_nothing = self.can_rest = True
        self.stuck_s = 0.0
        ports: Any = SimpleNamespace(
            clock=self.loop.time, random=random.Random(1), executors={}, link=self, log=lambda text, fields: None
        )
        settings = NodeSettings("n", 1, "/", "/", lease_ttl_s=TTL_S, renew_every_s=TTL_S / 3)
        outage = Outage(ports)
        self.lease = LeaseKeeper(ports, settings, "s", self.lost.append, outage, outage)
        self.lease.loop = self  # type: ignore[assignment]  # what of an exchange loop a lease asks for
        self.lease.granted(self.loop.time())

    def attempts(self) -> tuple[int, list[tuple[int, int]]]:
        return 1, []

    async def renew(self, *said: Any) -> Renewal:
        self.sent.append(self.loop.time())
        if self.fails:
            self.fails -= 1
            raise LinkLost("no answer")
        return Renewal(True)

    def play(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def played() -> None:
            keeping = asyncio.create_task(self.lease.keep(self))  # type: ignore[arg-type]  # see above
            await story()
            keeping.cancel()

        self.loop.run_until_complete(played())
        self.loop.abandon()

    @property
    def left_s(self) -> float:
        return self.lease.trusted_until - self.loop.time()


def test_a_renewal_that_failed_is_sent_again_while_there_is_time() -> None:
    """Another third of the lease later it would be too late: a worker with two servers lost its attempts so."""
    kept = Kept()
    kept.fails, kept.holds_nothing = 3, False

    async def story() -> None:
        await asyncio.sleep(TTL_S * 0.8)
        assert not kept.fails
        assert kept.left_s > TTL_S / 3

    kept.play(story)
    assert kept.lost == []


def test_waits_renew_the_lease_of_a_worker_that_holds_nothing() -> None:
    """Trust counts from the sending of a wait, however late its answer is, and may lapse meanwhile."""
    kept = Kept()

    async def story() -> None:
        for _ in range(3):
            sent = kept.loop.time()
            renewal = kept.lease.rest()
            assert renewal is not None
            assert renewal.sent == sent
            await asyncio.sleep(TTL_S)
            assert kept.left_s < 0
            kept.lease.rested(renewal, renewed=True)
            assert kept.lease.trusted_until == pytest.approx(sent + TTL_S * 5 / 6)
        assert kept.sent == []
        await kept.lease.refresh()  # before it claims
        assert kept.left_s == pytest.approx(TTL_S * 5 / 6)
        assert len(kept.sent) == 1

    kept.play(story)
    assert kept.lost == []


def test_little_trust_is_renewed_before_the_claim() -> None:
    """Else the claim may come when it has lapsed, and is given back."""
    kept = Kept()

    async def story() -> None:
        renewal = kept.lease.rest()
        assert renewal is not None
        await asyncio.sleep(TTL_S * 0.6)
        kept.lease.rested(renewal, renewed=True)
        assert 0 < kept.left_s < TTL_S / 3
        await kept.lease.refresh()
        assert kept.left_s == pytest.approx(TTL_S * 5 / 6)

    kept.play(story)
    assert kept.lost == []


def test_a_worker_that_holds_something_does_not_rest() -> None:
    kept = Kept()
    kept.holds_nothing = kept.can_rest = False

    async def story() -> None:
        assert kept.lease.rest() is None
        await asyncio.sleep(TTL_S)
        assert len(kept.sent) > 1
        kept.fails = 1000
        await asyncio.sleep(TTL_S)

    kept.play(story)
    assert kept.lost == ["the lease could not be renewed in time"]


def test_a_wait_that_renewed_nothing_is_followed_by_a_renewal() -> None:
    kept = Kept()

    async def story() -> None:
        renewal = kept.lease.rest()
        assert renewal is not None
        kept.lease.rested(renewal, renewed=False)
        await asyncio.sleep(0.1)
        assert len(kept.sent) == 1

    kept.play(story)


def test_a_server_renews_while_a_wait_lasts(served: Served) -> None:
    """Not for a session that has claimed something since, nor for one that is over."""
    served.register("one")
    served.register("over")
    served.exchange("one", want=0)
    served.exchange("over", want=0)
    renewed: list[str] = []
    store: Any = served.reach.store
    renew_each = store.renew_each

    def watched(renewals: list[Any]) -> Any:
        renewed.extend(session for session, _, _ in renewals)
        return renew_each(renewals)

    store.renew_each = watched

    async def story() -> None:
        rest = m.Rest(3000, None, (1, 0, 0))
        waiting = asyncio.create_task(served.answered("wait", m.WaitCall("one", ["session:one"], 0, rest)))
        while renewed.count("one") < 2:
            await asyncio.sleep(0.01)
        served.service.waiting.holds_something("one")
        count = renewed.count("one")
        reply = await waiting
        assert (reply.woken, reply.renewed) == ("nothing", True)
        assert renewed.count("one") == count
        served.connection.link.committer.commit(c.Expire("over", "process"))
        reply = await served.answered("wait", m.WaitCall("over", [], 0, rest))
        assert (reply.woken, reply.renewed) == ("everyone", False)

    served.run(story())
