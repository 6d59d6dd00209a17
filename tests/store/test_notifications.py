"""Deadlines and the outbox of notifications, in any store: what loads and looks find, and what guards refuse."""

from typing import Any

import pytest

from tests.store.conformance import draft_of, notification, put_run, put_session, run_row, task_id, task_row
from weft.core.decision import needs as n
from weft.core.rows import AttemptRow, DeadlineRow, NotificationRow, TriggerRow
from weft.store.protocol import Superseded


def attempt(task: int, number: int, outcome: str, started_at: int | None, result: str | None = None) -> AttemptRow:
    return AttemptRow(task, number, 1, "s", outcome, 1, None, 5, started_at, 9, result, None)


def test_deadlines_are_due_when_their_moment_has_passed(store: Any) -> None:
    with store.transaction() as tx:
        tx.load([n.NextRun()])
        now = tx.now
        rows = [
            DeadlineRow(2, 3, "start_by", now - 5), DeadlineRow(1, -1, "finish_by", now),
            DeadlineRow(1, -1, "start_by", now + 60_000), DeadlineRow(2, 0, "finish_by", now - 9, "late"),
        ]  # fmt: skip
        draft = draft_of(tx)
        draft.deadlines.new = rows
        tx.write(draft)
    with store.transaction() as tx:
        asked = [n.DueDeadlines(9), n.DueDeadlines(1), n.DueDeadlines(9, 1), n.DueDeadlines(9, 7)]
        found = [[(row.run_no, row.pos, row.by) for row in rows] for rows in tx.load(asked)]
    assert found == [[(2, 3, "start_by"), (1, -1, "finish_by")], [(2, 3, "start_by")], [(1, -1, "finish_by")], []]
    assert store.outbox(1, 9).late


def test_a_deadline_is_judged_once(store: Any) -> None:
    row = DeadlineRow(1, -1, "start_by", 5)
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.deadlines.new = [row]
        tx.write(draft)
    judged = DeadlineRow(1, -1, "start_by", 5, "late")
    judge(store, judged)
    assert not store.outbox(1, 9).late
    with pytest.raises(Superseded):
        judge(store, judged)


def judge(store: Any, row: DeadlineRow) -> None:
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.deadlines.judged = [row]
        tx.write(draft)


def test_the_first_start_counts_attempts_that_have_ended_but_not_those_that_were_given_back(store: Any) -> None:
    with store.transaction() as tx:
        rows = [
            task_row(1, 0, state="scheduled", claimed_at=50, started_at=60),
            task_row(1, 1, state="running", claimed_at=70, session="s", attempt=1),
            task_row(1, 2, state="queued", claimed_at=1),
            task_row(1, 3, state="pending"),
        ]
        put_run(tx, run_row(1), rows)
        put_run(tx, run_row(2), [task_row(2, 0)])
        draft = draft_of(tx)
        draft.attempts = [
            attempt(task_id(1, 0), 1, "failed", 20), attempt(task_id(1, 0), 2, "failed", 60),
            attempt(task_id(1, 2), 1, "returned", None), attempt(task_id(1, 1), 1, "lost", None),
        ]  # fmt: skip
        tx.write(draft)
    with store.transaction() as tx:
        places = [(1, -1), (1, 0), (1, 1), (1, 2), (1, 3), (2, -1)]
        found = tx.load([n.FirstStart(*place) for place in places])
    assert [[tuple(row) for row in rows] for rows in found] == [[(5,)], [(20,)], [(5,)], [], [], []]


