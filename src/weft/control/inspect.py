"""`why` and `verify`: a run looked at with the engine's own predicates."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from weft.control.placing import demand_body, node_views, pool_views
from weft.control.records import Explanation, NotFound, RunInfo, Verification
from weft.core.demands import holder_of
from weft.core.explain import NodeView, Situation, explain
from weft.core.invariants import check_family, check_history, check_pools, check_run, current_rows
from weft.core.replay import Replay
from weft.core.rows import ORDINAL_BITS, PoolRow, RunRow, TaskRow
from weft.core.rules.maps import array_hash
from weft.core.workflow import TaskDef
from weft.store.queries import RUN_COLUMNS, TASK_COLUMNS

if TYPE_CHECKING:
    from weft.control.local import LocalControl

WHY_MAX = 50


def why(control: "LocalControl", ref: str, task: str | None) -> list[Explanation]:
    """One task, or those of a run that have not ended (failures first where all have)."""
    no, run_id = control.find(ref)
    run, info = _run_row(control, no), control.run(ref)
    workflow = control.workflow(ref)
    if task is not None:
        pos, idx = control._place(no, task)
        rows = _tasks_at(control, no, [pos], idx)
        if not rows:
            raise _no_element(control, run_id, workflow.tasks[pos], task)
    else:
        live = ["pending", "queued", "scheduled", "waiting", "running"]
        rows = _tasks_in(control, no, live)
        if not rows:
            rows = _tasks_in(control, no, ["failed", "dead_letter", "skipped", "cancelled"])
    nodes = [_for_family(node, info) for node in node_views(control)]
    names = {node.facts.session: node.facts.name for node in nodes}
    ahead = _ahead(control, rows)
    positions = dict.fromkeys(pos for row in rows for pos in workflow.tasks[row.pos].needs)
    needs = {need.pos: need for need in _tasks_at(control, no, list(positions), -1)}
    out = []
    for row in rows:
        demand = row.demand if workflow.own is None else workflow.own[0]
        situation = Situation(
            run, row, workflow, needs, nodes, demand_body(control, demand), ahead.get(row.id, 0), control.now(),
            names.get(row.session or holder_of(row.demand) or ""), pool_views(control, row.demand),
            names.get(run.owner or ""),
            _child(control, row),
        )  # fmt: skip
        summary, details = explain(situation)
        name = workflow.tasks[row.pos].called(row.idx)
        out.append(Explanation(task=name, state=row.state, summary=summary, details=details))
    return out


def _no_element(control: "LocalControl", run_id: str, definition: TaskDef, task: str) -> NotFound:
    if not definition.mapped:
        return NotFound(f"the run has no task {task}: {definition.name} is one task, without elements")
    count = control.task(run_id, definition.name).elements
    if count is None:
        return NotFound(f"the run has no task {task} yet: {definition.name} gets its elements when it starts")
    return NotFound(f"the run has no task {task}: {definition.name} has {count:,} elements, numbered from 0")


def _for_family(node: NodeView, run: RunInfo) -> NodeView:
    """A node that works for the root works for this run, too."""
    return msgspec.structs.replace(node, scope=run.id) if node.scope == run.root else node


def _child(control: "LocalControl", row: TaskRow) -> tuple[str, str, str] | None:
    if row.child is None:
        return None
    found = control._read("run_shown", row.child)
    child = RunRow(*found[0][: len(RUN_COLUMNS)]) if found else None
    return None if child is None else (child.id, child.name, child.state)


def verify(control: "LocalControl", ref: str) -> Verification:
    """Rebuild the run from its events and compare; then check the invariants between its rows. What its tasks started
    is verified with it."""
    with control.snapshot():
        (no, run_id), *others = control.family(ref)
        found = _verify(control, no, run_id)
        for child_no, child_id in others:
            child = _verify(control, child_no, child_id)
            found.events += child.events
            found.tasks += child.tasks
            found.differences += [f"run {child_id}: {difference}" for difference in child.differences]
        if others and control.run(run_id).root == run_id:
            runs = [_run_row(control, one) for one, _ in ((no, run_id), *others)]
            every = [row for run in runs for row in _tasks_of(control, run.no)]
            found.differences += check_family(runs, every)
        pools = [PoolRow(*row) for row in control._read("pools_all")]
        holding = [row[4] for row in control._read("pool_holders")] if pools else []
        found.differences += check_pools(pools, holding)
    return found


def _verify(control: "LocalControl", no: int, run_id: str) -> Verification:
    workflow = control.workflow(run_id)
    run = _run_row(control, no)
    rows = _tasks_of(control, no)
    replay = Replay(workflow, run.limited)
    events = 0
    for kind, place, data in _events(control, no):
        replay.apply(kind, place, data)
        events += 1
    hashes = dict(control._read("result_hashes", no << ORDINAL_BITS, (no + 1) << ORDINAL_BITS))
    arrays = {(pos, generation): text for pos, generation, text in control._read("arrays_of_run", no)}
    replay.settle()
    differences = check_run(run, rows, workflow)
    current = current_rows(rows)
    for pos, generation in sorted({*arrays, *replay.arrays}):
        text = arrays.get((pos, generation))
        if text is None or array_hash(text) != replay.arrays.get((pos, generation)):
            name = workflow.tasks[pos].name
            differences.append(f"{name}: what it maps over in generation {generation} is not what its event says")
    differences += check_history(run, current, workflow, replay, hashes)
    return Verification(run_id=run_id, events=events, tasks=len(current), differences=differences)


def _run_row(control: "LocalControl", no: int) -> RunRow:
    row = control._read("run_shown", no)[0]
    return RunRow(*row[: len(RUN_COLUMNS)])


def _tasks_in(control: "LocalControl", no: int, states: list[str]) -> list[TaskRow]:
    """The first ones of a run in these states."""
    low, high = (no << ORDINAL_BITS) - 1, (no + 1) << ORDINAL_BITS
    return _task_rows(control._read("tasks_page", low, high, msgspec.json.encode(states).decode(), False, WHY_MAX))


def _tasks_at(control: "LocalControl", no: int, positions: Sequence[int], idx: int) -> list[TaskRow]:
    return _task_rows(control._read("tasks_at", no, msgspec.json.encode(positions).decode(), idx, False))


def _tasks_of(control: "LocalControl", no: int) -> list[TaskRow]:
    """All of a run, in all generations."""
    return _task_rows(control._read("tasks_of_run", no))


def _task_rows(rows: list[Any]) -> list[TaskRow]:
    return [TaskRow(*row[: len(TASK_COLUMNS)]) for row in rows]


def _ahead(control: "LocalControl", rows: list[TaskRow]) -> dict[int, int]:
    """How many tasks of the same demand are in the queue before each of these. Each part of the queue is counted
    once, not from its beginning for each of them."""
    counted: dict[int, int] = {}
    place: dict[str, tuple[int, int, int]] = {}  # by demand: rank, id, how many are before that
    for row in sorted((r for r in rows if r.state == "queued"), key=lambda r: (r.rank, r.id)):
        rank, id, before = place.get(row.demand, (-(2**62), 0, 0))
        before += control._read("tasks_queued_between", row.demand, rank, id, row.rank, row.id)[0][0]
        counted[row.id] = before
        place[row.demand] = (row.rank, row.id, before)
    return counted


def _events(control: "LocalControl", no: int) -> Iterator[tuple[str, tuple[int, int] | None, dict[str, object]]]:
    after = 0
    while True:
        rows = control._read("events_found_of_run", after, None, None, None, None, 5000, 2**62, no)
        for seq, _, _, pos, idx, kind, _, data, *_ in rows:
            yield kind, None if pos is None else (pos, idx), msgspec.json.decode(data)
            after = seq
        if len(rows) < 5000:
            return
