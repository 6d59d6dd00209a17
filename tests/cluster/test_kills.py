"""Nodes and the server are killed or stand still in the midst of work: how soon others go on, and with what."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tests.cluster.conftest import LEASE_S, Cluster
from tests.conftest import Figure
from tests.postgres_server import Server

#: The goals (RELIABILITY) are 5 s to reclaim at a lease of 3 s and 1 s for what comes back; the tests allow for a
#: machine that is busy with other tests, and the figures show what it was.
BUSY = 3
RECLAIM_S = 5.0 * BUSY
GONE_S = 2.0 * BUSY
# The last ones go on until all kills are done, however fast the machine is.
LOAD = """\
tasks:
  many:
    replicas: 120
    run: |
      echo $WEFT_INDEX $WEFT_ATTEMPT >> journal
      sleep 0.2
      test $WEFT_INDEX -lt 90 || while ! test -e over; do sleep 0.05; done
"""
HOLD = """\
tasks:
  long: |
    echo long $WEFT_ATTEMPT >> journal
    test $WEFT_ATTEMPT = 2 || while true; do sleep 0.05; done
  quick: |
    echo quick $WEFT_ATTEMPT >> journal
    test $WEFT_ATTEMPT = 2 || while ! test -e open; do sleep 0.05; done
"""


def below(pid: int) -> list[psutil.Process]:
    """Its spawner, and what that has started."""
    return psutil.Process(pid).children(recursive=True)


def attempts_below(pid: int, said: str) -> list[psutil.Process]:
    """Of those, the attempts' own: their command says this."""
    found = []
    for process in below(pid):
        with contextlib.suppress(psutil.NoSuchProcess):  # a `sleep` that has just ended
            if said in " ".join(process.cmdline()):
                found.append(process)
    return found


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def since(moment: float) -> float:
    return time.monotonic() - moment


def test_workers_that_are_killed_under_load_lose_nothing(postgres_cluster: Cluster, figure: Figure) -> None:
    """Three times, the leader first: what it held runs elsewhere, and nothing of it lives on."""
    cluster = postgres_cluster
    cluster.worker("n0", "--slots", "3")
    cluster.until(lambda: cluster.leader() == "n0")
    cluster.workers("n1 n2", "--slots", "3")
    run_id = cluster.submit(LOAD)
    reclaimed, gone = [], []
    for number in range(3):
        name = f"n{number}"
        cluster.until(lambda name=name: cluster.connection.node(name).running >= 3)  # type: ignore[misc]
        session = cluster.connection.node(name).session
        children = below(cluster.processes[name].pid)
        killed_ms = cluster.connection.now()
        cluster.processes[name].kill()
        killed = time.monotonic()
        cluster.until(lambda children=children: not alive(children))  # type: ignore[misc]
        gone.append(since(killed))
        cluster.worker(f"n{number + 3}", "--slots", "3")
        cluster.until(lambda session=session: cluster.over(session))  # type: ignore[misc]
        reclaimed.append((cluster.connection.events(None, kinds=["node_dead"])[-1].at - killed_ms) / 1000)
        left = cluster.query(f"SELECT count(*) FROM tasks WHERE session = '{session}' AND state = 'running'")
        assert [tuple(row) for row in left] == [(0,)]
    (cluster.directory / "over").touch()
    cluster.ended(run_id)
    cluster.sound(run_id, 120)
    outcomes = cluster.outcomes()
    assert set(outcomes) <= {"succeeded", "lost", "returned"}, outcomes
    assert outcomes["lost"] >= 3
    assert max(reclaimed) <= RECLAIM_S, reclaimed
    assert max(gone) <= GONE_S, gone
    shown = ", ".join(f"{s:.1f}" for s in reclaimed)
    figure(
        "3 nodes SIGKILLed under load",
        f"reclaimed after {shown} s (lease {LEASE_S:g} s), processes gone after {max(gone):.2f} s at most,"
        f" 120 tasks, {outcomes['lost']} lost attempts, {cluster.stale_reports()} stale reports",
    )


def test_a_node_that_stands_still_past_its_lease_reports_nothing_that_counts(
    postgres_cluster: Cluster, figure: Figure
) -> None:
    """Only the node is stopped: one attempt ends well meanwhile, and the other is killed by the spawner in time."""
    cluster = postgres_cluster
    stopped = cluster.worker("one", "--slots", "2", "--role", "worker")
    run_id = cluster.submit(HOLD)
    cluster.until(lambda: cluster.journal() == {"long 1": 1, "quick 1": 1})
    session = cluster.connection.node("one").session
    cluster.worker("two", "--slots", "2")
    cluster.until(lambda: cluster.leader() == "two")
    (long,) = attempts_below(stopped.pid, "long")
    stopped.send_signal(signal.SIGSTOP)
    at = time.monotonic()
    (cluster.directory / "open").touch()  # its result waits for a node that does not listen
    cluster.until(lambda: not alive([long]))
    killed = since(at)
    cluster.until(lambda: cluster.over(session))
    dead = since(at)
    assert killed <= dead, "nobody else may have begun it while it still ran"
    cluster.ended(run_id)
    stopped.send_signal(signal.SIGCONT)
    cluster.until(lambda: any(n.node == "one" and n.session != session for n in cluster.connection.nodes()))
    cluster.sound(run_id, 2)
    assert cluster.outcomes() == {"lost": 2, "succeeded": 2}, cluster.story()
    assert cluster.connection.task(run_id, "quick").attempt == 2
    assert cluster.stale_reports() <= 2, "the late result and what was killed, if they are said at all"
    figure(
        "a node SIGSTOPped past its lease",
        f"its process killed after {killed:.1f} s, reclaimed after {dead:.1f} s, attempt 2 counts,"
        f" late results accepted 0 (stale reports {cluster.stale_reports()})",
    )


