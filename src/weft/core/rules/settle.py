"""What follows from a task's end: dependents become ready, are skipped, mapped tasks close, runs end.

Works in waves: all dependents of one wave are loaded together. A wave that would grow past `SETTLE_MAX` tasks
is left for the next transaction: its tasks stay marked as unsettled, and any node goes on with them.
"""

from collections.abc import Iterable, Sequence

from weft.core.decision.draft import Draft, Rule, queue
from weft.core.decision.needs import ReadyTasks, TasksAt, UnsettledTasks
from weft.core.expressions import ExpressionError, parse_condition
from weft.core.rows import TASKS_MAX, WHOLE, RunRow, TaskRow
from weft.core.rules.budgets import look_at_parked
from weft.core.rules.levels import begin_level, by_key, commit_level, in_main_level, key_rank, level_plan_of
from weft.core.rules.maps import element_ended, open_map
from weft.core.rules.names import fix_outcome, names_of
from weft.core.rules.notifications import note_end, write_notifications
from weft.core.rules.order import PLACES_MAX, PRIORITY_MS, exchange_places, set_ready
from weft.core.rules.ownership import enqueue
from weft.core.rules.readiness import (
    can_still_start,
    ending_of,
    failures_of,
    handles_failure,
    is_over,
    judge_task,
    run_state,
)
from weft.core.rules.stopping import halt
from weft.core.rules.waits import begin_wait
from weft.core.states import RUN_TERMINAL, TERMINAL
from weft.core.workflow import TaskDef, Workflow

SETTLE_MAX = 1000


def settle(draft: Draft, ended: list[TaskRow]) -> Rule:
    """Tell dependents, wave by wave, then admit, start the run's handlers, and end runs."""
    if draft.budgets.freed:
        yield from look_at_parked(draft, ended)
    wave = ended
    count = 0
    while True:
        if wave and count >= SETTLE_MAX:
            draft.wake = True
            break
        following: list[TaskRow] = []
        if not wave:
            for run in list(draft.dirty_runs):
                if run.level is None:
                    yield from _start_final(draft, run, following)
                else:
                    yield from _advance(draft, run, following)
            if not following:
                break
        count += len(wave)
        yield from _load_dependents(draft, wave)
        for task in [t for t in wave if t.state == "failed" or t.state == "dead_letter"]:
            yield from _apply_policy(draft, task, following)
        run_no = -1
        for task in wave:
            if task.run_no != run_no:
                run_no, successors = task.run_no, draft.workflows[draft.runs[task.run_no].workflow].successors
            if task.idx < 0 and not successors[task.pos]:
                draft.touch(task)
                task.settled = True  # nobody needs it
            else:
                yield from _count_in_dependents(draft, task, following)
        wave = following
    yield from admit(draft)
    end_runs(draft)
    if draft.notifications.notices:
        yield from write_notifications(draft)


def _load_dependents(draft: Draft, wave: Iterable[TaskRow]) -> Rule:
    """One load for the whole wave. After a failure the tasks below those that are missing are fetched too, up to the
    bound: a long chain would otherwise be skipped one load at a time."""
    at = draft.at
    missing: dict[tuple[int, int, int], None] = {}
    run_no = -1
    for task in wave:
        if task.run_no != run_no:
            run_no, run = task.run_no, draft.runs[task.run_no]
            workflow, over = draft.workflows[run.workflow], is_over(run)
        if over:
            continue
        if task.idx >= 0:
            if (run.no, task.pos, WHOLE) not in at:
                missing[(run.no, task.pos, WHOLE)] = None
            continue
        if not workflow.successors[task.pos]:
            continue
        far = task.state != "succeeded"
        frontier = [task.pos]
        while frontier:
            deeper: list[int] = []
            for pos in frontier:
                for after in workflow.successors[pos]:
                    if not can_still_start(run, workflow.tasks[after]):
                        continue
                    place = (run.no, after, WHOLE)
                    if place not in at and place not in missing:
                        missing[place] = None
                        deeper.append(after)
            frontier = deeper if far and len(missing) < SETTLE_MAX else []
    if missing:
        (rows,) = yield (TasksAt(list(missing)),)
        draft.add_loaded(rows)


