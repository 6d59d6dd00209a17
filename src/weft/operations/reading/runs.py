"""Rows of runs and tasks as people see them, and the names that people use for them."""

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from weft.core.definition.suggest import nearest
from weft.core.rows import ORDINAL_BITS, Pin, RunRow
from weft.core.states import TERMINAL
from weft.core.workflow import Workflow
from weft.operations.errors import Ambiguous, NotFound
from weft.operations.reading.labels import Labels
from weft.operations.replies import AttemptInfo, RunInfo, TaskInfo
from weft.store.queries import RunView, TaskView

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

PAGE = 1000
SCAN_MAX = 5000  # tasks looked at for one page; a filter that few pass leaves it short, and says where to go on
_ID = re.compile(r"^[0-9a-z-]{1,64}$")
_RUN_NAMES = frozenset(RunInfo.__struct_fields__)


def find_run(access: "StoreAccess", ref: str) -> tuple[int, str]:
    """(number, id) of a run named by its id, a unique prefix, or `last`. To the token of an attempt other runs are
    as if they were not there."""
    if access.scope is not None:
        if access.scope.is_own(ref):
            return access.scope.run_no, access.scope.run_id
        if not access.scope.sees(ref):
            raise NotFound(f"there is no run {ref}")
    if ref == "last":
        rows = access.read("run_last")
        if not rows:
            raise NotFound("there are no runs yet")
        return rows[0][0], rows[0][1]
    if not _ID.match(ref):
        raise NotFound(f"{ref!r} is not a run id")
    rows = access.read("runs_by_prefix", ref, ref + "~")
    exact = [row for row in rows if row[1] == ref]
    if exact:
        rows = exact
    if not rows:
        raise NotFound(f"there is no run {ref}")
    if len(rows) > 1:
        raise Ambiguous(f"{ref} could be any of {', '.join(row[1] for row in rows)}")
    return rows[0][0], rows[0][1]


def run_row(access: "StoreAccess", no: int) -> RunRow:
    return RunView.of(access.read("run_shown", no)[0]).run


def run_info(access: "StoreAccess", ref: str) -> RunInfo:
    no, _ = find_run(access, ref)
    return run_infos(access.read("run_shown", no))[0]


def run_infos(rows: list[Any]) -> list[RunInfo]:
    out = []
    for view in map(RunView.of, rows):
        values = {k: v for k, v in msgspec.structs.asdict(view.run).items() if k in _RUN_NAMES}
        values |= {"halted": bool(view.run.halted), "paused": bool(view.run.paused)}
        values |= {"parent": view.parent_id, "root": view.root_id}
        values |= {"labels": msgspec.json.decode(view.labels), "trigger": view.trigger, "late": bool(view.late)}
        values |= {"taken_from": view.taken_from, "backfill": view.backfill}
        out.append(RunInfo(**values, inputs=msgspec.json.decode(view.inputs), source=view.source, key=view.key))
    return out


def workflow_of(access: "StoreAccess", ref: str) -> Workflow:
    return access.workflow(run_row(access, find_run(access, ref)[0]).workflow)


def is_resting(access: "StoreAccess", run: RunInfo) -> bool:
    """Whether a run that is advanced by hand has nothing to do until it is advanced."""
    if run.finished or run.advance_state != "paused" or run.active:
        return False
    return not access.read("run_at_work", run.no << ORDINAL_BITS, (run.no + 1) << ORDINAL_BITS)[0][0]


class TaskFilter(msgspec.Struct, kw_only=True):
    """`workflow` is a name or a hash, `node` a name or a session that runs the task or ran it last. `elements_of`
    is a mapped task of the run."""

    states: list[Any] | None = None
    kinds: list[Any] | None = None
    workflow: str | None = None
    node: str | None = None
    elements_of: str | None = None
    old_generations: bool = False


def task_page(
    access: "StoreAccess", run: str | None, task: str | None, filters: TaskFilter, after: int, limit: int
) -> tuple[list[TaskInfo], int | None]:
    """A page of tasks in the order of their ids, and where the next page starts (None: this was the last)."""
    low, high, at = after, 2**62, None
    if run is not None:
        no, _ = find_run(access, run)
        low, high = max(after, (no << ORDINAL_BITS) - 1), (no + 1) << ORDINAL_BITS
        if filters.elements_of is not None:  # their ids come after those of all tasks
            low = max(low, (no << ORDINAL_BITS) + len(_mapped(access, no, filters.elements_of).tasks) - 1)
        if task is not None:
            pos, idx = task_position(access, no, task)
            at = (no, f"[{pos}]", idx, filters.old_generations)
    elif filters.states is not None and TERMINAL.isdisjoint(filters.states):
        # A run that has ended has no open tasks. Beside 3,000,000 finished ones PostgreSQL took 1.7 s without this.
        first = access.read("run_first_open")
        if not first:
            return [], None
        low = max(low, (first[0][0] << ORDINAL_BITS) - 1)
    states = None if filters.states is None else msgspec.json.encode(filters.states).decode()
    read_all = filters.kinds is None and filters.workflow is None and filters.node is None
    read_all = read_all and filters.elements_of is None
    page = limit if read_all else PAGE
    found: list[TaskInfo] = []
    labels = Labels(access)
    scanned = 0
    while True:
        if at is None:
            rows = access.read("tasks_page", low, high, states, filters.old_generations, page)
        else:
            rows = [row for row in access.read("tasks_at", *at) if row[0] > low][:page]
        for row in rows:
            view = TaskView.of(row)
            info = task_info(access, view, labels)
            if _level_plan(access, info, view.workflow, filters):
                found.append(info)
                if len(found) == limit:
                    return found, view.task.id
        scanned += len(rows)
        if len(rows) < page:
            return found, None
        low = rows[-1][0]
        if scanned >= SCAN_MAX:
            return found, low


