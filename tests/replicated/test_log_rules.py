"""Time, versions, addresses and parts of entries: what replicas decide without asking anybody."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replicated.test_simulation import SimulatedReplica
from weft.core import commands as c
from weft.store.etcd.url import EtcdUrl
from weft.store.protocol import StoreUnusable
from weft.store.replicated import entry as e
from weft.store.replicated import log_clock
from weft.store.replicated.comparison import refuse_if_other
from weft.store.replicated.log_store import LateSessions
from weft.store.replicated.opening import refuse_version
from weft.store.replicated.tables import Origin
from weft.store.replicated.versions import HERE

HOUR_MS = 3_600_000
START_MS = 1_000_000


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[SimulatedReplica]:
    found = SimulatedReplica(tmp_path)
    yield found
    found.close()


class Origins:
    """Appends entries of several nodes, each with a wall clock of its own."""

    def __init__(self, replica: SimulatedReplica) -> None:
        self.replica = replica
        self.numbers: dict[str, int] = {}

    def append(self, node: str, time: int, civil: int, *commands: object) -> int:
        """The log's time of the entry."""
        self.numbers[node] = self.numbers.get(node, 0) + 1
        sent = [e.Sent.of(command) for command in commands]
        entry = e.Entry(node, node, self.numbers[node], 0, 0, time, civil, HERE.newest, sent)
        for value in e.values_of(entry):
            self.replica.apply_entries([(self.replica.revision + 1, value)])
        return self.replica.log_clock.time_ms

    def join(self, node: str, at: int) -> None:
        self.append(node, at, at, c.Register(f"session-{node}", node, 30_000, None, "{}"))

    def lease(self, node: str) -> int:
        rows = self.replica._rows_of(f"SELECT expires_at FROM leases WHERE session = 'session-{node}'")
        return int(rows[0][0])


def test_one_wrong_wall_clock_changes_nothing_and_a_majority_moves_the_time(replica: SimulatedReplica) -> None:
    origins = Origins(replica)
    for node in ("a", "b", "c"):
        origins.join(node, START_MS)
    ahead = START_MS + HOUR_MS
    assert origins.append("a", START_MS + 10, ahead) == START_MS + 10
    assert origins.append("a", START_MS + 5, ahead) == START_MS + 10, "it never goes back"
    lease = origins.lease("c")
    assert origins.append("b", START_MS + 20, ahead) >= ahead - 100
    assert origins.lease("c") - lease == replica.log_clock.time_ms - (START_MS + 20), "no lease gets shorter by that"
    now = replica.log_clock.time_ms
    assert origins.append("c", now + 1, START_MS) == now + 1, "a clock that is behind holds nothing up"


def test_time_passes_while_entries_are_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry is made when the one before it was applied, and takes 5 ms: a second later, a second has passed."""
    here = [1000.0]
    monkeypatch.setattr(log_clock, "boottime", lambda: here[0])
    origin, other = log_clock.LogClock(), log_clock.LogClock()
    for clock in (origin, other):
        clock.applied(START_MS)
    for _ in range(200):
        made = origin.now()
        here[0] += 0.005
        for clock in (origin, other):
            clock.applied(max(clock.time_ms, made))
    assert START_MS + 990 <= origin.now() <= START_MS + 1000
    assert START_MS + 990 <= other.now() <= START_MS + 1000
    assert log_clock.LogClock(*origin.mark(origin.time_ms)).now() == origin.now()


def test_a_session_is_late_only_if_this_machine_has_waited_as_long() -> None:
    late = LateSessions()
    assert late.of([], {"s": 2000}, 1000) == ()
    assert late.of(["s"], {"s": 2000}, 9000) == (), "the log's time ran away: a second has not passed here"
    assert late.of(["gone"], {}, 9000) == ("gone",)


def test_a_rule_that_raises_changes_nothing_and_stops_nobody(
    replica: SimulatedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    origins = Origins(replica)
    reports: list[object] = []
    monkeypatch.setattr(replica, "_report", lambda applied: reports.extend(applied[0].outcomes))
    origins.append("a", START_MS, START_MS, c.Exchange("nobody", 1, [], 1, ["x"], -5), c.SetPool("p", 2))
    assert replica._rows_of("SELECT name, size FROM pools") == [("p", 2)]
    broken = c.Submit("run", "hash", "name", b"not a document", "{}")
    origins.append("a", START_MS, START_MS, broken, c.SetPool("q", 3))
    assert isinstance(reports[-2], e.Failed)
    assert replica._rows_of("SELECT name FROM pools ORDER BY 1") == [("p",), ("q",)]
    assert replica._rows_of("SELECT count(*) FROM runs") == [(0,)]


@pytest.mark.parametrize(("version", "fine"), [
    ("3.4.21", False), ("3.4.22", True), ("3.4.34", True), ("3.5.0", False), ("3.5.2", False), ("3.5.3", True),
    ("3.6.1", True), ("3.5.0-rc.1", False), ("", False),
])  # fmt: skip
def test_versions_of_etcd(version: str, fine: bool) -> None:
    if fine:
        refuse_version("a:1", version)
        return
    with pytest.raises(StoreUnusable, match="install another version"):
        refuse_version("a:1", version)


def test_addresses() -> None:
    url = EtcdUrl("etcd://a,b:1,[::1]:2/some/prefix?tls=on&ca=a&cert=b&key=c")
    assert url.members == [("a", 2379), ("b", 1), ("::1", 2)]
    assert url.shown == "etcd://a:2379,b:1,[::1]:2/some/prefix"
    assert url.secure
    assert EtcdUrl("etcd://b:1,a:1").directory_name == EtcdUrl("etcd://a:1,b:1/weft").directory_name
    for wrong in ("etcd://", "etcd://a:x", "etcd://u:p@a", "etcd://a?x=1", "etcd://a?tls=maybe", "etcd://a,,b"):
        with pytest.raises(ValueError, match=r"etcd|tls"):
            EtcdUrl(wrong)


def origin(name: str, hash: str, compared: int = 7) -> Origin:
    return Origin(name, 1, 1, 1, 0, compared, hash, name, name)


def test_the_minority_stops_and_without_a_majority_all_do() -> None:
    three = [origin("a", "x"), origin("b", "x"), origin("c", "y")]
    refuse_if_other(three, "a", 7, "log")
    with pytest.raises(StoreUnusable, match="y here, x elsewhere"):
        refuse_if_other(three, "c", 7, "log")
    two = [origin("a", "x"), origin("b", "y")]
    with pytest.raises(StoreUnusable):
        refuse_if_other(two, "a", 7, "log")
    refuse_if_other([origin("a", "x"), origin("b", "y"), origin("c", "", 0)], "a", 7, "log")  # one is missing yet
