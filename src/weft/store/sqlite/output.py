"""Chunks of output into a file's tables, inside the caller's transaction."""

import apsw

from weft.store.shipment import Shipment
from weft.store.sqlite.statements import SQL


def not_held(connection: apsw.Connection, shipment: Shipment) -> list[tuple[int, int]]:
    """(task, attempt) of those that are not, or no longer, their session's."""
    return [
        (task, attempt)
        for task, attempt, session in shipment.attempts()
        if not connection.execute(SQL["output_holders"], (task, attempt, session)).get
    ]


def keep_output(connection: apsw.Connection, shipment: Shipment) -> list[tuple[int, int]]:
    """(task, attempt) of those that were refused."""
    refused = not_held(connection, shipment)
    for chunk in shipment.chunks:
        place = (chunk.task_id, chunk.attempt, chunk.stream)
        if place[:2] in refused:
            continue
        if chunk.drop is not None:
            connection.execute(SQL["output_drop"], (*place, *chunk.drop))
        if chunk.data:
            connection.execute(SQL["output_insert"], (*place, chunk.at, chunk.data))
        if chunk.size is not None:
            connection.execute(SQL["output_end"], (*place, chunk.size))
    return refused
