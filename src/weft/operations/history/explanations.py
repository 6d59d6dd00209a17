"""`why` as of an event: the same words for the same state, rebuilt; what a run's history does not say is named."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.core.explain import Situation, explain
from weft.core.history.replay import Replayed
from weft.core.rows import WHOLE, RunRow, TaskRow
from weft.core.states import TERMINAL
from weft.operations.errors import NotFound
from weft.operations.history.moments import Moment, moment_of
from weft.operations.history.nodes_then import nodes_then
from weft.operations.reading.explanations import WHY_MAX
from weft.operations.replies import Explanation

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

QUEUE_UNKNOWN: Final = "what was before it in the queue, and how much memory was free, is in no history"
CHILD_UNKNOWN: Final = "how far that run was is in its own history"
_BAD: Final = ("failed", "dead_letter", "skipped", "cancelled")


def why_at(access: "StoreAccess", ref: str, task: str | None, seq: int) -> list[Explanation]:
    """One task, or those that had not ended (failures first where all had)."""
    with moment_of(access, ref, seq) as moment:
        run = _run_row(moment)
        newest = moment.history.spans.newest_at(seq, elements=True)
        found = [_explained(moment, run, place, newest.get(place)) for place in _places(moment, task)]
        at = moment.event.at
    queued = [one for one in found if one.state == "queued"]
    lines = [*nodes_then(access, seq, at), QUEUE_UNKNOWN] if queued else []
    for one in queued:
        one.details = lines
    return found


def _places(moment: Moment, task: str | None) -> list[tuple[int, int]]:
    if task is not None:
        place = moment.workflow.place(task)
        if place is None or place not in moment.replay.tasks:
            raise NotFound(f"the run had no task {task} after event {moment.event.seq}")
        return [place]
    found = sorted(place for place, one in moment.tasks() if one.state not in TERMINAL)
    found = found or sorted(place for place, one in moment.tasks() if one.state in _BAD)
    return found[:WHY_MAX]


def _run_row(moment: Moment) -> RunRow:
    replay, states = moment.replay, [task.state for _, task in moment.tasks()]
    level_open = None
    if moment.workflow.level_plan is not None and replay.level is not None:
        at = moment.workflow.level_plan.at
        level_open = sum(
            task.state not in TERMINAL and task.held is None
            for (pos, _), task in moment.tasks()
            if at[pos] == replay.level
        )
    return msgspec.structs.replace(
        moment.run, state=replay.state, generation=replay.generation, halted=replay.halted, stop=replay.stop,
        paused=replay.paused, level=replay.level, level_open=level_open, open_main=replay.open_main,
        active=states.count("queued") + states.count("running"), owner=None,
        deadline_at=moment.run.deadline_at if replay.handlers else None,
    )  # fmt: skip


def _task_row(moment: Moment, place: tuple[int, int], task: Replayed, began: int | None = None) -> TaskRow:
    known: dict[str, Any] = {name: getattr(task, name) for name in Replayed.__struct_fields__ if name in _SHARED}
    reason = moment.history.spans.reason_at(place, moment.event.seq)
    return TaskRow(0, moment.run.no, *place, "", **known, started_at=began, reason=reason)


_SHARED: Final = frozenset(Replayed.__struct_fields__) & frozenset(TaskRow.__struct_fields__)


def _explained(moment: Moment, run: RunRow, place: tuple[int, int], nth: int | None) -> Explanation:
    spans, definition, replay = moment.history.spans, moment.workflow.tasks[place[0]], moment.replay
    began = None if nth is None else spans.began[nth]
    row = _task_row(moment, place, replay.tasks[place], began)
    needs = {pos: _task_row(moment, (pos, WHOLE), replay.tasks[(pos, WHOLE)]) for pos in definition.needs}
    summary, details = _words(moment, run, row, needs, None if nth is None else spans.node[nth])
    return Explanation(task=definition.called(place[1]), state=row.state, summary=summary, details=details)


def _words(
    moment: Moment, run: RunRow, row: TaskRow, needs: dict[int, TaskRow], node: str | None
) -> tuple[str, list[str]]:  # fmt: skip
    if row.state == "queued":
        return "it is ready, and in the queue", []
    if row.state == "running" and moment.workflow.tasks[row.pos].kind == "workflow" and row.elements is None:
        return "it is running as a run of its own", [CHILD_UNKNOWN]
    return explain(Situation(run, row, moment.workflow, needs, (), {}, 0, moment.event.at, node))
