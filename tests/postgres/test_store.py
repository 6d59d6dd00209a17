"""What is special about a store on PostgreSQL: migrations, plans, lost connections, servers that cannot be used."""

import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import psycopg
import pytest

from tests.postgres.proxy import Proxy
from tests.store.conformance import make_world, put_run, put_session, run_row, task_row
from weft.authoring.load import load_value
from weft.core import commands as c
from weft.core.decision import needs as n
from weft.core.definition.document import encode_document
from weft.node.committer import Committer
from weft.store.postgres import migrate as m
from weft.store.postgres import statements as s
from weft.store.postgres.driver import PostgresStore
from weft.store.postgres.errors import connect_error
from weft.store.postgres.reader import PostgresReader
from weft.store.postgres.statements import Statement, rows_statement, statements
from weft.store.postgres.transactions import transaction as t
from weft.store.postgres.transactions.sending import ROWS_MANY
from weft.store.postgres.url import PostgresUrl
from weft.store.postgres.wire import Wire
from weft.store.protocol import StoreBusy, StoreCrowded, StoreUnusable
from weft.store.sqlite import migrate as sqlite_migrate

Make = Callable[..., PostgresStore]
ROOT = Path(__file__).parents[2]


def schema(url: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
            " WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
        ).fetchall()
        indexes = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
        ).fetchall()
        return [*columns, *indexes]


# -- migrations ------------------------------------------------------------------------------------------------


def test_both_dialects_have_the_same_migrations() -> None:
    assert list(m.migrations()) == list(sqlite_migrate.migrations())
    assert all(set(parts) == {"up", "down"} for parts in m.migrations().values())


def test_both_dialects_have_the_same_tables_and_columns(url: str, store: PostgresStore) -> None:
    lite = apsw.Connection(":memory:")
    sqlite_migrate.migrate(lite)
    ours: dict[str, list[str]] = {}
    for table, column, *_ in (row for row in schema(url) if len(row) == 4):
        ours.setdefault(table, []).append(column)
    ours["events"].remove("xid")  # followers of overlapping transactions need it; SQLite's do not overlap
    names = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"
    for (table,) in lite.execute(names):
        columns = [row[1] for row in lite.execute(f"PRAGMA table_info({table})")]
        assert ours.pop(table) == columns, table
    assert not ours


def test_each_migration_down_undoes_its_up(fresh_url: str) -> None:
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        assert schema(fresh_url) == []
        for number in range(1, m.latest() + 1):
            before = schema(fresh_url)
            m.migrate(connection, "it", number)
            after = schema(fresh_url)
            m.migrate(connection, "it", number - 1)
            assert schema(fresh_url) == before, f"migration {number}"
            m.migrate(connection, "it", number)
            assert schema(fresh_url) == after


def test_many_processes_start_at_once_on_an_empty_database(fresh_url: str) -> None:
    words = [
        sys.executable,
        "-c",
        "import sys; from weft.store.postgres.driver import PostgresStore as S; S(sys.argv[1])",
    ]
    started = [subprocess.Popen([*words, fresh_url], cwd=ROOT, stderr=subprocess.PIPE) for _ in range(4)]
    for process in started:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()


# -- what cannot be used ---------------------------------------------------------------------------------------


def test_a_newer_schema_is_refused(fresh_url: str, make_store: Make) -> None:
    make_store(fresh_url).close()
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute("UPDATE meta SET value = %s WHERE key = 'schema'", (str(m.latest() + 1),))
    with pytest.raises(StoreUnusable, match=f"newer Weft \\(schema {m.latest() + 1}"):
        make_store(fresh_url)


@pytest.mark.parametrize("schema", [m.latest(), 23])
def test_a_database_of_a_development_version_is_refused(fresh_url: str, make_store: Make, schema: int) -> None:
    """Under whichever number: its tables are not those that this version expects."""
    make_store(fresh_url).close()
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'origin'")
        connection.execute("UPDATE meta SET value = %s WHERE key = 'schema'", (str(schema),))
    refusal = f"development version of Weft \\(schema {schema}, .*docs/guides/upgrade.md"
    with pytest.raises(StoreUnusable, match=refusal):
        make_store(fresh_url)


