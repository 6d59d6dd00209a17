"""Rows that are alike are written as ranges of ids on SQLite: the same rows come of it, under the same guards."""

import random
from typing import Any

import msgspec
import pytest

from tests.store.test_statement_counts import Working
from weft.core import commands as c
from weft.core.decision.draft import Draft
from weft.store.protocol import Superseded
from weft.store.queries import queries
from weft.store.sqlite import transaction
from weft.store.sqlite.clock import StoreClock
from weft.store.sqlite.driver import SqliteStore
from weft.store.sqlite.statements import RANGE_MIN, ROWS, apart
from weft.store.writes import RARE

COUNT = 40


def test_ranges_and_the_other_rows_are_all_rows() -> None:
    chance = random.Random(5)
    for _ in range(300):
        ids = chance.sample(range(60), chance.randrange(1, 50))
        rows = [(id, *chance.choice((("a", 1), ("a", 1), ("a", 1), ("b", None)))) for id in ids]
        ranges, others = apart(rows)
        of_ranges = [(id, *rows[0][1:]) for first, last in ranges for id in range(first, last + 1)]
        assert sorted([*of_ranges, *others], key=lambda row: row[0]) == sorted(rows, key=lambda row: row[0])
        assert len(ranges) == 1 or all(last - first + 1 >= RANGE_MIN for first, last in ranges)


def story(monkeypatch: pytest.MonkeyPatch, least: int) -> list[tuple[Any, ...]]:
    """A fan is opened, claimed and reported; some of it differs. Its rows of tasks, and its history."""
    monkeypatch.setattr(transaction, "RANGE_MIN", least)
    monkeypatch.setattr(StoreClock, "now", lambda self: 5_000_000)
    store = SqliteStore(None)
    working = Working(store)
    fan = {f"t{i}": {"run": "true", "needs": ["first"], "priority": int(i % 10 == 3)} for i in range(COUNT)}
    working.submit({"first": {"run": "true"}, **fan, "last": {"run": "true", "needs": list(fan)}})
    working.exchange(working.exchange([], 1).claims, 0)
    first = working.exchange([], COUNT // 2).claims
    assert len(first) == COUNT // 2
    second = working.exchange(first, COUNT).claims
    assert len(second) == COUNT // 2
    assert [claim.pos for claim in working.exchange(second, COUNT).claims] == [COUNT + 1]
    read = store._writer.execute
    tasks, events = read("SELECT * FROM tasks ORDER BY id").fetchall(), read("SELECT * FROM events").fetchall()
    store.close()
    return [*tasks, *((*event[:-1], len(str(event[-1]))) for event in events)]


def test_ranges_leave_what_single_rows_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    write = transaction.SqliteTransaction._write_rows

    def noted(self: Any, name: str, parameters: Any, rows: Any) -> None:
        texts.append(name) if len(rows) >= RANGE_MIN else None
        write(self, name, parameters, rows)

    monkeypatch.setattr(transaction.SqliteTransaction, "_write_rows", noted)
    assert story(monkeypatch, RANGE_MIN) == story(monkeypatch, 1000)
    assert {"tasks_ready_if_pending", "tasks_claim_if_queued", "tasks_succeed_if_running"} <= set(texts)


def test_a_range_is_found_by_its_ids_alone() -> None:
    store = SqliteStore(None)
    for name in [name for name, query in queries("sqlite").items() if query.columns]:
        statement = ROWS[name]
        if statement.of_range is not None:
            bound = [None] * (statement.of_range.count("?") + 40)
            highest = max(at for at in range(1, len(bound)) if f"?{at}" in statement.of_range)
            plan = store._writer.execute(f"EXPLAIN QUERY PLAN {statement.of_range}", bound[:highest]).fetchall()
            assert [row[-1] for row in plan] == ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"], name
    store.close()


def test_a_row_within_a_range_that_changed_voids_the_transaction() -> None:
    store = SqliteStore(None)
    working = Working(store)
    working.submit({f"t{i}": {"run": "true"} for i in range(COUNT)})
    claims = working.exchange([], COUNT).claims
    ids = (claims[7].task_id, claims[0].task_id, claims[-1].task_id)
    rows = [(claim.task_id, 1, 5, 6, None, None) for claim in claims]

    def succeed(state: str, attempt: int) -> None:
        with store.transaction() as opened:
            assert opened is not None
            store._writer.execute("UPDATE tasks SET state = ?, attempt = ? WHERE id = ?", (state, attempt, ids[0]))
            opened._write_rows("tasks_succeed_if_running", (9, "s", 0), rows)

    for state, attempt in (("queued", 1), ("running", 2)):
        with pytest.raises(Superseded):
            succeed(state, attempt)
    succeed("running", 1)
    ended = store._writer.execute("SELECT count(*), min(id), max(id) FROM tasks WHERE state = 'succeeded'")
    assert ended.fetchall() == [(COUNT, *ids[1:])]
    store.close()


def test_an_attempt_that_one_exchange_reports_twice_ends_once() -> None:
    store = SqliteStore(None)
    working = Working(store)
    working.submit({f"t{i}": {"run": "true"} for i in range(9)})
    claims = working.exchange([], 9).claims
    twice: list[c.Claim] = [*claims[:5], claims[2], *claims[5:]]
    reply = working.exchange(twice, 0)
    assert reply.stale == [(claims[2].task_id, 1)]
    ((state, succeeded, left),) = store._writer.execute("SELECT state, succeeded, open FROM runs").fetchall()
    assert (state, succeeded, left) == ("succeeded", 9, 0)
    store.close()


def test_no_part_of_a_draft_is_left_out() -> None:
    """A part that is not looked at would be lost without a word."""
    parts = {name for name, value in vars(Draft(0, {})).items() if isinstance(value, msgspec.Struct)}
    assert parts == {*RARE, "created"}
