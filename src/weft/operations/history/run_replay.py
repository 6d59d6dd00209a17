"""A run rebuilt at any of its events: one replay that follows it, copies of that on the way, and its spans.

A server keeps those of the runs that were looked at last. A seek starts at the nearest copy and reads only the events
from there on.
"""

import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.core.history.batches import expanded
from weft.core.history.checkpoints import Checkpoints
from weft.core.history.replay import Replay
from weft.core.rows import WHOLE, RunRow
from weft.operations.errors import NotFound
from weft.operations.history.spans import Spans

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

ROWS: Final = 500  # of history, read at a time; one may have a thousand events
RUNS_MAX: Final = 8  # kept
COPIED_TASKS_MAX: Final = 200_000  # in the copies of a run: 30 MB
#: Events that a person looks for in a history.
_NOTABLE: Final = ("resumed", "halted", "stopped", "paused", "run_finished", "lost")
NOTABLE_MAX: Final = 500


class HistoryEvent(msgspec.Struct, kw_only=True):
    """One event of a run's history."""

    seq: int
    at: int
    kind: str
    task: str | None
    node: str | None
    number: int  # its place in the run's history, from 1


class ReadEvent(msgspec.Struct):
    """One event of a run as the store has it."""

    seq: int
    at: int
    kind: str
    place: tuple[int, int] | None
    node: str | None
    data: dict[str, Any]


class RunReplay:
    """One at a time may use it: `lock`."""

    def __init__(self, access: "StoreAccess", run: RunRow) -> None:
        self.lock = threading.Lock()
        self.no = run.no
        workflow = access.workflow(run.workflow)
        self.head = Replay(workflow, run.bounded, access.workflow)
        self.seqs, self.times = array("q"), array("q")
        self.spans = Spans()
        self.notable: list[HistoryEvent] = []
        self.generations: list[tuple[int, int, int]] = []  # (generation, event, time)
        self._kept = Checkpoints(self.head, COPIED_TASKS_MAX // max(1, len(workflow.tasks)))

    def advance(self, access: "StoreAccess") -> None:
        """Apply what has happened since the last time."""
        for event in events_of(access, self.no, self.seqs[-1] if self.seqs else 0):
            if event.kind in ("submitted", "resumed"):
                self.generations.append((event.data.get("generation", 1), event.seq, event.at))
            self.head.apply(event.kind, event.place, event.data, event.at)
            self.spans.apply(self.head, event.seq, event.at, event.kind, event.place, event.node, event.data)
            self.seqs.append(event.seq)
            self.times.append(event.at)
            self._kept.offer(len(self.seqs), self.head)
            bad = event.data.get("state") in ("failed", "dead_letter")
            if (bad or event.kind in _NOTABLE) and len(self.notable) < NOTABLE_MAX:
                self.notable.append(self._shown(event, len(self.seqs)))

    def _shown(self, event: ReadEvent, number: int) -> HistoryEvent:
        tasks = self.head.workflow.tasks
        known = event.place is not None and event.place[0] < len(tasks)
        name = tasks[event.place[0]].called(event.place[1]) if known and event.place is not None else None
        return HistoryEvent(
            seq=event.seq, at=event.at, kind=event.kind, task=name, node=event.node, number=number
        )  # fmt: skip

    def at(self, access: "StoreAccess", seq: int) -> tuple[Replay, HistoryEvent]:
        """The state after this event, and which one it is: the last of the run's that is not later."""
        count = bisect_right(self.seqs, seq)
        if count == 0:
            first = f": its first event is {self.seqs[0]}" if self.seqs else ""
            raise NotFound(f"the run has no event up to {seq}{first}")
        done, state = self._kept.before(count - 1)  # one is applied in any case: it is shown
        shown = None
        for event in events_of(access, self.no, self.seqs[done - 1] if done else 0):
            self._kept.passing(done, count, state)
            state.apply(event.kind, event.place, event.data, event.at)
            done += 1
            if done == count:
                shown = self._shown(event, count)
                break
        assert shown is not None, "the events of a run are never changed"
        state.settle()
        return state, shown


def events_of(
    access: "StoreAccess", no: int, after: int = 0, settled: int | None = None
) -> Iterator[ReadEvent]:  # fmt: skip
    """All of a run that come after this one, as they are read. Within a snapshot all that it has are settled."""
    settled = access.store.settled_event() if settled is None else settled
    while True:
        rows = access.read("events_found_of_run", after, None, None, None, None, ROWS, settled, no)
        for last, at, _, pos, idx, kind, _, many, text, node, *_ in rows:
            for seq, of_pos, of_idx, data in expanded((last, at, pos, idx, kind, many, text)):
                if seq > after:
                    place = None if of_pos is None else (of_pos, WHOLE if of_idx is None else of_idx)
                    yield ReadEvent(seq, at, kind, place, node, data)
        if len(rows) < ROWS:
            return
        after = rows[-1][0]


class RunReplays:
    """Those of the runs that were looked at last."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, RunReplay] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, access: "StoreAccess", run: RunRow) -> RunReplay:
        with self._lock:
            found = self._known.get(run.no)
            if found is None:
                found = self._known[run.no] = RunReplay(access, run)
            self._known.move_to_end(run.no)
            while len(self._known) > RUNS_MAX:
                self._known.popitem(last=False)
            return found
