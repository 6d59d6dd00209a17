"""Everything a draft may hold is written whole, under its guards, or not at all."""

from typing import Any

import pytest

from tests.store.conformance import (
    Backend,
    blank,
    draft_of,
    make_world,
    notification,
    put_run,
    put_session,
    run_row,
    task_id,
    task_row,
)
from weft.core.decision import needs as n
from weft.core.decision.groups import Created, PoolChanges, Pruned, SessionChanges
from weft.core.liveness import digest
from weft.core.rows import AttemptRow, DeadlineRow, EventRow, LeadershipRow, StaleRow, TaskRow
from weft.store.protocol import CommandUsed, Remembered, StoreError, Superseded

RUNNING = task_id(3, 1)


def attempt(task: int, number: int, **given: Any) -> AttemptRow:
    return blank(AttemptRow, **{"task_id": task, "attempt": number, "outcome": "succeeded", "session": "s1", **given})


def load_task(tx: Any, id: int = RUNNING) -> TaskRow:
    row: TaskRow = tx.load([n.Tasks([id])])[0][0]
    return row


def write(store: Any, changed: tuple[TaskRow, ...] = (), **parts: Any) -> None:
    """One transaction that writes a draft with these parts; `changed` rows are taken to be as they were loaded."""
    with store.transaction() as tx:
        draft = draft_of(tx)
        for row in draft.add_loaded(changed):
            draft.touch(row)
            row.reason = "changed"
        for name, value in parts.items():
            setattr(draft, name, value)
        tx.write(draft)


# -- parts of a draft ------------------------------------------------------------------------------------------


def test_a_run_and_its_tasks(store: Any) -> None:
    run, tasks = run_row(1, reason="\N{SNOWMAN} 'quoted'", priority=7), [task_row(1, i, rank=-i) for i in range(3)]
    with store.transaction() as tx:
        put_run(tx, run, tasks, key="k", body_hash="b")
    with store.transaction() as tx:
        (runs, rows) = tx.load([n.Runs([1]), n.CurrentTasks(1)])
    assert runs == [run]
    assert rows == tasks


@pytest.mark.parametrize("count", [1, 2, 12, 193, 500])
def test_any_number_of_rows_at_once(store: Any, backend: Backend, count: int) -> None:
    with store.transaction() as tx:
        put_run(tx, run_row(1), [task_row(1, i) for i in range(count)])
    with store.transaction() as tx:
        draft = draft_of(tx)
        for row in draft.add_loaded(tx.load([n.CurrentTasks(1)])[0]):
            draft.touch(row)
            row.reason = f"reason {row.pos}"
        draft.attempts = [attempt(task_id(1, i), 1) for i in range(count)]
        draft.events = [EventRow(1, i, -1, "assigned", "s1", {"attempt": i}) for i in range(count)]
        draft.stale = [StaleRow(task_id(1, i), 1, "s1", "late", "{}") for i in range(count)]
        tx.write(draft)
    with store.transaction() as tx:
        (rows,) = tx.load([n.CurrentTasks(1)])
    assert [row.reason for row in rows] == [f"reason {i}" for i in range(count)]
    for table in ("attempts", "events", "stale_reports"):
        assert backend.query(store, f"SELECT count(*) FROM {table}") == [(count,)]


def test_places_of_pools(store: Any) -> None:
    """Changes are added up under the row's lock; a size changes nothing of what is used."""
    make_world(store)
    write(store, pools=PoolChanges(taken={"small": 2, "large": 1, "middle": 0}))
    write(store, pools=PoolChanges(taken={"small": -1}, sizes={"small": 1, "new": 3}))
    with store.transaction() as tx:
        (rows,) = tx.load([n.Pools(["large", "middle", "new", "small"])])
    assert [(row.size, row.used) for row in rows] == [(500, 1), (7, 0), (3, 0), (1, 1)]
    with pytest.raises(StoreError):
        write(store, pools=PoolChanges(taken={"small": -2}))
    with pytest.raises(Superseded):
        write(store, pools=PoolChanges(taken={"nobody": 1}))