def test_the_outbox(store: Any) -> None:
    """What is due, what another term has begun, and the output of the attempt that failed last."""
    with store.transaction() as tx:
        tx.load([n.NextRun()])
        now = tx.now
        put_run(tx, run_row(1), [task_row(1, 0, state="failed"), task_row(1, 1, idx=2, state="failed")])
        draft = draft_of(tx)
        draft.attempts = [
            attempt(task_id(1, 0), 1, "failed", 1, '{"stderr":"a"}'),
            attempt(task_id(1, 0), 2, "lost", 1, '{"stderr":"b"}'),
            attempt(task_id(1, 1), 1, "failed", 1, '{"stderr":"c"}'),
        ]  # fmt: skip
        draft.notifications.new = [
            notification("due", run_no=1, pos=0, next_at=now - 5),
            notification("element", run_no=1, pos=1, next_at=now - 4),
            notification("twice", next_at=now - 3), notification("twice", next_at=now - 3),
            notification("later", next_at=now + 60_000),
            notification("begun", next_at=now + 60_000, term=4),
            notification("done", state="delivered", next_at=None, delivered_at=now),
            notification("failed", state="failed", next_at=None),
        ]  # fmt: skip
        tx.write(draft)
    box = store.outbox(4, 9)
    assert [(row.id, result) for row, result in box.due] == [
        ("due", '{"stderr":"a"}'), ("element", '{"stderr":"c"}'), ("twice", None),
    ]  # fmt: skip
    assert [row.id for row, _ in store.outbox(5, 9).due] == ["due", "element", "twice", "begun"]
    assert [row.id for row, _ in store.outbox(5, 2).due] == ["due", "element"]
    with store.transaction() as tx:
        some, failed = tx.load([n.Notifications(["twice", "due", "none"]), n.FailedNotifications(9)])
    assert ([row.id for row in some], [row.id for row in failed]) == (["due", "twice"], ["failed"])
    reader = store.reader()
    page = [NotificationRow(*row) for row in reader.read("notifications_page", "pending", None, None, None, 9)]
    assert sorted(row.id for row in page) == ["begun", "due", "element", "later", "twice"]
    page = [NotificationRow(*row) for row in reader.read("notifications_page", None, "one", None, None, 9)]
    assert len(page) == 7
    after = (page[2].created_at, page[2].id)
    assert [row[0] for row in reader.read("notifications_page", None, "one", *after, 2)] == [
        row.id for row in page[3:5]
    ]
    reader.close()


def test_the_number_of_the_try_is_the_fence_of_a_delivery(store: Any) -> None:
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.notifications.new = [notification("one")]
        tx.write(draft)
    try_it(store)
    with pytest.raises(Superseded):
        try_it(store)
    with store.transaction() as tx:
        ((row,),) = tx.load([n.Notifications(["one"])])
    assert (row.tries, row.error, row.term, row.state) == (1, "why", 3, "pending")


def try_it(store: Any) -> None:
    """As if it had been seen before its first try."""
    with store.transaction() as tx:
        (rows,) = tx.load([n.Notifications(["one"])])
        draft = draft_of(tx)
        rows[0].tries, rows[0].error, rows[0].term = 1, "why", 3
        draft.notifications.changed = [(rows[0], 0)]
        tx.write(draft)


def test_an_exchange_learns_whether_anything_is_to_be_noted(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s")
    noted = []
    states: list[dict[str, str | None]] = [{"default": "[]", "failed:a": "r"}, {"default": None}, {"failed:a": None}]
    for number, state in enumerate(states):
        with store.transaction() as tx:
            ((begun,),) = tx.load([n.BeginExchange("s", number + 1)])
            noted.append(bool(begun[-1]))
            draft = draft_of(tx)
            draft.notifications.state = dict(state)
            tx.write(draft)
    assert noted == [False, True, True]
    with store.transaction() as tx:
        ((begun,), state) = tx.load([n.BeginExchange("s", 9), n.NotifyState(["default", "failed:a"])])
    assert (bool(begun[-1]), state) == (False, [])


def test_triggers_are_looked_at_when_their_runs_should_have_started(store: Any) -> None:
    with store.transaction() as tx:
        tx.load([n.NextRun()])
        now = tx.now
        draft = draft_of(tx)
        for name, active, check_ms in (
            ("a", True, now),
            ("b", True, now + 60_000),
            ("c", True, None),
            ("d", False, 5),
        ):
            row = TriggerRow(name, "w", "every", None, "{}", "h", None, active, True, 0, None, 0, 3, check_ms)
            draft.triggers.changed.append((row, None))
        tx.write(draft)
    assert [(row.id, row.checked_ms) for row in store.outbox(1, 9).starts] == [("a", 3)]
