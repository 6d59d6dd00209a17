"""Nodes, members of etcd, and both are killed or cut off in the midst of work: nothing is lost or runs twice."""

import itertools
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Figure
from tests.replicated.conftest import Nodes
from tests.replicated.etcd_cluster import MISSING, PROGRAM, EtcdCluster
from weft.store.etcd.log import EtcdLog
from weft.store.etcd.url import EtcdUrl
from weft.store.replicated.care import COMPACTED

KILLS = int(os.environ.get("WEFT_KILLS", "4"))  # `make soak` asks for 20, and for 5 nodes
NODES = int(os.environ.get("WEFT_NODES", "3"))
#: Each attempt writes down every moment that it is alive. The last ones wait until all kills are done.
LOAD = """\
name: load
defaults: {retry: {max: 50, backoff: 0s}}
tasks:
  many:
    replicas: 60
    run: |
      for n in 1 2 3 4 5; do echo "$WEFT_INDEX $WEFT_ATTEMPT $(date +%s%N)" >> LEDGER; sleep 0.05; done
      test $WEFT_INDEX -lt 50 || while ! test -e OVER; do
        echo "$WEFT_INDEX $WEFT_ATTEMPT $(date +%s%N)" >> LEDGER; sleep 0.1; done
"""


class Ledger:
    """What attempts wrote down outside of the store."""

    def __init__(self, directory: Path) -> None:
        self.path, self.over = directory / "ledger", directory / "over"

    def definition(self, text: str = LOAD) -> str:
        return text.replace("LEDGER", str(self.path)).replace("OVER", str(self.over))

    def seen(self) -> dict[int, dict[int, list[int]]]:
        """By task and attempt: the moments in which it was alive."""
        found: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for line in self.path.read_text().splitlines():
            index, attempt, at = map(int, line.split())
            found[index][attempt].append(at)
        return found

    def check(self, tasks: int) -> None:
        """Every task ran, and no two of its attempts were alive at the same moment."""
        seen = self.seen()
        assert sorted(seen) == list(range(tasks))
        for index, attempts in seen.items():
            ordered = [attempts[number] for number in sorted(attempts)]
            for earlier, later in itertools.pairwise(ordered):
                assert max(earlier) < min(later), f"task {index}: {attempts}"


def check_equal(nodes: Nodes, name: str, replicas: int) -> None:
    """After a kill the sessions of processes that are gone have to end first."""
    nodes.until(lambda: len(nodes.call(name, "nodes")["nodes"]) == replicas)
    compared = nodes.call(name, "verify", "--replicas")
    assert compared["equal"] is True, compared
    assert len(compared["replicas"]) == replicas


def test_kills_under_load_lose_nothing_and_double_nothing(nodes: Nodes, tmp_path: Path, figure: Figure) -> None:
    """A node, a member of etcd, or both at once, again and again; each comes back before the next one goes."""
    ledger, chance = Ledger(tmp_path), random.Random(18)
    names = [f"n{number}" for number in range(NODES)]
    nodes.start(*names, slots=6)
    run = nodes.submit("n0", ledger.definition())
    nodes.until(ledger.path.exists)
    for number in range(KILLS):
        what = ("node", "member", "both")[number % 3]
        index, name = chance.randrange(3), chance.choice(names)
        if what in ("member", "both"):
            nodes.etcd.kill(index)
        if what in ("node", "both"):
            nodes.kill(name)
        if what in ("member", "both"):
            nodes.etcd.start(index)
            nodes.etcd.wait()
        if what in ("node", "both"):
            nodes.start(name, slots=6)
    ledger.over.touch()
    for name in names:
        assert nodes.until_ended(name, run, 120) == "succeeded"
    ledger.check(60)
    check_equal(nodes, "n0", NODES)
    assert nodes.call("n1", "verify", run)["ok"] is True
    attempts = sum(len(found) for found in ledger.seen().values())
    figure(
        f"{KILLS} kills of {NODES} nodes and 3 members of etcd",
        f"60 tasks in {attempts} attempts: 0 lost, 0 at once, equal",
    )