def test_a_demand_that_changed(store: Any) -> None:
    make_world(store)
    for state in ("queued", "running"):
        with store.transaction() as tx:
            draft = draft_of(tx)
            (row,) = draft.add_loaded(tx.load([n.Tasks([task_id(3, 2)])])[0])
            draft.touch(row)
            row.demand, row.wake_at, row.state = f"z-{state}", None, state
            row.session = "s1" if state == "running" else None
            draft.replaced[row.id] = None
            tx.write(draft)
        with store.transaction() as tx:
            assert load_task(tx, task_id(3, 2)).demand == f"z-{state}"


def test_numbers_of_demands_are_never_used_again(store: Any) -> None:
    make_world(store)
    write(store, created=Created(demands={"session:gone/place:x": "{}"}))
    with store.transaction() as tx:
        ((*_, last),) = tx.load([n.NewDemands(0)])
    assert last[1] == "session:gone/place:x"
    write(store, pruned=Pruned(before=1))
    write(store, created=Created(demands={"z": "{}"}))
    with store.transaction() as tx:
        (rows,) = tx.load([n.NewDemands(0)])
    assert [row[1] for row in rows] == ["x", "y", "z"], "private demands go with their session"
    assert rows[-1][0] > last[0], "a node that knows the last one must hear of this one"


def test_a_changed_task_and_run(store: Any) -> None:
    make_world(store)
    with store.transaction() as tx:
        draft = draft_of(tx)
        (run,) = draft.add_loaded_runs(tx.load([n.Runs([3])])[0])
        (task,) = draft.add_loaded([load_task(tx)])
        draft.touch(task)
        draft.touch_run(run)
        task.state, task.session, task.finished_at, task.reason = "failed", None, tx.now, "exit code 1"
        run.active, run.halted, run.sweep, run.finished_at = 4, True, 17, 99
        tx.write(draft)
    with store.transaction() as tx:
        after, again = tx.load([n.Runs([3])])[0][0], load_task(tx)
    assert (again.state, again.session, again.reason) == ("failed", None, "exit code 1")
    assert (after.active, bool(after.halted), after.sweep, after.finished_at) == (4, True, 17, 99)


def test_events_keep_their_order_and_their_values(store: Any, backend: Backend) -> None:
    make_world(store)
    values: dict[str, Any] = {"text": "a\x00b\n'\"", "float": 1.5, "none": None, "list": [1, [2]], "big": 2**53 - 1}
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.events = [EventRow(3, 0, -1, f"kind-{i}", None, values) for i in range(20)]
        tx.write(draft)
    import msgspec

    rows = backend.query(store, "SELECT kind, at, data FROM events ORDER BY seq")
    assert [row[0] for row in rows] == [f"kind-{i}" for i in range(20)]
    assert all(at == tx.now and msgspec.json.decode(data) == values for _, at, data in rows)


def test_documents_come_back_byte_for_byte(store: Any) -> None:
    body = bytes(range(256))
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.created.workflows = [("h", "w", body)]
        tx.write(draft)
        draft.created.workflows = [("h", "w", b"another one under the same hash")]
        tx.write(draft)
        assert tx.document("h") == body, "a workflow is immutable once stored"
        with pytest.raises(KeyError):
            tx.document("unknown")


def test_demands_are_stored_once_and_numbered(store: Any) -> None:
    for _ in range(2):
        with store.transaction() as tx:
            draft = draft_of(tx)
            draft.created.demands = {"b": "{}", "a": "{}"}
            tx.write(draft)
    with store.transaction() as tx:
        (demands,) = tx.load([n.NewDemands(0)])
    assert [tuple(d) for d in demands] == [(1, "b", "{}"), (2, "a", "{}")]


