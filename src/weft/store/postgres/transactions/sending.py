"""Writes as statements: of few rows several in one, of many rows one array for each column."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from weft.store.postgres.statements import KNOWN, PostgresRowsStatement, combined, rows_statement, statements
from weft.store.postgres.wire import Wire
from weft.store.writes import Rows, Write

ROWS_MAX = 1000  # of one statement: each must end within the server's time for one
ROWS_FEW = 4  # written out, row by row, in a statement of their own
ROWS_MANY = 100  # worth a beginning by the server while the rest is still encoded here

#: Of one or two rows (a chain's), these are written by one statement: each is about other rows than the others are.
#: Of more there would be too many combinations, and to plan one costs ten times what it saves.
COMBINED_ROWS, COMBINED_PARTS = 2, 5
COMBINED = frozenset({
    "run_update", "run_update_progress", "tasks_claim_if_queued", "tasks_succeed_if_running",
    "tasks_ready_if_pending", "events_insert",
})  # fmt: skip


def send_writes(wire: Wire, writes: Iterable[Write], check: tuple[Any, ...] = ()) -> None:
    """`check`: the parameters of KNOWN, which comes before them."""
    few: list[Write] = []
    for write in writes:
        name, _, rows = write
        if name in COMBINED and (rows is None or len(rows) <= COMBINED_ROWS):
            few.append(write)
            continue
        if check:
            wire.send(SQL[KNOWN], *check)
            check = ()
        _send(wire, write)
    parts = tuple([(name, 1 if rows is None else len(rows)) for name, _, rows in few])
    statement = combined(parts, bool(check)) if 1 < len(parts) <= COMBINED_PARTS else None
    if statement is not None:
        wire.send(statement, *check, *chain.from_iterable([_flat(write) for write in few]))
        return
    if check:
        wire.send(SQL[KNOWN], *check)
    for write in few:
        _send(wire, write)


def _send(wire: Wire, write: Write) -> None:
    name, parameters, rows = write
    if rows is None:
        wire.send(SQL[name], *parameters)
    else:
        _send_rows(wire, rows_statement(name), parameters, rows)


def _send_rows(wire: Wire, statement: PostgresRowsStatement, shared: tuple[Any, ...], rows: Rows) -> None:
    """What all rows share, then one array per column."""
    if len(rows) <= ROWS_FEW:
        wire.send(statement.of_few(len(rows)), *shared, *chain.from_iterable(rows))
        return
    for at in range(0, len(rows), ROWS_MAX):
        columns = list(zip(*rows[at : at + ROWS_MAX], strict=True))
        if len(rows) < ROWS_MANY:
            wire.send(statement, *shared, *columns)
        else:
            _send_alike(wire, statement, shared, columns)
            wire.hand_over()


def _send_alike(
    wire: Wire, statement: PostgresRowsStatement, shared: tuple[Any, ...], columns: list[tuple[Any, ...]]
) -> None:
    """The first column, mostly an id, is an array in any case: statements count by it."""
    alike = (False, *[column.count(column[0]) == len(column) for column in columns[1:]])
    found = statement.with_alike(alike) if any(alike) else None
    if found is not None:
        columns = [column[0] if same else column for column, same in zip(columns, alike, strict=True)]
    wire.send(found or statement, *shared, *columns)


def _flat(write: Write) -> tuple[Any, ...]:
    _, parameters, rows = write
    return parameters if rows is None else (*parameters, *chain.from_iterable(rows))


SQL = statements()