def _level_plan(access: "StoreAccess", task: TaskInfo, hash: str, filters: TaskFilter) -> bool:
    return (
        (filters.states is None or task.state in filters.states)
        and (filters.kinds is None or task.kind in filters.kinds)
        and (filters.node is None or filters.node in (task.node, task.session))
        and (filters.workflow is None or filters.workflow in (hash, access.workflow(hash).name))
        and (filters.elements_of is None or (task.idx >= 0 and task.name.rpartition(".")[0] == filters.elements_of))
    )


def _mapped(access: "StoreAccess", run_no: int, task: str) -> Workflow:
    """The run's workflow, which has this task."""
    task_position(access, run_no, task)
    return access.workflow(run_row(access, run_no).workflow)


def task_position(access: "StoreAccess", run_no: int, task: str) -> tuple[int, int]:
    """(position in the workflow, index) of a task by its name."""
    workflow = access.workflow(run_row(access, run_no).workflow)
    found = workflow.place(task)
    if found is None:
        raise no_task(task, workflow.position)
    return found


def no_task(task: str, known: Collection[str]) -> NotFound:
    """`known` are the names of the run's tasks."""
    stem, _, index = task.rpartition(".")
    meant = nearest(stem if stem and index.isdecimal() else task, known)
    return NotFound(f"the run has no task {task}" + (f"; did you mean {meant!r}?" if meant else ""))


def task_info(access: "StoreAccess", view: TaskView, labels: Labels | None = None) -> TaskInfo:
    """`labels` are those of the page that it is on."""
    t = view.task
    claimed = t.state == "running" and t.session is not None
    workflow = access.workflow(view.workflow)
    definition = workflow.tasks[t.pos]
    levels = workflow.levels if workflow.level_plan is None else workflow.level_plan.at
    return TaskInfo(
        run_id=view.run_id,
        name=definition.called(t.idx),
        pos=t.pos, idx=t.idx, level=levels[t.pos], kind=definition.kind,
        needs=[workflow.tasks[p].name for p in definition.needs],
        state=t.state, generation=t.generation, attempt=t.attempt, failures=t.failures, lost=t.lost,
        elements=t.elements, open=t.open, ready_at=t.ready_at, wake_at=t.wake_at, claimed_at=t.claimed_at,
        started_at=t.started_at, finished_at=t.finished_at, reason=t.reason,
        node=view.node or view.attempt_node, session=t.session or view.attempt_session, exit_code=view.exit_code,
        allow_failure=definition.allow_failure, cached=_source(view.cached), held=t.held,
        claimed_by=view.node if claimed else None, claim_expires_at=view.lease_until if claimed else None,
        claim_attempt=t.attempt if claimed else None,
        child=view.child_id,
        label=(labels or Labels(access)).of(t.run_no, definition, t.pos, t.idx, t.generation),
    )  # fmt: skip


def _source(cached: str | None) -> dict[str, Any] | None:
    return None if cached is None else msgspec.json.decode(cached)


def one_task(access: "StoreAccess", run: str, task: str) -> TaskInfo:
    found, _ = task_page(access, run, task, TaskFilter(), 0, 10)
    if not found:
        raise NotFound(f"the run has no task {task} (yet)")
    return found[-1]


def attempts_of(access: "StoreAccess", run: str, task: str) -> list[AttemptInfo]:
    """All attempts of a task, of all generations; the one that runs now is the last."""
    no, run_id = find_run(access, run)
    pos, idx = task_position(access, no, task)
    out = [
        AttemptInfo(
            run_id=run_id, task=task, attempt=attempt, generation=generation, session=session, outcome=outcome,
            exit_code=exit_code, error=error, claimed_at=claimed, started_at=started, finished_at=finished,
            result=None if result is None else msgspec.json.decode(result), node=node, cached=_source(cached),
        )
        for attempt, generation, session, outcome, exit_code, error, claimed, started, finished, result, node,
            cached in access.read("attempts_of_task", no, pos, idx)
    ]  # fmt: skip
    now = one_task(access, run_id, task)
    if now.state == "running" and (now.session or now.child) and now.elements is None and now.held is None:
        out.append(
            AttemptInfo(
                run_id=run_id, task=task, attempt=now.attempt, generation=now.generation,
                session=now.session or "", outcome="running", exit_code=None, error=None,
                claimed_at=now.claimed_at, started_at=now.started_at, finished_at=None, result=None, node=now.node,
            )
        )  # fmt: skip
    return out


def pins_of(access: "StoreAccess", ref: str) -> list[Pin]:
    """The versions that names of workflows mean in the whole family; enough to start any run of it anew."""
    no, _ = find_run(access, ref)
    return [Pin(*row) for row in access.read("pins_of_root", run_row(access, no).root)]


def workflow_hashes(access: "StoreAccess", ref: str) -> list[str]:
    """The run's own workflow, and those that its tasks may run."""
    own = workflow_of(access, ref).hash
    pins = pins_of(access, ref)
    found = {own: None}
    pending = [own]
    for hash in pending:
        for pin in pins:
            if pin.workflow == hash and pin.child not in found:
                found[pin.child] = None
                pending.append(pin.child)
    return list(found)


def family_of(access: "StoreAccess", ref: str) -> Iterator[tuple[int, str]]:
    """(number, id) of a run and of all that its tasks started, at any depth, in the order of their numbers."""
    no, run_id = find_run(access, ref)
    below = {no: None}
    yield no, run_id
    for child, id, parent in access.read("runs_of_family", no):  # a child has a higher number than its parent
        if parent is not None and parent >> ORDINAL_BITS in below:
            below[child] = None
            yield child, id
