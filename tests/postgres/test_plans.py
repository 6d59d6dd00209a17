"""Plans must be good without statistics: the tables of a new run have none, and autovacuum may be off.

Every named statement is planned as a kept plan is, for values that are not known, on an empty database and beside a
run of some thousand tasks. What reads a page is carried out as well, and the rows that its plan touches are counted.
"""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import psycopg
import pytest

from tests.postgres_server import new_database
from tests.store.conformance import put_run, put_session, run_row, task_id, task_row
from weft.core.rows import ORDINAL_BITS
from weft.store.postgres.driver import PostgresStore
from weft.store.postgres.statements import Statement, statements
from weft.store.postgres.transactions import transaction as t

TASKS = 6000
PAGE = 100
#: They count or sum up a whole table; `runs_page` and `run_last` may sort a small one.
WHOLE = (
    "count_runs", "count_runs_and_children", "count_tasks", "count_events", "count_stale", "count_stale_of_session",
    "count_sessions_dead",
    "metrics_open", "metrics_dead_letters", "metrics_stale", "metrics_expired", "memos_delete_cached",
    "runs_page", "run_last", "runs_counted",
)  # fmt: skip
EACH_SESSION = ("sessions_all", "metrics_queue")  # one look for each that there is
#: Joined with what a limit has bounded before; `workflows_page` reads no run.
BOUNDED = (
    "tasks_child_actions", "tasks_child_actions_of_family", "runs_unreported", "runs_unreported_of_family",
    "tasks_due", "tasks_unsettled", "workflows_page", "demands_delete_private",
)  # fmt: skip
GROWING = (
    "tasks", "attempts", "events", "runs", "output_chunks", "output_ends", "stale_reports", "context", "signals",
    "arrays", "labels", "pins", "memos", "leases", "sessions",
)  # fmt: skip
SCANNED = re.compile(r"Seq Scan on (\w+)")
COMPARED = re.compile(r"Join Filter: .*\b\w+\.\w+ = \w+\.")  # a condition on one side alone is harmless

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module", params=[0, TASKS])
def unanalysed(request: pytest.FixtureRequest) -> Iterator[tuple[int, Connection]]:
    """(the tasks of its run 7, a connection); the run's tasks, attempts and events came in at once, as many each."""
    url, tasks = new_database(), request.param
    store = PostgresStore(url)
    store.patience_ms = 60_000  # a busy machine takes its time to make the rows
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
        for (table,) in tables.fetchall():
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        if tasks:
            with store.transaction() as tx:
                put_session(tx, "s")
                rows = [task_row(7, i, attempt=1, state="dead_letter" if i % 2 else "queued") for i in range(tasks)]
                put_run(tx, run_row(7, ordinals=tasks, total=tasks, dead_letter=tasks // 2), rows)
                put_run(tx, run_row(8, ordinals=1), [task_row(8, 0)])
            connection.execute(
                "INSERT INTO attempts (task_id, attempt, generation, session, outcome, finished_at)"
                " SELECT id, 1, 1, 's', 'failed', 1 FROM tasks"
            )
            connection.execute(
                "INSERT INTO events (run_no, pos, idx, kind, session, at, data)"
                " SELECT run_no, pos, idx, 'finished', 's', 1, '{}' FROM tasks"
            )
        yield tasks, connection
    store.close()


def prepare(connection: Connection, name: str, statement: Statement) -> None:
    """As a reader has it, or under the settings of a write transaction, which last until COMMIT."""
    in_transaction: set[str] = set()
    for file in ("loads.sql", "writes.sql"):
        for directory in (("sql",), ("postgres", "sql")):
            text = files("weft.store").joinpath(*directory, file).read_text(encoding="utf-8")
            in_transaction |= set(re.findall(r"^-- name: (\w+)", text, re.MULTILINE))
    connection.execute("BEGIN")
    if name in in_transaction:
        connection.execute(t.limits(5000).text)
    connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    connection.execute(b"PREPARE p AS " + statement.text)


def done(connection: Connection) -> None:
    connection.execute("DEALLOCATE p")
    connection.execute("ROLLBACK")


def test_no_plan_depends_on_statistics(unanalysed: tuple[int, Connection]) -> None:
    """No table that grows is read whole, and no two are compared row by row: each row finds its own by an index."""
    _, connection = unanalysed
    found = []
    for name, statement in statements().items():
        prepare(connection, name, statement)
        values = f"({', '.join(['NULL'] * len(statement.kinds))})" if statement.kinds else ""
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN EXECUTE p {values}"))
        done(connection)
        scanned = [table for table in SCANNED.findall(plan) if table in GROWING]
        if name in EACH_SESSION:
            scanned = [table for table in scanned if table != "sessions"]
        if scanned and name not in WHOLE:
            found.append(f"{name} reads {', '.join(scanned)} whole\n{plan}")
        if COMPARED.search(plan) and name not in (*BOUNDED, *WHOLE):
            found.append(f"{name} compares all with all\n{plan}")
    assert not found, "\n\n".join(found)


FIRST, END = task_id(7, 0) - 1, 8 << ORDINAL_BITS
#: Statement, values, and how many rows it gives beside a large run.
PAGES: list[tuple[str, tuple[Any, ...], int]] = [
    ("tasks_page", (FIRST, END, None, False, PAGE), PAGE),
    ("tasks_page", (FIRST + TASKS // 2, END, '["queued"]', False, PAGE), PAGE),
    ("tasks_page", (0, 2**62, '["dead_letter"]', True, PAGE), PAGE),
    ("tasks_at", (7, "[4000]", -1, False), 1),
    ("dead_page", (0, PAGE), PAGE),
    ("dead_page", (FIRST + TASKS // 2, PAGE), PAGE),
    ("events_found", (0, None, None, None, None, PAGE, 2**62), PAGE),
    ("events_found_of_run", (TASKS // 2, None, None, None, None, PAGE, 2**62, 7), PAGE),
    ("events_found_of_run", (0, '["finished"]', '["s"]', 0, 2, PAGE, 2**62, 7), PAGE),
    ("attempts_of_task", (7, 4000, -1), 1),
    ("output_state", (7, 4000, -1, 1, "stdout"), 1),
    ("tasks_queued_between", ("x", 0, 0, 0, FIRST + 20), 1),
    ("tasks_queued_between", ("x", 0, FIRST + 50, 0, FIRST + 60), 1),
    ("run_shown", (7,), 1),
    ("run_facts", ("[7, 8]",), 2),
    ("ends_at", (7, "[1, 2, 4000]"), 3),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "rows"), PAGES)
def test_a_page_of_a_large_run_touches_few_rows(
    unanalysed: tuple[int, Connection], name: str, values: tuple[Any, ...], rows: int
) -> None:
    """Whatever is left of the run behind it: with a plan that is kept, and with one for these very values."""
    tasks, connection = unanalysed
    statement = statements()[name]
    for mode in ("force_generic_plan", "force_custom_plan"):
        prepare(connection, name, statement)
        connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        given = ", ".join("NULL" if v is None else f"'{v}'" if isinstance(v, str) else str(v) for v in values)
        ((plan,),) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE p ({given})").fetchall()
        done(connection)
        top = plan[0]["Plan"]
        assert top["Actual Rows"] == (rows if tasks or "count(" in statement.text.decode() else 0)
        assert touched(top) <= 4 * max(rows, 5), f"{mode}\n{json.dumps(plan, indent=1)}"


def touched(node: dict[str, Any]) -> int:
    """The most rows that one step of a plan gave or threw away."""
    thrown = sum(count for what, count in node.items() if what.startswith("Rows Removed"))
    own = int((node["Actual Rows"] + thrown) * node["Actual Loops"])
    return max([own, *[touched(child) for child in node.get("Plans", ())]])
