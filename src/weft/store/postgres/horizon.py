"""Up to which number nothing can appear any more among the events.

Numbers are drawn before COMMIT, so a lower one may become visible after a higher one: two transactions draw them and
commit in any order, also of one run, since claims do not lock it. Whoever reads on from the last event it has seen
must not pass a number that is still to come. So a mark is set: the newest event that is there, and a transaction
number that is younger than that of anybody who has drawn a lower one. Once all older transactions have ended,
everything up to the mark is there.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from weft.store.postgres.statements import Statement

MARKS_MAX = 64
#: For the first mark of a process; a transaction that says nothing is ended by the server within 5 s.
FIRST_MAX_S = 6.0
PATIENCE_S = 1.0  # for those under way: whoever asks wants what is there now, and most transactions last milliseconds
LOOK_S = 0.005

_MARK = Statement("SELECT coalesce(max(seq), 0), pg_current_xact_id()::text::bigint FROM events")
_OLDEST = Statement("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")


class Horizon:
    """`ask` carries out one statement, in a transaction of its own."""

    def __init__(self, ask: Callable[[Statement], list[tuple[Any, ...]]]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._marks: list[tuple[int, int]] = []  # (transaction, event), both ascending
        self._settled: int | None = None

    def settled(self) -> int:
        with self._lock:
            ((newest, transaction),) = self._ask(_MARK)
            if len(self._marks) == MARKS_MAX:  # somebody takes very long: fewer marks do as well
                del self._marks[1::2]
            self._marks.append((transaction, newest))
            deadline = time.monotonic() + (FIRST_MAX_S if self._settled is None else PATIENCE_S)
            self._look()
            while (self._settled is None or self._settled < newest) and time.monotonic() < deadline:
                time.sleep(LOOK_S)
                self._look()
            return self._settled or 0

    def _look(self) -> None:
        ((oldest,),) = self._ask(_OLDEST)
        done = [mark for mark in self._marks if mark[0] < oldest]
        if done:
            self._settled = done[-1][1]
            self._marks = self._marks[len(done) :]
