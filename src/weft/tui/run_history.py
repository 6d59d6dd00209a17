"""A run as it was after any of its events: replayed from a copy of its state that was kept on the way."""

from collections.abc import Callable

import msgspec

from weft.core.history.checkpoints import Checkpoints
from weft.core.history.replay import Replay
from weft.core.rows import WHOLE
from weft.core.states import TERMINAL
from weft.core.workflow import Workflow
from weft.operations.replies import EventInfo, RunInfo
from weft.tui.graph_lines import GraphLine


class Facts(msgspec.Struct, frozen=True):
    """What events say of a task beside its state."""

    node: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    reason: str | None = None


class _Moment:
    def __init__(self, replay: Replay, facts: dict[str, Facts]) -> None:
        self.replay = replay
        self.facts = facts

    def copy(self) -> "_Moment":
        return _Moment(self.replay.copy(), dict(self.facts))

    def apply(self, event: EventInfo, workflow: Workflow) -> None:
        place = None if event.task is None else workflow.place(event.task)
        self.replay.apply(event.kind, place, event.data)
        if event.task is not None:
            self.facts[event.task] = _with(self.facts.get(event.task, Facts()), event)


def _with(facts: Facts, event: EventInfo) -> Facts:
    if event.kind in ("assigned", "begun"):
        return Facts(event.node, event.at)
    state = event.data.get("state")
    started = event.data.get("started_at") or facts.started_at
    reason = event.data.get("error") or event.data.get("reason") or facts.reason
    ended = event.at if state in TERMINAL or state == "held" or event.kind == "skipped" else facts.finished_at
    return Facts(facts.node, started, ended, reason)


class RunHistory:
    """`definition` finds the definitions that the run had before it was corrected, by hash; they are kept."""

    def __init__(self, run: RunInfo, definition: Callable[[str], Workflow]) -> None:
        self._definition = definition
        self._known: dict[str, Workflow] = {}
        self.workflow = self._find(run.workflow)
        self.events: list[EventInfo] = []
        limited = run.max_parallel is not None or run.advance_state is not None
        self._last = _Moment(Replay(self.workflow, limited, self._find), {})
        self._kept = Checkpoints(self._last)
        self._lines: dict[tuple[int, int], GraphLine] = {}  # made once, and changed for each moment

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    def _find(self, hash: str) -> Workflow:
        if hash not in self._known:
            self._known[hash] = self._definition(hash)
        return self._known[hash]

    def add(self, events: list[EventInfo]) -> None:
        """The next events. Definitions may have to be asked for: not on the event loop."""
        for event in events:
            self._last.apply(event, self.workflow)
            self.events.append(event)
            self._kept.offer(len(self.events), self._last)

    def at(self, count: int) -> list[GraphLine]:
        """The tasks after the first `count` events; the lines are changed by the next call."""
        done, moment = self._kept.before(count)
        for at in range(done, count):
            self._kept.passing(at, count, moment)
            moment.apply(self.events[at], self.workflow)
        moment.replay.settle()
        return self._lines_of(moment)

    def generation_at(self, count: int) -> int:
        return 1 + sum(event.kind == "resumed" for event in self.events[:count])

    def generation_end(self, count: int, *, before: bool) -> int:
        """How many events there are at the end of the generation before, or of the one after."""
        ends = [at for at, event in enumerate(self.events) if event.kind == "resumed"] + [len(self.events)]
        if before:
            return max((end for end in ends if end < count), default=count)
        return min((end for end in ends if end > count), default=count)

    def state_at(self, count: int) -> str:
        """Of the run: what the last event about it says."""
        for event in reversed(self.events[:count]):
            if event.kind == "run_finished":
                return str(event.data["state"])
            if event.kind in ("resumed", "assigned", "begun"):
                return "running"
        return "pending"

    def _lines_of(self, moment: _Moment) -> list[GraphLine]:
        nothing = Facts()
        lines = []
        for place, task in moment.replay.tasks.items():
            if place[0] >= len(self.workflow.tasks):
                continue
            line = self._lines.get(place)
            if line is None:
                line = self._lines[place] = self._line(*place)
            facts = moment.facts.get(line.name, nothing)
            line.state, line.attempt, line.held, line.elements = task.state, task.attempt, task.held, task.elements
            line.node, line.started_at, line.reason, line.wake_at = (
                facts.node, facts.started_at, facts.reason, task.wake_at,
            )  # fmt: skip
            line.finished_at = facts.finished_at if task.state in TERMINAL or task.held is not None else None
            lines.append(line)
        return lines

    def _line(self, pos: int, idx: int) -> GraphLine:
        workflow = self.workflow
        levels = workflow.levels if workflow.level_plan is None else workflow.level_plan.at
        task = workflow.tasks[pos]
        name = task.name if idx == WHOLE else task.called(idx)
        needs = [workflow.tasks[need].name for need in task.needs]
        return GraphLine(
            name=name, title=name, pos=pos, idx=idx, level=levels[pos], kind=task.kind, needs=needs, state="pending"
        )
