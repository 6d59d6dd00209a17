"""Rows that a SQLite store need not read again: they count only while nobody else has written. And ids as ranges."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.conformance import draft_of, make_world, task_id
from weft.core.decision import needs as n
from weft.core.rows import TaskRow
from weft.store.sqlite.driver import SqliteStore
from weft.store.sqlite.statements import RANGE_MIN, apart

CLAIMED = task_id(3, 2)


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """It has just claimed a task."""
    store = SqliteStore(tmp_path / "weft.db")
    make_world(store)
    with store.transaction() as tx:
        assert tx is not None
        draft = draft_of(tx)
        (run,) = draft.add_loaded_runs(tx.load([n.Runs([3])])[0])
        (row,) = draft.add_loaded(tx.load([n.Tasks([CLAIMED])])[0])
        draft.touch_run(run)
        draft.claim([row], "s1", 7)
        tx.write(draft)
    return store


def loaded(store: SqliteStore) -> tuple[TaskRow, int]:
    """The row, and how many statements that took beside BEGIN, COMMIT and the look at the mark."""
    counts = [0]

    def count(cursor: object, text: str, bound: object) -> bool:
        counts[0] += text not in ("BEGIN IMMEDIATE", "COMMIT") and "moved" not in text
        return True

    with store.transaction() as tx:
        assert tx is not None
        store._writer.exec_trace = count
        (runs, (row,)) = tx.load([n.Runs([3]), n.Tasks([CLAIMED])])
        store._writer.exec_trace = None
        assert [run.no for run in runs] == [3]
    return row, counts[0]


def test_what_was_just_written_is_not_read(store: SqliteStore) -> None:
    row, statements = loaded(store)
    assert (row.state, row.session, row.claim_no, row.guard, statements) == ("running", "s1", 7, None, 0)
    again, statements = loaded(store)
    assert statements == 2, "who takes it may change it: nobody gets it twice"
    assert again == row
    store.close()


def test_another_connections_commit_is_seen(store: SqliteStore) -> None:
    other = SqliteStore(store.path)
    other._writer.execute("UPDATE tasks SET stop = 'cancel' WHERE id = ?", (CLAIMED,))
    row, statements = loaded(store)
    assert (row.stop, statements) == ("cancel", 2)
    other.close()
    store.close()


def test_a_statement_of_its_own_that_was_no_drafts_is_seen(store: SqliteStore) -> None:
    with store.transaction():
        store._writer.execute("UPDATE tasks SET stop = 'timeout' WHERE id = ?", (CLAIMED,))
    assert loaded(store)[0].stop == "timeout"
    store.close()


def test_what_was_rolled_back_is_read_anew(store: SqliteStore) -> None:
    with suppress(ZeroDivisionError), store.transaction() as tx:
        assert tx is not None
        draft = draft_of(tx)
        (row,) = draft.add_loaded(tx.load([n.Tasks([CLAIMED])])[0])
        draft.touch(row)
        row.state, row.session = "queued", None
        tx.write(draft)
        _ = 1 // 0
    row, statements = loaded(store)
    assert (row.state, row.session, statements) == ("running", "s1", 1), "its run had not been taken"
    store.close()


def test_a_row_that_another_load_found_and_changed_replaces_it(store: SqliteStore) -> None:
    with store.transaction() as tx:
        assert tx is not None
        draft = draft_of(tx)
        for row in draft.add_loaded(tx.load([n.HeldTasks("s1")])[0]):
            if row.id == CLAIMED:
                draft.touch(row)
                row.stop = "cancel"
        tx.write(draft)
    assert loaded(store)[0].stop == "cancel"
    store.close()


@given(st.sets(st.integers(0, 60), min_size=1))
def test_ranges_and_others_are_all_ids_once(ids: set[int]) -> None:
    ranges, others = apart([(id,) for id in ids])
    found = [id for first, last in ranges for id in range(first, last + 1)] + [id for (id,) in others]
    assert sorted(found) == sorted(ids)
    assert all(last - first + 1 >= min(RANGE_MIN, len(ids)) for first, last in ranges)
