"""Exchanges of a chain in one round trip, with rows that the one before has read: what changed since then counts."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.postgres.test_races import submission
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.core.decision import needs as n
from weft.operations.access import StoreAccess
from weft.operations.reading.verification import verify
from weft.store.postgres.driver import PostgresStore
from weft.store.postgres.statements import Statement, statements
from weft.store.postgres.transactions import known_rows
from weft.store.postgres.wire import Wire

Make = Callable[..., PostgresStore]
NODE = '{"kinds": ["shell"], "slots": 9, "labels": {}}'
LOADED, KNOWN = statements()["exchange_begin"].key, statements()["exchange_begin_known"].key


class Working:
    """A session that reports all that it holds as succeeded. `other` is another process."""

    def __init__(self, store: PostgresStore, other: PostgresStore) -> None:
        self.connection = StoreConnection(StoreAccess(store))
        self.store, self.commit = store, self.connection.link.committer.commit
        self.other = StoreConnection(StoreAccess(other)).link.committer.commit
        self.commit(c.Register("s", "n", 60_000, None, NODE))
        self.number, self.known, self.demands, self.held = 0, 0, list[str](), list[c.Claim]()

    def submit(self, run: str, tasks: dict[str, list[str]]) -> None:
        self.commit(submission(run, {name: {"run": "true", "needs": needs} for name, needs in tasks.items()}))
        while not self.held:
            self.exchange(undisturbed=False)

    def exchange(self, undisturbed: bool = True) -> c.ExchangeReply:
        held, self.held = self.held, []
        self.number += 1
        reports = [
            c.Report(one.task_id, one.pos, one.idx, one.attempt, "succeeded", 0, result="{}", result_hash="h")
            for one in held
        ]
        workflows = self.connection.link.committer.workflows
        successors = next((w.successors for w in workflows.values()), ())
        following = [(one.run_no, pos, -1) for one in held for pos in successors[one.pos]]
        reply: c.ExchangeReply = self.commit(
            c.Exchange(
                "s", self.number, reports, 9, self.demands, self.known, following=following, undisturbed=undisturbed
            )
        )
        for self.known, demand, _ in reply.demands:
            self.demands.append(demand)
        self.held = [*reply.claims]
        return reply

    def held_as_stored(self) -> bool:
        """What is kept in memory is what the store has."""
        wire = self.store._wire
        assert wire is not None
        kept = {id: row for id, (row, _) in wire.held.items()}
        with self.store.transaction() as tx:
            assert tx is not None
            (stored,) = tx.load([n.Tasks(sorted(kept))])
        return {row.id: row for row in stored} == kept

    def states(self) -> list[str]:
        return [state for (state,) in self.store.reader().query("SELECT state FROM tasks ORDER BY id")]


CHAIN: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["d"]}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each exchange began: with rows that it loads, or with known ones."""
    monkeypatch.setattr(known_rows, "SEEN_MAX_S", 60.0)  # of a machine as slow as it likes
    found: list[str] = []
    send = Wire.send

    def sent(wire: Wire, statement: Statement, *parameters: Any) -> None:
        if statement.key in (LOADED, KNOWN):
            found.append("loads" if statement.key == LOADED else "knows")
        send(wire, statement, *parameters)

    monkeypatch.setattr(Wire, "send", sent)
    return found


@pytest.fixture
def working(make_store: Make, begun: list[str]) -> Working:
    """It has claimed the third task of a chain of five, and knows what follows."""
    made = Working(make_store(), make_store())
    made.submit("r", CHAIN)
    made.exchange()
    made.exchange()
    assert made.states() == ["succeeded", "succeeded", "running", "pending", "pending"]
    begun.clear()
    return made


def test_a_chain_goes_on_in_one_round_trip(working: Working, begun: list[str]) -> None:
    for _ in range(3):
        working.exchange()
    assert begun == ["knows", "knows", "loads"], "the last task has no follower, so nothing was left for its end"
    assert working.states() == ["succeeded"] * 5
    assert verify(working.connection.access, "r").differences == []


def test_a_node_that_was_woken_loads(working: Working, begun: list[str]) -> None:
    working.exchange(undisturbed=False)
    assert begun == ["loads"]


def test_what_was_seen_long_ago_does_not_count(
    working: Working, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_rows, "SEEN_MAX_S", 0.0)
    working.exchange()
    assert begun == ["loads"]


def test_a_run_that_was_paused_meanwhile(working: Working, begun: list[str]) -> None:
    working.other(c.PauseRun("r", True))
    assert working.exchange().claims == []
    assert begun == ["knows", "loads"]
    assert working.states() == ["succeeded"] * 3 + ["pending"] * 2