@pytest.mark.parametrize("table", ["tasks (name text)", "meta (name text)", "meta (key text, value text)"])
def test_somebody_elses_tables_are_left_alone(fresh_url: str, make_store: Make, table: str) -> None:
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table}")
    before = schema(fresh_url)
    with pytest.raises(StoreUnusable, match="tables of somebody else"):
        make_store(fresh_url)
    assert schema(fresh_url) == before


def test_a_schema_of_its_own(fresh_url: str, make_store: Make) -> None:
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE tasks (name text)")
        connection.execute("CREATE SCHEMA weft")
    store = make_store(f"{fresh_url}?options=-csearch_path%3Dweft")
    make_world(store)
    with store.transaction() as tx:
        assert tx is not None
        assert len(tx.load([n.Runs([3])])[0]) == 1


def other(url: str, **parts: str) -> str:
    """The same URL with another user or database."""
    split = urlsplit(url)
    user = parts.get("user", split.username)
    return f"postgresql://{user}@{split.hostname}:{split.port}/{parts.get('database', split.path[1:])}"


def test_wrong_addresses_are_explained(url: str) -> None:
    with pytest.raises(StoreUnusable, match="no such database"):
        PostgresStore(other(url, database="nowhere"))
    with pytest.raises(StoreUnusable, match="no such role"):
        PostgresStore(other(url, user="nobody_at_all"))
    with pytest.raises(StoreBusy, match="does not answer"):
        PostgresStore("postgresql://weft@127.0.0.1:9/weft")
    with pytest.raises(StoreUnusable, match="libpq does not know"):
        PostgresStore(url + "?colour=blue")
    with pytest.raises(StoreUnusable, match="prepare must be on or off"):
        PostgresStore(url + "?prepare=maybe")


@pytest.mark.parametrize(
    ("said", "kind", "shown"),
    [
        ("connection failed: FATAL:  password authentication failed for user", StoreUnusable, "password is wrong"),
        ("connection failed: fe_sendauth: no password supplied", StoreUnusable, "asks for a password"),
        ("connection failed: FATAL:  no pg_hba.conf entry for host", StoreUnusable, "pg_hba.conf"),
        ("connection failed: FATAL:  the database system is starting up", StoreBusy, "starting up"),
        ("connection failed: FATAL:  sorry, too many clients already", StoreCrowded, "too many clients"),
        ('connection failed: could not translate host name "x"', StoreBusy, "could not translate"),
        ("connection timeout expired", StoreBusy, "timeout"),
    ],
)  # fmt: skip
def test_what_goes_wrong_while_connecting(said: str, kind: type[Exception], shown: str) -> None:
    error = connect_error("postgresql://db/weft", said)
    assert type(error) is kind
    assert shown in str(error)
    assert "\n" not in str(error)


def test_a_password_is_never_shown() -> None:
    url = PostgresUrl("postgresql://weft:s3cret@db:5433/weft?password=s3cret&sslmode=require")
    assert url.shown == "postgresql://weft@db:5433/weft"
    assert "s3cret" not in repr(url)
    with pytest.raises(StoreBusy) as error:
        PostgresStore("postgresql://weft:s3cret@127.0.0.1:9/weft")
    assert "s3cret" not in str(error.value)


# -- plans -----------------------------------------------------------------------------------------------------

BY_ID = (
    "tasks_by_id", "tasks_by_place", "tasks_by_position", "tasks_claim_if_queued", "tasks_succeed_if_running",
    "tasks_update_if_unchanged", "run_update", "runs_by_no", "ends_at", "tasks_running_of_run", "tasks_unended",
)  # fmt: skip
COMPARED = re.compile(r"Join Filter: .*\b\w+\.\w+ = \w+\.")  # a condition on one side alone is harmless
QUEUE = (
    "tasks_queued", "tasks_queued_of_family", "tasks_queued_each_of_family", "tasks_due", "tasks_unsettled",
    "tasks_queued_spread", "tasks_ready", "exchange_begin", "tasks_child_actions",
    "tasks_child_actions_of_family", "runs_unreported", "runs_unreported_of_family",
)  # fmt: skip


def alike(name: str) -> Statement:
    """For rows that differ in their first column only."""
    statement = rows_statement(name)
    width = sum(kind.endswith("[]") for kind in statement.kinds)
    found = statement.with_alike((False, *[True] * (width - 1)))
    assert found is not None
    return found


