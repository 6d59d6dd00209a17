"""What an expression sees while a rule decides: stored ends and inputs, and what this transaction just learned.

How a run has ended for its handlers (`run.state`, `run.reason`, `run.failed`) is worked out once per generation, when
all tasks but the handlers of the run have ended, and stored: handlers that run side by side see the same, whichever
of them fails first. It stands among the arrays of maps, at a position that no task has.
"""

from typing import Any, Final

import msgspec

from weft.core.artifacts import with_files
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import FailedTasks, MapArray, RunInputs, TaskEnds
from weft.core.expressions.run_names import Ended, names_for, tasks_view
from weft.core.rows import WHOLE, RunRow
from weft.core.rules.context import context_values
from weft.core.rules.readiness import run_state
from weft.core.workflow import TaskDef, Workflow

OUTCOME: Final = -1
_FAILED: Final = ("failed", "dead_letter")


def names_of(
    draft: Draft,
    run: RunRow,
    workflow: Workflow,
    definition: TaskDef,
    reads: tuple[int, ...],
    files_of: tuple[int, ...] = (),
) -> Rule:
    """What a task's expressions see; `files_of` are the positions whose artifacts are read."""
    names = yield from names_of_run(draft, run, workflow, reads, long_form=definition.long_form, files_of=files_of)
    if definition.reads_outcome:
        names["run"] |= yield from outcome_of(draft, run)
    return names


def names_of_run(
    draft: Draft,
    run: RunRow,
    workflow: Workflow,
    reads: tuple[int, ...],
    *,
    long_form: bool = False,
    files_of: tuple[int, ...] = (),
) -> Rule:
    stored: list[Ended] = []
    if reads:
        (stored,) = yield (TaskEnds(run.no, list(reads)),)
    inputs: list[dict[str, Any]]
    if run.no in draft.created.runs:
        inputs = [msgspec.json.decode(draft.created.runs[run.no][1]["inputs"])]
    else:
        (inputs,) = yield (RunInputs(run.no),)
    context = yield from context_values(draft, run)
    ends = _with_draft(draft, run, reads, stored)
    if files_of:
        _place_files(draft, run, [ended for ended in ends if ended.pos in files_of])
    return names_for(
        inputs=inputs[0],
        tasks=tasks_view(ends, workflow, long_form=long_form),
        run={"id": run.id, "name": run.name, "generation": run.generation},
        context=context,
    )


def _place_files(draft: Draft, run: RunRow, ends: list[Ended]) -> None:
    results = with_files([ended.result for ended in ends], run.id, draft.files)
    for ended, result in zip(ends, results, strict=True):
        ended.result = result


def _with_draft(draft: Draft, run: RunRow, reads: tuple[int, ...], stored: list[Ended]) -> list[Ended]:
    """What this transaction has just learned is newer than what is stored."""
    ends = {(e.pos, e.idx): e for e in stored}
    attempts = {(a.task_id, a.attempt): a for a in draft.attempts}
    wanted = frozenset(reads)
    for row in draft.tasks.values():
        if row.run_no != run.no or row.pos not in wanted or draft.at[(row.run_no, row.pos, row.idx)] is not row:
            continue
        known = ends.get((row.pos, row.idx))
        attempt = attempts.get((row.id, row.attempt))
        if run.level is not None and row.state == "cancelled":  # see ends_at
            ended = Ended(row.pos, row.idx, row.state, None, row.reason, None)
        elif attempt is not None:
            ended = Ended(row.pos, row.idx, row.state, attempt.exit_code, attempt.error, attempt.result)
        elif known is not None:
            ended = Ended(row.pos, row.idx, row.state, known.exit_code, known.error, known.result)
        else:
            ended = Ended(row.pos, row.idx, row.state, None, row.reason, None)
        ends[(row.pos, row.idx)] = ended
    return [ends[place] for place in sorted(ends)]


def fix_outcome(draft: Draft, run: RunRow) -> Rule:
    """The handlers of the run are about to start."""
    workflow = draft.workflows[run.workflow]
    if not any(task.reads_outcome for task in workflow.tasks):
        return
    generation, _ = yield from _newest(draft, run)
    if generation == run.generation:
        return
    positions = yield from failed_positions(draft, run)
    tasks = [workflow.tasks[pos] for pos in positions]
    failed = [task.name for task in tasks if not task.final and not task.allow_failure]
    state = run_state(run.stop, len(failed), run.cancelled)
    outcome = {"state": state, "reason": None if state == "succeeded" else run.reason, "failed": failed}
    draft.values.arrays.append((run.no, OUTCOME, run.generation, outcome_text(outcome)))
    draft.event(run.no, "concluded", outcome)


def failed_positions(draft: Draft, run: RunRow) -> Rule:
    """Of the tasks of a run that have failed so far, in the order of the document."""
    (stored,) = yield (FailedTasks(run.no),)
    states: dict[int, str] = dict(stored)
    for row in draft.tasks.values():
        if row.run_no == run.no and row.idx == WHOLE and draft.at[(run.no, row.pos, WHOLE)] is row:
            states[row.pos] = row.state
    return [pos for pos in sorted(states) if states[pos] in _FAILED]


def outcome_text(outcome: dict[str, Any]) -> str:
    """As it is stored."""
    return msgspec.json.encode({key: outcome[key] for key in ("state", "reason", "failed")}).decode()


def outcome_of(draft: Draft, run: RunRow) -> Rule:
    """What the expressions of a handler see."""
    _, text = yield from _newest(draft, run)
    return msgspec.json.decode(text)


def _newest(draft: Draft, run: RunRow) -> Rule:
    """(generation, JSON) of the last one; (0, "{}") if there is none yet."""
    for run_no, pos, generation, text in reversed(draft.values.arrays):
        if run_no == run.no and pos == OUTCOME:
            return generation, text
    (rows,) = yield (MapArray(run.no, OUTCOME),)
    return rows[0] if rows else (0, "{}")
