"""The named statements of this dialect, and set-based ones for any number of rows, from few prepared ones.

Measured for 500 rows of 12 columns: VALUES with bound parameters 2.7 µs a row, json_each with ->> 8.7; executemany
2.5, but it takes and drops the interpreter lock once a row, which beside a busy thread is 40 times slower.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from weft.store.queries import Query, queries

WHOLE = "SELECT * FROM v"
CHUNKS = (192, 48, 12, 4, 2, 1)  # few sizes: each is one prepared statement in the cache


def _value(number: int, kind: str) -> str:
    return f"?{number}"


def _members(number: int, kind: str, negated: bool) -> str:
    return f"{'NOT ' if negated else ''}IN (SELECT value FROM json_each(?{number}))"


class SqliteRowsStatement:
    """Its parameters are those of the rows, then what all rows share."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.guarded = query.guarded
        self._texts: dict[int, str] = {}

    def text(self, rows: int) -> str:
        text = self._texts.get(rows)
        if text is None:
            columns = self._query.columns
            row = "(" + ",".join("?" * len(columns)) + ")"  # no numbers: apsw keeps no text above 16 kB
            values = f"VALUES {','.join([row] * rows)}"
            body = self._query.text(_value, _members, 1 + rows * len(columns))
            if body.endswith(WHOLE):  # without the detour over a table
                text = body.removesuffix(WHOLE) + values
            else:
                text = f"WITH v ({', '.join(columns)}) AS ({values}) {body}"
            self._texts[rows] = text
        return text


class _Texts(dict[str, str]):
    """Each is translated when it is first used: all of them would cost every command 8 ms."""

    def __missing__(self, name: str) -> str:
        text = self[name] = queries("sqlite")[name].text(_value, _members)
        return text


SQL = _Texts()
GUARDED = frozenset(name for name, query in queries("sqlite").items() if query.guarded)
ROWS = {name: SqliteRowsStatement(query) for name, query in queries("sqlite").items() if query.columns}


def chunks(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
    at, left = 0, len(rows)
    for size in CHUNKS:
        while left >= size:
            yield rows[at : at + size]
            at += size
            left -= size


def flat(rows: Sequence[Sequence[Any]]) -> list[Any]:
    out: list[Any] = []
    for row in rows:
        out.extend(row)
    return out
