"""A draft's rows as values to write, the same for every store: which columns change, and which changes are alike.

Most changes are a claim, a success, or a task whose needs are met. Those are told apart here: a statement that knows
only the columns that such a change touches costs half of one that writes them all.
"""

from typing import Any, NamedTuple

import msgspec

from weft.core.rows import RecordRow, RunRow, TaskRow
from weft.store.queries import RUN_COLUMNS, TASK_COLUMNS

_FIXED = ("id", "run_no", "pos", "idx", "generation")
TASK_CHANGING = tuple(c for c in TASK_COLUMNS if c not in _FIXED)
GUARD = ("id", "was_state", "was_attempt", "was_session")
_RUN_FIXED = ("no", "id", "name", "workflow", "created_at", "root")
RUN_CHANGING = tuple(c for c in RUN_COLUMNS if c not in _RUN_FIXED)
RUN_EXTRA = ("inputs", "key", "body_hash", "source", "labels", "fresh", "trigger")
_encode = msgspec.json.Encoder().encode

Rows = list[tuple[Any, ...]]


class Changes(NamedTuple):
    claimed: dict[tuple[Any, ...], Rows]  # by what they share (session, exchange, time): (id, attempt)
    succeeded: Rows  # (id, attempt, session, start)
    readied: Rows  # pending before, queued or claimed now
    others: Rows  # whole


def changes(tasks: list[TaskRow], replaced: dict[int, None], now: int) -> Changes:
    """What is queued under another demand now (`replaced`) is written whole."""
    claimed: dict[tuple[Any, ...], Rows] = {}
    succeeded: Rows = []
    readied: Rows = []
    others: Rows = []
    for t in tasks:
        was = t.guard
        assert was is not None
        if was.state == "queued" and t.state == "running" and not (replaced and t.id in replaced):
            claimed.setdefault((t.session, t.claim_no, t.claimed_at), []).append((t.id, was.attempt))
        elif (
            was.state == "running" and t.state == "succeeded" and t.settled and was.stop is None and was.session
            and t.finished_at == now  # what a level held had finished before
        ):  # fmt: skip
            succeeded.append((t.id, was.attempt, was.session, t.started_at))
        elif (
            was.state == "pending" and (t.state == "queued" or t.state == "running") and t.stop is None
            and t.elements is None and t.errand is None and t.child is None and t.wake_at is None and t.held is None
        ):  # fmt: skip
            readied.append((
                t.id, was.attempt, t.state, t.attempt, t.open, t.failed, t.skipped, t.tolerated, t.admitted,
                t.upstream, t.demand, t.ready_at, t.rank, t.session, t.claim_no, t.claimed_at,
            ))  # fmt: skip
        else:
            others.append(_change(t))
    return Changes(claimed, succeeded, readied, others)


def additions(tasks: list[TaskRow]) -> tuple[dict[int, Rows], Rows]:
    """New tasks: by run those that are as a submission makes them, in few columns; and all others, whole."""
    fresh: dict[int, Rows] = {}
    others: Rows = []
    for t in tasks:
        spoilt = t.failed or t.skipped or t.tolerated or t.admitted or t.errand
        if t.generation == 1 and t.state in ("pending", "queued") and not spoilt:
            row = (t.id, t.pos, t.idx, t.state, t.open, t.demand, t.ready_at, t.rank)
            fresh.setdefault(t.run_no, []).append(row)
        else:
            others.append(msgspec.structs.astuple(t)[:-1])
    return fresh, others


def kept(records: dict[str, RecordRow]) -> Rows:
    """Results for `cache`, in the order of their keys: two nodes that keep the same ones must not wait for each other
    crosswise."""
    return [msgspec.structs.astuple(records[key]) for key in sorted(records)]


def run_values(run: RunRow, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple([getattr(run, name) for name in names])


def text_of(data: dict[str, Any] | str) -> str:
    return data if isinstance(data, str) else _encode(data).decode()


def json_of(value: Any) -> str:
    return _encode(value).decode()


def _change(t: TaskRow) -> tuple[Any, ...]:
    g = t.guard
    assert g is not None
    return (
        t.id, g.state, g.attempt, g.session,
        t.state, t.attempt, t.failures, t.lost, t.open, t.failed, t.skipped, t.tolerated, t.elements, t.admitted,
        t.demand, t.ready_at, t.rank, t.wake_at, t.session, t.claim_no, t.stop, t.upstream, t.settled,
        t.claimed_at, t.started_at, t.finished_at, t.reason, t.held, t.deadline_at, t.child,
        t.errand,
    )  # fmt: skip


assert TASK_CHANGING == (
    "state", "attempt", "failures", "lost", "open", "failed", "skipped", "tolerated", "elements", "admitted",
    "demand", "ready_at", "rank", "wake_at", "session", "claim_no", "stop", "upstream", "settled",
    "claimed_at", "started_at", "finished_at", "reason", "held", "deadline_at", "child",
    "errand",
)  # fmt: skip
