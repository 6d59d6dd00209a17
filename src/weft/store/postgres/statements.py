"""The named statements of this dialect, and how their parameters are encoded: by the types that the heads declare."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from weft.store.postgres.values import ENCODERS
from weft.store.queries import Query, queries

ALIKE_MAX = 50  # statements for columns with one value, of each statement
COMBINED_MAX = 100  # statements made of several
KNOWN = "tasks_if_known"


class Statement:
    """Its key is a hash of its text: two versions of Weft behind one pooler never take each other's for their own."""

    def __init__(self, text: str, kinds: Sequence[str] = ()) -> None:
        self.text = text.encode()
        self.key = b"weft_" + hashlib.sha256(self.text).hexdigest()[:16].encode()
        self.kinds = tuple(kinds)
        self._encoders: tuple[Callable[[Any], bytes], ...] = tuple(ENCODERS[kind] for kind in self.kinds)
        self.formats = [1 if kind == "bytea" else 0 for kind in self.kinds]

    def encoded(self, parameters: Sequence[Any]) -> list[bytes | None]:
        return [
            None if value is None else encode(value) for encode, value in zip(self._encoders, parameters, strict=True)
        ]


class PostgresRowsStatement(Statement):
    """For any number of rows: what they share, then one array for each of their columns.

    The rows are the table `v`. Where they come from is written anew for few rows and for columns with one value; the
    rest of the text, and the numbers of the parameters in it, stay as they are.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self.guarded = query.guarded
        self._shared = tuple(query.parameters.values())
        self._columns = query.columns
        self._few: dict[int, Statement] = {}
        self._alike: dict[tuple[bool, ...], Statement] = {}
        super().__init__(*self._over(self._arrays((False,) * len(query.columns)), self._array_kinds()))

    def _number(self, column: int) -> int:
        return len(self._shared) + 1 + column

    def _array_kinds(self) -> list[str]:
        return [f"{kind}[]" for kind in self._columns.values()]

    def _over(self, source: str, kinds: Sequence[str], count: int | None = None) -> tuple[str, tuple[str, ...]]:
        body = self._query.text(_value, _members)
        if self._query.guarded:
            first = next(iter(self._columns.values()))
            given = f"cardinality(${self._number(0)}::{first}[])" if count is None else str(count)
            body = f", {_guarded(body, given)}"
        return f"WITH v ({', '.join(self._columns)}) AS ({source}) {body}", (*self._shared, *kinds)

    def _arrays(self, alike: tuple[bool, ...]) -> str:
        """Columns with one value are parameters of their own."""
        chosen, arrays, names = [], [], []
        for at, ((name, kind), same) in enumerate(zip(self._columns.items(), alike, strict=True)):
            if same:
                chosen.append(f"${self._number(at)}::{kind}")
            else:
                chosen.append(f"w.{name}")
                arrays.append(f"${self._number(at)}::{kind}[]")
                names.append(name)
        return f"SELECT {', '.join(chosen)} FROM unnest({', '.join(arrays)}) AS w ({', '.join(names)})"

    def part(self, count: int, first: int) -> tuple[str, list[str]]:
        """For exactly so many rows, inside of another statement; its parameters begin with the number `first`."""
        kinds = [*self._shared, *list(self._columns.values()) * count]
        rows = _rows(list(self._columns.values()), count, first + len(self._shared))
        body = self._query.text(_value, _members, first)
        return f"WITH v ({', '.join(self._columns)}) AS (VALUES {rows}) {body}", kinds

    def of_few(self, count: int) -> Statement:
        """The same for exactly so many rows, one value after the other instead of one array for each column: an array
        costs 6 µs, however short it is. A chain's exchange is 0.2 ms shorter."""
        if count not in self._few:
            columns = list(self._columns.values())
            rows = _rows(columns, count, self._number(0))
            self._few[count] = Statement(*self._over(f"VALUES {rows}", columns * count, count))
        return self._few[count]

    def with_alike(self, alike: tuple[bool, ...]) -> Statement | None:
        """The same for rows that have one value in these columns, which then travels once: an array costs
        0.2 µs a row. None: there are enough of these already, each of which the server plans and keeps."""
        found = self._alike.get(alike)
        if found is None and len(self._alike) < ALIKE_MAX:
            kinds = [
                kind.removesuffix("[]") if same else kind
                for kind, same in zip(self._array_kinds(), alike, strict=True)
            ]
            found = self._alike[alike] = Statement(*self._over(self._arrays(alike), kinds))
        return found


class SingleStatement(Statement):
    """For no rows, with parameters alone."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.guarded = query.guarded
        text = query.text(_value, _members)
        super().__init__(f"WITH {_guarded(text, '1')}" if query.guarded else text, tuple(query.parameters.values()))

    def part(self, count: int, first: int) -> tuple[str, list[str]]:
        return self._query.text(_value, _members, first), list(self._query.parameters.values())


def _rows(columns: Sequence[str], count: int, first: int) -> str:
    """So many rows of VALUES."""
    cells = [f"${first + at}::{kind}" for at, kind in enumerate([*columns] * count)]
    width = len(columns)
    return ", ".join(f"({', '.join(cells[at : at + width])})" for at in range(0, len(cells), width))


def _value(number: int, kind: str) -> str:
    return f"${number}::{'text' if kind == 'json' else kind}"


def _members(number: int, kind: str, negated: bool) -> str:
    if kind == "json":
        return f"{'NOT ' if negated else ''}IN (SELECT json_array_elements_text({_value(number, kind)}::json))"
    return f"{'<> ALL' if negated else '= ANY'}({_value(number, kind)})"


def _guarded(body: str, count: str) -> str:
    """Sent together with COMMIT, so it must fail inside the server: a division by zero voids all that follows."""
    return f"done AS ({body} RETURNING 1) SELECT 1 / (count(*) = {count})::int FROM done"


@cache
def statements() -> dict[str, Statement]:
    return {
        name: PostgresRowsStatement(query) if query.columns else SingleStatement(query)
        for name, query in queries("postgres").items()
    }


_combined: dict[tuple[tuple[tuple[str, int], ...], bool], Statement] = {}


def combined(parts: tuple[tuple[str, int], ...], known: bool = False) -> Statement | None:
    """Several writes as one statement, by name and number of rows: none may touch a row that another one does. Each
    costs the server 10–15 µs less than by itself, and us as much. `known`: it begins with the statement KNOWN. None:
    there are enough of these already."""
    found = _combined.get((parts, known))
    if found is None and len(_combined) < COMBINED_MAX:
        texts: list[str] = []
        guards: list[str] = []
        kinds: list[str] = []
        if known:
            check = statements()[KNOWN]
            texts, kinds = [f"known AS ({check.text.decode()})"], list(check.kinds)
            guards = ["(SELECT * FROM known) = 1"]
        for at, (name, count) in enumerate(parts):
            statement = statements()[name]
            assert isinstance(statement, (PostgresRowsStatement, SingleStatement))
            text, more = statement.part(count, len(kinds) + 1)
            texts.append(f"w{at} AS ({text} RETURNING 1)")
            kinds += more
            if statement.guarded:
                guards.append(f"(SELECT count(*) FROM w{at}) = {count}")
        checked = f"1 / ({' AND '.join(guards)})::int" if guards else "1"
        found = _combined[parts, known] = Statement(f"WITH {', '.join(texts)} SELECT {checked}", kinds)
    return found


def rows_statement(name: str) -> PostgresRowsStatement:
    found = statements()[name]
    assert isinstance(found, PostgresRowsStatement)
    return found
