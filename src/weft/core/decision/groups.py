"""What a draft writes besides changed tasks and their history, by subject."""

from typing import Any

import msgspec

from weft.core.placement.budgets import NOTHING, Amount, Standing, standings_of
from weft.core.rows import (
    BackfillRow,
    BudgetRow,
    DeadlineRow,
    FireRow,
    HandleRow,
    LeadershipRow,
    MemoRow,
    NotificationRow,
    Pin,
    PoolRow,
    RunRow,
    SessionRow,
    TaskRow,
    TokenRow,
    TriggerRow,
)
from weft.core.workflow import Usage


class Created(msgspec.Struct):
    workflows: list[tuple[str, str, bytes]] = []  # hash, name, document
    demands: dict[str, str] = {}  # id, body
    runs: dict[int, tuple[RunRow, dict[str, Any]]] = {}  # by number, with what a row of rules lacks
    pins: list[tuple[int, Pin]] = []  # root, pin
    corrections: list[tuple[int, int, str, str]] = []  # run, generation, the definition until then, the new one
    tasks: list[TaskRow] = []
    taken_over: list[tuple[int, int, str | None, str]] = []  # task, the source's, its result if changed, the origin


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


class BudgetChanges(msgspec.Struct):
    loaded: dict[str, BudgetRow] = {}  # as they are stored, by scope
    spending: dict[int, Amount] = {}  # of tasks whose spending was loaded: with what this draft adds
    new: list[BudgetRow] = []
    limits: dict[str, Usage] = {}  # new limits, by scope; what is None stays as it is
    renewed: dict[str, None] = {}  # scopes whose spending begins anew
    spent: dict[int, Amount] = {}  # added to tasks
    counted: dict[str, tuple[Amount, Amount]] = {}  # by scope: added to what is spent, and to what is reserved
    freed: dict[int, None] = {}  # runs in which parked tasks may have room now
    parked: bool = False  # a claim found that a run's budget has no room
    touched: bool = False  # there is something to write

    def add(self, row: BudgetRow) -> None:
        self.touched = True
        self.new.append(row)

    def limit(self, scope: str, limit: Usage) -> None:
        self.touched = True
        self.limits[scope] = limit

    def renew(self, scope: str) -> None:
        self.touched = True
        self.renewed[scope] = None

    def spend(self, task_id: int, amount: Amount) -> None:
        self.touched = True
        self.spent[task_id] = self.spent.get(task_id, NOTHING).plus(amount)

    def count(self, scope: str, spent: Amount, reserved: Amount) -> None:
        self.touched = True
        before, held = self.counted.get(scope, (NOTHING, NOTHING))
        self.counted[scope] = before.plus(spent), held.plus(reserved)

    def standings(self, scope: str) -> list[Standing]:
        """Where a loaded budget stands, with what this draft does to it."""
        row, limit = self.loaded[scope], self.limits.get(scope, Usage())
        usd, tokens = (
            row.usd if limit.usd is None else limit.usd,
            row.tokens if limit.tokens is None else limit.tokens,
        )
        spent, reserved = self.counted.get(scope, (NOTHING, NOTHING))
        return standings_of(
            BudgetRow(
                scope, usd, tokens,
                row.usd_spent + spent.usd, row.tokens_spent + spent.tokens,
                row.usd_reserved + reserved.usd, row.tokens_reserved + reserved.tokens,
            )
        )  # fmt: skip


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
    remade: list[FireRow] = []  # fires that had started no run, as they are now
    backfill: tuple[BackfillRow, int | None] | None = None  # with the cursor that it must still have
    new_backfill: BackfillRow | None = None


class Notice(msgspec.Struct):
    """Something that people may want to hear of; the rule that closes the transaction finds out who."""

    event: str  # of workflow.NOTIFY_EVENTS, or succeeded: perhaps a recovery
    cause: str  # what makes it one and the same event, within the run or the trigger
    workflow: str  # the hash of the definition whose targets count
    run_no: int | None = None
    pos: int | None = None  # the task it is about
    facts: dict[str, Any] = {}


class NotificationChanges(msgspec.Struct):
    notices: list[Notice] = []
    #: The store has targets for all workflows, or a workflow whose last run failed. None: it was not asked.
    stored: bool | None = None
    new: list[NotificationRow] = []
    changed: list[tuple[NotificationRow, int]] = []  # with the number of tries that it must still have
    state: dict[str, str | None] = {}  # of notify_state, by key: its new body; None: it is removed


class DeadlineChanges(msgspec.Struct):
    new: list[DeadlineRow] = []
    judged: list[DeadlineRow] = []  # they must still be open


class TokenChanges(msgspec.Struct):
    new: TokenRow | None = None
    revoked: str | None = None


class Pruned(msgspec.Struct):
    runs: list[int] = []
    before: int | None = None  # sessions that ended before are forgotten too
    cached: bool = False  # and results that `cache` kept before
