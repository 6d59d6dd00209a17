"""Single events of a store, whatever rows they are kept in."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from weft.core.history.batches import expanded

_COLUMNS = "e.seq, e.at, e.pos, e.idx, e.kind, e.many, e.data, e.run_no, e.session"


class Event(NamedTuple):
    seq: int
    run_no: int
    pos: int | None
    idx: int | None
    kind: str
    session: str | None
    data: dict[str, Any]


def events(connection: Any, where: str = "true", values: tuple[Any, ...] = ()) -> Iterator[Event]:
    """In their order; `where` is about the rows `e` of the table."""
    rows = list(connection.execute(f"SELECT {_COLUMNS} FROM events e WHERE {where} ORDER BY e.seq", values))
    for seq, at, pos, idx, kind, many, text, run_no, session in rows:
        for number, of_pos, of_idx, data in expanded((seq, at, pos, idx, kind, many, text)):
            yield Event(number, run_no, of_pos, of_idx, kind, session, data)