@pytest.mark.parametrize("rows", [0, 60])
def test_plans_made_on_a_small_table_are_good_for_a_large_one(fresh_url: str, make_store: Make, rows: int) -> None:
    """Each statement is planned once per connection. What starts from ids must look each of them up."""
    store = make_store(fresh_url)
    with store.transaction() as tx:
        put_run(tx, run_row(1), [task_row(1, i, state="queued" if i % 2 else "succeeded") for i in range(rows)])
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        if rows:
            connection.execute("VACUUM ANALYZE")
        connection.execute("BEGIN")
        connection.execute(t.limits(5000).text)
        few = {f"{name} of 2": rows_statement(name).of_few(2) for name in BY_ID if "_if_" in name}
        few |= {f"{name}, alike": alike(name) for name in BY_ID if "_if_" in name}
        for name, statement in ({name: statements()[name] for name in (*BY_ID, *QUEUE)} | few).items():
            nulls = ", ".join("NULL" for _ in statement.kinds)
            connection.execute(b"PREPARE p AS " + statement.text)
            plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN EXECUTE p ({nulls})"))
            connection.execute("DEALLOCATE p")
            assert "Seq Scan" not in plan, f"{name}\n{plan}"
            if name in BY_ID or name in few:
                assert not COMPARED.search(plan), f"{name} compares all with all\n{plan}"
                assert re.search(r"Index Cond: .*\b(id|no|pos)\b", plan), f"{name}\n{plan}"


