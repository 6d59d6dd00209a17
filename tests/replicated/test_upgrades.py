"""A rolling upgrade, to a version of rules and schema that is invented here: replicas are equal throughout."""

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.replicated.conftest import Nodes
from tests.replicated.in_process import ToldReplica
from weft.core import commands as c
from weft.core.decision.decide import RULES
from weft.core.decision.draft import Draft, Rule
from weft.store import migrations
from weft.store.protocol import StoreUnusable
from weft.store.replicated import entry as e
from weft.store.replicated.output.peers import take_snapshot
from weft.store.replicated.replica import ReplicaStore
from weft.store.replicated.table_hash import hash_of_tables
from weft.store.replicated.versions import Applicable, LogVersion

ONE, TWO = LogVersion(1, 1), LogVersion(2, 2)
OLD_WEFT, NEW_WEFT, NEWER_WEFT = Applicable(1, ONE), Applicable(1, TWO), Applicable(3, LogVersion(3, 2))
UP = "ALTER TABLE pools ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'; UPDATE pools SET colour = 'of ' || size"
DOWN = "ALTER TABLE pools DROP COLUMN colour"


class Paint(msgspec.Struct):
    """A command that older rules do not know."""

    name: str


class OldReplica(ToldReplica):
    applicable = OLD_WEFT


class NewReplica(ToldReplica):
    applicable = NEW_WEFT


class NewerReplica(ToldReplica):
    applicable = NEWER_WEFT


class Log:
    def __init__(self) -> None:
        self.values: list[tuple[int, bytes]] = []
        self.numbers: dict[str, int] = {}
        self.now = 1_000_000

    def append(self, replica: ReplicaStore, *commands: object) -> None:
        number = self.numbers[replica.origin] = self.numbers.get(replica.origin, 0) + 1
        entry = replica._entry(number, [e.Sent.of(command) for command in commands])
        self.now += 10
        entry.time = entry.civil = self.now
        self.values += [(len(self.values) + 1, value) for value in e.values_of(entry)]

    def bring(self, *replicas: ReplicaStore) -> None:
        for replica in replicas:
            replica.apply_entries([found for found in self.values if found[0] > replica.revision])

    def join(self, replica: ReplicaStore) -> None:
        self.append(replica, c.Register(f"s-{replica.origin}", replica.node, 30_000, None, "{}"))


@pytest.fixture
def new_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """From version 2 on a pool is twice as large as one asks for."""
    set_pool = RULES[c.SetPool]

    def doubled(draft: Draft, command: c.SetPool) -> Rule:
        more = msgspec.structs.replace(command, size=command.size * 2) if draft.rules >= 2 else command
        return (yield from set_pool(draft, more))

    def paint(draft: Draft, command: Paint) -> Rule:
        return (yield from set_pool(draft, c.SetPool(command.name, 77)))

    monkeypatch.setitem(RULES, c.SetPool, doubled)
    monkeypatch.setitem(RULES, Paint, paint)


