"""`why`: what a task waits for, from the scheduler's own predicates."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from weft.core.explain import NodeView, Situation, explain
from weft.core.placement.demands import holder_of
from weft.core.rows import ORDINAL_BITS, WHOLE, DeadlineRow, HandleRow, TaskRow
from weft.core.workflow import TaskDef
from weft.operations.errors import NotFound
from weft.operations.reading.budgets import budgets_for
from weft.operations.reading.placement import demand_body, node_views, pool_views
from weft.operations.reading.runs import find_run, one_task, run_info, run_row, task_position
from weft.operations.replies import Explanation, RunInfo
from weft.store.queries import RunView, TaskView

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

WHY_MAX = 50


class Explanations(msgspec.Struct, kw_only=True):
    explanations: list[Explanation]


def why(access: "StoreAccess", ref: str, task: str | None) -> list[Explanation]:
    """One task, or those of a run that have not ended (failures first where all have)."""
    no, run_id = find_run(access, ref)
    run, info = run_row(access, no), run_info(access, run_id)
    workflow = access.workflow(run.workflow)
    if task is not None:
        pos, idx = task_position(access, no, task)
        views = _tasks_at(access, no, [pos], idx)
        if not views:
            raise _no_element(access, run_id, workflow.tasks[pos], task)
    else:
        live = ["pending", "queued", "scheduled", "waiting", "running"]
        views = _tasks_in(access, no, live)
        if not views:
            views = _tasks_in(access, no, ["failed", "dead_letter", "skipped", "cancelled"])
    rows = [view.task for view in views]
    nodes = [_for_family(node, info) for node in node_views(access)]
    names = {node.facts.session: node.facts.name for node in nodes}
    ahead = _ahead(access, rows)
    queued = access.read("tasks_queued_by_head_start", no)
    positions = dict.fromkeys(pos for row in rows for pos in workflow.tasks[row.pos].needs)
    needs = {need.task.pos: need.task for need in _tasks_at(access, no, list(positions), -1)}
    out = []
    late = _late(access, no) if info.late else {}
    for view in views:
        row = view.task
        budgets, spent = budgets_for(access, row)
        demand = row.demand if workflow.own is None else workflow.own[0]
        situation = Situation(
            run, row, workflow, needs, nodes, demand_body(access, demand), ahead.get(row.id, 0), access.now(),
            names.get(row.session or holder_of(row.demand) or ""), pool_views(access, row.demand),
            names.get(run.owner or ""),
            sum(count for head_start, count in queued if head_start > row.head_start),
            _child(access, row),
            _handle(access, row) if workflow.tasks[row.pos].remote else None,
            budgets, spent, _origin(view.cached),
        )  # fmt: skip
        summary, details = explain(situation)
        details = [*details, *late.get(row.pos, ()), *late.get(WHOLE, ())]
        name = workflow.tasks[row.pos].called(row.idx)
        out.append(Explanation(task=name, state=row.state, summary=summary, details=details))
    return out


def _late(access: "StoreAccess", no: int) -> dict[int, list[str]]:
    """Deadlines that were not met, by position; of the run, at WHOLE."""
    out: dict[int, list[str]] = {}
    for values in access.read("deadlines_of_run", no):
        row = DeadlineRow(*values)
        if row.state == "late":
            when = datetime.fromtimestamp(row.at / 1000, UTC).isoformat(timespec="seconds")
            what = "the run" if row.pos == WHOLE else "it"
            verb = "started" if row.by == "start_by" else "ended"
            out.setdefault(row.pos, []).append(f"late: {what} should have {verb} by {when}")
    return out


def _no_element(access: "StoreAccess", run_id: str, definition: TaskDef, task: str) -> NotFound:
    if not definition.mapped:
        return NotFound(f"the run has no task {task}: {definition.name} is one task, without elements")
    count = one_task(access, run_id, definition.name).elements
    if count is None:
        return NotFound(f"the run has no task {task} yet: {definition.name} gets its elements when it starts")
    return NotFound(f"the run has no task {task}: {definition.name} has {count:,} elements, numbered from 0")


def _for_family(node: NodeView, run: RunInfo) -> NodeView:
    """A node that works for the root works for this run, too."""
    return msgspec.structs.replace(node, scope=run.id) if node.scope == run.root else node


def _child(access: "StoreAccess", row: TaskRow) -> tuple[str, str, str] | None:
    if row.child is None:
        return None
    found = access.read("run_shown", row.child)
    child = RunView.of(found[0]).run if found else None
    return None if child is None else (child.id, child.name, child.state)


def _origin(cached: str | None) -> str | None:
    source = {} if cached is None else msgspec.json.decode(cached)
    return f"{source['task']} of run {source['run']}" if source.get("taken_over") else None


def _handle(access: "StoreAccess", row: TaskRow) -> HandleRow | None:
    rows = access.read("handle_of_task", row.id)
    return HandleRow(*rows[0]) if rows else None


def _tasks_in(access: "StoreAccess", no: int, states: list[str]) -> list[TaskView]:
    """The first ones of a run in these states."""
    low, high = (no << ORDINAL_BITS) - 1, (no + 1) << ORDINAL_BITS
    rows = access.read("tasks_page", low, high, msgspec.json.encode(states).decode(), False, WHY_MAX)
    return list(map(TaskView.of, rows))


def _tasks_at(access: "StoreAccess", no: int, positions: Sequence[int], idx: int) -> list[TaskView]:
    rows = access.read("tasks_at", no, msgspec.json.encode(positions).decode(), idx, False)
    return list(map(TaskView.of, rows))


def _ahead(access: "StoreAccess", rows: list[TaskRow]) -> dict[int, int]:
    """How many tasks of the same demand are in the queue before each of these. Each part of the queue is counted
    once, not from its beginning for each of them."""
    counted: dict[int, int] = {}
    place: dict[str, tuple[int, int, int]] = {}  # by demand: rank, id, how many are before that
    for row in sorted((r for r in rows if r.state == "queued"), key=lambda r: (r.rank, r.id)):
        rank, id, before = place.get(row.demand, (-(2**62), 0, 0))
        before += access.read("tasks_queued_between", row.demand, rank, id, row.rank, row.id)[0][0]
        counted[row.id] = before
        place[row.demand] = (row.rank, row.id, before)
    return counted
