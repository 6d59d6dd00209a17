"""What a person decides about a run: a task counts as done or is skipped without running, and a run is paused.

A task that has ended is decided in a new generation: its old row stays as it was. While a run is paused nothing of it
is queued: what was, waits in `pending`, as in a run that has no room.
"""

import hashlib
from typing import Any, Final

from weft.core.commands import CorrectRun, DecideTasks, PauseRun, Refused, Reply
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import CurrentTasks, QueuedTasksOfRun, ReadyTasks
from weft.core.placement.demands import PARKED, unpark
from weft.core.rows import TASKS_MAX, AttemptRow, RunRow, TaskRow
from weft.core.rules.correction import changed_positions
from weft.core.rules.generations import begin_generation
from weft.core.rules.new_runs import note_demand
from weft.core.rules.ownership import enqueue
from weft.core.rules.pools import check_pools
from weft.core.rules.run_commands import named_run, named_task, refuse_child
from weft.core.rules.settle import settle
from weft.core.states import RUN_TERMINAL, TERMINAL

_UNDECIDED: Final = ("pending", "queued", "scheduled", "waiting")


def correct_run(draft: Draft, command: CorrectRun) -> Rule:
    """A new generation with another definition; the one before is kept for the history."""
    run: RunRow = yield from named_run(draft, command.run_id)
    if run.state not in RUN_TERMINAL:
        raise Refused("conflict", f"run {run.id} is still {run.state}: cancel it, or wait for its end")
    if run.parent is not None:
        yield from refuse_child(draft, run)
    old, new = draft.workflows[run.workflow], draft.workflows[command.workflow]
    if [task.name for task in new.tasks[: len(old.tasks)]] != [task.name for task in old.tasks]:
        raise Refused("conflict", f"run {run.id} has got another definition in the meantime: try again")
    yield from check_pools(draft, new)
    (rows,) = yield (CurrentTasks(run.no),)
    draft.add_loaded(rows)
    if command.workflow != run.workflow:
        draft.created.workflows = [(command.workflow, command.name, command.document)]
        draft.created.pins = [(run.root, pin) for pin in command.pins]
        draft.created.corrections = [(run.no, run.generation, run.workflow, command.workflow)]
        for definition in new.tasks:
            if definition.kind not in ("wait", "workflow"):
                note_demand(draft, new, definition)
    draft.touch_run(run)
    run.workflow = command.workflow
    if new.max_parallel != old.max_parallel:
        run.max_parallel = new.max_parallel
    facts = {"workflow": command.workflow} | ({} if command.by is None else {"by": command.by})
    changed = yield from begin_generation(
        draft, run, None, only_dead=False, also=changed_positions(old, new), facts=facts
    )
    if not changed:
        raise Refused("conflict", f"run {run.id} has {run.state}, and nothing that the definition changes runs again")
    return Reply(run.id, run.no, run.state, changed=changed, more=draft.left_over())


def decide_tasks(draft: Draft, command: DecideTasks) -> Rule:
    run: RunRow = yield from named_run(draft, command.run_id)
    if run.level is not None:
        raise Refused("conflict", f"run {run.id} goes by levels: what a level leaves is decided by all of its tasks")
    tasks: list[TaskRow] = []
    for name in command.tasks:
        task: TaskRow = yield from named_task(draft, run, name)
        _check(run, task, name)
        tasks.append(task)
    if run.state not in RUN_TERMINAL:
        for task in tasks:
            decide(draft, task, command)
        yield from settle(draft, tasks)
        return Reply(run.id, run.no, run.state, changed=len(tasks), more=draft.left_over())
    if run.parent is not None:
        yield from refuse_child(draft, run)
    (rows,) = yield (CurrentTasks(run.no),)
    draft.add_loaded(rows)
    yield from begin_generation(draft, run, tasks, only_dead=False, decide=lambda row: decide(draft, row, command))
    return Reply(run.id, run.no, run.state, changed=len(tasks), more=draft.left_over())


