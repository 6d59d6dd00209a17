"""A member of etcd and its node on a machine of their own, a network namespace, whose only link is cut."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Figure
from tests.replicated.conftest import Nodes
from tests.replicated.etcd_cluster import MISSING, PROGRAM, EtcdCluster
from tests.replicated.test_faults import Ledger, check_equal

HERE, THERE = "10.231.{}.1", "10.231.{}.2"  # within the link that this test makes
HOLD = """\
tasks:
  many:
    replicas: 2
    retry: {max: 5, backoff: 0s}
    run: while ! test -e OVER; do echo "$WEFT_INDEX $WEFT_ATTEMPT $(date +%s%N)" >> LEDGER; sleep 0.1; done
"""


class Machine:
    """A network namespace with one link to this one."""

    def __init__(self) -> None:
        number = os.getpid() % 250
        self.name = f"weft{os.getpid()}"
        self._link, other = f"wh{os.getpid()}", f"wt{os.getpid()}"
        self.here, self.there = HERE.format(number), THERE.format(number)
        self.words = ["ip", "netns", "exec", self.name]
        ip("netns", "add", self.name)
        ip("link", "add", self._link, "type", "veth", "peer", "name", other, "netns", self.name)
        ip("addr", "add", f"{self.here}/30", "dev", self._link)
        ip("-n", self.name, "addr", "add", f"{self.there}/30", "dev", other)
        for words in (("-n", self.name, "link", "set", "lo"), ("-n", self.name, "link", "set", other)):
            ip(*words, "up")
        self.join()

    def join(self) -> None:
        ip("link", "set", self._link, "up")

    def cut(self) -> None:
        ip("link", "set", self._link, "down")

    def close(self) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def machine() -> Iterator[Machine]:
    if PROGRAM is None:
        pytest.skip(MISSING)
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip`: apt-get install iproute2")
    try:
        made = Machine()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces cannot be made here: {error.stderr.decode().strip()}")
    yield made
    made.close()


@pytest.fixture
def nodes(tmp_path: Path, machine: Machine) -> Iterator[Nodes]:
    hosts = (machine.here, machine.here, machine.there)
    cluster = EtcdCluster(settings=("--pre-vote",), hosts=hosts, within={2: machine.words})
    found = Nodes(tmp_path, cluster, "weft")
    found.within["n2"] = machine.words
    yield found
    found.close()
    cluster.close()


def test_a_minority_that_is_cut_off_stops_before_others_go_on(
    nodes: Nodes, machine: Machine, tmp_path: Path, figure: Figure
) -> None:
    """Its member still answers, and takes nothing."""
    ledger = Ledger(tmp_path)
    nodes.start("n2", slots=2)
    nodes.start("n0", "n1", slots=0, WEFT_ROLE="leader")
    run = nodes.submit("n0", ledger.definition(HOLD))
    nodes.until(lambda: ledger.path.exists() and len(ledger.seen()) == 2)
    machine.cut()
    nodes.start("n3", slots=2)
    nodes.until(lambda: all(len(attempts) == 2 for attempts in ledger.seen().values()))
    machine.join()
    nodes.etcd.wait(member=2)
    nodes.until(lambda: len(nodes.call("n0", "nodes")["nodes"]) == 4)  # it is back, with a new session
    ledger.over.touch()
    assert nodes.until_ended("n0", run) == "succeeded"
    ledger.check(2)
    check_equal(nodes, "n0", 4)
    apart = [min(attempts[2]) - max(attempts[1]) for attempts in ledger.seen().values()]
    figure(
        "a member of etcd and its node cut off",
        f"attempts began elsewhere {min(apart) / 1e9:.1f} s after the last sign",
    )
