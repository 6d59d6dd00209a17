"""What any link must do: one suite for that of a node with the store, and that of a worker over messages."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workers.conftest import FACTS, DirectTransport, Served
from weft.core import commands as c
from weft.core.liveness import digest
from weft.node.local import LocalLink
from weft.node.ports import Link, LinkLost
from weft.node.workers.remote_link import RemoteLink
from weft.store.protocol import EVERYONE
from weft.store.shipment import Chunk, Shipment

LINKS = ("local", "messages")
TWO = {
    "inputs": {"day": {"default": "monday"}},
    "tasks": {"a": {"run": "true"}, "b": {"needs": ["a"], "run": "echo ${{ tasks.a.output }}"}},
}


class Linked:
    """A link, and a session that is registered over it."""

    def __init__(self, kind: str, served: Served) -> None:
        self.served = served
        self.run = served.run
        self.link: Any = served.connection.link if kind == "local" else served.link()
        self.session = "s"
        body = json.dumps(FACTS)
        self.reply = self.run(self.link.register(c.Register("s", "edge-one", 60_000, None, body, "worker")))

    def exchange(self, number: int, **more: Any) -> c.ExchangeReply:
        command = c.Exchange(
            "s", number, **{"reports": [], "want": 10, "demands": ["shell"], "known_demands": 0, **more}
        )
        reply: c.ExchangeReply = self.run(self.link.exchange(command))
        return reply

    def report(self, claim: c.Claim, output: Any) -> c.Report:
        text = json.dumps({"output": output})
        hash = hashlib.sha256(text.encode()).hexdigest()[:32]
        return c.Report(
            claim.task_id, claim.pos, claim.idx, claim.attempt, "succeeded", 0, result=text, result_hash=hash
        )


@pytest.fixture(params=LINKS)
def linked(request: pytest.FixtureRequest, served: Served) -> Iterator[Linked]:
    served.submit("r1", TWO)
    return Linked(request.param, served)  # type: ignore[return-value]  # nothing to close


def test_both_are_links(linked: Linked) -> None:
    link: Link = linked.link
    assert isinstance(link, LocalLink | RemoteLink)
    assert linked.reply.state == "live"
    assert linked.served.connection.node("s").role == "worker"


def test_a_chain_is_claimed_task_by_task(linked: Linked) -> None:
    (first,) = linked.exchange(1).claims
    reply = linked.exchange(2, reports=[linked.report(first, "value")])
    (second,) = reply.claims
    assert (first.pos, second.pos, reply.stale) == (0, 1, [])
    (facts,) = linked.run(linked.link.facts([first.run_no]))
    assert (facts.id, facts.inputs, facts.name) == ("r1", {}, "w")
    workflow = linked.run(linked.link.workflow(facts.workflow))
    assert [task.name for task in workflow.tasks] == ["a", "b"]
    (ended,) = linked.run(linked.link.ends(first.run_no, [0]))
    assert (ended.pos, ended.state, json.loads(ended.result)["output"]) == (0, "succeeded", "value")
    assert linked.run(linked.link.context(first.run_no)) == {}
    linked.exchange(3, reports=[linked.report(second, 1)])
    assert linked.served.connection.run("r1").state == "succeeded"


def test_a_number_that_comes_again_gets_its_claims_again(linked: Linked) -> None:
    (first,) = linked.exchange(1).claims
    (again,) = linked.exchange(1).claims
    assert (again.task_id, again.attempt) == (first.task_id, first.attempt)
    assert linked.served.connection.task("r1", "a").attempt == 1


def test_an_attempt_of_before_is_stale(linked: Linked) -> None:
    (first,) = linked.exchange(1).claims
    late = linked.report(first, 1)
    late.attempt = 7
    assert linked.exchange(2, reports=[late]).stale == [(first.task_id, 7)]
    assert linked.served.connection.run("r1").state == "running"


def test_a_renewal_says_whether_both_see_the_same(linked: Linked) -> None:
    renew = linked.link.renew
    (claim,) = linked.exchange(1).claims
    held = [(claim.task_id, claim.attempt)]
    assert linked.run(renew("s", 60_000, '{"load": 1}', (1, *digest(held)))).agrees
    off = linked.run(renew("s", 60_000, None, (1, *digest([]))))
    assert (off.alive, off.agrees) == (True, False)
    reply = linked.run(linked.link.reconcile(c.Reconcile("s", 1, [])))
    assert reply.changed == 1
    assert linked.served.connection.task("r1", "a").state == "queued"


def test_a_session_that_is_over_is_dead(linked: Linked) -> None:
    (claim,) = linked.exchange(1).claims
    linked.served.connection.link.committer.commit(c.Expire("s", "process"))
    assert not linked.run(linked.link.renew("s", 60_000, None, None)).alive
    reply = linked.exchange(2, reports=[linked.report(claim, 1)])
    assert (reply.dead, reply.stale) == (True, [(claim.task_id, 1)])
    assert linked.run(linked.link.open_handle(c.OpenHandle("s", claim.task_id, 1, "k", "e", "n"))).status == "stale"


def test_once_is_answered_and_kept(linked: Linked) -> None:
    (claim,) = linked.exchange(1).claims
    key = ("s", claim.task_id, claim.attempt, "pay")
    assert linked.run(linked.link.once(c.Once(*key))).status == "call"
    assert linked.run(linked.link.once(c.Once(*key, "completed", "5", "h"))).status == "kept"
    done = linked.run(linked.link.once(c.Once(*key)))
    assert (done.status, done.value) == ("completed", "5")


def test_output_arrives_once(linked: Linked) -> None:
    (claim,) = linked.exchange(1).claims
    chunk = Chunk(claim.task_id, claim.attempt, "s", "stdout", 0, b"hello", size=5)
    for _ in range(2):
        assert linked.run(linked.link.ship(Shipment([chunk]))) == []
    stale = Chunk(claim.task_id, 9, "s", "stdout", 0, b"x")
    assert linked.run(linked.link.ship(Shipment([stale]))) == [(claim.task_id, 9)]
    part = linked.served.connection.read_output("r1", "a", 1, "stdout")
    assert part.data == b"hello"


def test_draining_and_leaving(linked: Linked) -> None:
    linked.run(linked.link.drain(c.Drain("s", 5000, "by hand")))
    reply = linked.exchange(1)
    assert (reply.draining, reply.claims) == (True, [])
    linked.run(linked.link.leave("s"))
    assert linked.served.connection.node("s").state == "left"


def test_wake_ups_arrive(linked: Linked) -> None:
    """A task that is queued while the node waits for it, and a drain."""
    (claim,) = linked.exchange(1).claims
    linked.exchange(2, want=5)

    async def woken_by(change: Callable[[], Any]) -> None:
        heard = asyncio.Event()
        stop = linked.link.listen(lambda hint: heard.set())
        await asyncio.sleep(0.3)  # until it waits: what happened before is seen at once, too
        await asyncio.to_thread(change)
        async with asyncio.timeout(20):
            await heard.wait()
        stop()

    commit = linked.served.connection.link.committer.commit
    linked.run(woken_by(lambda: linked.served.submit("r2", TWO)))
    linked.exchange(3)
    linked.run(woken_by(lambda: commit(c.Drain("s", 5000))))
    assert claim.attempt == 1
    assert EVERYONE.everyone


def test_a_registration_that_comes_twice_is_one(served: Served) -> None:
    served.register("one")
    assert served.register("one").existing


@pytest.mark.parametrize("lost", [1, 3])
def test_lost_replies_are_asked_for_again(served: Served, tmp_path: Path, lost: int) -> None:
    served.submit("r1", TWO)
    link = served.link()
    transport: Any = link._transport
    assert isinstance(transport, DirectTransport)
    served.run(link.register(c.Register("s", "one", 60_000, None, json.dumps(FACTS))))
    transport.lose = lost
    command = c.Exchange("s", 1, [], 5, ["shell"], 0)
    for _ in range(lost):
        with pytest.raises(LinkLost):
            served.run(link.exchange(command))
    (claim,) = served.run(link.exchange(command)).claims
    assert (claim.attempt, served.connection.task("r1", "a").attempt) == (1, 1)
