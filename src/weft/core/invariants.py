"""What must hold between the rows of a run, whatever happened. Tests, the simulation and `weft verify` all ask here.

`check_run` looks at one moment; `check_step` compares two moments of the same run.
"""

from collections.abc import Iterable, Mapping

from weft.core.history.replay import Replay
from weft.core.placement.budgets import NOTHING, RUN, Amount, limits, pool_scope, reserved, run_scope
from weft.core.placement.demands import budget_of, pools_of, private_demand, public
from weft.core.rows import (
    ORDINAL_BITS,
    BudgetRow,
    FireRow,
    HandleRow,
    LeadershipRow,
    MemoRow,
    PoolRow,
    RunRow,
    TaskRow,
    TriggerRow,
)
from weft.core.rules.readiness import can_still_start
from weft.core.states import ACTIVE, RUN_TERMINAL, TERMINAL, TRANSITIONS
from weft.core.workflow import Usage, Workflow


def current_rows(tasks: Iterable[TaskRow]) -> list[TaskRow]:
    """The newest generation at each place; elements beyond what their mapped task has now do not count."""
    newest: dict[tuple[int, int], TaskRow] = {}
    for task in tasks:
        known = newest.get((task.pos, task.idx))
        if known is None or known.generation < task.generation:
            newest[(task.pos, task.idx)] = task
    return [t for t in newest.values() if t.idx < 0 or t.idx < (newest[(t.pos, -1)].elements or 0)]


def check_run(run: RunRow, tasks: Iterable[TaskRow], workflow: Workflow) -> list[str]:
    rows = current_rows(tasks)
    found: list[str] = []
    for task in rows:
        found += [f"{workflow.tasks[task.pos].name}[{task.idx}] {text}" for text in _check_task(run, task, workflow)]
    counted = [
        t for t in rows
        if t.idx >= 0 or not workflow.tasks[t.pos].mapped or (t.elements is None and t.state in TERMINAL)
    ]  # fmt: skip
    expected = {
        "total": len(counted),
        "active": sum(1 for t in rows if t.state in ACTIVE and _holds_a_slot(t)),
        "open": sum(1 for t in rows if t.state not in TERMINAL),
        "open_main": sum(1 for t in rows if t.state not in TERMINAL and not workflow.tasks[t.pos].final),
    }
    for state in TERMINAL_SORTED:
        expected[state] = sum(1 for t in counted if t.state == state)
    for name, value in expected.items():
        if getattr(run, name) != value:
            found.append(f"run.{name} is {getattr(run, name)}, the tasks say {value}")
    if run.state == "succeeded" and any(t.state == "cancelled" and t.idx < 0 for t in rows):
        found.append("the run succeeded with a cancelled task")
    if (run.state in RUN_TERMINAL) != (expected["open"] == 0):
        found.append(f"the run is {run.state} with {expected['open']} tasks not ended")
    if run.max_parallel is not None and run.active > (run.max_parallel or 1):
        found.append(f"{run.active} tasks are admitted, max_parallel is {run.max_parallel}")
    if run.stop and any(t.state == "queued" and not can_still_start(run, workflow.tasks[t.pos]) for t in rows):
        found.append("the run was stopped and has queued tasks that are no handlers")
    if run.level is not None:
        found += _check_level(run, rows, workflow)
    if workflow.own is not None:  # a task that a claim held when the run was taken keeps the demand for an owner
        allowed = [workflow.own[0], *([] if run.owner is None else [private_demand(run.owner)])]
        for task in rows:
            if task.state == "queued" and task.demand not in allowed:
                found.append(
                    f"{workflow.tasks[task.pos].name}[{task.idx}] is queued for {task.demand}, not {allowed}"
                )
    return found