def test_a_node_that_is_cut_off_stops_before_others_go_on(nodes: Nodes, tmp_path: Path) -> None:
    """The only member that it knows stands still: its attempts are killed before its lease has passed elsewhere."""
    ledger = Ledger(tmp_path)
    alone = f"etcd://127.0.0.1:{nodes.etcd.ports[2]}/weft"
    nodes.start("n2", slots=2, WEFT_STORE=alone)
    hold = (
        "tasks:\n  many:\n    replicas: 2\n    retry: {max: 5, backoff: 0s}\n    run: "
        'while ! test -e OVER; do echo "$WEFT_INDEX $WEFT_ATTEMPT $(date +%s%N)" >> LEDGER; sleep 0.1; done\n'
    )
    nodes.start("n0", "n1", slots=0, WEFT_ROLE="leader")
    run = nodes.submit("n0", ledger.definition(hold))
    nodes.until(lambda: ledger.path.exists() and len(ledger.seen()) == 2)
    nodes.etcd.kill(2, signal.SIGSTOP)
    nodes.start("n3", slots=2, WEFT_STORE=nodes.etcd.url("weft", 0))
    nodes.until(lambda: all(len(attempts) == 2 for attempts in ledger.seen().values()))
    nodes.etcd.kill(2, signal.SIGCONT)
    nodes.until(lambda: len(nodes.call("n0", "nodes")["nodes"]) == 4)  # it is back, with a new session
    ledger.over.touch()
    assert nodes.until_ended("n0", run) == "succeeded"
    ledger.check(2)
    check_equal(nodes, "n0", 4)


def test_a_replica_that_the_log_has_left_behind_fetches_a_snapshot(nodes: Nodes, tmp_path: Path) -> None:
    nodes.start("n0", "n1")
    nodes.kill("n1", signal.SIGTERM)
    run = nodes.submit("n0", "tasks: {one: echo one}")
    assert nodes.until_ended("n0", run) == "succeeded"
    log = EtcdLog(EtcdUrl(nodes.etcd.url("weft")))
    head = log.head()
    log.put(COMPACTED, str(head).encode())
    log.compact(head)
    log.close()
    nodes.start("n1", "n2")  # one that was here before, and a new one
    for name in ("n1", "n2"):
        assert nodes.said(name, "continuing from a snapshot")
        assert nodes.until_ended(name, run) == "succeeded"
    check_equal(nodes, "n2", 3)


def test_compaction_by_others_is_noticed(nodes: Nodes) -> None:
    nodes.start("n0")
    nodes.kill("n0", signal.SIGTERM)
    log = EtcdLog(EtcdUrl(nodes.etcd.url("weft")))
    log.compact(log.head())
    log.close()
    assert "auto-compaction-retention=0" in nodes.call("n0", "worker", fails=True)


@pytest.fixture
def small_etcd(tmp_path: Path) -> Iterator[Nodes]:
    if PROGRAM is None:
        pytest.skip(MISSING)
    cluster = EtcdCluster(settings=("--quota-backend-bytes", str(16 * 2**20)))
    found = Nodes(tmp_path, cluster, "weft")
    yield found
    found.close()
    cluster.close()


def test_a_full_etcd_loses_nothing_and_recovers(small_etcd: Nodes) -> None:
    """Entries of a megabyte that do not shrink, until etcd has no room: Weft compacts, and goes on by itself."""
    nodes = small_etcd
    nodes.start("n0", "n1")
    chance = random.Random(1)
    runs = []
    deadline = time.monotonic() + 60
    while not nodes.said("n0", "space quota is used up") and not nodes.said("n1", "space quota is used up"):
        assert time.monotonic() < deadline
        noise = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=900_000))
        runs.append(nodes.submit("n0", f"tasks:\n  one:\n    run: 'true'\n    env: {{NOISE: {noise}}}\n"))
    runs.append(nodes.submit("n1", "tasks: {last: echo last}"))
    for run in runs:
        nodes.connection("n1").access.wait_s = 30
        assert nodes.until_ended("n1", run) in ("succeeded", "failed")  # an environment that large may not start
    check_equal(nodes, "n0", 2)
