"""Runs that tasks of other runs started: whose they are, and what the names of workflows in them mean."""

from typing import TYPE_CHECKING

from weft.control.records import TaskInfo, WantedSignal
from weft.core.rows import ORDINAL_BITS, Pin, RunRow
from weft.core.workflow import Workflow
from weft.store.queries import RUN_COLUMNS

if TYPE_CHECKING:
    from weft.control.local import LocalControl
    from weft.control.protocol import Control


def pins_of(control: "LocalControl", ref: str) -> list[Pin]:
    """What the names in the whole family mean; enough to start any run of it anew."""
    no, _ = control.find(ref)
    return [Pin(*row) for row in control._read("pins_of_root", _row(control, no).root)]


def workflows_of(control: "LocalControl", ref: str) -> list[Workflow]:
    """The run's own workflow, and those that it may start."""
    own = control.workflow(ref)
    pins = pins_of(control, ref)
    found = {own.hash: own}
    pending = [own.hash]
    for hash in pending:
        for pin in pins:
            if pin.workflow == hash and pin.child not in found:
                found[pin.child] = control._workflow(pin.child)
                pending.append(pin.child)
    return list(found.values())


def family_of(control: "LocalControl", ref: str) -> list[tuple[int, str]]:
    """(number, id) of a run and of all that were started by it, at any depth, in the order of their numbers."""
    no, run_id = control.find(ref)
    rows = control._read("runs_of_family", no)
    below = {no: None}
    out = [(no, run_id)]
    for child, id, parent in rows:  # a run has a higher number than the one that started it
        if parent is not None and parent >> ORDINAL_BITS in below:
            below[child] = None
            out.append((child, id))
    return out


def starter_of(control: "LocalControl", ref: str) -> TaskInfo | None:
    """The task that started a run."""
    no, _ = control.find(ref)
    parent = _row(control, no).parent
    if parent is None:
        return None
    rows = control._read("tasks_page", parent - 1, parent + 1, None, True, 1)
    return control._task_info(rows[0]) if rows else None


def path_of(control: "Control", ref: str, within: str) -> str:
    """The names of the tasks that lead from one run to another: "deploy/build". Empty for the run itself."""
    names: list[str] = []
    _, run_id = control.find(ref)
    while run_id != within:
        task = control.starter(run_id)
        if task is None:
            break
        names.append(task.name)
        run_id = task.run_id
    return "/".join(reversed(names))


def waiting_below(control: "LocalControl", ref: str, limit: int) -> list[WantedSignal]:
    no, run_id = control.find(ref)
    out = []
    for _, child_id, hash, pos in control._read("tasks_waiting_of_family", no, limit):
        task = control._workflow(hash).tasks[pos]
        if child_id != run_id and "signal" in task.spec:
            out.append(WantedSignal(run=child_id, task=task.name, signal=task.spec["signal"]))
    return out


def _row(control: "LocalControl", no: int) -> RunRow:
    rows = control._read("run_shown", no)
    return RunRow(*rows[0][: len(RUN_COLUMNS)])
