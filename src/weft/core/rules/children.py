"""Tasks that run another workflow. Such a task holds no slot and no node: it is running while its run is.

What is to be done about that run is a child action of the task. A chore does it: the locks of runs are taken in the
order of their numbers, and a run has a higher number than the one that started it. So a run's end cannot reach its
parent in the same transaction: it stays unreported until a chore has the locks of both.

    begin   a run is created (or, after a resume, gets a new generation): one attempt of the task
    stop    the task was cancelled or timed out: so is the run, and the task ends when that has ended
    report  the run has ended: the attempt is over, the run's output is the task's
"""

import hashlib
from typing import Any

import msgspec

from weft.core.commands import Report
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import (
    ChildActions,
    CurrentTasks,
    MapArray,
    NextRun,
    PinsOfFamily,
    RunInputs,
    RunOrigin,
    Runs,
    RunsIfFree,
    Tasks,
    UnreportedRuns,
    Workflows,
)  # fmt: skip
from weft.core.definition.inputs import resolve_inputs
from weft.core.expressions import ExpressionError, resolve_value
from weft.core.expressions.elements import array_of, with_item
from weft.core.rows import ORDINAL_BITS, Pin, RunRow, TaskRow
from weft.core.rules.attempts import conclude
from weft.core.rules.budgets import LOOK
from weft.core.rules.generations import begin_generation
from weft.core.rules.names import names_of, names_of_run
from weft.core.rules.new_runs import NewRun, create_run, create_tasks
from weft.core.rules.order import durations_for
from weft.core.rules.readiness import can_still_start, is_over
from weft.core.rules.settle import settle
from weft.core.rules.stopping import ask_to_stop, stop_run
from weft.core.states import RUN_TERMINAL
from weft.core.workflow import TaskDef

BEGIN_MAX = 100  # runs begun in one transaction
BEGIN_TASKS_MAX = 5000  # and tasks in them, all together
STOP_MAX = 20
REPORT_MAX = 100
_ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


class _Known(msgspec.Struct):
    """What one transaction has learned; it is asked for by many elements of one map."""

    pins: dict[int, dict[tuple[str, str | None, str], Pin]] = {}  # by root
    origins: dict[int, tuple[str | None, str, bool]] = {}  # by run: directory, labels, whether no cache is used
    names: dict[tuple[int, int], tuple[dict[str, Any], Any]] = {}  # by run and position: names, the mapped array
    begun: int = 0
    tasks: int = 0


def work_on_children(draft: Draft, run_no: int | None) -> Rule:
    """Do what is due about children, of one run's family or of any; True if something is left."""
    stored, unreported = yield (ChildActions(BEGIN_MAX, run_no), UnreportedRuns(REPORT_MAX, run_no))
    if not stored and not unreported and not draft.child_actions:
        return False
    draft.child_actions = list({task.id: task for task in (*draft.add_loaded(stored), *draft.child_actions)}.values())
    yield from _lock(draft, unreported)
    ended: list[TaskRow] = []
    yield from _report_ends(draft, unreported, ended)
    yield from _stop(draft, ended)
    _look_at_budgets(draft)
    yield from settle(draft, ended)
    known = _Known()
    while True:
        yield from _lock(draft, [])
        ready = [
            t
            for t in draft.child_actions
            if t.child_action == "begin" and t.state == "pending" and not _swept(draft, t)
        ]
        ready = [t for t in ready if not _held(draft, t)]
        if not ready or known.begun >= BEGIN_MAX or known.tasks >= BEGIN_TASKS_MAX:
            break
        following: list[TaskRow] = []
        for task in ready:
            if known.begun < BEGIN_MAX and known.tasks < BEGIN_TASKS_MAX:
                yield from _begin(draft, task, known, following)
        yield from settle(draft, following)
    return bool(ready) or len(stored) == BEGIN_MAX or len(unreported) == REPORT_MAX or draft.left_over()


def _look_at_budgets(draft: Draft) -> None:
    """A claim, which did not hold the run, found that a task may never fit into its budget: now it is held."""
    for task in draft.child_actions:
        if task.child_action == LOOK:
            draft.touch(task)
            task.child_action = None
            draft.budgets.freed[task.run_no] = None


def _swept(draft: Draft, task: TaskRow) -> bool:
    """Its run has been stopped: the sweep comes to it."""
    return not can_still_start(draft.runs[task.run_no], draft.definition(task))


def _lock(draft: Draft, unreported: list[Any]) -> Rule:
    """Their runs, which the loads have locked, and the children's, if nobody else holds them: who waits here, holding
    runs of its own reports, might wait for somebody who waits for those."""
    wanted = [task.run_no for task in draft.child_actions]
    for child, parent in unreported:
        wanted += [parent >> ORDINAL_BITS, child]
    runs = sorted({no for no in wanted if no not in draft.runs})
    free = sorted({t.child for t in draft.child_actions if t.child is not None and t.child not in draft.runs})
    if runs or free:
        locked, others = yield (Runs(runs), RunsIfFree(free))
        draft.add_loaded_runs(locked)
        draft.add_loaded_runs(others)


