"""What people call the elements of mapped tasks, looked up once per run."""

from typing import TYPE_CHECKING

import msgspec

from weft.core.workflow import TaskDef

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess


class Labels:
    """For one page of an answer: what it has read of a run is not read again."""

    def __init__(self, access: "StoreAccess") -> None:
        self._access = access
        self._runs: dict[int, dict[tuple[int, int | None], list[str]]] = {}

    def of(self, run_no: int, definition: TaskDef, pos: int, idx: int, generation: int | None = None) -> str | None:
        """Of one element; without a generation, as in the newest one."""
        if idx < 0 or not definition.labelled:
            return None
        if run_no not in self._runs:
            found = self._runs[run_no] = {}
            for of_pos, of_generation, text in self._access.read("labels_of_run", run_no):  # ascending
                found[(of_pos, of_generation)] = found[(of_pos, None)] = msgspec.json.decode(text, type=list[str])
        labels = self._runs[run_no].get((pos, generation), ())
        return labels[idx] if idx < len(labels) else None