def test_a_task_that_was_changed_meanwhile_without_its_run(working: Working, begun: list[str]) -> None:
    """Its stop must not stay in the row of a task that has succeeded."""
    query = working.store.reader().query
    query("UPDATE tasks SET stop = 'cancel' WHERE state = 'running' RETURNING id")
    working.exchange()
    assert begun == ["knows", "loads"]
    assert query("SELECT state, stop FROM tasks WHERE pos = 2") == [("succeeded", None)]


def test_a_session_that_was_drained_meanwhile_claims_nothing(working: Working, begun: list[str]) -> None:
    working.other(c.Drain("s", 60_000))
    reply = working.exchange()
    assert (begun, reply.claims, reply.draining) == (["knows", "loads"], [], True)


def test_a_session_that_is_over_reports_nothing(working: Working, begun: list[str]) -> None:
    working.other(c.Expire("s", "left"))
    assert working.exchange().dead
    assert begun == ["knows", "loads"]
    assert "succeeded" not in working.states()[2:]


def test_other_work_that_waits_is_looked_for(working: Working, begun: list[str]) -> None:
    working.held, held = [], working.held
    working.submit("q", {f"q{i}": [] for i in range(12)})
    working.held, others = held, working.held
    assert len(others) == 9, "three are left"
    begun.clear()
    working.exchange()
    assert begun == ["loads"]


def loads_of_tasks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks each one asks for."""
    found: list[int] = []
    send, key = Wire.send, statements()["tasks_by_id"].key

    def sent(wire: Wire, statement: Statement, *parameters: Any) -> None:
        if statement.key == key:
            found.append(len(parameters[0]))
        send(wire, statement, *parameters)

    monkeypatch.setattr(Wire, "send", sent)
    return found


@pytest.fixture
def batch(make_store: Make) -> Working:
    """It holds nine of many tasks."""
    made = Working(make_store(), make_store())
    made.submit("r", {f"t{i}": [] for i in range(30)})
    return made


def test_what_a_session_holds_is_not_loaded(batch: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = loads_of_tasks(monkeypatch)
    while batch.held:
        batch.exchange(undisturbed=False)
    assert (batch.states(), loads) == (["succeeded"] * 30, [])
    assert verify(batch.connection.access, "r").differences == []


def test_what_a_session_held_is_loaded_when_it_has_changed(batch: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    query = batch.store.reader().query
    query("UPDATE tasks SET stop = 'cancel' WHERE id = (SELECT min(id) FROM tasks) RETURNING id")
    loads = loads_of_tasks(monkeypatch)
    batch.exchange(undisturbed=False)
    assert loads == [9], "the first try wrote nothing, and the second knew nothing any more"
    assert query("SELECT count(*) FROM tasks WHERE stop IS NOT NULL") == [(0,)]


def test_a_failure_of_what_has_changed_is_loaded_as_well(batch: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written by a statement that knows no versions: they are compared before."""
    one = batch.held[0]
    batch.store.reader().query("UPDATE tasks SET stop = 'cancel' WHERE id = $1::bigint RETURNING id", one.task_id)
    loads = loads_of_tasks(monkeypatch)
    report = c.Report(one.task_id, one.pos, one.idx, one.attempt, "failed", 1, "no")
    batch.commit(c.Exchange("s", batch.number + 1, [report], 0, batch.demands, batch.known))
    assert loads == [1]


def test_the_facts_of_a_new_run_come_with_its_first_claims(batch: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[Wire] = []
    genuine = Wire.sync

    def sync(wire: Wire) -> Any:
        syncs.append(wire)
        return genuine(wire)

    monkeypatch.setattr(Wire, "sync", sync)
    ((no, id, *_),) = batch.store.run_facts([1], wait=False)
    assert (no, id, syncs) == (1, "r", [])
    ((no, id, *_),) = batch.store.run_facts([1])
    assert (no, id, len(syncs)) == (1, "r", 1), "asked again, they are read again: a resume changes them"


def test_whatever_happens_between(make_store: Make, begun: list[str]) -> None:
    """Chains with side branches and joins, paused and unpaused by another process at any moment."""
    chance = random.Random(7)
    working = Working(make_store(), make_store())
    tasks = {f"t{i}": [f"t{chance.randrange(max(0, i - 3), i)}" for _ in range(min(i, 2))] for i in range(60)}
    working.submit("r", {name: sorted(set(needs)) for name, needs in tasks.items()})
    while working.states() != ["succeeded"] * 60:
        assert working.number < 400
        if not working.held:
            working.other(c.PauseRun("r", False))
        elif chance.random() < 0.2:
            working.other(c.PauseRun("r", chance.random() < 0.5))
        working.exchange(undisturbed=bool(working.held) and chance.random() < 0.9)
        assert working.held_as_stored()
    assert verify(working.connection.access, "r").differences == []
    assert begun.count("knows") > 20
