"""`if`: asked when a task's needs have ended and its rule is true. True, false, or an error, which is never false."""

import msgspec

from weft.core.draft import Draft, Rule
from weft.core.expressions import ExpressionError, parse_condition
from weft.core.names import Ended, names_for, tasks_view
from weft.core.needs import Ends, Inputs
from weft.core.rows import RunRow, TaskRow
from weft.core.workflow import TaskDef, Workflow


def ask(draft: Draft, run: RunRow, workflow: Workflow, task: TaskRow, definition: TaskDef) -> Rule:
    """(answer, error): (True, None), (False, None), or (False, why it could not be evaluated)."""
    assert definition.condition is not None
    stored: list[Ended] = []
    if definition.reads:
        (stored,) = yield (Ends(run.no, list(definition.reads)),)
    if draft.new_run is not None and draft.new_run[0] is run:
        inputs = [msgspec.json.decode(draft.new_run[1]["inputs"])]
    else:
        (inputs,) = yield (Inputs(run.no),)
    ends = _with_draft(draft, run, definition, stored)
    names = names_for(
        inputs=inputs[0],
        tasks=tasks_view(ends, workflow, long_form=definition.long_form),
        run={"id": run.id, "name": run.name, "generation": run.generation},
        context={},
    )
    try:
        return parse_condition(definition.condition).truth(names), None
    except ExpressionError as error:
        return False, f"if: {error.message}"


def _with_draft(draft: Draft, run: RunRow, definition: TaskDef, stored: list[Ended]) -> list[Ended]:
    """What this transaction has just learned is newer than what is stored."""
    ends = {(e.pos, e.idx): e for e in stored}
    attempts = {(a.task_id, a.attempt): a for a in draft.attempts}
    wanted = frozenset(definition.reads)
    for row in draft.tasks.values():
        if row.run_no != run.no or row.pos not in wanted or draft.at[(row.run_no, row.pos, row.idx)] is not row:
            continue
        known = ends.get((row.pos, row.idx))
        attempt = attempts.get((row.id, row.attempt))
        if attempt is not None:
            ended = Ended(row.pos, row.idx, row.state, attempt.exit_code, attempt.error, attempt.result)
        elif known is not None:
            ended = Ended(row.pos, row.idx, row.state, known.exit_code, known.error, known.result)
        else:
            ended = Ended(row.pos, row.idx, row.state, None, row.reason, None)
        ends[(row.pos, row.idx)] = ended
    return [ends[place] for place in sorted(ends)]
