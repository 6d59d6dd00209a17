"""What an expression sees while a rule decides: stored ends and inputs, and what this transaction just learned."""

from typing import Any

import msgspec

from weft.core.artifacts import with_files
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import RunInputs, TaskEnds
from weft.core.expressions.run_names import Ended, names_for, tasks_view
from weft.core.rows import RunRow
from weft.core.rules.context import context_values
from weft.core.rules.outcome import outcome_of
from weft.core.workflow import TaskDef, Workflow


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