def test_a_machine_that_was_suspended_kills_what_it_ran(postgres_cluster: Cluster, figure: Figure) -> None:
    """Node, spawner and tasks all stand still, so nobody can kill anything until they go on."""
    cluster = postgres_cluster
    node = cluster.worker("one", "--slots", "2", "--role", "worker")
    run_id = cluster.submit(HOLD)
    cluster.until(lambda: cluster.journal() == {"long 1": 1, "quick 1": 1})
    session = cluster.connection.node("one").session
    cluster.worker("two", "--slots", "2")
    cluster.until(lambda: cluster.leader() == "two")
    spawner, *_ = psutil.Process(node.pid).children()
    tasks = attempts_below(node.pid, "WEFT_ATTEMPT")
    assert len(tasks) == 2
    tree = [node.pid, *(p.pid for p in below(node.pid))]
    try:
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):  # a `sleep` of a task that has just ended
                os.kill(pid, signal.SIGSTOP)
        cluster.until(lambda: cluster.over(session))
        cluster.ended(run_id)
        assert len(alive(tasks)) == 2
    finally:
        for pid in reversed(tree):
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGCONT)
    at = time.monotonic()
    (cluster.directory / "open").touch()  # the sooner of the two: its result, or its end
    cluster.until(lambda: not alive(tasks))
    killed = since(at)
    assert spawner.is_running()
    cluster.until(lambda: any(n.node == "one" and n.session != session for n in cluster.connection.nodes()))
    cluster.sound(run_id, 2)
    assert cluster.outcomes() == {"lost": 2, "succeeded": 2}, cluster.story()
    assert killed <= 1.0 * BUSY, killed
    figure(
        "a whole machine suspended past its lease",
        f"its processes killed {killed:.2f} s after SIGCONT, late results accepted 0"
        f" (stale reports {cluster.stale_reports()})",
    )


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[tuple[Server, Cluster]]:
    server = Server(durable=True)  # else what was acknowledged could be lost with it
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE weft")
    cluster = Cluster("postgres", tmp_path, server.url("weft"))
    yield server, cluster
    cluster.close()
    server.close()


def test_the_server_is_stopped_at_once_and_started_again(durable: tuple[Server, Cluster], figure: Figure) -> None:
    """`immediate`, three times in mid-run, once for longer than a lease lasts."""
    server, cluster = durable
    cluster.workers("boss", "--role", "leader", "--slots", "0")
    cluster.workers("one two", "--slots", "4")
    command = "echo $WEFT_TASK $WEFT_ATTEMPT >> journal; sleep 0.05"
    tasks: dict[str, Any] = {f"t{i}": {"run": command} for i in range(200)}
    for i in range(10, 200):
        tasks[f"t{i}"]["needs"] = [f"t{i - 10}"]
    run_id = cluster.submit(json.dumps({"name": "stopped", "tasks": tasks}))
    again = []
    for count, longer in ((20, False), (70, True), (120, False)):
        cluster.until(lambda count=count: len(cluster.journal()) >= count)  # type: ignore[misc]
        server.stop()
        down = time.monotonic()
        if longer:  # every node gives up its session: what it ran is killed, and the journal stands still
            cluster.until(lambda down=down: since(down) > LEASE_S + 1)  # type: ignore[misc]
        before = len(cluster.journal())
        server.start()
        up = time.monotonic()
        cluster.until(lambda before=before: len(cluster.journal()) > before + 8)  # type: ignore[misc]
        again.append(since(up))
    cluster.ended(run_id)
    cluster.sound(run_id, 200)
    outcomes = cluster.outcomes()
    assert set(outcomes) <= {"succeeded", "lost", "returned"}, outcomes
    assert all(process.poll() is None for process in cluster.processes.values()), "they went through it"
    assert max(again) <= 60
    server.stop()
    gone = time.monotonic()
    for process in cluster.processes.values():
        process.terminate()
    assert [process.wait(60) for process in cluster.processes.values()] == [0, 0, 0], "they can leave without it"
    left = since(gone)
    server.start()
    shown = ", ".join(f"{s:.1f}" for s in again)
    figure(
        "PostgreSQL stopped with immediate, 3 times",
        f"new tasks {shown} s after it was back, 200 tasks, {outcomes.get('lost', 0)} lost attempts,"
        f" {cluster.stale_reports()} stale reports, 0 acknowledged lost;"
        f" nodes told to stop while it is away end within {left:.1f} s",
    )
