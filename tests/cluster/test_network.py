"""The way between a node and the server is cut: at the worst moment, for longer than a lease, or LISTEN only."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import psycopg
import pytest

from tests.cluster.conftest import LEADER_RENEW_S, LEADER_TTL_S, LEASE_S, Cluster
from tests.cluster.test_kills import BUSY, alive, attempts_below, since
from tests.conftest import Figure
from tests.postgres.proxy import Proxy
from weft.store.postgres.statements import statements

CUTS = 10  # at least: a slow machine makes fewer exchanges of the same work
OUTAGES = 6
POLL_S = 2.0
CUT_OFF = """\
tasks:
  quick: |
    echo quick $WEFT_ATTEMPT >> journal
    test $WEFT_ATTEMPT = 2 || while ! test -e open; do sleep 0.05; done
    echo 'kept=a late result' > $WEFT_OUTPUT
  long: |
    echo long $WEFT_ATTEMPT >> journal
    test $WEFT_ATTEMPT = 2 || while true; do sleep 0.05; done
"""
LISTENING = "application_name = 'weft lease' AND datname = current_database() AND pid <> pg_backend_pid()"


@pytest.fixture
def proxy(postgres_cluster: Cluster) -> Iterator[Proxy]:
    proxy = Proxy.to(postgres_cluster.store)
    yield proxy
    proxy.close()


def test_a_connection_cut_after_commit_was_sent(postgres_cluster: Cluster, proxy: Proxy, figure: Figure) -> None:
    """The server has committed and the node does not know: it says the same again, and it is applied once."""
    cluster = postgres_cluster
    # Without prepared statements the word COMMIT stands in what is sent, and can be found there.
    cluster.worker("one", "--slots", "2", store=proxy.through(cluster.store, "?prepare=off"))
    cluster.until(lambda: cluster.leader() == "one")  # it works: else the cuts hit its registration
    proxy.lose_commits = True
    run_id = cluster.submit(
        "tasks: {many: {replicas: 150, run: 'echo $WEFT_INDEX $WEFT_ATTEMPT >> journal; sleep 0.02'}}\n"
    )
    cluster.ended(run_id)
    proxy.lose_commits = False
    assert proxy.lost_commits >= CUTS
    cluster.sound(run_id, 150)
    assert len(cluster.journal()) == 150
    assert cluster.outcomes() == {"succeeded": 150}, cluster.story()
    assert len(cluster.connection.nodes(ended=True)) == 1, "it kept its session"
    figure(
        f"connection cut after COMMIT, {proxy.lost_commits} times",
        f"150 tasks, 150 attempts, each started once; {cluster.stale_reports()} stale reports, 0 lost",
    )


@pytest.mark.parametrize("moment", ["asking", "committing"])
def test_a_leader_that_is_cut_off_gives_up_its_work_and_its_term(
    postgres_cluster: Cluster, proxy: Proxy, figure: Figure, moment: str
) -> None:
    """Nothing arrives any more, and nobody is told. One attempt has ended well, and its report is under way: its
    first words, or its COMMIT, when the server waits for that with the run's locks held. The other attempt runs on
    until its node may not believe in its lease any more. When all is done elsewhere, what was under way arrives."""
    cluster = postgres_cluster
    cut_off = cluster.worker("one", "--slots", "2", store=proxy.through(cluster.store))
    cluster.until(lambda: cluster.leader() == "one")
    run_id = cluster.submit(CUT_OFF)
    cluster.until(lambda: cluster.journal() == {"long 1": 1, "quick 1": 1})
    cluster.until(lambda: len(cluster.connection.events(run_id, kinds=["started"])) == 2)
    term, session = cluster.connection.leader().term, cluster.connection.node("one").session
    cluster.worker("two", "--slots", "2")
    (long,) = attempts_below(cut_off.pid, "echo long")
    # The task's id comes late: a session does not load again what it holds.
    proxy.hold_at = statements()["runs_by_no"].key if moment == "asking" else b"a late result"
    (cluster.directory / "open").touch()
    cluster.until(lambda: proxy.holding)
    at = time.monotonic()
    moments: dict[str, Callable[[], bool]] = {
        "killed": lambda: not alive([long]),
        "led": lambda: cluster.leader() == "two",
        "reclaimed": lambda: cluster.over(session),
    }
    times: dict[str, float] = {}
    while len(times) < len(moments):
        times |= {name: since(at) for name, reached in moments.items() if name not in times and reached()}
        assert since(at) < 60, cluster.story()
        time.sleep(0.02)
    cluster.ended(run_id)
    proxy.release()
    back = time.monotonic()
    cluster.until(lambda: any(n.node == "one" and n.session != session for n in cluster.connection.nodes()))
    again = since(back)
    cluster.sound(run_id, 2)
    assert cluster.outcomes() == {"lost": 2, "succeeded": 2}, cluster.story()
    assert cluster.connection.task(run_id, "quick").attempt == 2
    stale = 1 if moment == "asking" else 0  # what the server had begun it has undone: nothing is left to refuse
    cluster.until(lambda: cluster.stale_reports() == stale)
    assert cluster.connection.leader().term == term + 1, "one change of leaders, and no more"
    assert [n.node for n in cluster.connection.nodes(ended=True) if n.health == "dead"] == ["one"], cluster.story()
    assert times["killed"] < LEASE_S * BUSY
    assert times["killed"] <= times["reclaimed"], "nobody else may have begun it while it still ran"
    assert times["led"] <= (LEADER_TTL_S + LEADER_RENEW_S + 1.0) * BUSY
    assert cut_off.poll() is None
    figure(
        f"a node cut off from the database while {moment}",
        f"its process killed after {times['killed']:.1f} s (trust ends at {LEASE_S * 5 / 6:.1f} s), reclaimed after"
        f" {times['reclaimed']:.1f} s, late report refused (stale reports {stale}), back in {again:.1f} s",
    )
    figure(
        f"the leader cut off from the database while {moment}",
        f"a new term after {times['led']:.1f} s (goal {LEADER_TTL_S + LEADER_RENEW_S + 1:g} s)",
    )


def test_outages_longer_than_the_lease_make_no_dead_letter(
    postgres_cluster: Cluster, proxy: Proxy, figure: Figure
) -> None:
    """The node gives up its session, and registers again when the server is back: that is not the task's fault."""
    cluster = postgres_cluster
    worker = cluster.worker("one", "--slots", "1", store=proxy.through(cluster.store))
    run_id = cluster.submit(
        "tasks: {long: 'echo long $WEFT_ATTEMPT >> journal; while ! test -e open; do sleep 0.05; done'}\n"
    )

    def begun(attempt: int) -> bool:
        return cluster.journal()[f"long {attempt}"] > 0

    for outage in range(1, OUTAGES + 1):
        cluster.until(partial(begun, outage))
        proxy.refuse = True
        proxy.cut()
        cluster.until(lambda: not attempts_below(worker.pid, "echo long"))
        proxy.refuse = False
    cluster.until(partial(begun, OUTAGES + 1))
    (cluster.directory / "open").touch()
    cluster.ended(run_id)
    cluster.sound(run_id, 1)
    assert cluster.connection.task(run_id, "long").lost >= OUTAGES, cluster.story()
    assert worker.poll() is None
    figure("database away longer than the lease", f"{OUTAGES} times under one long task: 0 dead letters")


