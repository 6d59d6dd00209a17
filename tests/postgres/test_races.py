"""Transactions that overlap: who waits for whom, and what each of them sees."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.store.conformance import draft_of, make_world, put_run, put_session, run_row, task_id, task_row
from weft.authoring.load import load_value
from weft.core import commands as c
from weft.core.decision import needs as n
from weft.core.definition.document import encode_document
from weft.core.rows import EventRow
from weft.node.committer import Committer
from weft.store.postgres.driver import PostgresStore
from weft.store.protocol import Superseded

Make = Callable[..., PostgresStore]


class Beside:
    """Work in a thread of its own; `wait_until_blocked` returns when the server says that it waits for a lock."""

    def __init__(self, store: PostgresStore, work: Callable[[], Any]) -> None:
        self._reader = store.reader()
        self.result: Any = None

        def run() -> None:
            self.result = work()

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def wait_until_blocked(self) -> None:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        while self._reader.query(sql) == [(0,)]:
            assert self.thread.is_alive(), "it did not wait"

    def done(self) -> Any:
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.result


def test_claims_leave_out_what_others_are_taking(make_store: Make) -> None:
    one, two = make_store(), make_store()
    with one.transaction() as tx:
        put_run(tx, run_row(1), [task_row(1, i, state="queued", rank=i) for i in range(10)])
    with one.transaction() as first, two.transaction() as second:
        assert first is not None
        assert second is not None
        (mine,) = first.load([n.QueuedTasks(["x"], None, 4)])
        (yours,) = second.load([n.QueuedTasks(["x"], None, 4)])
        (rest,) = second.load([n.QueuedTasks(["x"], 1, 100)])
    assert [row.id - task_id(1, 0) for row in mine] == [0, 1, 2, 3]
    assert [row.id - task_id(1, 0) for row in yours] == [4, 5, 6, 7], "the limit counts only what is free"
    assert [row.id - task_id(1, 0) for row in rest] == [4, 5, 6, 7, 8, 9]


def test_the_clock_is_read_after_the_locks(make_store: Make) -> None:
    """`now()` is the transaction's start: after a wait for a lock, a lease granted by it may have passed already."""
    one, two = make_store(), make_store()
    make_world(one)

    def later() -> int:
        with two.transaction() as tx:
            assert tx is not None
            tx.load([n.Runs([3])])
            return tx.now

    with one.transaction() as tx:
        assert tx is not None
        tx.load([n.Runs([3])])
        beside = Beside(one, later)
        beside.wait_until_blocked()
        tx.load([n.Runs([5])])
        before_release = one.reader().now()
    assert beside.done() >= before_release


def test_what_was_waited_for_is_seen_as_it_is_now(make_store: Make) -> None:
    """The tasks of a run are read without a lock, but after the run's: never as they were before the wait."""
    one, two = make_store(), make_store()
    make_world(one)

    def look() -> tuple[Any, Any]:
        with two.transaction() as tx:
            assert tx is not None
            ((run,), (task,)) = tx.load([n.Runs([3]), n.TasksAt([(3, 5, -1)])])
            return run.active, task.open

    with one.transaction() as tx:
        assert tx is not None
        draft = draft_of(tx)
        (run,) = draft.add_loaded_runs(tx.load([n.Runs([3])])[0])
        (task,) = draft.add_loaded(tx.load([n.TasksAt([(3, 5, -1)])])[0])
        beside = Beside(one, look)
        beside.wait_until_blocked()
        draft.touch_run(run)
        draft.touch(task)
        run.active, task.open = 41, 42
        tx.write(draft)
    assert beside.done() == (41, 42)


def test_a_guard_that_fails_in_the_last_round_trip_voids_the_commit(make_store: Make) -> None:
    """COMMIT is sent together with the writes: the failed guard must keep the server from doing it."""
    one, two = make_store(), make_store()
    make_world(one)

    def finish_late() -> None:
        with one.transaction() as tx:
            assert tx is not None
            draft = draft_of(tx)
            (task,) = draft.add_loaded(tx.load([n.Tasks([task_id(3, 1)])])[0])
            with two.transaction() as other:  # it is reclaimed meanwhile: nobody holds a lock on the run
                assert other is not None
                theirs = draft_of(other)
                (copy,) = theirs.add_loaded(other.load([n.Tasks([task_id(3, 1)])])[0])
                theirs.touch(copy)
                copy.state, copy.session = "queued", None
                other.write(theirs)
            draft.touch(task)
            task.state, task.session, task.settled = "succeeded", None, True
            draft.events = [EventRow(3, 1, -1, "finished", "s1", {})]
            tx.write(draft)

    with pytest.raises(Superseded):
        finish_late()
    reader = one.reader()
    assert reader.query("SELECT count(*) FROM events") == [(0,)]
    assert reader.query("SELECT state FROM tasks WHERE id = $1::bigint", task_id(3, 1)) == [("queued",)]


def test_followers_miss_nothing(make_store: Make) -> None:
    """Numbers are drawn before COMMIT: a higher one may be there before a lower one, and is held back."""
    one, two, follower = make_store(), make_store(), make_store()
    reader = follower.reader()
    with one.transaction() as tx:
        put_run(tx, run_row(1), [])

    def followed() -> list[int]:
        settled = follower.settled_event()  # not of `one`: its only connection for writing is in a transaction
        rows = reader.read("events_found_of_run", 0, None, None, None, None, 100, settled, 1)
        assert rows == reader.read("events_found", 0, None, None, None, None, 100, settled)
        return [row[0] for row in rows]

    assert followed() == []
    with one.transaction() as slow:
        assert slow is not None
        draft = draft_of(slow)
        draft.events = [EventRow(1, None, None, "first", None, {})]
        slow.write(draft)
        slow.load([n.NewDemands(0)])  # the event has its number, and is not committed
        with two.transaction() as quick:
            assert quick is not None
            draft = draft_of(quick)
            draft.events = [EventRow(1, None, None, "second", None, {})]
            quick.write(draft)
        seen = reader.read("events_found_of_run", 0, None, None, None, None, 100, 2**62, 1)
        assert [row[5] for row in seen] == ["second"], "it is committed"
        assert followed() == [], "but whoever reads on from it would miss the first"
    assert len(followed()) == 2


