"""Reads on a replica. The output of attempts is not in it, and is asked for where it is."""

from collections.abc import Callable
from typing import Any

from weft.store.replicated.output.copies import ReadOutput
from weft.store.replicated.output.file import StoredPiece, StreamPlace
from weft.store.sqlite.reader import SqliteReader

#: What there is of a stream, wherever that is. None: no node that answers has any of it.
FindOutput = Callable[[ReadOutput], StoredPiece | None]


class ReplicaReader(SqliteReader):
    find_output: FindOutput

    def read(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        rows = super().read(name, *parameters)
        if name == "output_read" and not rows:
            return [(found.at, found.data) for found in self._found(parameters[:5], parameters[5]) if found.data]
        if name == "output_sent" and not rows[0][0]:
            return [(max((found.end for found in self._found(parameters, 0)), default=0),)]
        return rows

    def _found(self, place: tuple[Any, ...], offset: int) -> list[StoredPiece]:
        *_, attempt, stream = place
        found = []
        for task_id, size in super().read("output_tasks", *place):
            if size is None or offset < size:
                asked = ReadOutput(StreamPlace(task_id, attempt, stream), offset, size is not None)
                found.append(self.find_output(asked))
        return [piece for piece in found if piece is not None]
