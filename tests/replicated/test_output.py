"""What tasks print is kept by their node and by another one, outside of the log, and is read from any node."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest

from tests import forked
from tests.replicated.conftest import Nodes
from tests.replicated.etcd_cluster import EtcdCluster
from weft.client.local import StoreConnection
from weft.store.etcd.log import EtcdLog
from weft.store.etcd.url import EtcdUrl
from weft.store.replicated.log_store import REPLICA_FILE
from weft.store.replicated.output import peers
from weft.store.replicated.output.file import StreamsFile
from weft.store.replicated.replica import OUTPUT_FILE
from weft.store.replicated.tables import standing

LINES = 30_000
PRINTED = b"".join(b"line %d of the output\n" % number for number in range(1, LINES + 1))
MUCH = f"tasks:\n  much:\n    requires: {{labels: [prints]}}\n    run: seq -f 'line %.0f of the output' {LINES}\n"


def replica_directory(nodes: Nodes, name: str) -> Path:
    (found,) = nodes.home(name).joinpath(".weft").glob("log-*")
    return found


def stored(nodes: Nodes, name: str, file: str) -> int:
    """Bytes in one of the files of a node."""
    connection = apsw.Connection(str(replica_directory(nodes, name) / file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(str(connection.execute("SELECT coalesce(sum(length(data)), 0) FROM output_chunks").get))
    finally:
        connection.close()


def holders(nodes: Nodes, *names: str) -> list[str]:
    return [name for name in names if stored(nodes, name, OUTPUT_FILE)]


def logs(nodes: Nodes, name: str, *words: str) -> bytes:
    done = forked.run(["logs", *words], nodes.home(name), nodes.env(name), timeout=60)
    assert done.returncode == 0, done.stderr.decode() + nodes.story()
    return done.stdout


def printed(connection: StoreConnection, run: str) -> bool:
    """All of it was sent, and the log says so."""
    return connection.read_output(run, "much", 1, "stdout").size == len(PRINTED)


def print_much(nodes: Nodes, text: str = MUCH) -> str:
    run = nodes.submit("n0", text)
    assert nodes.until_ended("n0", run) == "succeeded"
    nodes.until(lambda: printed(nodes.connection("n0"), run))
    return run


def test_output_is_on_two_nodes_and_read_from_all(nodes: Nodes) -> None:
    nodes.start("n0", "n1", "n2", WEFT_LABELS="")
    nodes.start("n3", WEFT_LABELS="prints")
    names = ("n0", "n1", "n2", "n3")
    run = print_much(nodes)
    for name in names:
        nodes.until_ended(name, run)
        assert logs(nodes, name, run, "much") == PRINTED
        assert stored(nodes, name, REPLICA_FILE) == 0
    (copy,) = set(holders(nodes, *names)) - {"n3"}
    assert nodes.call("n0", "verify", "--replicas")["equal"] is True
    # The node that printed it is gone: the copy has all of it.
    nodes.kill("n3")
    for name in ("n0", "n1", "n2"):
        assert logs(nodes, name, run, "much") == PRINTED
    # Both are gone: that is said.
    nodes.kill(copy)
    left = next(name for name in ("n0", "n1", "n2") if name != copy)
    said = forked.run(["logs", run, "much"], nodes.home(left), nodes.env(left), timeout=60)
    assert b"no node that answers has the rest of much: it is on its node (n3)" in said.stdout + said.stderr
    # One that comes back has it again, and pruning removes it everywhere.
    nodes.start(copy)
    nodes.until(lambda: logs(nodes, left, run, "much") == PRINTED)
    nodes.call(left, "prune", "--older", "0s")
    nodes.until(lambda: not holders(nodes, copy))


def test_output_is_followed_from_another_node_until_its_own_dies(nodes: Nodes, tmp_path: Path) -> None:
    nodes.start("n0", "n1", slots=0, WEFT_ROLE="leader")
    nodes.start("n2")
    go = tmp_path / "go"
    wait = f"while ! test -e {go}; do sleep 0.05; done"
    run = nodes.submit("n0", f"tasks:\n  much: 'echo one; {wait}; echo two; sleep 60'\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "logs", run, "much", "-f"], cwd=nodes.home("n1"), env=nodes.env("n1"),
        stdout=subprocess.PIPE,
    )  # fmt: skip
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"one\n"
        go.touch()
        assert process.stdout.readline() == b"two\n"
    finally:
        watchdog.cancel()
        process.kill()
        process.wait(30)
        process.stdout.close()
    nodes.kill("n2")
    assert b"one\ntwo\n" in logs(nodes, "n1", run, "much")


def test_a_copy_that_was_not_made_is_made_later(nodes: Nodes) -> None:
    """The only other node stands still while the task prints."""
    nodes.start("n0", WEFT_LABELS="prints")
    nodes.start("n1", slots=0, WEFT_ROLE="leader")
    nodes.kill("n1", signal.SIGSTOP)
    run = print_much(nodes)
    nodes.kill("n1", signal.SIGCONT)
    nodes.until(lambda: stored(nodes, "n1", OUTPUT_FILE) >= len(PRINTED))
    nodes.kill("n0")
    nodes.until(lambda: logs(nodes, "n1", run, "much") == PRINTED)


def test_a_copy_that_went_with_its_node_is_made_again(nodes: Nodes) -> None:
    nodes.start("n0", "n1", WEFT_LABELS="")
    nodes.start("n2", WEFT_LABELS="prints")
    run = print_much(nodes)
    (copy,) = set(holders(nodes, "n0", "n1", "n2")) - {"n2"}
    (left,) = {"n0", "n1"} - {copy}
    nodes.until(lambda: known_peers(nodes, "n2") == 2)
    forget_address(nodes, copy)
    nodes.kill(copy)
    nodes.until(lambda: stored(nodes, left, OUTPUT_FILE) >= len(PRINTED))
    nodes.kill("n2")
    nodes.until(lambda: logs(nodes, left, run, "much") == PRINTED)


def known_peers(nodes: Nodes, name: str) -> int:
    connection = apsw.Connection(str(replica_directory(nodes, name) / OUTPUT_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(str(connection.execute("SELECT count(*) FROM peers").get))
    finally:
        connection.close()


def forget_address(nodes: Nodes, name: str) -> None:
    """As etcd does when the node has been away for an hour."""
    replica = apsw.Connection(str(replica_directory(nodes, name) / REPLICA_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    log = EtcdLog(EtcdUrl(nodes.url(name)))
    try:
        name = f"{peers.PEERS}{standing(replica).node}"
        log._call("/v3/kv/deleterange", {"key": log.prefix + name.encode()}, 3.0)
    finally:
        log.close()
        replica.close()


def test_the_address_of_a_node_that_never_comes_back_is_removed(
    own_etcd: EtcdCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "ADDRESS_S", 1)
    monkeypatch.setattr(peers, "ANNOUNCE_S", 0.0)
    log = EtcdLog(EtcdUrl(own_etcd.url("addresses")))
    output = StreamsFile(tmp_path / "output.db")
    servers = [peers.PeerServer(log, name, tmp_path / "none", output) for name in ("gone", "here")]
    deadline = time.monotonic() + 60
    while len(log.values(peers.PEERS)) > 1:
        assert time.monotonic() < deadline
        servers[1].announce()
        time.sleep(0.1)
    assert [*log.values(peers.PEERS)] == [f"{peers.PEERS}here"]
    assert peers.PeerChannel(log, "new").others() == ["here"]
    for server in servers:
        server.close()
    output.close()
    log.close()


def test_files_of_tasks_are_in_the_log(nodes: Nodes) -> None:
    """What other tasks need to run has to outlive any node."""
    nodes.start("n0")
    nodes.start("n1", slots=0, WEFT_ROLE="leader")
    run = nodes.submit("n0", "tasks:\n  one: {run: 'seq 1000 > f.txt', artifacts: [f.txt]}\n")
    assert nodes.until_ended("n1", run) == "succeeded"
    nodes.kill("n0")
    done = forked.run(["artifacts", "get", run, "one", "f.txt"], nodes.home("n1"), nodes.env("n1"), timeout=60)
    assert done.stdout.splitlines()[-1:] == [b"1000"], done.stderr.decode()
    assert stored(nodes, "n1", REPLICA_FILE) == 3893


def test_output_moves_with_a_log_into_a_file(nodes: Nodes) -> None:
    nodes.start("n0", WEFT_LABELS="prints")
    run = print_much(nodes)
    nodes.kill("n0", signal.SIGTERM)
    target = nodes.directory / "moved.db"
    nodes.call("n0", "store", "copy", "--from", nodes.url("n0"), "--to", str(target))
    assert logs(nodes, "n0", run, "much", "--store", str(target)) == PRINTED
