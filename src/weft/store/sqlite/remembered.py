"""Rows as this connection has just written them, so that the next transaction need not read them.

These are the tasks that a transaction left running and the runs that it changed. They count only while no other
connection has committed, and this one nothing but drafts: SQLite's data version shows that. A load takes its rows
out, and only a COMMIT puts rows in: what a transaction had loaded and rolled back is read anew.
"""

from collections.abc import Sequence

import apsw

from weft.core.decision.draft import Draft
from weft.core.rows import RunRow, TaskRow

TASKS_MAX, RUNS_MAX = 4096, 256
_UNKNOWN = -1


class RememberedRows:
    def __init__(self) -> None:
        self.tasks: dict[int, TaskRow] = {}
        self.runs: dict[int, RunRow] = {}
        self._written: list[Draft] = []
        self._version = _UNKNOWN

    def begin(self, connection: apsw.Connection) -> bool:
        """Whether the store is as it was left. If not, nothing counts until `go_on`."""
        self._written.clear()
        if connection.data_version() == self._version:
            return True
        self.tasks.clear()
        self.runs.clear()
        self._version = _UNKNOWN
        return False

    def go_on(self, connection: apsw.Connection) -> None:
        """From the version that this transaction sees."""
        self._version = connection.data_version()

    def write(self, draft: Draft) -> None:
        self._written.append(draft)

    def committed(self, connection: apsw.Connection) -> None:
        if not self._written or self._version == _UNKNOWN:
            return  # what was written was not written by a draft: then the version is another one now
        self.take_in_written()
        self._version = connection.data_version()

    def take_in_written(self) -> None:
        """Between two commands of one transaction, too: the second one sees what the first one wrote. After a
        rollback nothing of it counts: `forget`."""
        for draft in self._written:
            self._take_in(draft)
        self._written.clear()
        if len(self.tasks) > TASKS_MAX:
            self.tasks.clear()
        if len(self.runs) > RUNS_MAX:
            self.runs.clear()

    def forget(self) -> None:
        self._written.clear()
        self.tasks.clear()
        self.runs.clear()
        self._version = _UNKNOWN

    def _take_in(self, draft: Draft) -> None:
        tasks, runs = self.tasks, self.runs
        for task in draft.dirty_tasks:
            if task.state == "running" and task.session is not None and task.held is None:
                task.guard = None
                tasks[task.id] = task
            else:
                tasks.pop(task.id, None)
        for run in draft.dirty_runs:
            if run.finished_at is None:
                run.dirty = False
                runs[run.no] = run
            else:
                runs.pop(run.no, None)
        if draft.pruned.runs:
            tasks.clear()
            runs.clear()

    def take_tasks(self, ids: Sequence[int]) -> tuple[list[TaskRow], list[int]]:
        """Those of these that are known, and the ids of the others."""
        pop = self.tasks.pop
        found = [row for id in ids if (row := pop(id, None)) is not None]
        if len(found) == len(ids):
            return found, []
        known = {row.id for row in found}
        return found, [id for id in ids if id not in known]

    def take_runs(self, nos: Sequence[int]) -> tuple[list[RunRow], list[int]]:
        pop = self.runs.pop
        found = [row for no in nos if (row := pop(no, None)) is not None]
        known = {row.no for row in found}
        return found, [no for no in nos if no not in known]