def check_history(
    run: RunRow, current: Iterable[TaskRow], workflow: Workflow, replay: Replay, hashes: Mapping[int, str | None]
) -> list[str]:
    """The tables say what the events say. `current`: the run's current rows; `hashes`: of their results, by id."""
    found: list[str] = []
    current = list(current)
    if run.state != replay.state:
        found.append(f"the run is {run.state}, its events say {replay.state}")
    if run.level != replay.level and run.level_open is not None:
        found.append(f"the run is at level {run.level}, its events say {replay.level}")
    if len(current) != len(replay.tasks):
        found.append(f"{len(current)} tasks are stored, the events name {len(replay.tasks)}")
    for row in current:
        replayed = replay.tasks.get((row.pos, row.idx))
        name = workflow.tasks[row.pos].called(row.idx)
        if replayed is None:
            found.append(f"{name}: no event names it")
            continue
        unsettled_run = row.state == "pending" and replayed.state == "queued" and (run.sweep is not None)
        running_child = row.child is not None and row.state == "running"  # its timeout, which no event names
        pairs = [
            ("state", row.state, row.state if unsettled_run else replayed.state),
            ("attempt", row.attempt, replayed.attempt),
            ("failures", row.failures, replayed.failures),
            ("lost", row.lost, replayed.lost),
            ("held", row.held, replayed.held),
            (
                "wake_at",
                None if running_child else row.wake_at,
                replayed.wake_at if row.state not in TERMINAL else None,
            ),
            ("result", hashes.get(row.id), replayed.hash),
        ]
        found += [f"{name}: {what} is {have}, its events say {want}" for what, have, want in pairs if have != want]
    return found


def _check_level(run: RunRow, rows: list[TaskRow], workflow: Workflow) -> list[str]:
    """Only the level at the cursor is worked on, and the cursor waits for all of it."""
    assert workflow.level_plan is not None
    assert run.level is not None
    found = []
    at = workflow.level_plan.at
    here = [t for t in rows if at[t.pos] == run.level]
    if run.level_open is not None:
        left = sum(1 for t in here if t.state not in TERMINAL and t.held is None)
        if run.level_open != left:
            found.append(f"run.level_open is {run.level_open}, the tasks say {left}")
    for task in rows:
        name = f"{workflow.tasks[task.pos].name}[{task.idx}]"
        begun = at[task.pos] < run.level or (at[task.pos] == run.level and run.level_open is not None)
        if task.state in ("queued", "running", "scheduled", "waiting") and not begun:
            found.append(f"{name} is {task.state}, but its level {at[task.pos]} has not begun")
        if at[task.pos] < run.level and task.state not in TERMINAL:
            found.append(f"{name} is {task.state}, but the cursor has moved past it")
        if task.held is not None and (at[task.pos] != run.level or task.state not in ("running", "waiting")):
            found.append(f"{name} is {task.state} and held in level {at[task.pos]}, the cursor is at {run.level}")
    return found


def check_handles(handles: Iterable[HandleRow], tasks: Mapping[int, TaskRow]) -> list[str]:
    """What an engine may still run belongs to the attempt of a running task, and there is one of it."""
    found = []
    unclosed: dict[int, HandleRow] = {}
    for handle in handles:
        if handle.state not in ("open", "orphaned"):
            continue
        if handle.task_id in unclosed:
            found.append(f"task {handle.task_id} has two handles: {unclosed[handle.task_id].name}, {handle.name}")
        unclosed[handle.task_id] = handle
        task = tasks.get(handle.task_id)
        if task is None or task.state != "running" or task.held is not None:
            found.append(f"{handle.name} may be running, its task is {task and task.state}")
        elif (handle.attempt, handle.session) != (task.attempt, task.session):
            found.append(f"{handle.name} is of {handle.session}, its task is held by {task.session}")
    return found


def check_pools(pools: Iterable[PoolRow], running: Iterable[str]) -> list[str]:
    """`running`: the demands of all running tasks. What a pool says is used are the tasks that hold a place."""
    held: dict[str, int] = {}
    for demand in running:
        for name in pools_of(demand):
            held[name] = held.get(name, 0) + 1
    return [
        f"the pool {pool.name} counts {pool.used} places as used, {held.get(pool.name, 0)} running tasks hold one"
        for pool in pools
        if pool.used != held.get(pool.name, 0)
    ]


def check_pools_step(before: Iterable[PoolRow], after: Iterable[PoolRow]) -> list[str]:
    """No place is taken beyond the size; one that was made smaller only drains."""
    was = {pool.name: pool.used for pool in before}
    return [
        f"the pool {pool.name} has {pool.size} places, and {pool.used} were taken"
        for pool in after
        if pool.used > pool.size and pool.used > was.get(pool.name, 0)
    ]


