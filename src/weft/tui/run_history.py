"""A run as it was after any of its events: replayed from a copy of its state that was kept on the way.

A copy of ten thousand tasks takes milliseconds and some megabytes: at most `COPIES_MAX` are kept, evenly spread, so
that any moment is at most a sixteenth of the history away from one.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from weft.core.history.replay import Replay
from weft.core.rows import WHOLE
from weft.core.states import TERMINAL
from weft.core.workflow import Workflow
from weft.operations.replies import EventInfo, RunInfo
from weft.tui.graph_lines import GraphLine

COPIES_MAX: Final = 16
EVERY_MIN: Final = 256  # events between two copies


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
        self._copies: list[tuple[int, _Moment]] = [(0, self._last.copy())]
        self._every = EVERY_MIN

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
            if len(self.events) - self._copies[-1][0] >= self._every:
                self._copies.append((len(self.events), self._last.copy()))
        while len(self._copies) > COPIES_MAX:
            self._copies = self._copies[::2]
            self._every *= 2

    def at(self, count: int) -> list[GraphLine]:
        """The tasks after the first `count` events."""
        done, kept = max((one for one in self._copies if one[0] <= count), key=lambda one: one[0])
        moment = kept.copy()
        for event in self.events[done:count]:
            moment.apply(event, self.workflow)
        moment.replay.settle()
        return self._lines(moment)

    def state_at(self, count: int) -> str:
        """Of the run: what the last event about it says."""
        for event in reversed(self.events[:count]):
            if event.kind == "run_finished":
                return str(event.data["state"])
            if event.kind in ("resumed", "assigned", "begun"):
                return "running"
        return "pending"

    def _lines(self, moment: _Moment) -> list[GraphLine]:
        workflow = self.workflow
        levels = workflow.levels if workflow.level_plan is None else workflow.level_plan.at
        names = [task.name for task in workflow.tasks]
        needs = [[names[need] for need in task.needs] for task in workflow.tasks]
        nothing = Facts()
        lines = []
        for (pos, idx), task in moment.replay.tasks.items():
            if pos >= len(names):
                continue
            name = names[pos] if idx == WHOLE else workflow.tasks[pos].called(idx)
            facts = moment.facts.get(name, nothing)
            ended = task.state in TERMINAL or task.held is not None
            lines.append(
                GraphLine(
                    name=name, title=name, pos=pos, idx=idx, level=levels[pos], kind=workflow.tasks[pos].kind,
                    needs=needs[pos], state=task.state, attempt=task.attempt, node=facts.node,
                    started_at=facts.started_at, finished_at=facts.finished_at if ended else None,
                    wake_at=task.wake_at, reason=facts.reason, elements=task.elements, held=task.held,
                )
            )  # fmt: skip
        return lines