def test_the_connection_that_listens_is_killed(postgres_cluster: Cluster, proxy: Proxy, figure: Figure) -> None:
    """For a while no new one is to be had: polling finds the work. Then there is one again."""
    cluster = postgres_cluster
    cluster.worker("one", store=proxy.through(cluster.store), WEFT_POLL=f"{POLL_S:g}s")
    cluster.until(lambda: cluster.leader() == "one")

    def listening() -> list[object]:
        return cluster.query(f"SELECT pid FROM pg_stat_activity WHERE {LISTENING}")

    cluster.until(listening)
    proxy.refuse = True
    with psycopg.connect(cluster.store, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {LISTENING}")
    cluster.until(lambda: not listening())
    deaf = [pickup_ms(cluster) for _ in range(3)]  # the commands that submit have such a connection for a moment, too
    proxy.refuse = False
    possible = time.monotonic()
    while (heard := pickup_ms(cluster)) >= POLL_S * 1000 / 2:  # by the poll, not by a wake-up
        assert since(possible) <= 15
    restored = since(possible)
    assert max(deaf) <= POLL_S * 1.1 * 1000 * BUSY
    assert restored <= 15
    figure(
        "LISTEN killed",
        f"picked up after {max(deaf)} ms at most (poll {POLL_S:g} s), listening again {restored:.1f} s after it"
        f" could, then picked up after {heard} ms",
    )


def pickup_ms(cluster: Cluster) -> int:
    """From the submission to the claim, by the store's clock."""
    run_id = cluster.submit("- true\n")
    cluster.ended(run_id)
    times = {e.kind: e.at for e in cluster.connection.events(run_id)}
    return times["assigned"] - times["submitted"]
