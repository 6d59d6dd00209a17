"""One row of history for what an exchange did to many tasks of a run: a column for each fact, or one value for all.

The row's number is that of its last event; the others have the numbers right before it. Readers get single events.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from weft.core.rows import EVENT_BLOCK, EventBatch, EventRow

#: (run, position, index, kind, session, how many events, data as JSON)
StoredEvent = tuple[int, int | None, int | None, str, str | None, int, str]
#: Of a row that was read: its number, its time, position, index, kind, how many events, data as JSON.
ReadEvent = tuple[int, int, int | None, int | None, str, int, str]
#: Of one event: its number, position, index, data.
SingleEvent = tuple[int, int | None, int | None, dict[str, Any]]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def stored(events: Iterable[EventRow | EventBatch], now: int) -> list[StoredEvent]:
    """What a transaction leaves, in its order, as rows."""
    rows: list[StoredEvent] = []
    for event in events:
        if isinstance(event, EventRow):
            data = event.data if isinstance(event.data, str) else _encode(event.data).decode()
            rows.append((event.run_no, event.pos, event.idx, event.kind, event.session, 1, data))
        elif len(event.pos) == 1:
            rows.append((event.run_no, event.pos[0], event.idx[0], event.kind, event.session, 1, _alone(event)))
        else:
            rows += _of_batch(event, now)
    return rows


def _alone(batch: EventBatch) -> str:
    """The data of its one event, as `_singles` gives it."""
    data: dict[str, Any] = {"attempt": batch.attempt[0]}
    if batch.kind == "finished":
        data["state"] = "succeeded"
        data["started_at"] = batch.started_at[0]
        if batch.exit_code[0] is not None:
            data["exitCode"] = batch.exit_code[0]
        if batch.hash[0] is not None:
            data["hash"] = batch.hash[0]
    return _encode(data).decode()


def _of_batch(batch: EventBatch, now: int) -> Iterator[StoredEvent]:
    for at in range(0, len(batch.pos), EVENT_BLOCK):
        part = slice(at, at + EVENT_BLOCK)
        columns: dict[str, Any] = {
            "pos": batch.pos[part], "idx": _column(batch.idx[part]), "attempt": _column(batch.attempt[part])
        }  # fmt: skip
        if batch.kind == "finished":
            columns["ago"] = _column([None if t is None else now - t for t in batch.started_at[part]])
            columns["exitCode"] = _column(batch.exit_code[part])
            columns["hash"] = _column(batch.hash[part])
        many = len(columns["pos"])
        pos, idx, data = None, None, columns
        if many == 1:  # the last of more than a row can hold
            ((_, pos, idx, data),) = _singles(0, now, batch.kind, 1, columns)
        yield batch.run_no, pos, idx, batch.kind, batch.session, many, _encode(data).decode()


def _column(values: list[Any]) -> Any:
    """One value where all are the same."""
    first = values[0]
    return first if values.count(first) == len(values) else values


def expanded(row: ReadEvent) -> Iterator[SingleEvent]:
    """The events of a row, in their order."""
    seq, at, pos, idx, kind, many, text = row
    data: dict[str, Any] = _decode(text)
    if many == 1:
        yield seq, pos, idx, data
    else:
        yield from _singles(seq - many + 1, at, kind, many, data)


def _singles(first: int, at: int, kind: str, many: int, data: dict[str, Any]) -> Iterator[SingleEvent]:
    columns = {name: _values(value, many) for name, value in data.items()}
    for n in range(many):
        single: dict[str, Any] = {"attempt": columns["attempt"][n]}
        if kind == "finished":
            ago = columns["ago"][n]
            single |= {"state": "succeeded", "started_at": None if ago is None else at - ago}
            for name in ("exitCode", "hash"):
                if columns[name][n] is not None:
                    single[name] = columns[name][n]
        yield first + n, columns["pos"][n], columns["idx"][n], single


def _values(value: Any, many: int) -> Sequence[Any]:
    return value if isinstance(value, list) else [value] * many
