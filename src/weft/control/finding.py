"""A run by the names that people use for it, and what is said of a name that it does not have; tasks by filters."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from weft.control.records import Ambiguous, NotFound, TaskInfo
from weft.core.definition.suggest import nearest
from weft.store.queries import TASK_COLUMNS

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


def passes(
    control: "LocalControl",
    task: TaskInfo,
    row: Any,
    states: list[str] | None,
    kinds: list[str] | None,
    workflow: str | None,
    node: str | None,
) -> bool:
    """Whether a task is one of those that were asked for: `workflow` by name or hash, `node` by name or session."""
    hash = row[len(TASK_COLUMNS) + 1]
    return (
        (states is None or task.state in states)
        and (kinds is None or task.kind in kinds)
        and (node is None or node in (task.node, task.session))
        and (workflow is None or workflow in (hash, control._workflow(hash).name))
    )
