"""Chunks of output into a database: who may send is locked in one round trip, chunks and COMMIT go in the next."""

from weft.store.postgres.statements import Statement, statements
from weft.store.postgres.transactions.transaction import limits
from weft.store.postgres.wire import Wire
from weft.store.shipment import FILES, Shipment

_BEGIN, _COMMIT = Statement("BEGIN"), Statement("COMMIT")


def keep_output(wire: Wire, shipment: Shipment, patience_ms: int) -> list[tuple[int, int]]:
    """(task, attempt) of those that were refused."""
    named = statements()
    wire.send(_BEGIN)
    wire.send(limits(patience_ms, plans=False))
    wire.send(named["output_holders"], *map(list, zip(*shipment.attempts(), strict=True)))
    held = {(task, attempt) for task, attempt in wire.rows(wire.sync()[-1])}
    taken = [chunk for chunk in shipment.chunks if (chunk.task_id, chunk.attempt) in held]
    for chunk in taken:
        if chunk.drop is not None:
            wire.send(named["output_drop"], chunk.task_id, chunk.attempt, chunk.stream, *chunk.drop)
        elif chunk.stream == FILES and chunk.at == 0:
            wire.send(named["files_delete_earlier"], chunk.task_id, chunk.attempt)
    rows = [chunk for chunk in taken if chunk.data]
    if rows:
        first, at = [], 1  # SQL counts bytes from one
        for chunk in rows:
            first.append(at)
            at += len(chunk.data)
        wire.send(
            named["output_insert"],
            [c.task_id for c in rows], [c.attempt for c in rows], [c.stream for c in rows], [c.at for c in rows],
            first, [len(c.data) for c in rows], b"".join(c.data for c in rows),
        )  # fmt: skip
    for chunk in taken:
        if chunk.size is not None:
            wire.send(named["output_end"], chunk.task_id, chunk.attempt, chunk.stream, chunk.size)
    wire.send(_COMMIT)
    wire.sync()
    return shipment.without(held)
