"""What the conformance suite stands on: backends, blank rows, and a small world with one row for every situation.

A backend is one way to have a store: a new one joins by one more entry in BACKENDS. A guarantee that it cannot give
is named in `lacks`, with the reason, and shows as a skip.
"""

import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec
import pytest

from weft.core.decision.draft import Draft
from weft.core.placement.budgets import Amount
from weft.core.rows import (
    ORDINAL_BITS,
    BudgetRow,
    FireRow,
    HandleRow,
    NotificationRow,
    Pin,
    RunRow,
    SessionRow,
    TaskRow,
    TriggerRow,
)
from weft.node.committer import Committer
from weft.store.sqlite.driver import SqliteStore

Row = TypeVar("Row", bound=msgspec.Struct)


class Backend(msgspec.Struct):
    """`open` gives another store on the same data, as another process would have it."""

    name: str
    open: Callable[[], Any]
    address: str | None = None  # what a child process opens
    lacks: dict[str, str] = {}
    committer: Callable[[Any], Committer] = Committer
    finish: Callable[[], None] = lambda: None  # at the test's end, when all stores are closed

    def needs(self, guarantee: str) -> None:
        if guarantee in self.lacks:
            pytest.skip(f"{self.name} has no {guarantee}: {self.lacks[guarantee]}")

    def query(self, store: Any, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Plain SQL that means the same everywhere, for what the protocol has no load for."""
        reader = store.reader()
        try:
            return [tuple(row) for row in reader.query(sql, *parameters)]
        finally:
            reader.close()


def sqlite_file(directory: Path) -> Backend:
    path = directory / "store" / "weft.db"
    return Backend("sqlite", lambda: SqliteStore(path), str(path))


def sqlite_memory(directory: Path) -> Backend:
    store = SqliteStore(None)
    why = "it is one connection of one process, for tests and simulation"
    return Backend("sqlite in memory", lambda: store, None, {"reopening": why, "sharing": why})


def postgres(directory: Path) -> Backend:
    from tests.postgres_server import emptied
    from weft.store.postgres.driver import PostgresStore

    url = emptied()
    lacks = {
        "turns": "its transactions go on side by side, and lock only what they touch",
        "gapless run numbers": "a sequence never waits for another transaction, and a rollback leaves a gap",
        "count of commits": "it has wake-ups of its own instead",
    }
    return Backend("postgres", lambda: PostgresStore(url), url, lacks)


def replicated(directory: Path) -> Backend:
    """Each store is a replica of its own, on a log in this process; a test's transactions become entries."""
    from tests.replicated.in_process import InProcessLog, log_committer

    log = InProcessLog(directory)
    lacks = {
        "children": "a process of its own reaches a replica through the socket of the node that has it",
        "turns": "entries have an order: nobody holds a lock that others wait for",
        "count of statements": "a node's exchange is an entry there, of one savepoint and the same statements",
        "count of commits": "a replica hears of every entry as it applies it",
    }
    return Backend("replicated", log.open, None, lacks, log_committer, log.check_equal)


BACKENDS: dict[str, Callable[[Path], Backend]] = {
    "sqlite": sqlite_file, "memory": sqlite_memory, "postgres": postgres, "replicated": replicated,
}  # fmt: skip


def open_address(address: str) -> Any:
    """As a child process opens it."""
    if address.startswith("postgresql://"):
        from weft.store.postgres.driver import PostgresStore

        return PostgresStore(address)
    return SqliteStore(Path(address))


def blank(row: type[Row], **given: Any) -> Row:
    """A row with nothing in it but what is given."""
    values: dict[str, Any] = {}
    for name, hint in get_type_hints(row).items():
        if name in given or name in ("guard", "dirty"):
            continue
        arms = typing.get_args(hint)
        values[name] = None if type(None) in arms else {str: "", bool: False}.get(hint, 0)
    return row(**{**values, **given})


def run_row(no: int, **given: Any) -> RunRow:
    given = {"id": f"run-{no}", "name": "w", "workflow": "hash", "state": "running", "generation": 1, "root": no,
             "reported": True, **given}  # fmt: skip
    return blank(RunRow, no=no, **given)


def task_row(run_no: int, ordinal: int, **given: Any) -> TaskRow:
    given = {"pos": ordinal, "idx": -1, "generation": 1, "state": "pending", "demand": "x", "settled": True, **given}
    return blank(TaskRow, id=task_id(run_no, ordinal), run_no=run_no, **given)


def task_id(run_no: int, ordinal: int) -> int:
    return (run_no << ORDINAL_BITS) + ordinal


def trigger_row(id: str, **given: Any) -> TriggerRow:
    row = TriggerRow(id, "w", "every", None, "{}", "hash", None, True, False, 0, None, 0)
    return msgspec.structs.replace(row, **given)


def draft_of(transaction: Any) -> Draft:
    return Draft(transaction.now, {})


def put_run(transaction: Any, run: RunRow, tasks: list[TaskRow], **extra: Any) -> None:
    draft = draft_of(transaction)
    draft.created.taken_over = extra.pop("taken_over", [])
    facts = {
        "inputs": "{}", "key": None, "body_hash": "", "source": None, "labels": "{}", "fresh": False, "trigger": None,
        "taken_from": None, "backfill": None, **extra,
    }  # fmt: skip
    draft.created.runs = {run.no: (run, facts)}
    draft.created.tasks = tasks
    transaction.write(draft)


def put_session(transaction: Any, session: str, ttl_ms: int = 30_000, **given: Any) -> None:
    draft = draft_of(transaction)
    row = blank(SessionRow, **{"id": session, "node": "n", "state": "live", "body": "{}", "role": "auto", **given})
    draft.sessions.new = (row, ttl_ms)
    transaction.write(draft)


T3_RUNNING = task_id(3, 1)


def make_world(store: Any) -> int:
    """One row for every situation that a load looks for; the rows go in out of order. Returns the store's time."""
    with store.transaction() as tx:
        now: int = tx.now
        draft = draft_of(tx)
        draft.created.workflows = [("hash", "w", b'{"name":"w","tasks":{}}')]
        draft.created.demands = {"x": '{"kind":"x"}', "y": '{"kind":"y"}'}
        draft.pools.sizes = {"small": 2, "large": 500, "middle": 7}
        draft.budgets.add(BudgetRow("run:5", 1000, None, 8, 80))
        draft.budgets.add(BudgetRow("pool:small", None, 9))
        draft.budgets.spend(task_id(5, 0), Amount(8, 80))
        draft.budgets.spend(task_id(3, 0), Amount(7, 70))
        draft.triggers.applied = ("v", "applied", None, None)
        draft.triggers.changed = [(trigger_row("w/tock"), None), (trigger_row("w/tick", next_ms=now), None)]
        draft.triggers.changed.append(
            (trigger_row("v/gone", kind="webhook", key="hook", workflow="v", active=False), None)
        )
        draft.triggers.changed.append((trigger_row("v/hook", kind="webhook", key="hook", workflow="v"), None))
        draft.triggers.changed.append((trigger_row("v/after", kind="after", key="w", workflow="v"), None))
        draft.triggers.fires = [
            FireRow("w/tick", "3", 3, now, "queued", names="{}"),
            FireRow("w/tick", "2", 2, now, "queued", names="{}"),
            FireRow("w/tick", "1", 1, now - 5, "started", "eight"), FireRow("w/tock", "1", 1, now, "skipped"),
        ]  # fmt: skip
        tx.write(draft)
        put_session(tx, "s1")
        put_run(tx, run_row(6, state="succeeded", finished_at=now - 500), [])
        put_run(tx, run_row(9, state="failed", finished_at=now - 900), [])
        put_run(tx, run_row(7, deadline_at=now - 1, owner="s1"), [])
        put_run(tx, run_row(8, deadline_at=now + 5_000, owner="s2"), [], trigger="w/tick")
        put_run(tx, run_row(5, sweep=0, active=1), tasks_of_5(now))
        put_run(tx, run_row(13, state="cancelled", finished_at=now - 9_000, root=6, parent=task_id(6, 0)), [])
        put_run(tx, run_row(12, state="failed", finished_at=now, root=5, parent=task_id(5, 1), reported=False), [])
        child = run_row(11, name="other", root=3, parent=task_id(3, 8), reported=False, active=1)
        put_run(tx, child, tasks_of_11(), source="/here", labels='{"a":"b"}')
        put_run(tx, run_row(3, id="three", active=1), tasks_of_3(now), key="key-3", body_hash="body")
        draft = draft_of(tx)
        draft.handles.opened = [
            HandleRow(T3_RUNNING, 1, "s0", "x", "e", "n", "", True, "adopted", now),
            HandleRow(T3_RUNNING, 2, "s1", "x", "e", "n", "", True, "orphaned", now),
            HandleRow(T3_RUNNING - 1, 1, "s1", "x", "e", "m", "p", False, "open", now),
            HandleRow(T3_RUNNING + 9, 1, "s1", "x", "f", "o", "", False, "orphaned", now),
        ]
        draft.created.pins = [(3, Pin("hash", directory, "./x.yaml", "hash", "/")) for directory in ("/b", "/a")]
        tx.write(draft)
    return now


def tasks_of_3(now: int) -> list[TaskRow]:
    running: dict[str, Any] = {"state": "running", "session": "s1", "attempt": 1}
    rows = [
        task_row(3, 0, state="succeeded", finished_at=now),
        task_row(3, 1, **running, claim_no=4),
        task_row(3, 2, state="queued", rank=50),
        task_row(3, 3, state="queued", rank=10, demand="y"),
        task_row(3, 4, ready_at=1, rank=9),
        task_row(3, 5, open=1),
        task_row(3, 6, state="scheduled", wake_at=now - 10),
        task_row(3, 7, state="scheduled", wake_at=now + 60_000),
        task_row(3, 8, state="running", elements=2),
        task_row(3, 9, pos=8, idx=0, state="succeeded", finished_at=now),
        task_row(3, 10, pos=8, idx=1, **running, claim_no=5, stop="cancel"),
        task_row(3, 11, state="failed", settled=False, finished_at=now),
        task_row(3, 12, pos=0, generation=2, ready_at=1, rank=3),
        task_row(3, 13, state="scheduled", wake_at=now - 20),
        task_row(3, 14, child_action="begin"),
    ]
    return rows[7:] + rows[:7]


def tasks_of_11() -> list[TaskRow]:
    return [task_row(11, 1, state="running", child=2, child_action="stop"), task_row(11, 0, state="queued", rank=20)]


def tasks_of_5(now: int) -> list[TaskRow]:
    return [
        task_row(5, 2, state="cancelled", settled=False, finished_at=now),
        task_row(5, 1, state="waiting"),
        task_row(5, 0, state="queued", rank=30),
        task_row(5, 3, open=1),
    ]


def notification(id: str, **more: Any) -> NotificationRow:
    values: dict[str, Any] = {
        "run_no": None, "run": "one", "pos": None, "workflow": "w", "event": "failed", "target": "{}", "facts": "{}",
        "created_at": 1, "next_at": 1, **more,
    }  # fmt: skip
    return NotificationRow(id, **values)
