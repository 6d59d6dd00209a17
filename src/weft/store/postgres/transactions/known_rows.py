"""What the next exchange of a chain will need, read by the exchange before it: then its rows are known, and all of it
is one round trip (ADR 50).

A row counts as long as its `xmin`, the number of the transaction that wrote it, is what it was. The run's is compared
when it is locked, those of the tasks by the statement that writes: if one is another, nothing is written, and the
exchange is made again with rows that are loaded.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from weft.core.decision import needs as n
from weft.core.decision.draft import Draft
from weft.core.decision.needs import Need
from weft.core.rows import ORDINAL_BITS, RunRow, TaskRow
from weft.store.loads import Rows

CLAIMED_MAX, FOLLOWING_MAX = 2, 4  # more is no chain
#: For so long an exchange need not look again for chores and other work, if nothing wakes the node. Without the look
#: the server has a third less to do.
SEEN_MAX_S = 0.05
HELD_MAX, RUNS_MAX = 4096, 256  # what a connection keeps
NOT_HELD: tuple[TaskRow | None, int] = (None, 0)


class Expected(NamedTuple):
    """What a transaction leaves for the next: asked for before its end."""

    session: str
    number: int
    run: RunRow
    claimed: list[TaskRow]
    following: list[int]  # ids
    demands: list[str]  # of which nothing else must be queued


class Seen(NamedTuple):
    """What an exchange that loads its rows saw of the store."""

    overview: tuple[Any, ...]
    demands: frozenset[str]  # nothing of these was queued
    clock_ms: int
    at: float  # of this process's clock, after the server's was read


class KnownRows(NamedTuple):
    session: str
    number: int
    run: RunRow
    version: int
    tasks: dict[int, tuple[TaskRow, int]]  # with their versions
    seen: Seen

    @property
    def now(self) -> int:
        """Never ahead of the server's clock by more than the two run apart in SEEN_MAX_S. Not behind anything that is
        stored of this run either: its row is as it was when the clock was read, or as this session wrote it since."""
        return self.seen.clock_ms + int((time.monotonic() - self.seen.at) * 1000)

    def answer(self, needs: Sequence[Need]) -> "KnownAnswer | None":
        """All that the exchange asks for at its beginning; None: some of it is not known."""
        if len(needs) < 4 or time.monotonic() - self.seen.at > SEEN_MAX_S or not self._quiet:
            return None
        begin, runs, tasks, *queued = needs
        if (
            not isinstance(begin, n.BeginExchange) or not begin.undisturbed
            or (begin.session, begin.number) != (self.session, self.number + 1)
            or not isinstance(runs, n.Runs) or runs.nos != [self.run.no]
            or not isinstance(tasks, n.Tasks) or not all(id in self.tasks for id in tasks.ids)
            or not all(isinstance(need, n.QueuedTasks) and set(need.demands) <= self.seen.demands for need in queued)
        ):  # fmt: skip
            return None
        found = [self.tasks[id][0] for id in tasks.ids]
        return KnownAnswer(begin, tasks.ids, ([self.seen.overview], [self.run], found, *[[] for _ in queued]))

    @property
    def _quiet(self) -> bool:
        session, wake_at, unsettled, sweeping, stopping, *_ = self.seen.overview
        due = wake_at is not None and wake_at <= self.now
        return session.state == "live" and not (due or unsettled or sweeping or stopping)


class KnownAnswer(NamedTuple):
    begin: n.BeginExchange
    ids: list[int]  # of the tasks
    rows: tuple[list[Any], ...]


def expected(draft: Draft, session: str, number: int, demands: list[str]) -> Expected | None:
    """If this exchange leaves one or two tasks of one run running, which few others follow."""
    if len(draft.dirty_runs) != 1 or len(draft.dirty_tasks) > CLAIMED_MAX + FOLLOWING_MAX:
        return None
    run = draft.dirty_runs[0]
    if run.generation > 1 or run.level is not None or run.finished_at is not None or run.paused:
        return None
    claimed = [t for t in draft.dirty_tasks if t.state == "running"]
    if not 0 < len(claimed) <= CLAIMED_MAX or any(t.run_no != run.no or t.idx >= 0 for t in claimed):
        return None
    successors = draft.workflows[run.workflow].successors
    following = [(run.no << ORDINAL_BITS) + pos for t in claimed for pos in successors[t.pos]]
    if not 0 < len(following) <= FOLLOWING_MAX:
        return None
    return Expected(session, number, run, claimed, following, demands)


def known(expected: Expected, seen: Seen, rows: Rows) -> KnownRows:
    """`rows`: those of the statement `exchange_outlook`, or of `exchange_begin_known`."""
    xid = rows[0][1]
    tasks = {task.id: (task, xid) for task in expected.claimed}
    for _, _, version, *values in rows:
        if version is not None:
            tasks[values[0]] = TaskRow(*values), version
    expected.run.dirty = False
    return KnownRows(expected.session, expected.number, expected.run, xid, tasks, seen)
