"""Which nodes there were after an event, and how many attempts each of them ran: from the history of all runs."""

from typing import TYPE_CHECKING, Final

from weft.core.history.batches import expanded
from weft.core.rows import EVENT_BLOCK
from weft.operations.reading.nodes import nodes

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

ROWS: Final = 1000
EVENTS_MAX: Final = 20_000  # looked at: attempts that began before them are not counted
NODES_SHOWN: Final = 10
_ENDS: Final = ("finished", "lost", "returned")


def nodes_then(access: "StoreAccess", seq: int, at: int) -> list[str]:
    """A line for each node. What a task could be assigned to also depends on room that is in no history."""
    alive = [one for one in nodes(access, True) if one.started_at <= at < (one.ended_at or at + 1)]
    if not alive:
        return ["no node was there"]
    running, complete = _running(access, seq, min(one.started_at for one in alive))
    lines = [
        f"{one.node} ran {running.get(one.node, 0)}{f' of {one.slots}' if one.slots else ''}"
        + (", and was draining" if one.drain_at is not None and one.drain_at <= at else "")
        for one in alive[:NODES_SHOWN]
    ]
    if len(alive) > NODES_SHOWN:
        lines.append(f"and {len(alive) - NODES_SHOWN} more nodes were there")
    return (
        lines if complete else [*lines, f"attempts that began more than {EVENTS_MAX:,} events before are not counted"]
    )


def _running(access: "StoreAccess", seq: int, since: int) -> tuple[dict[str, int], bool]:
    """(attempts by node, whether all were looked at), from this event backwards to this time."""
    running: dict[str, int] = {}
    ended: set[tuple[str, int | None, int | None, int]] = set()
    before, looked = seq + EVENT_BLOCK, 0  # a row of many events has the number of its last one
    while looked < EVENTS_MAX:
        rows = access.read("events_before", before, ROWS)
        for number, at, pos, idx, kind, many, text, node, run, _ in rows:
            before, looked = number, looked + many
            if at < since:
                return running, True
            if run is None or not (kind in _ENDS or (kind == "assigned" and node is not None)):
                continue
            for one, of_pos, of_idx, data in expanded((number, at, pos, idx, kind, many, text)):
                key = (run, of_pos, of_idx, data.get("attempt", 0))
                if one > seq:
                    continue
                if kind in _ENDS:
                    ended.add(key)
                elif key not in ended:
                    running[node] = running.get(node, 0) + 1
        if len(rows) < ROWS:
            return running, True
    return running, False
