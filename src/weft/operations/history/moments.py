"""A run and its tasks as they were after one of its events."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from weft.core.history.replay import Replay, Replayed
from weft.core.rows import WHOLE, RunRow
from weft.core.states import TERMINAL
from weft.core.workflow import Workflow
from weft.operations.errors import NotFound
from weft.operations.graph.reading import LETTERS, STATES, ElementCounts, ElementStates, PastMoment, RunStates
from weft.operations.history.run_replay import HistoryEvent, RunReplay
from weft.operations.reading.runs import find_run, run_infos, run_row, task_position
from weft.operations.replies import RunInfo, TaskInfo

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess


class Moment(msgspec.Struct):
    """What is known of a run after one of its events. `workflow` is the definition that it has now: a corrected one
    has all tasks of the one before at their places."""

    run: RunRow
    workflow: Workflow
    history: RunReplay
    replay: Replay
    event: HistoryEvent

    def tasks(self) -> Iterator[tuple[tuple[int, int], Replayed]]:
        return ((place, task) for place, task in self.replay.tasks.items() if place[0] < len(self.workflow.tasks))

    def state(self) -> str:
        """Of the run. A replay leaves `pending` when something is ready."""
        return self.replay.state


@contextmanager
def moment_of(access: "StoreAccess", ref: str, seq: int) -> Iterator[Moment]:
    """Nothing else uses the run's replay meanwhile."""
    no, _ = find_run(access, ref)
    run = run_row(access, no)
    history = access.replays.of(access, run)
    with history.lock:
        history.advance(access)
        replay, event = history.at(access, seq)
        yield Moment(run, access.workflow(run.workflow), history, replay, event)


def past_of(moment: Moment) -> PastMoment:
    seqs, number = moment.history.seqs, moment.event.number
    return PastMoment(
        event=moment.event, total=len(seqs), previous=seqs[number - 2] if number > 1 else None,
        next=seqs[number] if number < len(seqs) else None,
    )  # fmt: skip


def states_at(access: "StoreAccess", ref: str, seq: int, times: bool) -> RunStates:
    """As `states_of` gives them now."""
    with moment_of(access, ref, seq) as moment:
        run, many = moment.run, len(moment.workflow.tasks)
        letters, attempts = ["p"] * many, [0] * many
        elements: dict[int, ElementCounts] = {}
        for (pos, idx), task in moment.tasks():
            if idx == WHOLE:
                letters[pos], attempts[pos] = LETTERS[task.state], task.attempt  # type: ignore[index]
                if task.elements is not None:
                    elements.setdefault(pos, ElementCounts(elements=0, states={})).elements = task.elements
            else:
                counts = elements.setdefault(pos, ElementCounts(elements=0, states={})).states
                counts[task.state] = counts.get(task.state, 0) + 1
        began, ended = _times(moment, many) if times else ([], [])
        return RunStates(
            run=run.id, workflow=run.workflow, state=moment.state(), generation=moment.replay.generation,
            created_at=run.created_at, now=moment.event.at, last_event=moment.event.seq, states="".join(letters),
            letters=STATES, attempts=attempts, began=began, ended=ended, elements=elements, past=past_of(moment),
        )  # fmt: skip


def _times(moment: Moment, many: int) -> tuple[list[int | None], list[int | None]]:
    began: list[int | None] = [None] * many
    ended: list[int | None] = [None] * many
    spans, origin, seq = moment.history.spans, moment.run.created_at, moment.event.seq
    for (pos, _), nth in spans.newest_at(seq, elements=False).items():
        if pos < many and spans.generation[nth] == moment.replay.tasks[(pos, WHOLE)].generation:
            began[pos] = spans.began[nth] - origin
            ended[pos] = spans.ended[nth] - origin if 0 < spans.ended_seq[nth] <= seq else None
    return began, ended


