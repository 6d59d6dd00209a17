"""Named SQL. What both databases understand is in store/sql, what must differ in sqlite/sql and postgres/sql; the
notation is explained in store/sql/loads.sql. Every statement is read once per process.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec

from weft.core.rows import (
    EVENT_BLOCK,
    ORDINAL_BITS,
    AttemptRow,
    BackfillRow,
    BudgetRow,
    DeadlineRow,
    FireRow,
    HandleRow,
    MemoRow,
    NotificationRow,
    Pin,
    RunRow,
    SessionRow,
    TaskRow,
    TokenRow,
    TriggerRow,
)

_STORE = Path(__file__).parent
_START = re.compile(r"^-- (?=(?:name|part): )", re.MULTILINE)
_HEAD = re.compile(r"(name|part): (\w+)(?: \(([^)]*)\))?(?: v \(([^)]*)\))?( guarded)?(?::.*)?", re.DOTALL)
_MARK = re.compile(r"\{(\w+)(?: ([\w.]+))?\}")
_USE = re.compile(r"(?:\b(NOT )?(IN) )?(?<![:\w']):([a-z_]+)")


def columns(row: type[msgspec.Struct]) -> tuple[str, ...]:
    """Stored columns of a row; what only a working copy has is left out."""
    return tuple(f for f in row.__struct_fields__ if f not in ("guard", "dirty"))


TASK_COLUMNS = columns(TaskRow)
RUN_COLUMNS = columns(RunRow)
MEMO_COLUMNS = columns(MemoRow)
SESSION_COLUMNS = columns(SessionRow)
TRIGGER_COLUMNS = columns(TriggerRow)
FIRE_COLUMNS = columns(FireRow)
BACKFILL_COLUMNS = columns(BackfillRow)
TASK_CHANGING = tuple(c for c in TASK_COLUMNS if c not in ("id", "run_no", "pos", "idx", "generation"))
RUN_CHANGING = tuple(c for c in RUN_COLUMNS if c not in ("no", "id", "name", "workflow", "created_at", "root"))
#: What the delivery of a notification changes.
NOTIFICATION_CHANGING = ("state", "tries", "next_at", "term", "error", "delivered_at")
#: What a run's row of the rules lacks, with its types.
RUN_EXTRA = {
    "inputs": "text", "key": "text", "body_hash": "text", "source": "text", "labels": "text", "fresh": "boolean",
    "trigger": "text", "taken_from": "bigint", "backfill": "text",
}  # fmt: skip


class Query(NamedTuple):
    """A statement before its translation. `columns`: those of the rows `v` that a set-based one is given."""

    body: str
    parameters: dict[str, str]  # name and type, in the order of the values
    columns: dict[str, str]
    guarded: bool

    def text(self, value: Callable[[int, str], str], members: Callable[[int, str, bool], str], first: int = 1) -> str:
        """`value` and `members` give a parameter, and the right-hand side of IN, by its number and type (and whether
        it is NOT IN); the first parameter has the number `first`."""
        names = list(self.parameters)

        def used(match: re.Match[str]) -> str:
            number, kind = names.index(match[3]) + first, self.parameters[match[3]]
            return members(number, kind, match[1] is not None) if match[2] else value(number, kind)

        return _USE.sub(used, self.body)


def _types(row: type[msgspec.Struct]) -> dict[str, str]:
    """Columns and their types as parameters."""
    hints = row.__annotations__
    out = {}
    for name in columns(row):
        arms = [arm for arm in get_args(hints[name]) or (hints[name],) if arm is not type(None)]
        out[name] = {int: "bigint", bool: "boolean"}.get(arms[0], "text")
    return out


def _quoted(column: str) -> str:
    return '"trigger"' if column == "trigger" else column  # a word of SQL


def _typed(types: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


@cache
def _marks() -> dict[str, str]:
    """What stands for the columns of a row, always in the order of its Struct."""
    rows: dict[str, tuple[type[msgspec.Struct], str]] = {
        "task": (TaskRow, "t"), "run": (RunRow, "r"), "memo": (MemoRow, "k"), "session": (SessionRow, "s"),
        "trigger": (TriggerRow, "g"), "fire": (FireRow, "f"), "token": (TokenRow, "t"), "pin": (Pin, "p"),
        "attempt": (AttemptRow, "a"), "handle": (HandleRow, "h"), "budget": (BudgetRow, "b"),
        "backfill": (BackfillRow, "b"),
        "deadline": (DeadlineRow, "d"), "notification": (NotificationRow, "n"),
    }  # fmt: skip
    marks = {
        "later": "(p.generation > 1 OR p.idx >= 0)",  # what the index tasks_by_place has
        "ordinal_bits": str(ORDINAL_BITS),
        "event_block": str(EVENT_BLOCK),
    }
    for word, (row, alias) in rows.items():
        types = _types(row)
        marks[word] = ", ".join(f"{alias}.{_quoted(c)}" for c in types)
        marks[f"{word}_columns"] = ", ".join(map(_quoted, types))
        marks[f"{word}_values"] = ", ".join(f":{c}" for c in types)
        marks[f"{word}_typed"] = _typed(types)
        marks[f"{word}_excluded"] = ", ".join(f"{_quoted(c)} = excluded.{_quoted(c)}" for c in list(types)[1:])
    task, run = _types(TaskRow), _types(RunRow)
    marks["task_changing_typed"] = _typed({c: task[c] for c in TASK_CHANGING})
    marks["task_changes"] = ", ".join(f"{c} = v.{c}" for c in TASK_CHANGING)
    marks["run_changing_typed"] = _typed({c: run[c] for c in RUN_CHANGING})
    marks["run_changes"] = ", ".join(f"{c} = :{c}" for c in RUN_CHANGING)
    notification = _types(NotificationRow)
    marks["notification_delivery_typed"] = _typed({c: notification[c] for c in ("id", *NOTIFICATION_CHANGING)})
    marks["notification_delivery"] = ", ".join(f"{c} = :{c}" for c in NOTIFICATION_CHANGING)
    marks["run_extra_columns"] = ", ".join(map(_quoted, RUN_EXTRA))
    marks["run_extra_typed"] = _typed(RUN_EXTRA)
    return marks


def _filled(text: str, marks: dict[str, str]) -> str:
    """`{mark}`, and `{mark about}` for one that has a @ in it."""
    while _MARK.search(text):
        text = _MARK.sub(lambda match: marks[match[1]].replace("@", match[2] or "@"), text)
    return text


def _declared(text: str | None) -> dict[str, str]:
    return dict(item.split() for item in (text or "").split(",") if item.strip())


def _sources(dialect: str) -> list[str]:
    """Of one dialect's files and the shared ones: head lines and body of every statement and part."""
    out: list[str] = []
    for directory in (_STORE / "sql", _STORE / dialect / "sql"):
        for file in sorted(directory.iterdir(), key=lambda f: f.name):
            if file.name.endswith(".sql"):
                out += _START.split(file.read_text(encoding="utf-8"))[1:]
    return out


