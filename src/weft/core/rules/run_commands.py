"""What people ask of a run that exists: cancel it, cancel one task, resume it, retry its dead letters, prune."""

from weft.core.commands import Advance, CancelRun, CancelTask, Prune, Refused, Reply, Resume
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import (
    CurrentTasks,
    FinishedRuns,
    Roots,
    RunById,
    RunsKeptForOthers,
    Takeovers,
    TasksAt,
)
from weft.core.rows import RunRow, TaskRow
from weft.core.rules.generations import begin_generation
from weft.core.rules.leader import require_term
from weft.core.rules.levels import begin_level
from weft.core.rules.readiness import is_over
from weft.core.rules.settle import decide_start, settle
from weft.core.rules.stopping import ask_to_stop, stop_run
from weft.core.states import RUN_TERMINAL, TERMINAL

KEPT_SHOWN = 20


def named_run(draft: Draft, run_id: str) -> Rule:
    (rows,) = yield (RunById(run_id),)
    if not rows:
        raise Refused("not_found", f"there is no run {run_id}")
    return draft.add_loaded_runs(rows)[0]


def cancel_run(draft: Draft, command: CancelRun) -> Rule:
    run: RunRow = yield from named_run(draft, command.run_id)
    if run.state in RUN_TERMINAL:
        return Reply(run.id, run.no, run.state, existing=True)
    ended: list[TaskRow] = []
    if run.stop is None or (command.now and not is_over(run)):
        ended = yield from stop_run(draft, run, "cancel", command.reason, now=command.now)
        yield from settle(draft, ended)
    return Reply(run.id, run.no, run.state, changed=len(ended), more=run.sweep is not None or draft.left_over())


def cancel_task(draft: Draft, command: CancelTask) -> Rule:
    run: RunRow = yield from named_run(draft, command.run_id)
    task: TaskRow = yield from named_task(draft, run, command.task)
    if task.state in TERMINAL or task.held is not None:
        return Reply(run.id, run.no, task.state, existing=True)
    tasks = [task]
    if task.elements is not None and task.state == "running":
        draft.touch(task)
        task.stop, task.reason = "cancel", command.reason
        (rows,) = yield (CurrentTasks(run.no),)
        tasks = [t for t in draft.add_loaded(rows) if t.pos == task.pos and t.idx >= 0 and t.state not in TERMINAL]
        tasks = [t for t in tasks if t.held is None]
    ended = []
    for one in tasks:
        draft.touch(one)
        if one.state == "running":
            ask_to_stop(draft, one, "cancel")
        else:
            one.reason = command.reason
            draft.move(one, "cancelled")
            ended.append(one)
    if ended:
        draft.event(run.no, "cancelled", {"tasks": [[t.pos, t.idx] for t in ended], "reason": command.reason})
    yield from settle(draft, ended)
    return Reply(run.id, run.no, task.state, changed=len(tasks), more=draft.left_over())


def named_task(draft: Draft, run: RunRow, name: str) -> Rule:
    place = draft.workflows[run.workflow].place(name)
    if place is not None:
        (rows,) = yield (TasksAt([(run.no, *place)]),)
        if rows:
            draft.add_loaded(rows)
            return draft.at[(run.no, *place)]
    raise Refused("not_found", f"run {run.id} has no task {name}")


def resume(draft: Draft, command: Resume) -> Rule:
    """An unfinished run just goes on; a finished one gets a new generation of what did not succeed."""
    run: RunRow = yield from named_run(draft, command.run_id)
    chosen: list[TaskRow] | None = None
    if command.tasks is not None:
        chosen = []
        for name in command.tasks:
            task: TaskRow = yield from named_task(draft, run, name)
            if command.only_dead and task.state != "dead_letter":
                raise Refused("conflict", f"{name} is {task.state}, not a dead letter")
            chosen.append(task)
    if run.parent is not None and run.state in RUN_TERMINAL:
        yield from refuse_child(draft, run)
    if run.state not in RUN_TERMINAL:
        if chosen is None and not command.only_dead:
            return Reply(run.id, run.no, run.state, existing=True)
        raise Refused(
            "conflict",
            f"run {run.id} is still {run.state}: its dead letters can be retried when it has ended",
        )
    (rows,) = yield (CurrentTasks(run.no),)
    draft.add_loaded(rows)
    changed = yield from begin_generation(draft, run, chosen, only_dead=command.only_dead)
    return Reply(run.id, run.no, run.state, changed=changed, existing=changed == 0)


def refuse_child(draft: Draft, run: RunRow) -> Rule:
    """Its end has been counted, and what followed from it has happened: only the whole can be resumed. (That is not
    locked: it has a lower number than this one.)"""
    (roots,) = yield (Roots([run.no]),)
    raise Refused(
        "conflict",
        f"run {run.id} was started by a task of another run, which goes on with it: weft resume {roots[0][2]}",
    )


def advance(draft: Draft, command: Advance) -> Rule:
    """Let a run that is paused between levels go on: by the rest of this level, or by one task of it."""
    run: RunRow = yield from named_run(draft, command.run_id)
    if run.advance_state is None:
        raise Refused(
            "conflict", f"run {run.id} goes on by itself: only one that was started with --step is advanced"
        )
    if run.state in RUN_TERMINAL:
        return Reply(run.id, run.no, run.state, existing=True)
    if run.advance_state != "paused":
        raise Refused("conflict", f"run {run.id} is still at work on level {(run.level or 0) + 1}")
    draft.touch_run(run)
    run.advance_state = "task" if command.by_task else "level"
    draft.event(run.no, "advanced", {"by": "task" if command.by_task else "level"})
    following: list[TaskRow] = []
    if run.level_open is None:
        yield from begin_level(draft, run, decide_start, following)
    yield from settle(draft, following)
    draft.wake = True
    return Reply(run.id, run.no, run.state, changed=1)


def prune(draft: Draft, command: Prune) -> Rule:
    if command.term is not None:
        yield from require_term(draft, command.term)
    before = command.finished_before
    if before is None:
        before = draft.now - (command.older_ms or 0)
    states = command.states or sorted(RUN_TERMINAL)
    (rows,) = yield (FinishedRuns(before, states, command.limit, command.nos),)
    full = len(rows) == command.limit
    # Asked again: a run may have taken over results while the statement waited for the lock.
    takeovers, kept = yield (Takeovers([run.no for run in rows]), RunsKeptForOthers(before, states, KEPT_SHOWN))
    needed = {source for _, _, source, _ in takeovers}
    held = {run.root for run in rows if run.no in needed}
    rows = [run for run in rows if run.root not in held]
    draft.pruned.runs = [run.no for run in rows]
    draft.pruned.before = before if command.nos is None else None
    draft.pruned.cached = command.cache
    gone, ids = frozenset(draft.pruned.runs), frozenset(run.id for run in rows)
    frees = any(run_no in gone for run_no, _, _, _ in takeovers)  # what they took over from can go next
    return Reply(
        changed=len(rows), more=full or frees,
        data={"runs": [[run.no, run.id] for run in rows], "kept": [[id, by] for id, by in kept if by not in ids]},
    )  # fmt: skip
