"""What a draft writes besides changed tasks and their history, by subject."""

from typing import Any

import msgspec

from weft.core.rows import (
    FireRow,
    HandleRow,
    LeadershipRow,
    MemoRow,
    Pin,
    PoolRow,
    RunRow,
    SessionRow,
    TaskRow,
    TokenRow,
    TriggerRow,
)


class Created(msgspec.Struct):
    workflows: list[tuple[str, str, bytes]] = []  # hash, name, document
    demands: dict[str, str] = {}  # id, body
    runs: dict[int, tuple[RunRow, dict[str, Any]]] = {}  # by number, with what a row of rules lacks
    pins: list[tuple[int, Pin]] = []  # root, pin
    tasks: list[TaskRow] = []


class RunValues(msgspec.Struct):
    context: list[tuple[int, str, str, int | None, int | None]] = []  # run, key, JSON, writer
    arrays: list[tuple[int, int, int, str]] = []  # run, position and generation of a map, JSON
    labels: list[tuple[int, int, int, str]] = []  # run, position and generation of a map, JSON: a text per element
    signals: list[tuple[int, str, str | None, str | None]] = []  # run, name, JSON, reason of rejection
    forgotten_signals: list[tuple[int, str]] = []  # run, name


class KeptResults(msgspec.Struct):
    cached: dict[str, MemoRow] = {}  # for `cache`, by key; the task's own guard is theirs
    once: MemoRow | None = None  # written only while its attempt is held


class HandleChanges(msgspec.Struct):
    unclosed: dict[int, HandleRow] = {}  # as loaded, by task: those that are open or orphaned
    opened: list[HandleRow] = []
    states: list[tuple[int, int, str]] = []  # task, attempt, new state
    notes: list[tuple[int, int, str]] = []  # task, attempt, what it waits for


class PoolChanges(msgspec.Struct):
    loaded: dict[str, PoolRow] = {}  # as they are stored
    taken: dict[str, int] = {}  # places taken, and given back
    sizes: dict[str, int] = {}  # pools to create, or to resize


class SessionChanges(msgspec.Struct):
    new: tuple[SessionRow, int] | None = None  # with its lease's length
    abandoned: str | None = None
    drained: list[tuple[str, int]] = []  # id, when what still runs goes back
    leadership: tuple[LeadershipRow, int] | None = None  # with the term that the row must still have
    ended: list[tuple[str, str]] = []  # id, state


class TriggerChanges(msgspec.Struct):
    applied: tuple[str, str, str | None, str | None] | None = None  # name, hash, source, by whom
    changed: list[tuple[TriggerRow, int | None]] = []  # with the `since_ms` it must still have; None: new
    dropped_queues: list[str] = []  # triggers whose queued fires will never start
    fires: list[FireRow] = []
    unqueued: list[FireRow] = []  # fires that were queued, as they are now


class TokenChanges(msgspec.Struct):
    new: TokenRow | None = None
    revoked: str | None = None


class Pruned(msgspec.Struct):
    runs: list[int] = []
    before: int | None = None  # sessions that ended before are forgotten too
    cached: bool = False  # and results that `cache` kept before
