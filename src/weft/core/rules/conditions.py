"""`if`: asked when a task's needs have ended and its rule is true. True, false, or an error, which is never false."""

from weft.core.decision.draft import Draft, Rule
from weft.core.expressions import ExpressionError, parse_condition
from weft.core.rows import RunRow, TaskRow
from weft.core.rules.names import names_of
from weft.core.workflow import TaskDef, Workflow


def ask(draft: Draft, run: RunRow, workflow: Workflow, task: TaskRow, definition: TaskDef) -> Rule:
    """(answer, error): (True, None), (False, None), or (False, why it could not be evaluated)."""
    assert definition.condition is not None
    names = yield from names_of(draft, run, workflow, definition, definition.reads)
    try:
        return parse_condition(definition.condition).truth(names), None
    except ExpressionError as error:
        return False, f"if: {error.message}"
