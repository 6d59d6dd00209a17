"""The leader dies, stands still, resigns; another takes over under a new term. Roles say who may."""

import asyncio
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.cluster.conftest import LEADER_RENEW_S, LEADER_TTL_S, Cluster
from tests.conftest import Figure
from tests.pausing import pause
from weft.core.commands import Prune, Reply
from weft.node.chores.prune import prune
from weft.node.ports import NodeSettings

HOLD = "tasks: {waits: {run: 'while ! test -e open; do sleep 0.05; done'}}\n"


def test_a_leader_that_is_killed_is_followed_by_a_new_term(cluster: Cluster, figure: Figure) -> None:
    first = cluster.worker("one")
    cluster.until(lambda: cluster.leader() == "one")
    cluster.worker("two")
    cluster.worker("never", "--role", "worker")
    term = cluster.connection.leader().term
    first.kill()
    killed = time.monotonic()
    cluster.until(lambda: cluster.leader() == "two")
    took = time.monotonic() - killed
    assert cluster.connection.leader().term == term + 1
    assert took <= LEADER_TTL_S + LEADER_RENEW_S + 1.0, cluster.story()
    kinds = [(e.kind, e.node) for e in cluster.connection.events(None) if e.kind.startswith(("leader", "node_dead"))]
    assert ("leader_elected", "two") in kinds
    assert ("leader_elected", "never") not in kinds
    goal = LEADER_TTL_S + LEADER_RENEW_S + 1.0
    figure(f"the leader SIGKILLed ({cluster.kind})", f"a new term after {took:.1f} s (goal {goal:g} s)")


def test_a_leader_that_stands_still_loses_its_term_and_its_attempts(cluster: Cluster) -> None:
    """SIGSTOP: no process is gone, so only leases speak. Its attempt runs elsewhere; then it is a new session."""
    run_id = cluster.submit("tasks: {one: sleep 0.5}\n")
    first = cluster.worker("one", "--slots", "1")
    cluster.until(lambda: cluster.connection.task(run_id, "one").state == "running" and cluster.leader() == "one")
    claim = cluster.connection.task(run_id, "one")
    assert (claim.claimed_by, claim.claim_attempt) == ("one", 1)
    assert claim.claim_expires_at is not None
    session, term = claim.session, cluster.connection.leader().term
    pause(first.pid, cluster.store)
    cluster.worker("two")
    cluster.ended(run_id)
    assert cluster.leader() == "two"
    assert cluster.connection.leader().term > term
    first.send_signal(signal.SIGCONT)
    cluster.until(lambda: any(n.node == "one" and n.session != session for n in cluster.connection.nodes()))
    assert cluster.outcomes() == {"lost": 1, "succeeded": 1}, cluster.story()
    assert cluster.connection.verify(run_id).ok
    assert cluster.connection.node(str(session)).health == "dead"


def test_a_leader_that_is_stopped_hands_over_at_once(cluster: Cluster) -> None:
    first = cluster.worker("one")
    cluster.until(lambda: cluster.leader() == "one")
    cluster.worker("two")
    first.terminate()
    stopped = time.monotonic()
    cluster.until(lambda: cluster.leader() == "two")
    assert time.monotonic() - stopped < LEADER_TTL_S, "resigned, not run out"
    assert first.wait(20) == 0
    assert [e.node for e in cluster.connection.events(None, kinds=["leader_resigned"])] == ["one"]


def test_who_insists_gets_it_from_one_who_does_not(cluster: Cluster) -> None:
    cluster.worker("one")
    cluster.until(lambda: cluster.leader() == "one")
    boss = cluster.worker("boss", "--role", "leader", "--slots", "0")
    cluster.until(lambda: cluster.leader() == "boss", 4 * LEADER_TTL_S + 10)
    run_id = cluster.submit("- true\n- true\n")
    cluster.ended(run_id)
    nodes = {e.node for e in cluster.connection.events(run_id, kinds=["assigned"])}
    assert nodes == {"one"}, "without slots it only leads"
    boss.kill()
    cluster.until(lambda: cluster.leader() == "one")


def test_an_observer_looks_on(cluster: Cluster) -> None:
    cluster.worker("watching", "--role", "observer")
    run_id = cluster.submit("- true\n")
    watching = cluster.connection.node("watching")
    assert (watching.role, watching.health, watching.slots) == ("observer", "healthy", 0)
    (shown,) = cluster.connection.why(run_id)
    assert (shown.summary, shown.details[0]) == ("no node works", "watching: it has no slots, and runs nothing")
    cluster.until(lambda: cluster.connection.leader().session is None)
    cluster.worker("one")
    cluster.ended(run_id)
    cluster.until(lambda: cluster.leader() == "one")
    assert {e.node for e in cluster.connection.events(run_id, kinds=["assigned"])} == {"one"}
    refused = cluster.weft("submit", "w.yaml", "--json", WEFT_ROLE="observer")
    out, _ = refused.communicate(timeout=60)
    assert refused.returncode == 2
    pid = cluster.processes["one"].pid
    assert f"the leader is one at {cluster.connection.node('one').host}:{pid}" in out


def test_the_leader_prunes_what_is_older_than_keep(cluster: Cluster) -> None:
    run_id = cluster.submit("- true\n")
    cluster.worker("one", WEFT_KEEP="1ms")
    cluster.ended(run_id)
    # The first round comes with the first term; the next one a minute later: a new leader is quicker.
    cluster.processes["one"].terminate()
    assert cluster.processes["one"].wait(20) == 0
    cluster.worker("two", WEFT_KEEP="1ms")
    cluster.until(lambda: not cluster.connection.runs())
    cluster.until(lambda: not (cluster.directory / ".weft" / "output" / run_id).exists())  # rows first, files after


def test_files_go_with_their_rows_when_the_leader_stops_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    asyncio.run(_stop_while_rows_are_removed(tmp_path))
    assert not (tmp_path / "old").exists()


async def _stop_while_rows_are_removed(root: Path) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def commit(command: Prune) -> Reply:
        asked.set()
        await answered.wait()
        return Reply(data={"runs": [(1, "old")]}, changed=1)

    ports: Any = SimpleNamespace(chore_link=SimpleNamespace(commit=commit))
    chore = asyncio.create_task(prune(ports, NodeSettings("one", 1, str(root), str(root), keep_s=1.0), 1))
    await asked.wait()
    chore.cancel()
    await asyncio.wait([chore])
    answered.set()
    await asyncio.sleep(0)  # as a node that leaves: the answer to that comes after this one
    await asyncio.sleep(0)