def test_columns_with_one_value_travel_once(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """And when there are too many kinds of rows for that, as arrays like all others."""
    monkeypatch.setattr(s, "ALIKE_MAX", 3)
    monkeypatch.setattr(rows_statement("tasks_insert_fresh"), "_alike", {})
    mixed: list[dict[str, Any]] = [
        {}, {"rank": lambda i: i}, {"demand": lambda i: f"d{i}"}, {"ready_at": lambda i: None if i else 7},
        {"rank": lambda i: -i, "ready_at": lambda i: i}, {"state": lambda i: "queued" if i % 2 else "pending"},
    ]  # fmt: skip
    wanted = []
    with store.transaction() as tx:
        assert tx is not None
        for no, columns in enumerate(mixed, 1):
            rows = [task_row(no, i, **{k: of(i) for k, of in columns.items()}) for i in range(ROWS_MANY)]
            put_run(tx, run_row(no), rows)
            wanted += [(row.id, row.state, row.demand, row.ready_at, row.rank) for row in rows]
    assert len(rows_statement("tasks_insert_fresh")._alike) == 3
    assert store.reader().query("SELECT id, state, demand, ready_at, rank FROM tasks ORDER BY id") == wanted


# -- beside other nodes ----------------------------------------------------------------------------------------


def claimable(store: PostgresStore, session: str, limit: int) -> dict[int, int]:
    """How many tasks of each run this session would be offered."""
    runs: dict[int, int] = {}
    with store.transaction() as tx:
        assert tx is not None
        ((row,),) = tx.load([n.Session(session)])
        for task in tx.load([n.BeginExchange(session, row.exchange + 1), n.QueuedTasks(["x"], None, limit)])[1]:
            runs[task.run_no] = runs.get(task.run_no, 0) + 1
    return runs


def four_runs(store: PostgresStore, sessions: str, count: int = 300) -> None:
    with store.transaction() as tx:
        assert tx is not None
        for session in sessions:
            put_session(tx, session)
        for no in (4, 5, 6, 7):
            put_run(tx, run_row(no), [task_row(no, i, state="queued", rank=1000 * no) for i in range(count)])


def test_a_node_alone_takes_what_is_first(store: PostgresStore) -> None:
    four_runs(store, "a")
    assert claimable(store, "a", 100) == claimable(store, "a", 100) == {4: 100}


def test_two_nodes_begin_with_different_runs(store: PostgresStore) -> None:
    four_runs(store, "ab")
    claimable(store, "a", 1)  # now it knows that it is not alone
    assert claimable(store, "a", 200) == {4: 200}
    assert claimable(store, "b", 200) == {5: 200}
    assert claimable(store, "a", 500) == {4: 300, 6: 200}
    assert claimable(store, "a", 20) == {4: 20}, "a few are not worth the look at more"


def test_what_is_the_share_of_another_is_not_left_behind(store: PostgresStore) -> None:
    """That one may have no slots, or be busy with long tasks."""
    four_runs(store, "ab", 100)
    with store.transaction() as tx:
        assert tx is not None
        put_run(tx, run_row(9), [task_row(9, 0, state="queued", rank=-2000), task_row(9, 1, state="queued", rank=0)])
    claimable(store, "a", 1)
    assert claimable(store, "a", 150) == {9: 1, 4: 100, 6: 49}, "one is more than 5 s ahead of its own"
    with psycopg.connect(store._url) as connection:
        connection.execute("UPDATE tasks SET state = 'succeeded' WHERE run_no IN (4, 6)")
    assert claimable(store, "a", 150) == {9: 2, 5: 100, 7: 48}, "it has none of its own"


def test_a_failure_in_the_first_part_undoes_all(store: PostgresStore) -> None:
    """The server has gone on with the parts that follow, up to COMMIT."""
    with store.transaction() as tx:
        assert tx is not None
        put_run(tx, run_row(1), [task_row(1, 0)])

    def write_twice() -> None:
        with store.transaction() as tx:
            assert tx is not None
            put_run(tx, run_row(2), [task_row(1, i % ROWS_MANY) for i in range(ROWS_MANY + 1)])
            put_run(tx, run_row(3), [task_row(3, i) for i in range(ROWS_MANY)])

    with pytest.raises(Exception, match="tasks_pkey"):
        write_twice()
    assert store.reader().query("SELECT count(*) FROM runs") == [(1,)]
    with store.transaction() as tx:
        assert tx is not None
        put_run(tx, run_row(4), [task_row(4, i) for i in range(ROWS_MANY)])
    assert store.reader().query("SELECT count(*) FROM tasks") == [(1 + ROWS_MANY,)]


# -- connections -----------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(url: str) -> Any:
    proxy = Proxy.to(url)
    yield proxy
    proxy.close()


def submission(run_id: str) -> c.Submit:
    loaded = load_value({"name": "w", "tasks": {"a": {"run": "true"}}})
    return c.Submit(run_id, loaded.workflow.hash, "w", encode_document(loaded.document), "{}")


def test_a_reply_lost_after_commit_is_applied_once(
    url: str, store: PostgresStore, make_store: Make, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = make_store(proxy.through(url))
    committer = Committer(far)
    genuine = t.PostgresTransaction.commit

    def commit(self: t.PostgresTransaction) -> None:
        proxy.lose_reply = True
        genuine(self)

    monkeypatch.setattr(t.PostgresTransaction, "commit", commit)
    with pytest.raises(StoreBusy, match="connection was lost"):
        committer.commit(submission("r-1"), command_id="id-1")
    monkeypatch.undo()
    assert store.reader().query("SELECT count(*) FROM runs") == [(1,)], "the server had heard it"
    reply = committer.commit(submission("r-1"), command_id="id-1")
    assert (reply.run_id, reply.existing) == ("r-1", False)
    assert store.reader().query("SELECT count(*) FROM runs") == [(1,)]


def test_a_request_lost_before_commit_is_not_applied(
    url: str, store: PostgresStore, make_store: Make, proxy: Proxy
) -> None:
    far = make_store(proxy.through(url))

    def half() -> None:
        with far.transaction() as tx:
            put_run(tx, run_row(1), [])
            proxy.cut()

    with pytest.raises(StoreBusy):
        half()
    assert store.reader().query("SELECT count(*) FROM runs") == [(0,)]
    with far.transaction() as tx:
        put_run(tx, run_row(1), [])
    assert store.reader().query("SELECT count(*) FROM runs") == [(1,)], "the connection was made anew"


def test_reads_survive_a_lost_connection(url: str, make_store: Make, proxy: Proxy) -> None:
    far = make_store(proxy.through(url))
    make_world(far)
    reader = far.reader()
    assert reader.read("run_last") == [(9, "run-9")]
    proxy.cut()
    assert reader.read("run_last") == [(9, "run-9")]
    assert not far.renew("nobody", 1)
    proxy.cut()
    with pytest.raises(StoreBusy):
        far.renew("nobody", 1)  # whether it was heard is not known: the lease's keeper says it again
    assert not far.renew("nobody", 1)


def test_prepared_statements_that_a_pooler_misplaces_are_given_up(store: PostgresStore) -> None:
    """A transaction pooler hands each transaction to any server connection: what we prepared may not be there."""
    make_world(store)
    assert store._wire is not None
    store._wire.ask(Statement("DEALLOCATE ALL"))
    with pytest.raises(StoreBusy, match="pooler"), store.transaction() as tx:
        tx.load([n.Runs([3])])  # type: ignore[union-attr]  # one that may wait is never None
    for _ in range(2):
        with store.transaction() as tx:
            assert tx is not None
            assert len(tx.load([n.Runs([3])])[0]) == 1
        store._wire.ask(Statement("DEALLOCATE ALL"))


def test_reads_give_up_what_a_pooler_misplaces(store: PostgresStore) -> None:
    """On a connection that is quite new, too: somebody else's statements of the same name may be there already."""
    make_world(store)
    reader = store.reader()
    assert reader.read("run_last") == [(9, "run-9")]
    reader.query("DEALLOCATE ALL")
    assert reader.read("run_last") == [(9, "run-9")]
    assert reader._wire is not None
    assert not reader._wire.prepare
    assert not store._prepare, "no other connection has to learn it"
    fresh = PostgresReader(lambda: crowded(store) if store._prepare else store._connected())
    store._prepare = True
    assert fresh.read("run_last") == [(9, "run-9")]
    fresh.close()


def crowded(store: PostgresStore) -> Wire:
    """A new connection to a server connection that has our statements already."""
    wire = store._connected()
    statement = statements()["run_last"]
    wire.ask(Statement(f"PREPARE {statement.key.decode()} AS SELECT 1"))
    return wire


def test_behind_a_pooler_nothing_is_prepared(url: str, make_store: Make, proxy: Proxy) -> None:
    """A pooler tells a process number that is not the server's: so it is known before anything goes wrong."""
    proxy.pose_as_pooler = True
    behind = make_store(proxy.through(url))
    assert (behind.pooled, behind._prepare) == (True, False)
    shown = make_store(proxy.through(url) + "?prepare=on")
    assert (shown.pooled, shown._prepare) == (False, True), "newer poolers keep what is prepared"
    proxy.pose_as_pooler = False
    direct = make_store(proxy.through(url))
    assert (direct.pooled, direct._prepare) == (False, True)


def test_prepare_can_be_switched_off(url: str, make_store: Make) -> None:
    store = make_store(url + "?prepare=off")
    make_world(store)
    with psycopg.connect(url):
        assert store.reader().query("SELECT count(*) FROM pg_prepared_statements") == [(0,)]


@pytest.mark.parametrize("rows", [0, ROWS_MANY])
def test_a_paused_node_blocks_nobody_for_long(make_store: Make, rows: int) -> None:
    """It holds a run's lock and says nothing, perhaps while the server has begun with half of what it writes: its
    transaction is ended, and others go on."""
    paused, other = make_store(), make_store()
    make_world(paused)
    paused.patience_ms = 300
    begun, resume = threading.Event(), threading.Event()

    def pause() -> None:
        with contextlib.suppress(StoreBusy), paused.transaction() as tx:
            assert tx is not None
            tx.load([n.Runs([3])])
            put_run(tx, run_row(77), [task_row(77, i) for i in range(rows)])
            begun.set()
            resume.wait(30)

    thread = threading.Thread(target=pause)
    thread.start()
    begun.wait(30)
    with other.transaction() as tx:
        assert tx is not None
        assert len(tx.load([n.Runs([3])])[0]) == 1
    resume.set()
    thread.join()
    assert other.reader().query("SELECT count(*) FROM runs WHERE no = 77") == [(0,)]


def test_texts_that_postgres_cannot_hold(store: PostgresStore) -> None:
    reason = 'a\x00b "quoted" \\ back {curly}, NULL'
    with store.transaction() as tx:
        assert tx is not None
        put_run(tx, run_row(1, reason=reason), [task_row(1, 0, generation=2, reason=reason)])
    with store.transaction() as tx:
        assert tx is not None
        ((run,), tasks) = tx.load([n.Runs([1]), n.CurrentTasks(1)])
    shown = reason.replace("\x00", "\N{SYMBOL FOR NULL}")
    assert (run.reason, [task.reason for task in tasks]) == (shown, [shown])