@pytest.fixture
def new_weft(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is started from here on is the newer version of Weft, with a migration of its own."""
    known = {**migrations.migrations("sqlite"), 2: {"up": UP, "down": DOWN}}
    monkeypatch.setattr(migrations, "migrations", lambda dialect: known)
    monkeypatch.setitem(e.KINDS, "Paint", Paint)
    monkeypatch.setitem(e.SINCE, "Paint", 2)


def equal(*replicas: ReplicaStore) -> None:
    assert len({replica.revision for replica in replicas}) == 1
    assert len({hash_of_tables(replica._writer) for replica in replicas}) == 1


def pools(replica: ReplicaStore) -> list[tuple[str, int]]:
    return [(str(name), int(size)) for name, size in replica._rows_of("SELECT name, size FROM pools ORDER BY name")]


@pytest.fixture
def old(tmp_path: Path) -> Iterator[OldReplica]:
    replica = OldReplica(tmp_path / "old")
    yield replica
    replica.close()


def test_a_newer_node_runs_the_older_rules_until_the_last_older_one_has_left(
    tmp_path: Path, new_rules: None, old: OldReplica, request: pytest.FixtureRequest
) -> None:
    log = Log()
    log.join(old)
    log.append(old, c.SetPool("a", 1))
    log.bring(old)
    request.getfixturevalue("new_weft")
    one, two = NewReplica(tmp_path / "one"), NewReplica(tmp_path / "two")
    log.bring(one)
    log.join(one)
    log.append(one, c.SetPool("b", 1), Paint("p"))
    log.append(one, e.Activate(*TWO))
    log.bring(old, one, two)
    assert pools(old) == pools(one) == [("a", 1), ("b", 1)], "an older node is live: nothing is switched"
    equal(old, one, two)
    log.append(old, c.SetPool("c", 3))
    log.append(one, c.Expire(f"s-{old.origin}", "left"), e.Activate(*TWO), c.SetPool("d", 4))
    log.append(one, c.SetPool("e", 5), Paint("q"))
    late = one._entry(99, [e.Sent.of(c.SetPool("f", 6))])  # made before its origin had applied the switch
    log.bring(one)
    log.values.append((len(log.values) + 1, e.values_of(late)[0]))
    log.bring(one, two)
    assert one.active == two.active == TWO
    assert pools(one)[2:] == [("c", 3), ("d", 8), ("e", 10), ("f", 12), ("q", 77)]
    equal(one, two)
    colours = "SELECT name, colour FROM pools WHERE name < 'd' ORDER BY name"
    assert one._rows_of(colours) == two._rows_of(colours) == [("a", "of 1"), ("b", "of 1"), ("c", "of 3")], (
        "migrated as they were at the switch, wherever each node was when it was upgraded"
    )
    with pytest.raises(StoreUnusable, match=r"runs rules 2 with schema 2, and this version .* upgrade it"):
        log.bring(old)
    assert old.active == ONE, "it stands where it stood"
    snapshot = tmp_path / "snapshot.db"
    assert one.path is not None
    take_snapshot(one.path, snapshot)
    with pytest.raises(StoreUnusable, match="upgrade it"):
        old.restore(snapshot)
    one.close()
    two.close()


def test_a_snapshot_of_an_older_node_is_migrated(
    tmp_path: Path, new_rules: None, old: OldReplica, request: pytest.FixtureRequest
) -> None:
    log = Log()
    log.join(old)
    log.append(old, c.SetPool("a", 1))
    log.bring(old)
    snapshot = tmp_path / "snapshot.db"
    assert old.path is not None
    take_snapshot(old.path, snapshot)
    request.getfixturevalue("new_weft")
    new = NewReplica(tmp_path / "new")
    new.restore(snapshot)
    assert new._rows_of("SELECT colour FROM pools") == [("of 1",)]
    log.append(old, c.SetPool("b", 2))
    log.bring(old, new)
    equal(old, new)
    new.close()


def test_a_node_that_is_two_versions_ahead_is_refused(tmp_path: Path, old: OldReplica) -> None:
    log = Log()
    log.join(old)
    log.bring(old)
    newer = NewerReplica(tmp_path / "newer")
    with pytest.raises(StoreUnusable, match="can apply rules 3 to 3: first upgrade all nodes to a version"):
        log.bring(newer)
    newer.close()


def test_a_replica_of_a_newer_log_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    log = Log()
    replica = NewReplica(tmp_path / "one")
    log.join(replica)
    log.bring(replica)
    replica.close()
    with pytest.raises(StoreUnusable, match="upgrade it"):
        OldReplica(tmp_path / "one")


NEWER = "from weft.core.decision import draft\ndraft.RULES_VERSION = draft.Draft.rules = 2\n"


def test_nodes_are_upgraded_one_by_one(nodes: Nodes, tmp_path: Path) -> None:
    """Real nodes: those with the shim say that they can apply rules 2."""
    shim = tmp_path / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(NEWER)
    names = ("n0", "n1", "n2")
    nodes.start(*names)
    for name in names:
        nodes.kill(name, signal.SIGTERM)
        nodes.start(name, PYTHONPATH=str(shim))
        run = nodes.submit(name, "tasks: {one: echo one}")
        assert nodes.until_ended(name, run) == "succeeded"
        if name != "n2":
            assert nodes.call(name, "verify", "--replicas")["equal"] is True
            assert not nodes.said(name, "the log runs"), "an older node is live"
    for name in names:
        nodes.until(partial(nodes.said, name, "the log runs rules 2 with schema"))
    run = nodes.submit("n1", "tasks: {one: echo one}")
    assert nodes.until_ended("n2", run) == "succeeded"
    assert nodes.call("n1", "verify", "--replicas")["equal"] is True
    nodes.kill("n0", signal.SIGTERM)
    assert "upgrade it on this machine" in nodes.call("n0", "worker", fails=True)