def _check(run: RunRow, task: TaskRow, name: str) -> None:
    if task.state == "succeeded":
        raise Refused("conflict", f"{name} has succeeded: to do it again, start a new run (weft rerun {run.id})")
    if task.element:
        raise Refused("conflict", f"{name} is an element: only its whole task can be skipped or marked")
    if run.state in RUN_TERMINAL or task.state in _UNDECIDED:
        return
    if task.state in TERMINAL:
        raise Refused("conflict", f"{name} has ended ({task.state}), and its run goes on: wait for the run's end")
    raise Refused("conflict", f"{name} is running: cancel it first (weft cancel {run.id} {name})")


def decide(draft: Draft, task: TaskRow, command: DecideTasks) -> None:
    """It ends like this, without a node."""
    draft.touch(task)
    task.attempt += 1
    task.reason, task.upstream, task.wake_at = command.reason, False, None
    task.child_action = None
    data: dict[str, Any] = {"state": command.state, "attempt": task.attempt, "reason": command.reason}
    if command.by is not None:
        data["by"] = command.by
    if command.state == "succeeded":
        result = None if command.output is None else f'{{"output":{command.output}}}'
        hash = None if result is None else hashlib.sha256(result.encode()).hexdigest()[:32]
        draft.attempts.append(
            AttemptRow(
                task_id=task.id, attempt=task.attempt, generation=task.generation, session="", outcome="succeeded",
                exit_code=None, error=None, claimed_at=draft.now, started_at=draft.now, finished_at=draft.now,
                result=result, result_hash=hash,
            )
        )  # fmt: skip
        if hash is not None:
            data["hash"] = hash
    draft.move(task, command.state)
    draft.event(task.run_no, "decided", data, task)


def pause_run(draft: Draft, command: PauseRun) -> Rule:
    run: RunRow = yield from named_run(draft, command.run_id)
    if run.state in RUN_TERMINAL:
        what = "pause" if command.paused else "let go on: weft resume begins it again"
        raise Refused("conflict", f"run {run.id} has ended ({run.state}): there is nothing to {what}")
    if run.paused == command.paused:
        return Reply(run.id, run.no, run.state, existing=True)
    if command.paused and run.stop is not None:
        raise Refused("conflict", f"run {run.id} was stopped, and is about to end")
    draft.touch_run(run)
    run.paused = command.paused
    data: dict[str, Any] = {"reason": command.reason}
    if command.by is not None:
        data["by"] = command.by
    if not command.paused:
        draft.event(run.no, "unpaused", data)
        changed = yield from _queue_ready(draft, run)
        yield from settle(draft, [])
        draft.wake = True
        return Reply(run.id, run.no, run.state, changed=changed)
    (rows,) = yield (QueuedTasksOfRun(run.no),)
    queued = [task for task in draft.add_loaded(rows) if task.state == "queued"]
    for task in queued:
        draft.move(task, "pending")
        if task.demand.startswith(PARKED):  # it is parked again if it still cannot be afforded then
            draft.unplace(task, unpark(task.demand))
            task.child_action = None
    draft.event(run.no, "paused", {**data, "tasks": [[task.pos, task.idx] for task in queued]})
    return Reply(run.id, run.no, run.state, changed=len(queued))


def _queue_ready(draft: Draft, run: RunRow) -> Rule:
    """What a limit of the run holds back is admitted as always; without one, all that is ready goes."""
    if run.limited:
        return 0
    (rows,) = yield (ReadyTasks(run.no, TASKS_MAX),)
    ready = [task for task in draft.add_loaded(rows) if task.state == "pending" and task.ready_at is not None]
    for task in ready:
        draft.touch(task)
        enqueue(draft, run, task)
    if ready:
        draft.event(run.no, "admitted", {"tasks": [[task.pos, task.idx] for task in ready]})
    return len(ready)
