"""A new run: all its tasks are stored pending, and those that need nothing are queued at once."""

from typing import Any

import msgspec

from weft.core.commands import Refused, Reply, Submit
from weft.core.demands import demand_of, open_to_all
from weft.core.draft import Draft, Rule
from weft.core.needs import NextRun, RunByKey, Workflow
from weft.core.rows import WHOLE, RunRow, TaskRow
from weft.core.rules.levels import begin_pass
from weft.core.rules.pools import check_pools
from weft.core.rules.settle import decide_start, settle


def submit(draft: Draft, command: Submit) -> Rule:
    if command.key is not None:
        (rows,) = yield (RunByKey(command.key),)
        if rows:
            run_id, existing, body_hash = rows[0]
            if body_hash != command.body_hash:
                raise Refused(
                    "conflict",
                    f"the key {command.key!r} belongs to run {run_id} with another definition or inputs",
                )
            return Reply(run_id=run_id, run_no=existing, existing=True)
    yield from check_pools(draft, draft.workflows[command.workflow])
    (numbers, stored) = yield (NextRun(), Workflow(command.workflow))
    if not stored:
        draft.new_workflow = (command.workflow, command.name, command.document)
    run = _new_run(draft, command, numbers[0])
    yield from _new_tasks(draft, run)
    return Reply(run_id=run.id, run_no=run.no, state=run.state)


def _new_run(draft: Draft, command: Submit, run_no: int) -> RunRow:
    workflow = draft.workflows[command.workflow]
    now = draft.now
    limit = command.max_parallel if command.max_parallel is not None else workflow.max_parallel
    run = RunRow(
        run_no, command.run_id, command.name, command.workflow, "pending", 1, command.priority, limit,
        False, None, None, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, now, None, None,
        None if workflow.timeout_ms is None else now + workflow.timeout_ms, None,
    )  # fmt: skip
    if workflow.passes is not None:
        run.level = 0
        run.pace = "go" if command.by_hand else None
    elif command.by_hand:
        raise Refused("invalid", "only a workflow with mode: levels can be moved on level by level")
    run.dirty = True  # inserted, not updated; still seen by the rules that go through changed runs
    draft.runs[run.no] = run
    draft.dirty_runs.append(run)
    extra: dict[str, Any] = {
        "inputs": command.inputs, "key": command.key, "body_hash": command.body_hash, "source": command.source,
        "labels": command.labels, "fresh": command.fresh,
    }  # fmt: skip
    draft.new_run = (run, extra)
    for key in sorted(workflow.context):
        text = msgspec.json.encode(workflow.context[key]).decode()
        draft.context.append((run.no, key, text, None, None))
    draft.event(run.no, "submitted", {"workflow": command.workflow, "tasks": len(workflow.tasks)})
    return run


def _new_tasks(draft: Draft, run: RunRow) -> Rule:
    workflow = draft.workflow_of(run)
    if workflow.own is not None:
        draft.new_demands[workflow.own[0]] = workflow.own[1]
    roots: list[TaskRow] = []
    for pos, definition in enumerate(workflow.tasks):
        demand, body = demand_of(definition)
        if workflow.own is not None:
            demand = workflow.own[0]
        else:
            draft.new_demands[demand] = body
            if definition.scored:
                draft.new_demands[open_to_all(demand)] = body  # should no node be picked in time
        after_all = definition.final and not definition.needs
        row = draft.new_task(run, pos, WHOLE, 1, demand, 1 if after_all else len(definition.needs))
        if row.open == 0:
            roots.append(row)
    following: list[TaskRow] = []
    if run.level is not None:
        yield from begin_pass(draft, run, decide_start, following)
        roots = []
    for row in roots:
        yield from decide_start(draft, run, workflow, row, following)
    yield from settle(draft, following)
