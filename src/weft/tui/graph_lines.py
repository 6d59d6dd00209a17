"""The tasks of a run as lines: by level, mapped tasks as one line with counts that opens into its elements.

Loaded once, then changed by events: to ask for ten thousand tasks again takes up to half a second. What an
event does not say (who is queued now that a need has ended) comes with the next load.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from weft.core.states import TERMINAL
from weft.operations.replies import EventInfo, TaskInfo

_BEGINS: Final = frozenset(("assigned", "begun"))
_ENDS: Final = frozenset((
    "finished", "lost", "returned", "answered", "closed", "refused", "budget", "decided", "merged"
))  # fmt: skip
#: Events that leave every task as it is.
_HARMLESS: Final = frozenset((
    "owned", "disowned", "signalled", "progress", "context_conflict", "concluded", "advanced", "placed", "reopened",
    "overdue", "unverified", "adopted", "released",
))  # fmt: skip


class GraphLine(msgspec.Struct, kw_only=True):
    name: str
    title: str
    pos: int
    idx: int
    level: int
    kind: str
    needs: list[str]
    state: str
    attempt: int = 0
    node: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    wake_at: int | None = None
    reason: str | None = None
    elements: int | None = None  # of a mapped task that has opened
    held: str | None = None
    child: str | None = None
    first: bool = False  # of its level, in the list as it is shown

    @property
    def shown_state(self) -> str:
        return "held" if self.held is not None else self.state

    @property
    def order(self) -> tuple[int, int, int]:
        return self.level, self.pos, self.idx


def line_of(task: TaskInfo) -> GraphLine:
    return GraphLine(
        name=task.name, title=task.title, pos=task.pos, idx=task.idx, level=task.level, kind=task.kind,
        needs=task.needs, state=task.state, attempt=task.attempt, node=task.node,
        started_at=task.started_at or task.claimed_at, finished_at=task.finished_at, wake_at=task.wake_at,
        reason=task.reason, elements=task.elements, held=task.held, child=task.child,
    )  # fmt: skip


class GraphLines:
    def __init__(self) -> None:
        self.by_name: dict[str, GraphLine] = {}
        self.opened: dict[int, None] = {}  # positions of mapped tasks whose elements are shown
        self.counts: dict[int, Counter[str]] = {}  # states of the elements of each mapped task
        self._sorted: list[GraphLine] = []
        self._total: Counter[str] | None = None

    def load(self, lines: Iterable[GraphLine]) -> None:
        self.by_name = {line.name: line for line in lines}
        self._sorted = sorted(self.by_name.values(), key=lambda line: line.order)
        self.counts = {}
        self._total = None
        for line in self._sorted:
            if line.idx >= 0:
                self.counts.setdefault(line.pos, Counter())[line.shown_state] += 1

    def apply(self, event: EventInfo) -> bool:
        """False: the event changes what cannot be seen from it, and the tasks have to be loaded again."""
        line = None if event.task is None else self.by_name.get(event.task)
        if event.kind in _HARMLESS:
            return True
        if line is None:
            return False
        before = line.shown_state
        known = _change(line, event)
        if before != line.shown_state:
            self._total = None
        if line.idx >= 0 and before != line.shown_state:
            counted = self.counts.setdefault(line.pos, Counter())
            counted[before] -= 1
            counted[line.shown_state] += 1
        return known

    def rows(self, words: str = "") -> list[GraphLine]:
        """Those that have all of these words; without words, elements only where their task was opened."""
        wanted = words.lower().split()
        if wanted:
            shown = [line for line in self._sorted if _has(line, wanted)]
        else:
            shown = [line for line in self._sorted if line.idx < 0 or line.pos in self.opened]
        level = -1
        for line in shown:
            line.first = line.level != level
            level = line.level
        return shown

    def toggle(self, line: GraphLine) -> None:
        if line.pos in self.opened:
            del self.opened[line.pos]
        else:
            self.opened[line.pos] = None

    def count(self) -> Counter[str]:
        """Tasks by state; a mapped task counts as its elements."""
        if self._total is None:
            self._total = Counter(line.shown_state for line in self._sorted if line.elements is None)
        return self._total


def _has(line: GraphLine, words: list[str]) -> bool:
    text = f"{line.title} {line.shown_state.replace('_', ' ')} {line.node or ''} {line.kind}".lower()
    return all(word in text for word in words)


def _change(line: GraphLine, event: EventInfo) -> bool:
    data: dict[str, Any] = event.data
    kind = event.kind
    if kind in _BEGINS:
        line.state, line.attempt, line.node = "running", data["attempt"], event.node
        line.started_at, line.finished_at, line.reason, line.held = event.at, None, None, None
        line.child = data.get("run", line.child)
    elif kind == "started":
        line.started_at = data.get("started_at") or line.started_at
    elif kind in _ENDS:
        _end(line, data, event.at)
    elif kind == "skipped":
        line.state, line.reason, line.finished_at = "skipped", data.get("reason"), event.at
    elif kind == "waiting":
        line.state, line.wake_at, line.started_at = "waiting", data["wake_at"], event.at
    else:
        return False
    return True


def _end(line: GraphLine, data: dict[str, Any], at: int) -> None:
    state = data["state"]
    line.reason = data.get("error") or data.get("reason")
    line.wake_at = data.get("wake_at")
    line.started_at = data.get("started_at") or line.started_at
    if state == "held":
        line.held, line.finished_at = data["end"], at
        return
    line.state, line.held = state, None
    line.finished_at = (line.finished_at or at) if state in TERMINAL else None
