"""Named SQL: `-- name: tasks_by_id` heads a statement, the file's other lines are it. `-- part: task_ids` heads what
several statements of a dialect have in common: it stands in them as `{task_ids}`.

Both dialects have the same names (a test compares them), so a rule's need finds its statement in either.
`{task}`, `{run}` and `{record}` stand for the columns of a row, in the order of its Struct; a task that its run began
with has its position in its id, all others (`{later}`) are in the index tasks_by_place.
"""

import re
from functools import cache
from importlib.resources import files

import msgspec

from weft.core.rows import ORDINAL_BITS, FireRow, RecordRow, RunRow, SessionRow, TaskRow, TriggerRow

_HEAD = re.compile(r"^-- (name|part): (\w+)[^\n]*\n", re.MULTILINE)  # what follows the name is a comment


def columns(row: type[msgspec.Struct]) -> tuple[str, ...]:
    """Stored columns of a row; what only a working copy has is left out."""
    return tuple(f for f in row.__struct_fields__ if f not in ("guard", "dirty"))


TASK_COLUMNS = columns(TaskRow)
RUN_COLUMNS = columns(RunRow)
RECORD_COLUMNS = columns(RecordRow)
SESSION_COLUMNS = columns(SessionRow)
TRIGGER_COLUMNS = columns(TriggerRow)
FIRE_COLUMNS = columns(FireRow)


def _quoted(column: str) -> str:
    return '"trigger"' if column == "trigger" else column  # a word of SQL


@cache
def queries(dialect: str) -> dict[str, str]:
    found: dict[str, str] = {}
    placeholders = {
        "{task}": ", ".join(f"t.{c}" for c in TASK_COLUMNS),
        "{run}": ", ".join(f"r.{c}" for c in RUN_COLUMNS),
        "{later}": "(p.generation > 1 OR p.idx >= 0)",  # what the index tasks_by_place has
        "{ordinal_bits}": str(ORDINAL_BITS),
        "{record}": ", ".join(f"k.{c}" for c in RECORD_COLUMNS),
        "{trigger_row}": ", ".join(f"g.{c}" for c in TRIGGER_COLUMNS),
        "{fire_row}": ", ".join(f"f.{_quoted(c)}" for c in FIRE_COLUMNS),
        "{trigger_columns}": ", ".join(TRIGGER_COLUMNS),
        "{fire_columns}": ", ".join(_quoted(c) for c in FIRE_COLUMNS),
        "{trigger_assignments}": ", ".join(f"{c} = excluded.{c}" for c in TRIGGER_COLUMNS if c != "id"),
        "{session_row}": ", ".join(f"s.{c}" for c in SESSION_COLUMNS),
    }
    parts: dict[str, str] = {}
    for file in sorted(files("weft.store").joinpath(dialect, "sql").iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".sql"):
            continue
        pieces = _HEAD.split(file.read_text(encoding="utf-8"))
        for kind, name, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            if name in found or f"{{{name}}}" in parts or f"{{{name}}}" in placeholders:
                raise ValueError(f"two statements are called {name}")
            if kind == "part":
                parts[f"{{{name}}}"] = body.strip()
            else:
                found[name] = body.strip().rstrip(";")
    for name, body in found.items():
        for mark, text in (*parts.items(), *placeholders.items()):
            body = body.replace(mark, text)
        found[name] = body
    return found
