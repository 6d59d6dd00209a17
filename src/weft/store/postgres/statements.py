"""The named statements of this dialect, and how their parameters are encoded: every `$1` says its type in a cast."""

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec

from weft.core.rows import RecordRow, RunRow, TaskRow
from weft.store.changes import GUARD, RUN_CHANGING, RUN_EXTRA, TASK_CHANGING
from weft.store.postgres.values import ENCODERS
from weft.store.queries import RECORD_COLUMNS, RUN_COLUMNS, SESSION_COLUMNS, TASK_COLUMNS, queries

_PARAMETER = re.compile(r"\$(\d+)::(bigint|int|text|boolean|bytea)(\[\])?")
_UNNEST = re.compile(r"unnest\((\$1::[^()]*)\)(\s+AS v\s+\([^)]*\))?")
ALIKE_MAX = 50  # statements for columns with one value, of each statement


class Statement:
    """Its key is a hash of its text: two versions of Weft behind one pooler never take each other's for their own."""

    def __init__(self, text: str) -> None:
        found = {int(number): kind + (array or "") for number, kind, array in _PARAMETER.findall(text)}
        assert sorted(found) == list(range(1, len(found) + 1)), f"a parameter without a type: {text}"
        assert set(re.findall(r"\$(\d+)(?!\d|::)", text)) == set(), f"a parameter without a type: {text}"
        self.text = text.encode()
        self.key = b"weft_" + hashlib.sha256(self.text).hexdigest()[:16].encode()
        self.kinds = tuple(found[number] for number in sorted(found))
        self._encoders: tuple[Callable[[Any], bytes], ...] = tuple(ENCODERS[kind] for kind in self.kinds)
        self.formats = [1 if kind == "bytea" else 0 for kind in self.kinds]
        self._few: dict[int, Statement] = {}
        self._alike: dict[tuple[bool, ...], Statement] = {}

    def encoded(self, parameters: Sequence[Any]) -> list[bytes | None]:
        return [
            None if value is None else encode(value) for encode, value in zip(self._encoders, parameters, strict=True)
        ]

    def of_few(self, count: int) -> "Statement":
        """The same for exactly so many rows, one value after the other instead of one array for each column: an array
        costs 6 µs, however short it is. A chain's exchange is 0.2 ms shorter."""
        if count not in self._few:
            self._few[count] = Statement(_written_out(self.text.decode(), count))
        return self._few[count]

    def with_alike(self, alike: tuple[bool, ...]) -> "Statement | None":
        """The same for rows that have one value in these columns, which then travels once: an array costs
        0.2 µs a row. None: there are enough of these already, each of which the server plans and keeps."""
        found = self._alike.get(alike)
        if found is None and len(self._alike) < ALIKE_MAX:
            found = self._alike[alike] = Statement(_with_values(self.text.decode(), alike))
        return found


def _written_out(text: str, count: int) -> str:
    (match,) = _UNNEST.finditer(text)
    width = match[1].count("$")
    kinds = [kind for _, kind, _ in _PARAMETER.findall(match[1])]
    more = (count - 1) * width

    def moved(part: str) -> str:
        """What all rows share comes after them; how many there are is known."""
        part = part.replace("cardinality($1::bigint[])", str(count))
        return re.sub(r"\$(\d+)", lambda number: f"${int(number[1]) + more}", part)

    rows = [
        "(" + ", ".join(f"${row * width + at}::{kind}" for at, kind in enumerate(kinds, 1)) + ")"
        for row in range(count)
    ]
    values = f"(VALUES {', '.join(rows)}){match[2] or ' AS v'}"
    return moved(text[: match.start()]) + values + moved(text[match.end() :])


def _with_values(text: str, alike: tuple[bool, ...]) -> str:
    """The numbers of the parameters stay as they are."""
    (match,) = _UNNEST.finditer(text)
    parameters = _PARAMETER.findall(match[1])
    names = re.findall(r"\w+", match[2].split("(")[1]) if match[2] else [f"c{number}" for number, _, _ in parameters]
    chosen, arrays, columns = [], [], []
    for (number, kind, _), name, same in zip(parameters, names, alike, strict=True):
        if same:
            chosen.append(f"${number}::{kind} AS {name}")
        else:
            chosen.append(f"w.{name}")
            arrays.append(f"${number}::{kind}[]")
            columns.append(name)
    rows = f"(SELECT {', '.join(chosen)} FROM unnest({', '.join(arrays)}) AS w ({', '.join(columns)})) AS v"
    return text[: match.start()] + rows + text[match.end() :]


def _types(row: type[msgspec.Struct]) -> dict[str, str]:
    """The array that carries a column of such rows."""
    out = {}
    for name, hint in get_type_hints(row).items():
        arms = [arm for arm in get_args(hint) or (hint,) if arm is not type(None)]
        out[name] = {int: "bigint[]", bool: "boolean[]"}.get(arms[0], "text[]")
    return out


def _arrays(kinds: list[str]) -> str:
    return ", ".join(f"${number}::{kind}" for number, kind in enumerate(kinds, 1))


@cache
def statements() -> dict[str, Statement]:
    task, run, record = _types(TaskRow), _types(RunRow), _types(RecordRow)
    guard = ["bigint[]", "text[]", "bigint[]", "text[]"]
    marks = {
        "{task_columns}": ", ".join(TASK_COLUMNS),
        "{task_arrays}": _arrays([task[c] for c in TASK_COLUMNS]),
        "{guard_columns}": ", ".join(GUARD),
        "{task_changing}": ", ".join(TASK_CHANGING),
        "{change_arrays}": _arrays([*guard, *(task[c] for c in TASK_CHANGING)]),
        "{task_assignments}": ", ".join(f"{c} = v.{c}" for c in TASK_CHANGING),
        "{session_columns}": ", ".join(SESSION_COLUMNS),
        "{run_columns}": ", ".join(RUN_COLUMNS),
        "{run_arrays}": _arrays(
            [*(run[c] for c in RUN_COLUMNS), *("boolean[]" if c == "fresh" else "text[]" for c in RUN_EXTRA)]
        ),
        "{run_assignments}": ", ".join(
            f"{column} = ${number}::{run[column].removesuffix('[]')}" for number, column in enumerate(RUN_CHANGING, 2)
        ),
        "{record_columns}": ", ".join(RECORD_COLUMNS),
        "{record_arrays}": _arrays([record[c] for c in RECORD_COLUMNS]),
        "{record_values}": _arrays([record[c].removesuffix("[]") for c in RECORD_COLUMNS]),
        "{record_assignments}": ", ".join(f"{c} = excluded.{c}" for c in RECORD_COLUMNS if c != "key"),
    }
    found = {}
    for name, text in queries("postgres").items():
        for mark, value in marks.items():
            text = text.replace(mark, value)
        found[name] = Statement(text)
    return found