def element_states_at(access: "StoreAccess", ref: str, task: str, seq: int) -> ElementStates:
    with moment_of(access, ref, seq) as moment:
        pos, _ = task_position(access, moment.run.no, task)
        whole = moment.replay.tasks.get((pos, WHOLE))
        count = None if whole is None else whole.elements
        places = ((pos, idx) for idx in range(count or 0))
        letters = "".join(LETTERS[moment.replay.tasks[place].state] for place in places)  # type: ignore[index]
        return ElementStates(run=moment.run.id, task=task, elements=count, states=letters, letters=STATES)


def run_then(access: "StoreAccess", moment: Moment) -> RunInfo:
    """The run's line; what its history does not say is as it is now."""
    (now,) = run_infos(access.read("run_shown", moment.run.no))
    replay, state = moment.replay, moment.state()
    counts: dict[str, int] = {}
    for (_, idx), task in moment.tasks():
        if idx != WHOLE or task.elements is None:  # of a mapped task its elements are counted
            counts[task.state] = counts.get(task.state, 0) + 1
    over = state in ("succeeded", "failed", "cancelled")
    began = moment.history.spans.began
    started = now.started_at if began and now.started_at and now.started_at <= moment.event.at else None
    return msgspec.structs.replace(
        now, state=state, generation=replay.generation, halted=replay.halted, stop=replay.stop, level=replay.level,
        level_open=None, paused=replay.paused and not over, owner=None, started_at=started,
        finished_at=moment.event.at if over else None, reason=now.reason if over else None,
        total=sum(counts.values()), active=counts.get("queued", 0) + counts.get("running", 0),
        open=sum(many for one, many in counts.items() if one not in TERMINAL),
        **{one: counts.get(one, 0) for one in ("succeeded", "failed", "dead_letter", "cancelled", "skipped")},
    )  # fmt: skip


def tasks_then(moment: Moment, after: int, limit: int, task: str | None) -> tuple[list[TaskInfo], int | None]:
    """In the order of the definition, elements after all tasks; and where the next page starts."""
    places = sorted((place for place, _ in moment.tasks()), key=lambda one: (one[1] >= 0, one))
    if task is not None:
        wanted = moment.workflow.place(task)
        places = [one for one in places if one == wanted]
        if not places:
            raise NotFound(f"the run had no task {task} after event {moment.event.seq}")
    newest = moment.history.spans.newest_at(moment.event.seq, elements=True)
    shown = [task_then(moment, place, newest.get(place)) for place in places[after : after + limit]]
    return shown, after + limit if after + limit < len(places) else None


def task_then(moment: Moment, place: tuple[int, int], nth: int | None) -> TaskInfo:
    """`nth` is its newest span."""
    workflow, spans, task = moment.workflow, moment.history.spans, moment.replay.tasks[place]
    definition, seq = workflow.tasks[place[0]], moment.event.seq
    levels = workflow.levels if workflow.level_plan is None else workflow.level_plan.at
    began = None if nth is None or spans.generation[nth] != task.generation else spans.began[nth]
    ended = spans.ended[nth] if nth is not None and began and 0 < spans.ended_seq[nth] <= seq else None
    over: Any = task.state in TERMINAL or task.held is not None
    return TaskInfo(
        run_id=moment.run.id, name=definition.called(place[1]), pos=place[0], idx=place[1], level=levels[place[0]],
        kind=definition.kind, needs=[workflow.tasks[one].name for one in definition.needs], state=task.state,
        generation=task.generation, attempt=task.attempt, failures=task.failures, lost=task.lost,
        elements=task.elements, open=task.open, ready_at=task.ready_at, wake_at=task.wake_at, claimed_at=began,
        started_at=began, finished_at=ended if over else None, reason=spans.reason_at(place, seq),
        node=None if nth is None or began is None else spans.node[nth], session=None, exit_code=None,
        allow_failure=definition.allow_failure, held=task.held,
    )  # fmt: skip