def check_budgets(
    budgets: Iterable[BudgetRow], running: Iterable[tuple[int, str]], spending: Mapping[int, Amount]
) -> list[str]:
    """`running`: id and demand of all running tasks; `spending`: of all tasks. What is reserved is what running tasks
    may still spend, and what a run has spent is what its tasks have. (A pool's spending can be set back, and outlives
    the runs.)"""
    held: dict[str, Amount] = {}
    for id, demand in running:
        budget = budget_of(demand)
        for scope in () if budget is None else (run_scope(id >> ORDINAL_BITS), *map(pool_scope, pools_of(demand))):
            amount = reserved(budget or Usage(), spending.get(id, NOTHING))
            held[scope] = held.get(scope, NOTHING).plus(amount)
    spent: dict[str, Amount] = {}
    for id, amount in spending.items():
        scope = run_scope(id >> ORDINAL_BITS)
        spent[scope] = spent.get(scope, NOTHING).plus(amount)
    found = []
    for row in budgets:
        said, real = Amount(row.usd_reserved, row.tokens_reserved), held.get(row.scope, NOTHING)
        if said != real:
            found.append(f"the budget {row.scope} has {said} reserved, its running tasks may still spend {real}")
        said, real = Amount(row.usd_spent, row.tokens_spent), spent.get(row.scope, NOTHING)
        if row.scope.startswith(RUN) and said != real:
            found.append(f"the budget {row.scope} counts {said} as spent, its tasks have spent {real}")
    return found


def check_budgets_step(before: Iterable[BudgetRow], after: Iterable[BudgetRow]) -> list[str]:
    """Nothing is reserved past a limit: only attempts that spend more than they may, and people, lead there."""
    was = {row.scope: row for row in before}
    found = []
    for row in after:
        old = was.get(row.scope)
        for unit, limit in limits(Usage(row.usd, row.tokens)):
            now = getattr(row, f"{unit}_reserved"), getattr(row, f"{unit}_spent")
            then = (0, 0) if old is None else (getattr(old, f"{unit}_reserved"), getattr(old, f"{unit}_spent"))
            if sum(now) > limit and now[0] > then[0]:
                found.append(f"the budget {row.scope} has {limit} {unit}: {now[1]} are spent, {now[0]} are reserved")
    return found


TERMINAL_SORTED = tuple(sorted(TERMINAL))


def _check_task(run: RunRow, task: TaskRow, workflow: Workflow) -> list[str]:
    found = []
    definition = workflow.tasks[task.pos]
    opened_map = task.elements is not None
    if definition.kind == "workflow" and not opened_map:
        found += _check_parent(task)
    elif task.state == "running" and not opened_map and (task.session is None or task.attempt < 1):
        found.append("runs without a session")
    if task.state != "running" and task.session is not None:
        found.append(f"is {task.state} and still held by {task.session}")
    if task.state == "scheduled" and task.wake_at is None:
        found.append("is scheduled without a wake-up time")
    if task.state in TERMINAL and task.finished_at is None:
        found.append(f"is {task.state} without an end")
    if task.failures > definition.retry.max + 1:
        found.append(f"failed {task.failures} times with {definition.retry.max} retries")
    if task.state == "queued" and task.open:
        found.append("is queued with open needs")
    if task.state == "queued" and public(task.demand) != task.demand and task.wake_at is None:
        found.append("was given to a session without a deadline")
    if task.state == "pending" and not _has_a_future(run, task, workflow):
        found.append("is pending, and nothing will ever move it")
    return found


def _holds_a_slot(task: TaskRow) -> bool:
    return task.elements is None and task.held is None and task.child is None


def _check_parent(task: TaskRow) -> list[str]:
    found = []
    if task.state == "running" and (task.child is None or task.attempt < 1):
        found.append("runs without a run of its own")
    if task.session is not None:
        found.append(f"runs nowhere, and is held by {task.session}")
    if task.child_action is not None and (task.child_action, task.state) not in (
        ("begin", "pending"),
        ("stop", "running"),
    ):
        found.append(f"is {task.state}, and its child shall {task.child_action}")
    return found


def check_family(runs: Iterable[RunRow], tasks: Iterable[TaskRow]) -> list[str]:
    """Between runs: a task that is running has a run that has not ended, or whose end is on its way."""
    by_no = {run.no: run for run in runs}
    by_id = {task.id: task for task in tasks}
    found = []
    for task in by_id.values():
        child = by_no.get(task.child) if task.child is not None else None
        if task.state == "running" and task.child is not None:
            if child is None or child.parent != task.id:
                found.append(f"task {task.id} runs as run {task.child}, which knows nothing of it")
            elif child.state in RUN_TERMINAL and child.reported:
                found.append(f"task {task.id} is running, its run {child.id} is {child.state} and was reported")
    for run in by_no.values():
        parent = by_id.get(run.parent) if run.parent is not None else None
        if run.parent is None:
            if run.root != run.no or not run.reported:
                found.append(f"run {run.id} was started by nobody, and is not its own root")
        elif parent is None or by_no[parent.run_no].root != run.root:
            found.append(f"run {run.id} belongs to another family than the task that started it")
        elif run.state not in RUN_TERMINAL and (parent.state, parent.child) != ("running", run.no):
            found.append(f"run {run.id} is {run.state}, the task that started it is {parent.state}")
    return found


