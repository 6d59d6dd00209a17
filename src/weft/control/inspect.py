"""`why` and `verify`: a run looked at with the engine's own predicates."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from weft.control.placing import demand_body, node_views, pool_views
from weft.control.records import Explanation, RunInfo, Verification
from weft.core.demands import holder_of
from weft.core.explain import NodeView, Situation, explain
from weft.core.invariants import check_family, check_pools, check_run, current_rows
from weft.core.replay import Replay
from weft.core.rows import ORDINAL_BITS, PoolRow, RunRow, TaskRow
from weft.core.rules.maps import array_hash
from weft.core.states import TERMINAL
from weft.store.queries import RUN_COLUMNS, TASK_COLUMNS

if TYPE_CHECKING:
    from weft.control.local import LocalControl

WHY_MAX = 50


def why(control: "LocalControl", ref: str, task: str | None) -> list[Explanation]:
    """One task, or those of a run that have not ended (failures first where all have)."""
    no, _ = control.find(ref)
    run, info = _run_row(control, no), control.run(ref)
    workflow = control.workflow(ref)
    if task is not None:
        pos, idx = control._place(no, task)
        rows = _task_rows(control, no, None, pos, idx)[-1:]
    else:
        live = ["pending", "queued", "scheduled", "waiting", "running"]
        rows = _task_rows(control, no, live, None, None, WHY_MAX)
        if not rows:
            rows = _task_rows(control, no, ["failed", "dead_letter", "skipped", "cancelled"], None, None, WHY_MAX)
    nodes = [_for_family(node, info) for node in node_views(control)]
    names = {node.facts.session: node.facts.name for node in nodes}
    out = []
    for row in rows:
        definition = workflow.tasks[row.pos]
        needs = {p: _task_rows(control, no, None, p, -1)[-1] for p in definition.needs[:200]}
        ahead = (
            control._read("tasks_queued_before", row.demand, row.rank, row.id)[0][0] if row.state == "queued" else 0
        )
        demand = row.demand if workflow.own is None else workflow.own[0]
        situation = Situation(
            run, row, workflow, needs, nodes, demand_body(control, demand), ahead, control.now(),
            names.get(row.session or holder_of(row.demand) or ""), pool_views(control, row.demand),
            names.get(run.owner or ""),
            _child(control, row),
        )  # fmt: skip
        summary, details = explain(situation)
        name = workflow.tasks[row.pos].called(row.idx)
        out.append(Explanation(task=name, state=row.state, summary=summary, details=details))
    return out


def _for_family(node: NodeView, run: RunInfo) -> NodeView:
    """A node that works for the root works for this run, too."""
    return msgspec.structs.replace(node, scope=run.id) if node.scope == run.root else node


def _child(control: "LocalControl", row: TaskRow) -> tuple[str, str, str] | None:
    if row.child is None:
        return None
    found = control._read("runs_page", row.child + 1, None, None, f"[{row.child}]", 1, True)
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
            every = [row for run in runs for row in _task_rows(control, run.no, None, None, None, 2**31, old=True)]
            found.differences += check_family(runs, every)
        pools = [PoolRow(*row) for row in control._read("pools_all")]
        holding = [row[4] for row in control._read("pool_holders")] if pools else []
        found.differences += check_pools(pools, holding)
    return found


def _verify(control: "LocalControl", no: int, run_id: str) -> Verification:
    workflow = control.workflow(run_id)
    run = _run_row(control, no)
    rows = _task_rows(control, no, None, None, None, 2**31)
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
    if run.state != replay.state:
        differences.append(f"the run is {run.state}, its events say {replay.state}")
    if run.level != replay.level and run.level_open is not None:
        differences.append(f"the run is at level {run.level}, its events say {replay.level}")
    if len(current) != len(replay.tasks):
        differences.append(f"{len(current)} tasks are stored, the events tell of {len(replay.tasks)}")
    for row in current:
        told = replay.tasks.get((row.pos, row.idx))
        name = workflow.tasks[row.pos].called(row.idx)
        if told is None:
            differences.append(f"{name}: no event tells of it")
            continue
        unsettled_run = row.state == "pending" and told.state == "queued" and (run.sweep is not None)
        running_child = row.child is not None and row.state == "running"  # its timeout, which no event tells
        pairs = [
            ("state", row.state, row.state if unsettled_run else told.state),
            ("attempt", row.attempt, told.attempt),
            ("failures", row.failures, told.failures),
            ("lost", row.lost, told.lost),
            ("held", row.held, told.held),
            ("wake_at", None if running_child else row.wake_at, told.wake_at if row.state not in TERMINAL else None),
            ("result", hashes.get(row.id), told.hash),
        ]
        differences += [
            f"{name}: {what} is {have}, its events say {want}" for what, have, want in pairs if have != want
        ]
    return Verification(run_id=run_id, events=events, tasks=len(current), differences=differences)


def _run_row(control: "LocalControl", no: int) -> RunRow:
    row = control._read("runs_page", no + 1, None, None, f"[{no}]", 1, True)[0]
    return RunRow(*row[: len(RUN_COLUMNS)])


def _task_rows(
    control: "LocalControl",
    no: int,
    states: list[str] | None,
    pos: int | None,
    idx: int | None,
    limit: int = 100,
    *,
    old: bool = False,
) -> list[TaskRow]:
    low, high = (no << ORDINAL_BITS) - 1, (no + 1) << ORDINAL_BITS
    wanted = None if states is None else msgspec.json.encode(states).decode()
    rows = control._read("tasks_page", low, high, wanted, pos, idx, old, limit)
    return [TaskRow(*row[: len(TASK_COLUMNS)]) for row in rows]


def _events(control: "LocalControl", no: int) -> Iterator[tuple[str, tuple[int, int] | None, dict[str, object]]]:
    after = 0
    while True:
        rows = control._read("events_page", no, after, 5000)
        for seq, _, _, pos, idx, kind, _, data, _ in rows:
            yield kind, None if pos is None else (pos, idx), msgspec.json.decode(data)
            after = seq
        if len(rows) < 5000:
            return
