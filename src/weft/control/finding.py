"""A run by the names that people use for it; and what is said of a name that it does not have."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from weft.control.records import Ambiguous, NotFound
from weft.core.suggest import nearest

if TYPE_CHECKING:
    from weft.control.local import LocalControl

_ID = re.compile(r"^[0-9a-z-]{1,64}$")


def find_run(control: "LocalControl", ref: str) -> tuple[int, str]:
    """(number, id) of a run named by its id, a unique prefix, or `last`."""
    if ref == "last":
        rows = control._read("run_last")
        if not rows:
            raise NotFound("there are no runs yet")
        return rows[0][0], rows[0][1]
    if not _ID.match(ref):
        raise NotFound(f"{ref!r} is no run id")
    rows = control._read("runs_by_prefix", ref, ref + "~")
    exact = [row for row in rows if row[1] == ref]
    if exact:
        rows = exact
    if not rows:
        raise NotFound(f"there is no run {ref}")
    if len(rows) > 1:
        raise Ambiguous(f"{ref} could be any of {', '.join(row[1] for row in rows)}")
    return rows[0][0], rows[0][1]


def no_task(task: str, known: Collection[str]) -> NotFound:
    """`known` are the names of the run's tasks."""
    stem, _, index = task.rpartition(".")
    meant = nearest(stem if stem and index.isdecimal() else task, known)
    return NotFound(f"the run has no task {task}" + (f"; did you mean {meant!r}?" if meant else ""))