def _apply_policy(draft: Draft, task: TaskRow, following: list[TaskRow]) -> Rule:
    run = draft.runs[task.run_no]
    workflow = draft.workflows[run.workflow]
    definition = workflow.tasks[task.pos]
    if task.idx >= 0 or definition.allow_failure or run.halted or run.stop:
        return
    if workflow.on_failure == "continue" or (run.level is not None and not in_main_level(draft, run)):
        return
    now = workflow.on_failure == "halt_now" or run.level is not None
    cancelled = yield from halt(draft, run, definition.name, now=now)
    following.extend(cancelled)


def _count_in_dependents(draft: Draft, task: TaskRow, following: list[TaskRow]) -> Rule:
    run = draft.runs[task.run_no]
    draft.touch(task)
    task.settled = True
    workflow = draft.workflows[run.workflow]
    definition = workflow.tasks[task.pos]
    if task.idx >= 0:
        yield from element_ended(draft, run, definition, task, following, make_ready)
        return
    if is_over(run) or task.held is not None:
        return
    ending = ending_of(task.state, task.upstream, definition.allow_failure)
    for pos in workflow.successors[task.pos]:
        after_def = workflow.tasks[pos]
        if not can_still_start(run, after_def):
            continue
        after = draft.at[(run.no, pos, WHOLE)]
        if after.state != "pending" or after.open <= 0:
            continue
        draft.touch(after)
        after.open -= 1
        if ending != "ok":
            if task.pos in after_def.accepts:
                after.tolerated += ending == "failed"
            elif ending == "failed":
                after.failed += 1
            else:
                after.skipped += 1
        if after.open > 0 or run.level is not None:  # in levels it is judged when its level begins
            continue
        if not started_at_once(draft, run, workflow, after):
            yield from decide_start(draft, run, workflow, after, following)


def decide_start(draft: Draft, run: RunRow, workflow: Workflow, task: TaskRow, following: list[TaskRow]) -> Rule:
    """All that it needs has ended: it starts, is skipped, or its condition says no."""
    definition = workflow.tasks[task.pos]
    verdict = judge_task(task, definition)
    if verdict == "start":
        if run.halted and not handles_failure(task, definition):
            task.reason = f"the run was halted: {run.reason}"
            draft.move(task, "cancelled")
            draft.event(run.no, "cancelled", {"tasks": [[task.pos, task.idx]], "reason": task.reason})
            following.append(task)
            return
        if definition.condition is not None:
            answer, error = yield from _ask(draft, run, workflow, task, definition)
            if not answer:
                _refuse(draft, run, task, error, following)
                return
        yield from make_ready(draft, run, task, definition, following)
        return
    task.upstream = verdict == "skip_upstream"
    task.reason = _skip_reason(draft, run, workflow, task, definition)
    draft.move(task, "skipped")
    draft.event(run.no, "skipped", {"upstream": task.upstream, "reason": task.reason}, task)
    following.append(task)


def _ask(draft: Draft, run: RunRow, workflow: Workflow, task: TaskRow, definition: TaskDef) -> Rule:
    """Its `if`, as (answer, error): (True, None), (False, None), or (False, why it could not be evaluated)."""
    assert definition.condition is not None
    names = yield from names_of(draft, run, workflow, definition, definition.reads)
    try:
        return parse_condition(definition.condition).truth(names), None
    except ExpressionError as error:
        return False, f"if: {error.message}"


def _refuse(draft: Draft, run: RunRow, task: TaskRow, error: str | None, following: list[TaskRow]) -> None:
    """Its condition is false, or could not be evaluated: then it fails, without a retry."""
    draft.touch(task)
    if error is None:
        task.reason = "its condition is false"
        draft.move(task, "skipped")
        draft.event(run.no, "skipped", {"upstream": False, "reason": task.reason}, task)
    else:
        task.reason = error
        draft.move(task, "failed")
        draft.event(run.no, "refused", {"state": "failed", "error": error}, task)
    following.append(task)


def _skip_reason(draft: Draft, run: RunRow, workflow: Workflow, task: TaskRow, definition: TaskDef) -> str:
    """Name the first need, in the order of the document, that made the rule false."""
    if definition.when == "on_failure":
        return "nothing it needs failed" if definition.needs else "no task failed"
    for pos in definition.needs:
        need = draft.at.get((run.no, pos, WHOLE))
        if need is None or need.state not in TERMINAL or need.state == "succeeded":
            continue
        if ending_of(need.state, need.upstream, workflow.tasks[pos].allow_failure) != "ok":
            return f"{workflow.tasks[pos].name} {_said(need.state)}"
    return f"when: {definition.when} is false"


