"""When what ran where: a line for each attempt of a run, from its events, in columns."""

from array import array
from typing import Any, Final

import msgspec

from weft.core.history.replay import Replay
from weft.core.rows import WHOLE
from weft.core.states import TERMINAL

_UNDER: Final = ("running", "waiting")
#: What an attempt that was cut off, or given back, looks like.
_CUT_OFF: Final = "cancelled"


class Reason(msgspec.Struct, frozen=True):
    """What an event said about a task."""

    seq: int
    text: str


class Spans:
    """Columns, in the order in which the spans began. Times are ms since 1970, 0: not known, or not yet. A span is a
    task's way from the start of an attempt to its end; of a mapped task, from its first element's start."""

    def __init__(self) -> None:
        self.pos, self.idx, self.attempt, self.generation = array("l"), array("l"), array("l"), array("l")
        self.ready, self.began, self.ended = array("q"), array("q"), array("q")
        self.began_seq, self.ended_seq = array("q"), array("q")
        self.node: list[str | None] = []
        self.state: list[str] = []  # how it ended; running, waiting: not yet
        self.reasons: dict[tuple[int, int], list[Reason]] = {}
        self._open: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.began)

    def apply(
        self, replay: Replay, seq: int, at: int, kind: str, place: tuple[int, int] | None, node: str | None,
        data: dict[str, Any],
    ) -> None:  # fmt: skip
        """After the replay has applied the event."""
        if place is not None:
            self._look(replay, place, seq, at, kind, node, data)
            text = data.get("error") or data.get("reason")
            if text:
                self.reasons.setdefault(place, []).append(Reason(seq, str(text)))
        elif kind in ("cancelled", "voided", "dropped"):
            for name in ("tasks", "failed"):
                for pos, idx in data.get(name, ()):
                    self._look(replay, (pos, idx), seq, at, kind, node, {})

    def _look(
        self, replay: Replay, place: tuple[int, int], seq: int, at: int, kind: str, node: str | None,
        data: dict[str, Any],
    ) -> None:  # fmt: skip
        task = replay.tasks.get(place)
        if task is None:
            return
        under = task.state in _UNDER and task.held is None
        nth = self._open.get(place)
        if nth is not None and (kind in ("assigned", "begun") or not under):
            ended = data.get("end", task.held or task.state)
            self._close(place, nth, seq, at, str(ended) if ended in TERMINAL else _end_of(kind))
            nth = None
        if data.get("started_at") and (last := self._last(place)) is not None:
            self.began[last] = data["started_at"]
        if under and nth is None:
            self._begin(place, task.generation, task.attempt, task.ready_at or at, seq, at, task.state, node)
        elif nth is not None and kind == "started":
            self.began[nth] = at

    def _last(self, place: tuple[int, int]) -> int | None:
        """The newest span of a place, if it is among the last ones."""
        if place in self._open:
            return self._open[place]
        return self._closed if self._closed_place == place else None

    _closed: int = -1
    _closed_place: tuple[int, int] | None = None

    def _begin(
        self, place: tuple[int, int], generation: int, attempt: int, ready: int, seq: int, at: int, state: str,
        node: str | None,
    ) -> None:  # fmt: skip
        self._open[place] = len(self.began)
        self.pos.append(place[0])
        self.idx.append(place[1])
        self.generation.append(generation)
        self.attempt.append(attempt)
        self.ready.append(min(ready, at))
        self.began.append(at)
        self.began_seq.append(seq)
        self.ended.append(0)
        self.ended_seq.append(0)
        self.state.append(state)
        self.node.append(node)

    def _close(self, place: tuple[int, int], nth: int, seq: int, at: int, state: str) -> None:
        del self._open[place]
        self.ended[nth], self.ended_seq[nth], self.state[nth] = at, seq, state
        self._closed, self._closed_place = nth, place

    def reason_at(self, place: tuple[int, int], seq: int) -> str | None:
        """What the last event up to this one said."""
        for one in reversed(self.reasons.get(place, ())):
            if one.seq <= seq:
                return one.text
        return None

    def newest_at(self, seq: int, *, elements: bool) -> dict[tuple[int, int], int]:
        """By place: the number of the last span that had begun by this event."""
        found = {}
        for nth, began in enumerate(self.began_seq):
            if began > seq:
                break
            if elements or self.idx[nth] == WHOLE:
                found[(self.pos[nth], self.idx[nth])] = nth
        return found


def _end_of(kind: str) -> str:
    """Of an attempt whose task goes on."""
    return "failed" if kind == "finished" else _CUT_OFF
