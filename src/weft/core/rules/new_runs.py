"""A run that did not exist: its row, its context, all its tasks pending, and those that need nothing made ready."""

from collections.abc import Sequence
from typing import Any

import msgspec

from weft.core.decision.draft import Draft, Rule, add_first_tasks
from weft.core.placement.demands import SPENDS, demand_of, open_to_all
from weft.core.rows import RunRow, TaskRow
from weft.core.rules.budgets import first_budget
from weft.core.rules.deadlines import begin_deadlines
from weft.core.rules.levels import begin_level
from weft.core.rules.order import head_starts_of
from weft.core.rules.settle import decide_start, start_plain, started_at_once
from weft.core.rules.takeover import Takeover, take_over
from weft.core.workflow import TaskDef, Workflow


class NewRun(msgspec.Struct):
    """What whoever starts a run says about it."""

    no: int
    id: str
    workflow: str
    inputs: str  # JSON
    priority: int
    source: str | None
    labels: str  # JSON
    fresh: bool = False  # results kept by `cache` are not used
    max_parallel: int | None = None
    key: str | None = None
    body_hash: str = ""
    root: int | None = None  # None: itself
    parent: int | None = None
    manual_advance: bool = False  # paused after each level
    paused: bool = False  # as the run is whose task starts it
    trigger: str | None = None  # that made it
    cause: str | None = None  # what that fired for
    source_run: RunRow | None = None  # whose results it takes over
    backfill: str | None = None  # that it is part of


def create_run(draft: Draft, new: NewRun) -> RunRow:
    workflow = draft.workflows[new.workflow]
    now = draft.now
    limit = new.max_parallel if new.max_parallel is not None else workflow.max_parallel
    run = RunRow(
        new.no, new.id, workflow.name, new.workflow, now, priority=new.priority, max_parallel=limit,
        deadline_at=None if workflow.timeout_ms is None else now + workflow.timeout_ms,
        root=new.no if new.root is None else new.root, parent=new.parent, paused=new.paused,
    )  # fmt: skip
    if workflow.level_plan is not None:
        run.level = 0
        run.advance_state = "level" if new.manual_advance else None
    run.dirty = True  # inserted, not updated; still seen by the rules that go through changed runs
    draft.runs[run.no] = run
    draft.dirty_runs.append(run)
    extra = {
        "inputs": new.inputs, "key": new.key, "body_hash": new.body_hash, "source": new.source,
        "labels": new.labels, "fresh": new.fresh, "trigger": new.trigger,
        "taken_from": None if new.source_run is None else new.source_run.no, "backfill": new.backfill,
    }  # fmt: skip
    draft.created.runs[run.no] = (run, extra)
    begin_deadlines(draft, run, workflow)
    for key in sorted(workflow.context):
        text = msgspec.json.encode(workflow.context[key]).decode()
        draft.values.context.append((run.no, key, text, None, None))
    data: dict[str, Any] = {"workflow": new.workflow, "tasks": len(workflow.tasks)}
    if new.trigger is not None:
        data |= {"trigger": new.trigger, "cause": new.cause}
    if new.backfill is not None:
        data["backfill"] = new.backfill
    if new.source_run is not None:
        data["taken_from"] = new.source_run.id
    if new.paused:
        data["paused"] = True
    draft.event(run.no, "submitted", data)
    return run


def note_demand(draft: Draft, workflow: Workflow, definition: TaskDef) -> str:
    """Nodes hear of demands as they are stored. Of a run that one node owns there is only one."""
    if workflow.own is not None:
        draft.created.demands[workflow.own[0]] = workflow.own[1]
        return workflow.own[0]
    demand, body = demand_of(definition)
    draft.created.demands[demand] = body
    if definition.scored:
        draft.created.demands[open_to_all(demand)] = body  # should no node be picked in time
    return demand


def _demands(draft: Draft, workflow: Workflow) -> list[str]:
    """By position. Thousands of tasks share one: those that ask for nothing but an executor are noted once."""
    plain: dict[tuple[str, str | None], str] = {}
    out = []
    for definition in workflow.tasks:
        if definition.requires or definition.pools or definition.scored or workflow.own is not None:
            out.append(note_demand(draft, workflow, definition))
            continue
        key = (definition.kind, definition.spec["inline"] if definition.kind == "inline" else None)
        demand = plain.get(key)
        if demand is None:
            demand = note_demand(draft, workflow, definition)
            if not definition.spends:  # its budget is in the demand
                plain[key] = demand
        out.append(demand)
    return out


def create_tasks(
    draft: Draft,
    run: RunRow,
    following: list[TaskRow],
    durations: Sequence[tuple[int, int]],
    takeover: Takeover | None = None,
) -> Rule:
    """`following`: what ended at once, because its condition said so. `durations`: of an earlier run (order.py)."""
    workflow = draft.workflows[run.workflow]
    heads = head_starts_of(workflow, durations)
    rows = add_first_tasks(draft, run, _demands(draft, workflow), heads)
    if any(SPENDS in demand for demand in draft.created.demands):
        first_budget(draft, run.no, workflow)
    if run.level is not None:
        yield from begin_level(draft, run, decide_start, following)
        return
    if takeover is not None:
        following += take_over(draft, run, takeover)
        rows = [row for row in rows if row.state == "pending"]
    ready = [row for row in rows if row.open == 0]
    at = start_plain(draft, run, workflow, ready, 0)
    while at < len(ready):
        if not started_at_once(draft, run, workflow, ready[at]):
            yield from decide_start(draft, run, workflow, ready[at], following)
        at = start_plain(draft, run, workflow, ready, at + 1)