def _said(state: str) -> str:
    return {"dead_letter": "failed", "skipped": "was skipped", "cancelled": "was cancelled"}.get(state, state)


def make_ready(draft: Draft, run: RunRow, task: TaskRow, definition: TaskDef, following: list[TaskRow]) -> Rule:
    """Nothing is missing any more but room."""
    if run.state == "pending":
        draft.move_run(run, "running")
        run.started_at = draft.now
    if definition.mapped and task.idx < 0:
        yield from open_map(draft, run, task, definition, following, make_ready)
        return
    if definition.kind == "wait":
        yield from begin_wait(draft, run, draft.workflows[run.workflow], task, definition, following)
        return
    if definition.kind == "workflow":
        draft.request_child_action(task, "begin")
        return
    _wait_for_room(draft, run, task, definition)


_ELSEWHERE = ("wait", "workflow")


def start_plain(draft: Draft, run: RunRow, workflow: Workflow, tasks: Sequence[TaskRow], at: int) -> int:
    """`started_at_once` for these new tasks of a run from `at` on, up to the first that asks for more than a slot:
    its place in the list."""
    if (
        run.halted or run.state != "running" or run.level is not None or run.max_parallel is not None
        or run.advance_state is not None or run.paused or workflow.own is not None
    ):  # fmt: skip
        return at
    began, now, definitions, ranked = at, draft.now, workflow.tasks, draft.ranked
    first = now - run.priority * PRIORITY_MS
    for at in range(began, len(tasks)):
        task = tasks[at]
        definition = definitions[task.pos]
        if (
            definition.condition is not None or definition.when != "all_success" or definition.kind in _ELSEWHERE
            or definition.map is not None or definition.replicas is not None or task.state != "pending"
        ):  # fmt: skip
            break
        task.state = "queued"
        task.ready_at = now
        task.rank = first
        if definition.priority or task.head_start:
            task.rank = first - definition.priority * PRIORITY_MS - task.head_start
            if task.head_start:
                ranked.append(task)
    else:
        at = len(tasks)
    if at > began:
        run.active += at - began
        draft.touch_run(run)
    return at


def started_at_once(draft: Draft, run: RunRow, workflow: Workflow, task: TaskRow) -> bool:
    """Most tasks have no condition and need nothing but a slot. They come by the thousand, and cost half without the
    two generators of the general way."""
    definition = workflow.tasks[task.pos]
    if (
        definition.condition is not None or definition.when != "all_success" or task.failed or task.skipped
        or definition.kind in _ELSEWHERE or definition.map is not None or definition.replicas is not None
        or run.halted or run.state != "running" or run.level is not None
    ):  # fmt: skip
        return False
    if run.max_parallel is None and run.advance_state is None and not run.paused and workflow.own is None:
        set_ready(draft, run, task, definition, draft.now)
        queue(draft, run, task)
    else:
        _wait_for_room(draft, run, task, definition)
    return True


def _wait_for_room(draft: Draft, run: RunRow, task: TaskRow, definition: TaskDef) -> None:
    draft.touch(task)
    set_ready(draft, run, task, definition, draft.now)
    if not run.limited:
        enqueue(draft, run, task)
    elif by_key(run):
        task.rank = key_rank(draft, run, task)


def _advance(draft: Draft, run: RunRow, following: list[TaskRow]) -> Rule:
    """A level that is done commits, or after a failure or a stop gives way to the handlers; then the next one begins.
    A run that was stopped while it was paused between levels has none under way."""
    level_plan = level_plan_of(draft, run)
    while not following:
        assert run.level is not None
        awaiting_advance = run.level_open is None and run.stop is not None and run.level < len(level_plan.tasks)
        if not awaiting_advance and run.level_open != 0:
            return
        if is_over(run) or run.sweep is not None or run.state in RUN_TERMINAL:
            return
        (rows,) = yield (UnsettledTasks(SETTLE_MAX, run.no),)
        following += [t for t in draft.add_loaded(rows) if not t.settled]
        if following:
            return
        draft.touch_run(run)
        if (run.halted or run.stop) and run.level < level_plan.handlers:
            run.level = level_plan.handlers
        elif not awaiting_advance:
            committed = yield from commit_level(draft, run)
            yield from _load_dependents(draft, committed)
            for task in committed:
                yield from _count_in_dependents(draft, task, following)
            run.level += 1
        run.level_open = None
        if run.advance_state is not None:
            run.advance_state = "level" if run.halted or run.stop else "paused"  # handlers are not held up
        if run.level == len(level_plan.tasks) or run.advance_state == "paused":
            return
        yield from begin_level(
            draft, run, decide_start, following
        )  # if all of it was cancelled, the next one follows