@cache
def _heads(dialect: str) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Head and body of every statement as they are written, and the marks in them."""
    marks = dict(_marks())
    heads: dict[str, tuple[str, str]] = {}
    for source in _sources(dialect):
        lines = source.splitlines()
        length = next((at for at, line in enumerate(lines) if at and not line.startswith("--")), len(lines))
        head = " ".join(line.removeprefix("-- ").strip() for line in lines[:length])
        body = "\n".join(lines[length:]).strip()
        kind, name = head.split(":")[0], head.split()[1].rstrip(":")
        if name in heads or (kind == "part" and name in marks):
            raise ValueError(f"two statements are called {name}")
        if kind == "part":
            marks[name] = body
        else:
            heads[name] = (head, body)
    return heads, marks


@cache
def query(dialect: str, name: str) -> Query:
    """A command uses few of them: to read all would cost each 2 ms."""
    heads, marks = _heads(dialect)
    head, body = heads[name]
    match = _HEAD.fullmatch(_filled(head, marks))
    assert match is not None, f"the head of {name} cannot be read: {head}"
    return Query(_filled(body, marks), _declared(match[3]), _declared(match[4]), match[5] is not None)


def queries(dialect: str) -> dict[str, Query]:
    return {name: query(dialect, name) for name in _heads(dialect)[0]}


class RunView(NamedTuple):
    """What the statements run_shown, runs_page and runs_found give."""

    run: RunRow
    inputs: str
    source: str | None
    key: str | None
    parent_id: str | None
    root_id: str
    labels: str
    trigger: str | None
    taken_from: str | None  # the id of the run
    backfill: str | None
    late: bool

    @classmethod
    def of(cls, values: Sequence[Any]) -> "RunView":
        width = len(RUN_COLUMNS)
        return cls(RunRow(*values[:width]), *values[width:])


class TaskView(NamedTuple):
    """What the statements tasks_page, tasks_at and dead_page give."""

    task: TaskRow
    run_id: str
    workflow: str
    node: str | None  # that holds it
    exit_code: int | None
    attempt_session: str | None  # of its newest ended attempt
    attempt_node: str | None
    cached: str | None
    lease_until: int | None
    child_id: str | None

    @classmethod
    def of(cls, values: Sequence[Any]) -> "TaskView":
        width = len(TASK_COLUMNS)
        return cls(TaskRow(*values[:width]), *values[width:])


class TriggerView(NamedTuple):
    """What the statement triggers_all gives: a trigger, its newest fire, and how many fires are queued and runs are
    unfinished."""

    trigger: TriggerRow
    cause: str | None
    due_at: int | None
    at: int | None
    outcome: str | None
    run: str | None
    reason: str | None
    queued: int
    unfinished: int

    @classmethod
    def of(cls, values: Sequence[Any]) -> "TriggerView":
        width = len(TRIGGER_COLUMNS)
        return cls(TriggerRow(*values[:width]), *values[width:])