def _has_a_future(run: RunRow, task: TaskRow, workflow: Workflow) -> bool:
    """Every task that has not ended has an owner, a wake-up time, open needs, or a place in the queue."""
    if task.open or run.sweep is not None or task.ready_at is not None or task.child_action is not None:
        return True
    if workflow.level_plan is not None and run.level is not None:
        at = workflow.level_plan.at[task.pos]
        if at > run.level or (at == run.level and run.level_open is None):
            return True  # its level is to come
    return task.idx >= 0  # an element beyond its map's max_parallel: let in when another one ends


def check_step(before: dict[int, TaskRow], after: dict[int, TaskRow]) -> list[str]:
    """Two moments of a run, with only legal single transactions between them, by task id."""
    found = []
    for id, was in before.items():
        now = after.get(id)
        if now is None:
            found.append(f"task {id} has gone")
            continue
        if was.state in TERMINAL and (was.state, was.attempt, was.reason) != (now.state, now.attempt, now.reason):
            found.append(f"task {id} changed after its end: {was.state} -> {now.state}")
        claimed = was.attempt != now.attempt
        if claimed and now.attempt != was.attempt + 1:
            found.append(f"task {id}: attempt {was.attempt} -> {now.attempt}")
        if was.state != now.state and not _reachable(was.state, now.state):
            found.append(f"task {id}: {was.state} -> {now.state}")
    return found


def _reachable(was: str, now: str) -> bool:
    """Within one transaction a task may make several moves; each must be in the table."""
    seen = [was]
    for state in seen:
        for start, end in TRANSITIONS:
            if start == state and end not in seen:
                seen.append(end)
    return now in seen


def check_memos(before: dict[str, MemoRow], after: dict[str, MemoRow]) -> list[str]:
    """Two moments of the records of effects, by key: what is completed stays, and only later attempts take over."""
    found = []
    for key, was in before.items():
        now = after.get(key)
        if was.kind != "once" or now is None:  # gone with its run
            continue
        if was.status == "completed" and was != now:
            found.append(f"memo {key} changed after it was completed: {was} -> {now}")
        if now.attempt < was.attempt:
            found.append(f"memo {key}: attempt {now.attempt} wrote after attempt {was.attempt}")
        if now.attempt == was.attempt and now.session != was.session:
            found.append(f"memo {key}: attempt {now.attempt} is of {was.session} and of {now.session}")
    return found


def check_leadership(before: LeadershipRow, after: LeadershipRow) -> list[str]:
    """Two moments of the leadership, with one command between them."""
    if after.term == before.term:
        if after.session not in (before.session, None):
            return [f"term {after.term} went from {before.session} to {after.session}"]
        return []
    if after.term != before.term + 1:
        return [f"term {after.term} follows {before.term}"]
    return [] if after.session is not None else [f"term {after.term} began with nobody"]


def check_fires(fires: list[FireRow], runs: list[tuple[str, str]]) -> list[str]:
    """One run for each fire that started one, and one such fire for each run that a trigger made. `runs`: (id,
    trigger) of those that have not been pruned."""
    found: list[str] = []
    made_by: dict[str, str] = {}
    for fire in fires:
        if (fire.run is not None) != (fire.outcome == "started"):
            found.append(f"a fire of {fire.trigger} for {fire.cause} is {fire.outcome} with the run {fire.run}")
        if (fire.names is not None) != (fire.outcome == "queued"):
            found.append(f"a fire of {fire.trigger} for {fire.cause} is {fire.outcome} with the names {fire.names}")
        if fire.run is not None:
            if fire.run in made_by:
                found.append(f"the run {fire.run} was started by two fires of {fire.trigger}")
            made_by[fire.run] = fire.trigger
    for id, trigger in runs:
        if made_by.get(id) != trigger:
            found.append(f"the run {id} says that {trigger} made it, the fires say {made_by.get(id)}")
    return found


def check_triggers_step(before: list[TriggerRow], after: list[TriggerRow]) -> list[str]:
    """What a trigger has decided stays decided."""
    was = {row.id: row for row in before}
    return [
        f"the trigger {row.id} went back, from {was[row.id]} to {row}"
        for row in after
        if row.id in was and (row.since_ms < was[row.id].since_ms or row.cursor < was[row.id].cursor)
    ]
