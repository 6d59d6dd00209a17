"""Records that outlive attempts: found by key, written by the attempt that is held, never changed once complete."""

from typing import Any

import pytest

from tests.store.conformance import Backend, blank, draft_of, make_world, task_id
from weft.core.decision import needs as n
from weft.core.decision.groups import Pruned
from weft.core.rows import MemoRow
from weft.store.protocol import Superseded

HELD = task_id(3, 1)  # running, attempt 1, by s1


def record(key: str, **given: Any) -> MemoRow:
    given = {"kind": "once", "status": "pending", "task_id": HELD, "attempt": 1, "session": "s1", **given}
    return blank(MemoRow, key=key, run="three", task="t", **given)


def put(store: Any, *kept: MemoRow, once: MemoRow | None = None, **more: Any) -> None:
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.kept_results.cached = {row.key: row for row in kept}
        draft.kept_results.once = once
        for name, value in more.items():
            setattr(draft, name, value)
        tx.write(draft)


def load(store: Any, *keys: str) -> list[MemoRow]:
    with store.transaction() as tx:
        (rows,) = tx.load([n.Memos(list(keys))])
    return list(rows)


@pytest.fixture
def world(store: Any) -> Any:
    make_world(store)
    return store


def test_records_come_in_the_order_of_their_keys(world: Any) -> None:
    rows = [record(key, kind="cache", status="completed", value='"ü"', hash="h") for key in ("b", "c", "a")]
    put(world, *rows)
    assert load(world, "c", "nobody", "a") == [rows[2], rows[1]]
    assert load(world) == []


def test_the_newest_result_is_the_one_that_is_kept(world: Any) -> None:
    first = record("k", kind="cache", status="completed", value="1", expires_at=5)
    put(world, first)
    second = record("k", kind="cache", status="completed", value="2", attempt=2, session="s2")
    put(world, second)
    assert load(world, "k") == [second]


def test_an_effect_begins_and_ends(world: Any) -> None:
    put(world, once=record("k"))
    put(world, once=record("k", status="failed", value='"no"'))
    put(world, once=record("k"))
    done = record("k", status="completed", value="17", hash="h", created_at=3)
    put(world, once=done)
    assert load(world, "k") == [done]


@pytest.mark.parametrize(
    "wrong", [{"attempt": 2}, {"session": "s2"}, {"task_id": task_id(3, 0)}, {"task_id": task_id(3, 99)}]
)
def test_only_the_attempt_that_is_held_may_write(world: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(Superseded):
        put(world, once=record("k", **wrong))
    assert load(world, "k") == []
    put(world, once=record("k"))
    with pytest.raises(Superseded):
        put(world, once=record("k", status="completed", value="1", **wrong))
    assert [row.status for row in load(world, "k")] == ["pending"]


@pytest.mark.parametrize("status", ["pending", "failed", "completed"])
def test_what_is_completed_never_changes(world: Any, status: str) -> None:
    put(world, once=record("k", status="completed", value="1"))
    with pytest.raises(Superseded):
        put(world, once=record("k", status=status, value="2"))
    assert [(row.status, row.value) for row in load(world, "k")] == [("completed", "1")]


def test_results_are_found_until_they_expire(world: Any) -> None:
    with world.transaction() as tx:
        now = tx.now
    put(
        world,
        record("for ever", kind="cache", status="completed"),
        record("still", kind="cache", status="completed", expires_at=now + 60_000),
        record("no more", kind="cache", status="completed", expires_at=now),
        once=record("effect"),
    )
    found = world.cached(["still", "no more", "for ever", "effect", "nobody"])
    assert [row.key for row in found] == ["for ever", "still"]


def test_pruning_takes_effects_with_their_run_and_results_by_age(world: Any, backend: Backend) -> None:
    with world.transaction() as tx:
        now = tx.now
    put(
        world,
        record("old", kind="cache", status="completed", created_at=now - 10),
        record("new", kind="cache", status="completed", created_at=now),
        record("expired", kind="cache", status="completed", created_at=now, expires_at=now),
        once=record("effect"),
    )
    put(world, pruned=Pruned(runs=[5], before=now))
    keys = "SELECT key FROM memos ORDER BY key"
    assert backend.query(world, keys) == [("effect",), ("new",), ("old",)]
    put(world, pruned=Pruned(runs=[3], before=now - 5, cached=True))
    assert backend.query(world, keys) == [("new",)]