def _start_final(draft: Draft, run: RunRow, following: list[TaskRow]) -> Rule:
    """Handlers of the whole run start when all other tasks have ended."""
    if run.open_main > 0 or run.open == 0 or is_over(run) or run.sweep is not None:
        return
    workflow = draft.workflows[run.workflow]
    roots = [pos for pos, d in enumerate(workflow.tasks) if d.final and not d.needs]
    places = [(run.no, pos, WHOLE) for pos in roots]
    missing = [place for place in places if place not in draft.at]
    if missing:
        (rows,) = yield (TasksAt(missing),)
        draft.add_loaded(rows)
    starting = [draft.at[place] for place in places if draft.at[place].state == "pending"]
    starting = [task for task in starting if task.open == 1]
    if starting:
        yield from fix_outcome(draft, run)
    for task in starting:
        if task.state == "pending":
            draft.touch(task)
            task.open = 0
            task.failed = failures_of(run)
            yield from decide_start(draft, run, workflow, task, following)


def admit(draft: Draft) -> Rule:
    """Queue what is ready, best rank first, in runs that bound how much runs at a time."""
    for run in list(draft.dirty_runs):
        if not run.limited or run.paused:
            continue
        if is_over(run) or run.sweep is not None or run.state in RUN_TERMINAL:
            continue
        room = _limit(run) - run.active
        if room <= 0:
            continue
        changed = sum(1 for t in draft.dirty_tasks if t.run_no == run.no and t.guard and t.guard.state == "pending")
        fresh = [t for t in draft.ranked if t.run_no == run.no and t.state == "pending"]
        look = PLACES_MAX if fresh else 0
        (rows,) = yield (
            ReadyTasks(run.no, room + changed + look),
        )  # the store does not know what this draft changed
        draft.add_loaded(rows)
        waiting = [
            t for t in draft.tasks.values() if t.run_no == run.no and t.state == "pending" and t.ready_at is not None
        ]
        exchange_places(draft, waiting, fresh)
        waiting.sort(key=lambda t: (t.rank, t.id))
        admitted = waiting[:room] if run.advance_state is None else _let_in(draft, run, waiting, room)
        for task in admitted:
            if by_key(run):  # among themselves by name; in the queue like everybody else's
                task.rank = draft.now - (run.priority + draft.definition(task).priority) * PRIORITY_MS
            enqueue(draft, run, task)
        if admitted:
            draft.event(run.no, "admitted", {"tasks": [[t.pos, t.idx] for t in admitted]})


def _limit(run: RunRow) -> int:
    """How many tasks it may have at a time. 0 means one by one."""
    return TASKS_MAX if run.max_parallel is None else (run.max_parallel or 1)


def _let_in(draft: Draft, run: RunRow, waiting: list[TaskRow], room: int) -> list[TaskRow]:
    """Of a run with manual advance: what was let in before (a retry, a level begun again), and what may go now."""
    if run.advance_state == "level":
        chosen = waiting
    else:
        fresh = [t for t in waiting if not t.admitted][: run.advance_state == "task"]
        chosen = [t for t in waiting if t.admitted or t in fresh]
    chosen = chosen[:room]
    for task in chosen:
        if not task.admitted and run.advance_state == "task":
            draft.touch_run(run)
            run.advance_state = "paused"
        draft.touch(task)
        task.admitted = 1
    return chosen


def end_runs(draft: Draft) -> None:
    for run in draft.dirty_runs:
        if run.open == 0 and run.state not in RUN_TERMINAL:
            if run.state == "pending" and run.started_at is None:
                run.started_at = draft.now
            draft.move_run(run, run_state(run.stop, run.broken, run.cancelled))
            run.finished_at = draft.now
            run.sweep = run.owner = run.level_open = None
            run.paused = False
            draft.event(run.no, "run_finished", {"state": run.state, "reason": run.reason})
            note_end(draft, run)
            run.reported = run.parent is None
            draft.ended = True
            draft.wake = draft.wake or not run.reported  # any node may report it to its parent
