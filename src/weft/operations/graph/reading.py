"""The graph of a run as a page draws it: its layout once, and the states of all tasks in a few bytes each."""

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.core.rows import ORDINAL_BITS
from weft.core.states import TaskState
from weft.core.workflow import Workflow
from weft.operations.graph.layout import GraphLayout, layout
from weft.operations.history.run_replay import HistoryEvent
from weft.operations.reading.runs import find_run, run_info, run_row, task_position

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

#: One letter a state, so that the states of 10,000 tasks are a text of 10,000 bytes.
LETTERS: Final[dict[TaskState, str]] = {
    "pending": "p", "queued": "q", "scheduled": "d", "waiting": "w", "running": "r", "succeeded": "s", "failed": "f",
    "cancelled": "c", "skipped": "k", "dead_letter": "x",
}  # fmt: skip
STATES: Final[dict[str, str]] = {letter: state for state, letter in LETTERS.items()}
LAYOUTS_MAX: Final = 32


class WorkflowGraph(msgspec.Struct, kw_only=True):
    """Lists are by position: a task's place in the definition."""

    workflow: str  # its hash: the same graph for the same hash
    names: list[str]
    kinds: list[str]  # those that there are
    kind: list[int]  # places in `kinds`
    level: list[int]
    mapped: list[int]  # positions of tasks with elements
    column: list[int]
    row: list[int]  # in quarters of a row
    columns: int
    rows: int
    edges: list[int]  # from, to, from, to …
    bends: dict[int, list[int]]  # by the number of an edge: column, row, column, row … that it passes


class RunGraph(WorkflowGraph, kw_only=True):
    """The graph of a run's workflow."""

    run: str


class ElementCounts(msgspec.Struct, kw_only=True):
    """Of a mapped task that has opened."""

    elements: int
    states: dict[str, int]


class PastMoment(msgspec.Struct, kw_only=True):
    """A run as it was after one of its events."""

    event: HistoryEvent
    total: int  # how many events its history has by now
    previous: int | None  # the event before this one
    next: int | None


class RunStates(msgspec.Struct, kw_only=True):
    """All tasks of a run at one moment."""

    run: str
    workflow: str
    state: str
    generation: int
    created_at: int
    now: int
    last_event: int  # what happened up to this event is in here: follow from there
    states: str  # a letter for each task, by position: see `letters`
    letters: dict[str, str]  # states by letter
    attempts: list[int]  # by position
    began: list[int | None]  # by position: ms since `created_at`; empty without `times`
    ended: list[int | None]
    elements: dict[int, ElementCounts]  # by position, of mapped tasks
    past: PastMoment | None = None  # null: as it is now; otherwise `now` is when that event happened


class ElementStates(msgspec.Struct, kw_only=True):
    """The elements of a mapped task."""

    run: str
    task: str
    elements: int | None  # how many; null: it has not opened
    states: str  # a letter for each element, by its index
    letters: dict[str, str]


class _Layouts:
    """The newest ones, by workflow: a picture that many look at is worked out once."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, GraphLayout] = OrderedDict()

    def of(self, workflow: Workflow) -> GraphLayout:
        found = self._known.get(workflow.hash)
        if found is None:
            found = layout([task.needs for task in workflow.tasks], workflow.levels)
            self._known[workflow.hash] = found
            while len(self._known) > LAYOUTS_MAX:
                self._known.popitem(last=False)
        return found


_LAYOUTS: Final = _Layouts()


def graph_of(access: "StoreAccess", ref: str) -> RunGraph:
    no, run_id = find_run(access, ref)
    return RunGraph(run=run_id, **_drawn(access.workflow(run_row(access, no).workflow)))


def workflow_graph_of(access: "StoreAccess", hash: str) -> WorkflowGraph:
    return WorkflowGraph(**_drawn(access.workflow(hash)))


def _drawn(workflow: Workflow) -> dict[str, Any]:
    """The fields of a WorkflowGraph."""
    found = _LAYOUTS.of(workflow)
    kinds = list(dict.fromkeys(task.kind for task in workflow.tasks))
    place = {kind: at for at, kind in enumerate(kinds)}
    return {
        "workflow": workflow.hash, "names": [task.name for task in workflow.tasks], "kinds": kinds,
        "kind": [place[task.kind] for task in workflow.tasks], "level": list(workflow.levels),
        "mapped": [pos for pos, task in enumerate(workflow.tasks) if task.mapped],
        **msgspec.structs.asdict(found),
    }  # fmt: skip


def states_of(access: "StoreAccess", ref: str, times: bool) -> RunStates:
    with access.snapshot():
        run = run_info(access, ref)
        workflow = access.workflow(run.workflow)
        low, high = run.no << ORDINAL_BITS, (run.no + 1) << ORDINAL_BITS
        tasks = len(workflow.tasks)
        letters, attempts = ["p"] * tasks, [0] * tasks
        began: list[int | None] = [None] * tasks if times else []
        ended: list[int | None] = [None] * tasks if times else []
        elements: dict[int, ElementCounts] = {}
        for pos, state, attempt, count, started_at, finished_at in access.read("states_of_run", low, high):
            letters[pos], attempts[pos] = LETTERS[state], attempt
            if times:
                began[pos] = None if started_at is None else started_at - run.created_at
                ended[pos] = None if finished_at is None else finished_at - run.created_at
            if count is not None:
                elements[pos] = ElementCounts(elements=count, states={})
        if elements:
            for pos, state, count in access.read("element_states_of_run", low, high):
                if pos in elements:
                    elements[pos].states[state] = count
        return RunStates(
            run=run.id, workflow=run.workflow, state=run.state, generation=run.generation, created_at=run.created_at,
            now=access.now(), last_event=int(access.read("event_last_of_run", run.no)[0][0]),
            states="".join(letters), letters=STATES, attempts=attempts, began=began, ended=ended,
            elements=elements,
        )  # fmt: skip


def element_states_of(access: "StoreAccess", ref: str, task: str) -> ElementStates:
    with access.snapshot():
        no, run_id = find_run(access, ref)
        pos, _ = task_position(access, no, task)
        low, high = no << ORDINAL_BITS, (no + 1) << ORDINAL_BITS
        states = dict(access.read("element_states_of_task", low, high, pos))
        ((count,),) = access.read("elements_of_task", low, high, pos) or [(None,)]
    letters = "".join(LETTERS[states.get(idx, "pending")] for idx in range(count or 0))
    return ElementStates(run=run_id, task=task, elements=count, states=letters, letters=STATES)