def test_a_session_begins_exchanges_and_ends(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s", scope=3, node="host")
        tx.load([n.BeginExchange("s", 41)])
        (session,) = tx.load([n.Session("s")])[0]
        assert (session.exchange, session.scope, session.node) == (41, 3, "host")
        draft = draft_of(tx)
        draft.sessions.ended = [("s", "dead")]
        tx.write(draft)
        ((session,), leases) = tx.load([n.Session("s"), n.Lease("s")])
    assert (session.state, session.ended_at, leases) == ("dead", tx.now, [])
    assert store.live_sessions() == []


def test_an_end_is_final(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s")
        for state in ("left", "dead"):
            draft = draft_of(tx)
            draft.sessions.ended = [("s", state)]
            tx.write(draft)
        assert tx.load([n.Session("s")])[0][0].state == "left"


def test_pruning_leaves_nothing_of_a_run_and_all_of_the_others(store: Any, backend: Backend) -> None:
    make_world(store)
    with store.transaction() as tx:
        draft = draft_of(tx)
        for run_no in (3, 5):
            draft.attempts.append(attempt(task_id(run_no, 0), 1))
            draft.events.append(EventRow(run_no, None, None, "submitted", None, {}))
            draft.stale.append(StaleRow(task_id(run_no, 0), 1, "s1", "late", "{}"))
            draft.values.context.append((run_no, "key", "1", 0, -1))
            draft.values.signals.append((run_no, "s", None, None))
            draft.values.arrays.append((run_no, 1, 1, "[]"))
            draft.values.labels.append((run_no, 1, 1, "[]"))
            draft.deadlines.new.append(DeadlineRow(run_no, 1, "start_by", 1))
            draft.notifications.new.append(notification(f"n{run_no}", run_no=run_no))
        tx.write(draft)
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.pruned.runs = [3]
        tx.write(draft)
        assert tx.load([n.ContextOfRun(3), n.SignalOfRun(3, "s"), n.MapArray(3, 1)]) == ([], [], [])
        assert tx.load([n.Runs([3]), n.CurrentTasks(3)]) == ([], [])
        assert len(tx.load([n.CurrentTasks(5)])[0]) == 4
        assert tx.load([n.Workflows(["hash"])])[0], "another run still uses it"
    for table in ("attempts", "events", "stale_reports", "arrays", "labels", "deadlines", "notifications"):
        assert backend.query(store, f"SELECT count(*) FROM {table}") == [(1,)], table
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.pruned.runs = [5, 6, 7, 8, 9, 11, 12, 13]
        draft.pruned.before = tx.now
        tx.write(draft)
        assert not tx.load([n.Workflows(["hash"])])[0]


# -- guards ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"state": "queued"}, {"attempt": 2}, {"session": "s2"}, {"session": None}])
def test_a_row_that_changed_under_a_guard_voids_everything(
    store: Any, backend: Backend, change: dict[str, Any]
) -> None:
    """A stale worker must not finish somebody else's attempt: the guard is task, attempt, session and state."""
    make_world(store)
    with store.transaction() as tx:
        seen = load_task(tx)
    with store.transaction() as tx:
        draft = draft_of(tx)
        (row,) = draft.add_loaded([load_task(tx)])
        draft.touch(row)
        for name, value in change.items():
            setattr(row, name, value)
        tx.write(draft)
    with pytest.raises(Superseded):
        write(store, (seen,), events=[EventRow(3, 1, -1, "finished", "s1", {})])
    assert backend.query(store, "SELECT count(*) FROM events") == [(0,)]
    with store.transaction() as tx:
        assert load_task(tx).reason is None


def test_one_changed_row_among_many_voids_all(store: Any) -> None:
    with store.transaction() as tx:
        put_run(tx, run_row(1), [task_row(1, i) for i in range(300)])
    with store.transaction() as tx:
        (seen,) = tx.load([n.CurrentTasks(1)])
        other = draft_of(tx)
        (row,) = other.add_loaded(tx.load([n.Tasks([task_id(1, 250)])])[0])
        other.touch(row)
        row.state = "skipped"
        tx.write(other)
    with pytest.raises(Superseded):
        write(store, tuple(seen))
    with store.transaction() as tx:
        assert all(row.reason is None for row in tx.load([n.CurrentTasks(1)])[0])


def test_an_attempt_is_written_once(store: Any, backend: Backend) -> None:
    make_world(store)
    write(store, attempts=[attempt(RUNNING, 1, outcome="failed")])
    with pytest.raises(StoreError):
        write(store, attempts=[attempt(RUNNING, 1)])
    assert backend.query(store, "SELECT outcome FROM attempts") == [("failed",)]


@pytest.mark.parametrize("row", [task_row(1, 1, state="asleep"), task_row(1, 1, open=-1), task_row(1, 0)])
def test_the_store_refuses_what_no_rule_may_write(store: Any, row: TaskRow) -> None:
    with store.transaction() as tx:
        put_run(tx, run_row(1), [task_row(1, 0)])
    with pytest.raises(StoreError):
        write(store, created=Created(tasks=[row]))


def test_one_run_per_key(store: Any) -> None:
    with store.transaction() as tx:
        put_run(tx, run_row(1), [], key="k")
    with pytest.raises(StoreError), store.transaction() as tx:
        put_run(tx, run_row(2), [], key="k")


# -- transactions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_rolls_back(store: Any, error: type[BaseException]) -> None:
    def interrupted() -> None:
        with store.transaction() as tx:
            put_run(tx, run_row(1), [task_row(1, 0)])
            put_session(tx, "s")
            tx.keep_reply("c", "h", "{}")
            raise error

    with pytest.raises(error):
        interrupted()
    with store.transaction() as tx:
        assert tx.load([n.Runs([1]), n.CurrentTasks(1), n.Session("s"), n.Lease("s")]) == ([], [], [], [])
        tx.remember("c", "h")
        assert tx.now, "nothing is remembered"


def test_what_is_committed_is_seen_by_another(make_store: Any) -> None:
    one, two = make_store(), make_store()
    with one.transaction() as tx:
        put_run(tx, run_row(1), [])
    with two.transaction() as tx:
        assert [run.no for run in tx.load([n.Runs([1])])[0]] == [1]


def test_not_waiting_means_none_while_another_is_at_it(make_store: Any, backend: Backend) -> None:
    backend.needs("sharing")
    backend.needs("turns")
    one, two = make_store(), make_store()
    with one.transaction(), two.transaction(wait=False) as none:
        assert none is None
    with two.transaction(wait=False) as tx:
        assert tx is not None


# -- leases and commands ---------------------------------------------------------------------------------------


def test_a_lease_is_renewed_until_the_session_is_dead(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s", ttl_ms=1_000)
    assert store.renew("s", 60_000)
    with store.transaction() as tx:
        ((left,),) = tx.load([n.Lease("s")])
        assert left > 50_000
        draft = draft_of(tx)
        draft.sessions.ended = [("s", "dead")]
        tx.write(draft)
    assert not store.renew("s", 60_000), "a dead session is never extended"
    assert not store.renew("nobody", 60_000)


def test_leases_of_several_sessions_are_renewed_together(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "a", ttl_ms=1_000)
        put_session(tx, "b", ttl_ms=1_000)
    found = store.renew_each([("a", 60_000, '{"load":1}'), ("b", 60_000, None), ("nobody", 60_000, None)])
    assert [one is not None for one in found] == [True, True, False]
    with store.transaction() as tx:
        assert [tx.load([n.Lease(session)])[0][0] > 50_000 for session in "ab"] == [True, True]


def test_a_late_renewal_never_shortens_a_lease(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s", ttl_ms=60_000)
    assert store.renew("s", 10)
    with store.transaction() as tx:
        assert tx.load([n.Lease("s")])[0][0] > 50_000


def test_a_renewal_keeps_what_the_node_says_of_itself(store: Any, backend: Backend) -> None:
    with store.transaction() as tx:
        put_session(tx, "s")
    assert store.renew("s", 60_000, '{"load":1}')
    assert store.renew("s", 60_000)
    assert store.renew("s", 60_000, '{"load":2}')
    assert backend.query(store, "SELECT session, body FROM node_facts") == [("s", '{"load":2}')]
    with store.transaction() as transaction:
        assert transaction.load([n.Measurements()])[0] == [("s", '{"load":2}')]
    assert not store.renew("nobody", 60_000, "{}")
    assert backend.query(store, "SELECT count(*) FROM node_facts") == [(1,)], "a dead session has nothing to say"


def test_the_digest_of_what_a_session_holds_is_the_node_s(store: Any) -> None:
    held = [(task_id(3, i), 1 + i % 7) for i in range(50)] + [(task_id(90_000, 1), 2_000)]
    with store.transaction() as tx:
        put_session(tx, "s", exchange=12)
        put_session(tx, "other")
        rows = [task_row(id >> 24, id & 0xFFFFFF, state="running", session="s", attempt=a) for id, a in held]
        for run_no in (3, 90_000):
            put_run(tx, run_row(run_no), [row for row in rows if row.run_no == run_no])
    assert store.renew("s", 60_000) == (12, *digest(reversed(held)))
    assert store.renew("other", 60_000) == (0, 0, 0)
    assert store.renew("nobody", 60_000) is None


def test_a_drain_has_a_deadline_and_no_way_back_to_life(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s")
        put_session(tx, "dead")
        draft = draft_of(tx)
        draft.sessions.ended = [("dead", "dead")]
        tx.write(draft)
        draft = draft_of(tx)
        draft.sessions.drained = [("s", 77), ("dead", 77)]
        tx.write(draft)
        ((s,), (dead,)) = tx.load([n.Session("s"), n.Session("dead")])
    assert (s.state, s.drain_at) == ("draining", 77)
    assert (dead.state, dead.drain_at) == ("dead", None)


def test_a_term_is_written_only_over_the_one_that_was_read(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s", ttl_ms=20_000)
        draft = draft_of(tx)
        draft.sessions.leadership = (LeadershipRow(1, "s", tx.now + 60_000), 0)
        tx.write(draft)
        assert tx.load([n.Leadership()])[0] == [LeadershipRow(1, "s", tx.now + 60_000)]
    leader, left, *_ = store.watch()
    assert leader == "s"
    assert 10_000 < left <= 20_000, "whoever leads does so no longer than its own lease lasts"
    with pytest.raises(Superseded):
        write(store, sessions=SessionChanges(leadership=(LeadershipRow(1, "other", tx.now + 60_000), 0)))
    with store.transaction() as tx:
        assert tx.load([n.Leadership()])[0][0].session == "s"


def test_which_sessions_are_late(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "late", ttl_ms=0)
        put_session(tx, "fresh", ttl_ms=60_000)
    assert [(id, bool(late)) for id, late in store.live_sessions()] == [("fresh", False), ("late", True)]
    assert store.watch(late=True) == (None, 0, 2, ("late",))
    assert store.watch() == (None, 0, 0, ()), "nothing is counted that was not asked for"


def test_a_command_id_brings_back_the_first_reply(store: Any) -> None:
    with store.transaction() as tx:
        tx.remember("c-1", "body")
        tx.keep_reply("c-1", "body", '{"run_id":"r"}')

    def remembered(tx: Any, command_id: str, body: str) -> Any:
        tx.remember(command_id, body)
        return tx.load([n.Runs([1])])

    with store.transaction() as tx:
        with pytest.raises(Remembered) as known:
            remembered(tx, "c-1", "body")
        assert known.value.reply == '{"run_id":"r"}'
        assert remembered(tx, "c-2", "body") == ([],), "and it goes on"


def test_a_command_id_used_for_something_else_is_an_error(store: Any) -> None:
    with store.transaction() as tx:
        tx.keep_reply("c-1", "body", "{}")

    def say_another() -> None:
        with store.transaction() as tx:
            tx.remember("c-1", "another body")
            tx.load([n.Runs([1])])

    with pytest.raises(CommandUsed):
        say_another()


def test_a_command_that_is_said_again_is_applied_once(store: Any, backend: Backend) -> None:
    """The reply was lost after COMMIT: the same id gets the first reply, and makes nothing twice."""
    from weft.authoring.load import load_value
    from weft.core import commands as c
    from weft.core.definition.document import encode_document

    loaded = load_value({"name": "w", "tasks": {"a": {"run": "true"}}})

    def submit(run_id: str) -> c.Submit:
        return c.Submit(run_id, loaded.workflow.hash, "w", encode_document(loaded.document), "{}")

    committer = backend.committer(store)
    first = committer.commit(submit("r-1"), command_id="id-1")
    assert committer.commit(submit("r-1"), command_id="id-1") == first
    assert backend.query(store, "SELECT count(*) FROM runs") == [(1,)]
    assert backend.query(store, "SELECT count(*) FROM events") == [(1,)]
    with pytest.raises(StoreError):
        committer.commit(submit("r-2"), command_id="id-1")