def test_demands_appear_in_the_order_of_their_numbers(make_store: Make) -> None:
    """A node asks for demands above the newest that it knows: a lower number that came later would be lost to it."""
    one, two = make_store(), make_store()

    def second() -> None:
        with two.transaction() as tx:
            assert tx is not None
            draft = draft_of(tx)
            draft.created.demands = {"b": "{}"}
            tx.write(draft)

    with one.transaction() as tx:
        assert tx is not None
        draft = draft_of(tx)
        draft.created.demands = {"a": "{}"}
        tx.write(draft)
        tx.load([n.Lease("x")])
        beside = Beside(one, second)
        beside.wait_until_blocked()
    beside.done()
    with one.transaction() as tx:
        assert tx is not None
        assert [id for _, id, _ in tx.load([n.NewDemands(0)])[0]] == ["a", "b"]


def submission(run_id: str, tasks: dict[str, Any], key: str | None = None) -> c.Submit:
    loaded = load_value({"name": "w", "tasks": tasks})
    return c.Submit(run_id, loaded.workflow.hash, "w", encode_document(loaded.document), "{}", key=key)


def test_a_cancel_finds_what_is_being_claimed(make_store: Make) -> None:
    """The claim is under way while the run is cancelled: it is not queued any more, so it must be told to stop."""
    one, two = make_store(), make_store()
    committer = Committer(one)
    committer.commit(submission("r", {f"t{i}": {"run": "true"} for i in range(4)}))
    with one.transaction() as tx:
        put_session(tx, "s")
    with one.transaction() as tx:
        assert tx is not None
        draft = draft_of(tx)
        for task in draft.add_loaded(tx.load([n.QueuedTasks(["shell"], None, 2)])[0]):
            draft.claim([task], "s", 1)
        tx.write(draft)
        tx.load([n.Lease("x")])
        beside = Beside(one, lambda: Committer(two).commit(c.CancelRun("r")))
        beside.wait_until_blocked()
    assert beside.done().changed == 2
    rows = one.reader().query("SELECT state, stop FROM tasks ORDER BY id")
    assert rows == [("running", "cancel"), ("running", "cancel"), ("cancelled", None), ("cancelled", None)]


def test_who_asks_for_a_child_does_not_wait_for_its_root(make_store: Make) -> None:
    """Runs are locked in the order of their numbers; a child has a higher one than the run that started it."""
    one, two = make_store(), make_store()
    Committer(one).commit(submission("r", {"a": {"run": "true"}}))
    (hash,) = one.reader().query("SELECT workflow FROM runs")[0]
    with one.transaction() as tx:
        child = run_row(2, id="child", workflow=hash, state="failed", finished_at=1, root=1, parent=task_id(1, 0))
        put_run(tx, child, [])
    with one.transaction() as tx:
        assert tx is not None
        tx.load([n.Runs([1])])
        beside = Beside(one, lambda: _refusal(Committer(two), c.Resume("child")))
        assert "weft resume r" in beside.done()


def _refusal(committer: Committer, command: c.Command) -> str:
    with pytest.raises(c.Refused) as refused:
        committer.commit(command)
    return str(refused.value)


def test_one_run_per_key_when_many_ask_at_once(make_store: Make) -> None:
    stores = [make_store() for _ in range(8)]
    replies: list[c.Reply] = []
    start = threading.Barrier(len(stores))

    def ask(store: PostgresStore, number: int) -> None:
        start.wait()
        replies.append(Committer(store).commit(submission(f"r-{number}", {"a": {"run": "true"}}, key="k")))

    threads = [threading.Thread(target=ask, args=(store, number)) for number, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 8
    assert len({reply.run_id for reply in replies}) == 1
    assert sum(not reply.existing for reply in replies) == 1


def test_many_exchange_at_once_and_nothing_is_claimed_twice(make_store: Make) -> None:
    """Four nodes take and finish what two runs hold, as fast as they can."""
    stores = [make_store() for _ in range(4)]
    chain = {f"t{i}": {"run": "true", "needs": [f"t{i - 5}"] if i >= 5 else []} for i in range(150)}
    for run_id in ("r-1", "r-2"):
        Committer(stores[0]).commit(submission(run_id, chain))
    claimed: list[tuple[int, int]] = []

    def work(store: PostgresStore, session: str) -> None:
        committer = Committer(store)
        committer.commit(c.Register(session, session, 30_000, None, "{}"))
        reports: list[c.Report] = []
        number = idle = 0
        while idle < 20:
            number += 1
            reply = committer.commit(c.Exchange(session, number, reports, 7, ["shell"], 99))
            assert not reply.stale
            claimed.extend((claim.task_id, claim.attempt) for claim in reply.claims)
            reports = [
                c.Report(k.task_id, k.pos, k.idx, k.attempt, "succeeded", 0, started_ago_ms=0) for k in reply.claims
            ]
            idle = 0 if reply.claims else idle + 1

    threads = [threading.Thread(target=work, args=(store, f"s{i}")) for i, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claimed) == len(set(claimed)) == 300
    assert stores[0].reader().query("SELECT state, count(*) FROM runs GROUP BY 1") == [("succeeded", 2)]
