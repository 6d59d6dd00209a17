"""How a run has ended for its handlers: `run.state`, `run.reason` and `run.failed`.

Worked out once per generation, when all tasks but the handlers of the run have ended, and stored: handlers that run
side by side see the same, whichever of them fails first. It stands among the arrays of maps, at a position that no
task has.
"""

from typing import Any, Final

import msgspec

from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import FailedTasks, MapArray
from weft.core.rows import WHOLE, RunRow
from weft.core.rules.readiness import run_state

OUTCOME: Final = -1
_FAILED: Final = ("failed", "dead_letter")


def fix_outcome(draft: Draft, run: RunRow) -> Rule:
    """The handlers of the run are about to start."""
    workflow = draft.workflows[run.workflow]
    if not any(task.reads_outcome for task in workflow.tasks):
        return
    generation, _ = yield from _newest(draft, run)
    if generation == run.generation:
        return
    (stored,) = yield (FailedTasks(run.no),)
    states: dict[int, str] = dict(stored)
    for row in draft.tasks.values():
        if row.run_no == run.no and row.idx == WHOLE and draft.at[(run.no, row.pos, WHOLE)] is row:
            states[row.pos] = row.state
    failed = [
        task.name
        for pos, task in enumerate(workflow.tasks)
        if states.get(pos) in _FAILED and not task.final and not task.allow_failure
    ]
    state = run_state(run.stop, len(failed), run.cancelled)
    outcome = {"state": state, "reason": None if state == "succeeded" else run.reason, "failed": failed}
    draft.values.arrays.append((run.no, OUTCOME, run.generation, outcome_text(outcome)))
    draft.event(run.no, "concluded", outcome)


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