def _held(draft: Draft, task: TaskRow) -> bool:
    """Somebody else is at the child; its turn comes. (No child is removed before the run that started it.)"""
    return task.child is not None and task.child not in draft.runs


# -- the end of a child ------------------------------------------------------------------------------------


def _report_ends(draft: Draft, unreported: list[Any], ended: list[TaskRow]) -> Rule:
    if not unreported:
        return
    (tasks,) = yield (Tasks(sorted({parent for _, parent in unreported})),)
    draft.add_loaded(tasks)
    for no, parent in unreported:
        child = draft.runs[no]
        if child.reported or child.state not in RUN_TERMINAL:
            continue
        draft.touch_run(child)
        child.reported = True
        task = draft.tasks.get(parent)
        if task is not None and task.state == "running" and task.child == no:
            report = yield from _report(draft, task, child)
            conclude(draft, task, report, ended)


def _report(draft: Draft, task: TaskRow, child: RunRow) -> Rule:
    """What the attempt came to. A stop that came too late changes nothing, as with any attempt."""
    result: dict[str, Any] = {"run": child.id}
    error: str | None = None
    outcome: Any = "cancelled"
    retryable = True
    if child.state == "succeeded":
        outcome = "succeeded"
        try:
            yield from _add_output(draft, child, result)
        except ExpressionError as problem:
            outcome, retryable, error = "failed", False, f"run {child.id} has no output: {problem.message}"
    elif child.state == "failed" and child.stop != "cancel":
        outcome, error = "failed", f"run {child.id} failed: {child.reason or 'a task failed'}"
    elif task.stop == "timeout":
        outcome, error = "failed", f"timed out after {(draft.definition(task).timeout_ms or 0) / 1000:g} s"
        task.stop = None  # its own stop: a retry may follow
    else:
        error = f"run {child.id} was cancelled" + (f": {child.reason}" if child.reason else "")
    text = msgspec.json.encode(result).decode()
    return Report(
        task.id, task.pos, task.idx, task.attempt, outcome, error=error,
        started_ago_ms=None if task.started_at is None else draft.now - task.started_at,
        result=text, result_hash=hashlib.sha256(text.encode()).hexdigest()[:32], retryable=retryable,
    )  # fmt: skip


def _add_output(draft: Draft, child: RunRow, result: dict[str, Any]) -> Rule:
    workflow = draft.workflows[child.workflow]
    if workflow.output is not None:
        names = yield from names_of_run(draft, child, workflow, workflow.output_reads)
        result["output"] = resolve_value(workflow.output, names)


# -- stopping one --------------------------------------------------------------------------------------------


def _stop(draft: Draft, ended: list[TaskRow]) -> Rule:
    stops = [task for task in draft.child_actions if task.child_action == "stop" and task.state == "running"]
    for task in [t for t in stops if not _held(draft, t)][:STOP_MAX]:
        draft.touch(task)
        task.child_action = None
        child, now = draft.runs[task.child or 0], is_over(draft.runs[task.run_no])
        if child.state not in RUN_TERMINAL and (child.stop is None or (now and not is_over(child))):
            ended += yield from stop_run(draft, child, "cancel", _why(draft, task), now=now)


def _why(draft: Draft, task: TaskRow) -> str:
    run = draft.runs[task.run_no]
    if task.stop == "timeout":
        return f"{draft.definition(task).called(task.idx)} of run {run.id} timed out"
    if task.stop == "halted":
        return f"run {run.id} was halted"
    return (run.reason if run.stop else None) or "cancelled by request"


def child_due(draft: Draft, task: TaskRow) -> None:
    """The task's timeout has passed."""
    draft.touch(task)
    task.wake_at = None
    if task.stop is None:
        ask_to_stop(draft, task, "timeout")


# -- beginning one -------------------------------------------------------------------------------------------


def begin_again(draft: Draft, task: TaskRow) -> None:
    """A retry is due: a new run, from the beginning."""
    draft.move(task, "pending")
    task.wake_at = task.child = None
    draft.request_child_action(task, "begin")


def _begin(draft: Draft, task: TaskRow, known: _Known, following: list[TaskRow]) -> Rule:
    run, definition = draft.runs[task.run_no], draft.definition(task)
    pin = yield from _pin(draft, run, definition, known)
    error = None if pin is not None else f"the workflow {definition.spec['workflow']} is no longer stored"
    inputs = ""
    if pin is not None:
        inputs, error = yield from _inputs(draft, run, task, pin, known)
    if pin is None or error is not None:
        draft.touch(task)
        task.reason = error
        draft.move(task, "failed")
        draft.event(run.no, "refused", {"state": "failed", "error": error}, task)
        following.append(task)
        return
    child = yield from _resumed(draft, task, pin, inputs)
    if child is None:
        child = yield from _created(draft, run, task, pin, inputs, known, following)
    known.begun += 1
    known.tasks += len(draft.workflows[child.workflow].tasks)
    draft.touch(task)
    task.child_action, task.child = None, child.no
    task.attempt += 1
    task.started_at = task.claimed_at = draft.now
    task.wake_at = None if definition.timeout_ms is None else draft.now + definition.timeout_ms
    draft.move(task, "running")
    draft.event(run.no, "begun", {"attempt": task.attempt, "run": child.id, "generation": child.generation}, task)


def _pin(draft: Draft, run: RunRow, definition: TaskDef, known: _Known) -> Rule:
    if run.root not in known.pins:
        (pins,) = yield (PinsOfFamily(run.root),)
        known.pins[run.root] = {(pin.workflow, pin.source, pin.name): pin for pin in pins}
    source, _, _ = yield from _origin(draft, run, known)
    pin = known.pins[run.root].get((run.workflow, source, definition.spec["workflow"]))
    if pin is not None and pin.child not in draft.workflows:
        (rows,) = yield (Workflows([pin.child]),)
        return pin if rows else None
    return pin


def _origin(draft: Draft, run: RunRow, known: _Known) -> Rule:
    if run.no not in known.origins:
        if run.no in draft.created.runs:
            extra = draft.created.runs[run.no][1]
            known.origins[run.no] = (extra["source"], extra["labels"], extra["fresh"])
        else:
            (rows,) = yield (RunOrigin(run.no),)
            known.origins[run.no] = tuple(rows[0])
    return known.origins[run.no]


def _inputs(draft: Draft, run: RunRow, task: TaskRow, pin: Pin, known: _Known) -> Rule:
    """(the child's inputs as JSON, None), or ("", what is wrong with them)."""
    definition = draft.definition(task)
    place = (run.no, task.pos)
    try:
        if place not in known.names:
            reads = tuple(dict.fromkeys((*definition.template_reads, *definition.map_reads)))
            files = definition.map_reads
            names = yield from names_of(draft, run, draft.workflows[run.workflow], definition, reads, files_of=files)
            known.names[place] = (names, (yield from _array(draft, run, task, names)))
        names, array = known.names[place]
        if task.idx >= 0:
            names = with_item(names, definition, task.idx, array)
        given = resolve_value(definition.spec["with"], names)
    except ExpressionError as error:
        return "", f"with: {error.message}"
    values, problems = resolve_inputs(draft.workflows[pin.child].inputs, given)
    if problems:
        return "", "with: " + "; ".join(problem.message for problem in problems)
    return msgspec.json.encode(values).decode(), None


def _array(draft: Draft, run: RunRow, task: TaskRow, names: dict[str, Any]) -> Rule:
    """What its elements were made from: of the context, which goes on changing, as it was then."""
    definition = draft.definition(task)
    if task.idx < 0 or not definition.map_reads_context:
        return array_of(names, definition)
    fresh = [text for no, pos, _, text in draft.values.arrays if (no, pos) == (run.no, task.pos)]
    if not fresh:
        (rows,) = yield (MapArray(run.no, task.pos),)
        fresh = [text for _, text in rows]
    return msgspec.json.decode(fresh[-1])


def _resumed(draft: Draft, task: TaskRow, pin: Pin, inputs: str) -> Rule:
    """After a resume of its parent the run of the generation before goes on, if it is still the one to run."""
    child = draft.runs.get(task.child or 0)
    if child is None or child.state not in ("failed", "cancelled") or child.workflow != pin.child:
        return None
    ((before,), rows) = yield (RunInputs(child.no), CurrentTasks(child.no))
    if before != msgspec.json.decode(inputs):
        return None
    draft.add_loaded(rows)
    if not (yield from begin_generation(draft, child, None, only_dead=False)):
        return None
    child.parent = task.id
    return child


def _created(
    draft: Draft, run: RunRow, task: TaskRow, pin: Pin, inputs: str, known: _Known, following: list[TaskRow]
) -> Rule:
    asked = durations_for(draft.workflows[pin.child])
    numbers, *durations = yield (NextRun(), *asked)
    _, labels, fresh = yield from _origin(draft, run, known)
    priority = run.priority + draft.definition(task).priority
    id = _id_of(run, task)
    new = NewRun(
        numbers[0],
        id,
        pin.child,
        inputs,
        priority,
        pin.child_source,
        labels,
        bool(fresh),
        root=run.root,
        parent=task.id,
        paused=run.paused,
    )
    child = create_run(draft, new)
    yield from create_tasks(draft, child, following, durations[0] if asked else ())
    return child


def _id_of(run: RunRow, task: TaskRow) -> str:
    """The same decision makes the same id, and there is no randomness here."""
    number = int.from_bytes(hashlib.sha256(f"{run.id}/{task.id}/{task.attempt + 1}".encode()).digest()[:8])
    return "".join(_ID_LETTERS[number >> shift & 31] for shift in range(0, 60, 5))
