"""The working copy of one transaction: what was loaded, what a rule made of it, and what to write.

A rule never writes. It changes rows through `move` and `touch`, and appends events, attempts and new rows;
the committer hands the whole draft to the store, which writes it under the guards, or not at all.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from weft.core.artifacts import Files
from weft.core.decision.groups import (
    BudgetChanges,
    Created,
    DeadlineChanges,
    HandleChanges,
    KeptResults,
    Notice,
    NotificationChanges,
    PoolChanges,
    Pruned,
    RunValues,
    SessionChanges,
    TokenChanges,
    TriggerChanges,
)
from weft.core.decision.needs import Need
from weft.core.placement.budgets import NOTHING, pool_scope, reserved, run_scope
from weft.core.placement.demands import SPENDS, budget_of, pools_of, private, public
from weft.core.rows import (
    CLUSTER,
    ORDINAL_BITS,
    TASKS_MAX,
    WHOLE,
    AttemptRow,
    EventBatch,
    EventRow,
    Guard,
    RunRow,
    StaleRow,
    TaskRow,
)
from weft.core.states import ACTIVE, RUN_TRANSITIONS, TERMINAL, TRANSITIONS, RunState, TaskState
from weft.core.workflow import TaskDef, Workflow

#: Raised when a rule decides otherwise than before. Replicas of a log must decide alike while nodes of two versions
#: are live, so the rule asks `draft.rules` and keeps the old decision, until OLDEST_RULES is raised a release later.
RULES_VERSION = 1
OLDEST_RULES = 1

#: A rule: yields what it needs, is sent the rows, returns its reply.
Rule = Generator[tuple[Need, ...], tuple[list[Any], ...], Any]


class IllegalTransition(Exception):
    """A rule tried a move that is not in the table: a bug, and the transaction is rolled back."""


class Hint(NamedTuple):
    """What a COMMIT may have left to do for other nodes. True if anything."""

    everyone: bool = False  # every node must look: a stop, a drain, chores left over
    queued: int = 0  # so many tasks could be claimed
    ended: bool = False  # a run has ended: of interest to those that wait for it

    def __bool__(self) -> bool:
        return self.everyone or self.queued > 0 or self.ended

    def __or__(self, other: "Hint") -> "Hint":
        return Hint(self.everyone or other.everyone, self.queued + other.queued, self.ended or other.ended)


class Draft:
    rules = RULES_VERSION  # what a decision goes by; an older one while a log has nodes that know no newer

    def __init__(self, now: int, workflows: Mapping[str, Workflow], session: str | None = None) -> None:
        self.now = now
        self.workflows = workflows
        self.files: Files = {}  # the artifacts that were read for this decision
        self.by_session = session  # who causes the events
        self.runs: dict[int, RunRow] = {}
        self.loaded_runs: dict[int, tuple[Any, ...]] = {}  # as they were
        self.tasks: dict[int, TaskRow] = {}
        self.at: dict[tuple[int, int, int], TaskRow] = {}  # current row by (run, position, index)

        self.dirty_tasks: list[TaskRow] = []
        self.dirty_runs: list[RunRow] = []
        self.attempts: list[AttemptRow] = []
        self.events: list[EventRow | EventBatch] = []
        self._open_batches: dict[int, EventBatch] = {}  # by run: the batch that its last event is in
        self.stale: list[StaleRow] = []
        self.created = Created()
        self.values = RunValues()
        self.kept_results = KeptResults()
        self.handles = HandleChanges()
        self.pools = PoolChanges()
        self.budgets = BudgetChanges()
        self.sessions = SessionChanges()
        self.triggers = TriggerChanges()
        self.tokens = TokenChanges()
        self.deadlines = DeadlineChanges()
        self.notifications = NotificationChanges()
        self.pruned = Pruned()

        self.retried: dict[tuple[int, int], frozenset[int]] = {}  # by run and position of a map: only these elements
        self.child_actions: list[
            TaskRow
        ] = []  # given out by this transaction: a chore for its end, or for the next one
        self.replaced: dict[int, None] = {}  # tasks whose demand changed
        self.ranked: list[TaskRow] = []  # became ready in this transaction, with a head start
        self.retries = 0  # failures that are tried again
        self.stopping = False  # some running attempt shall stop
        self.wake = False  # every node must hear of this: a stop, chores left over
        self.ended = False  # a run has ended

    def hint(self) -> "Hint":
        """What other nodes may have to do after this COMMIT."""
        queued = sum([t.state == "queued" for rows in (self.dirty_tasks, self.created.tasks) for t in rows])
        queued -= sum(change for change in self.pools.taken.values() if change < 0)  # a task was left out, perhaps
        return Hint(self.wake, queued, self.ended)

    # -- what was loaded ---------------------------------------------------------------------------------

    def add_loaded(self, rows: Iterable[TaskRow]) -> list[TaskRow]:
        """Take loaded rows in; a row that is here already wins over its second copy."""
        out = []
        tasks, at = self.tasks, self.at
        for row in rows:
            known = tasks.setdefault(row.id, row)
            if known is row:
                place = (row.run_no, row.pos, row.idx)
                if at.setdefault(place, row).generation < row.generation:
                    at[place] = row
            out.append(known)
        return out

    def add_loaded_runs(self, rows: Sequence[RunRow]) -> list[RunRow]:
        for row in rows:
            if row.no not in self.runs:
                self.runs[row.no] = row
                self.loaded_runs[row.no] = msgspec.structs.astuple(row)
        return [self.runs[row.no] for row in rows]

    def definition(self, task: TaskRow) -> TaskDef:
        return self.workflows[self.runs[task.run_no].workflow].tasks[task.pos]

    # -- changes -----------------------------------------------------------------------------------------

    def touch(self, task: TaskRow) -> None:
        if task.guard is None:
            task.guard = Guard(task.state, task.attempt, task.session, task.stop)
            self.dirty_tasks.append(task)

    def request_child_action(self, task: TaskRow, child_action: str) -> None:
        """A chore shall see to the run that this task starts; it needs locks that this transaction may not take."""
        self.touch(task)
        task.child_action = child_action
        self.child_actions.append(task)
        self.wake = True

    def left_over(self) -> bool:
        """Chores that this transaction made and did not do."""
        return any(not run.reported for run in self.dirty_runs) or any(
            task.child_action for task in self.child_actions
        )

    def touch_run(self, run: RunRow) -> None:
        if not run.dirty:
            run.dirty = True
            self.dirty_runs.append(run)

    def move(self, task: TaskRow, to: TaskState) -> None:
        """The way a task changes state, but for the hot ones, `queue`, `claim` and `succeed`; keeps the run's
        counters."""
        was = task.state
        if (was, to) not in TRANSITIONS:
            raise IllegalTransition(f"task {task.id}: {was} -> {to} is not in the table")
        if task.guard is None:
            task.guard = Guard(was, task.attempt, task.session, task.stop)
            self.dirty_tasks.append(task)
        task.state = to
        if task.elements is None and task.held is None and task.child is None:  # those hold no slot
            if was in ACTIVE:
                if was == "running" and "@" in task.demand:
                    self._count_pools(task, -1)
                if to not in ACTIVE:
                    self._count_active(task, -1)
            elif to in ACTIVE:
                self._count_active(task, 1)
        if to in TERMINAL:
            self._count_end(task, to)

    def claim(self, tasks: Sequence[TaskRow], session: str, number: int) -> None:
        """queued → running, the hottest move of all: no counter changes, only the attempt and its holder."""
        now, dirty, run_no = self.now, self.dirty_tasks, -1
        for task in tasks:
            if task.state != "queued":
                raise IllegalTransition(f"task {task.id}: {task.state} -> running is no claim")
            attempt = task.attempt
            if task.guard is None:
                task.guard = Guard("queued", attempt, task.session, task.stop)
                dirty.append(task)
            attempt += 1
            task.state = "running"
            task.attempt = attempt
            task.session = session
            task.claim_no = number
            task.claimed_at = now
            if task.wake_at is not None:  # it was placed here, and no deadline matters any more
                self.unplace(task, public(task.demand))
            if "@" in task.demand:
                self._count_pools(task, 1)
            if task.run_no != run_no:
                run_no = task.run_no
                batch = self._batch_with(run_no, "assigned", session)
                pos, idx, attempts = batch.pos, batch.idx, batch.attempt
            pos.append(task.pos)
            idx.append(task.idx)
            attempts.append(attempt)

    def place(self, task: TaskRow, session: str, until: int) -> None:
        """Only this session may claim it until then."""
        self.touch(task)
        task.demand = private(session, public(task.demand))
        task.wake_at = until
        self.replaced[task.id] = None

    def unplace(self, task: TaskRow, demand: str) -> None:
        """No session has a right to it any more; it is queued under this demand."""
        self.touch(task)
        task.demand = demand
        task.wake_at = None
        self.replaced[task.id] = None

    def _count_pools(self, task: TaskRow, change: int) -> None:
        for pool in pools_of(task.demand):
            self.pools.taken[pool] = self.pools.taken.get(pool, 0) + change
        if SPENDS in task.demand:
            self._reserve(task, change)

    def _reserve(self, task: TaskRow, change: int) -> None:
        """What a running task may still spend is set aside for it, and given back when it no longer runs. Its
        spending has been loaded."""
        budget = budget_of(task.demand)
        assert budget is not None
        amount = reserved(budget, self.budgets.spending[task.id])
        if change < 0:
            self.budgets.freed[task.run_no] = None
        for scope in (run_scope(task.run_no), *map(pool_scope, pools_of(task.demand))):
            self.budgets.count(scope, NOTHING, NOTHING.plus(amount, change))

    def room_in(self, pool: str) -> int:
        """Places that are left; the pool has been loaded, and so locked."""
        row = self.pools.loaded[pool]
        return row.size - row.used - self.pools.taken.get(pool, 0)

    def _count_active(self, task: TaskRow, delta: int) -> None:
        run = self.runs[task.run_no]
        self.touch_run(run)
        run.active += delta

    def _count_end(self, task: TaskRow, to: TaskState) -> None:
        run = self.runs[task.run_no]
        if SPENDS in task.demand:  # parked ones may have waited for it, though nothing was reserved for it yet
            self.budgets.freed[run.no] = None
        definition = self.workflows[run.workflow].tasks[task.pos]
        self.touch_run(run)
        if task.held is None:
            task.finished_at = self.now
        task.session = None
        task.stop = None
        task.child_action = None
        task.wake_at = None
        task.settled = False
        run.open -= 1
        if not definition.final:
            run.open_main -= 1
        if run.level is not None:
            self._count_level_end(run, task)
        whole_map = task.idx < 0 and definition.mapped
        if not whole_map:
            setattr(run, to, getattr(run, to) + 1)
        elif task.elements is None:  # it never opened: it is the one task that ended, in place of its elements
            run.total += 1
            setattr(run, to, getattr(run, to) + 1)
        if to == "dead_letter":
            self._note_dead_letter(run, task, definition)
        if to in ("failed", "dead_letter") and task.idx < 0 and not definition.allow_failure:
            run.broken += 1
            if run.reason is None:
                run.reason = f"{definition.name}: {task.reason or to}"

    def _note_dead_letter(self, run: RunRow, task: TaskRow, definition: TaskDef) -> None:
        """Of the elements of a map, the first in each generation: they come by the thousand."""
        cause = f"dead_letter:{task.pos}:{task.generation}"
        facts = {"task": definition.called(task.idx), "error": task.reason}
        self.notifications.notices.append(Notice("dead_letter", cause, run.workflow, run.no, task.pos, facts))

    def _count_level_end(self, run: RunRow, task: TaskRow) -> None:
        if task.held is not None:
            task.held = None  # it was counted when it was held
        elif run.level_open is not None and self._in_level(run, task.pos):
            run.level_open -= 1

    def _in_level(self, run: RunRow, pos: int) -> bool:
        level_plan = self.workflows[run.workflow].level_plan
        return level_plan is not None and level_plan.at[pos] == run.level

    def hold(self, task: TaskRow, end: TaskState) -> None:
        """It has finished, and holds no slot; this end counts when its level commits. Until then its state stays."""
        run = self.runs[task.run_no]
        assert run.level_open is not None
        self.touch(task)
        self.touch_run(run)
        if task.state == "running" and task.elements is None:
            run.active -= 1
        run.level_open -= 1
        task.held = end
        task.finished_at = self.now
        task.stop = None
        task.wake_at = None
        task.settled = False  # its mapped task has to count it

    def unhold(self, task: TaskRow) -> None:
        """Its finished work no longer counts."""
        run = self.runs[task.run_no]
        assert run.level_open is not None
        self.touch(task)
        self.touch_run(run)
        if task.state == "running" and task.elements is None:
            run.active += 1
        run.level_open += 1
        task.held = task.finished_at = None
        task.settled = True

    def move_run(self, run: RunRow, to: RunState) -> None:
        if (run.state, to) not in RUN_TRANSITIONS:
            raise IllegalTransition(f"run {run.id}: {run.state} -> {to} is not in the table")
        self.touch_run(run)
        run.state = to

    def succeed(self, successes: Iterable[tuple[TaskRow, int | None, str | None]]) -> None:
        """running → succeeded with their events, the other hot move: `move` written out for tasks that a session
        holds, in runs without levels, each with its exit code and the hash of its result."""
        now, run_no, since = self.now, -1, 0
        pos: list[int] = []
        for task, exit_code, hash in successes:
            if task.state != "running":
                raise IllegalTransition(f"task {task.id}: {task.state} -> succeeded is not the end of an attempt")
            if task.guard is None:
                task.guard = Guard("running", task.attempt, task.session, task.stop)
                self.dirty_tasks.append(task)
            if "@" in task.demand:
                self._count_pools(task, -1)
            task.state = "succeeded"
            task.finished_at = now
            task.session = task.stop = task.child_action = task.wake_at = task.reason = None
            task.settled = False
            if task.run_no != run_no:
                if run_no >= 0:
                    self._count_successes(run_no, pos, since)
                run_no = task.run_no
                batch = self._batch_with(run_no, "finished", self.by_session)
                pos, idx, attempts, started_at = batch.pos, batch.idx, batch.attempt, batch.started_at
                exit_codes, hashes, since = batch.exit_code, batch.hash, len(pos)
            pos.append(task.pos)
            idx.append(task.idx)
            attempts.append(task.attempt)
            started_at.append(task.started_at)
            exit_codes.append(exit_code)
            hashes.append(hash)
        if run_no >= 0:
            self._count_successes(run_no, pos, since)

    def _count_successes(self, run_no: int, positions: list[int], since: int) -> None:
        run, count = self.runs[run_no], len(positions) - since
        self.touch_run(run)
        run.active -= count
        run.open -= count
        run.succeeded += count
        tasks = self.workflows[run.workflow].tasks
        run.open_main -= sum([not tasks[pos].final for pos in positions[since:]])

    def _batch_with(self, run_no: int, kind: str, session: str | None) -> EventBatch:
        """The batch that the run's last events are in, if they are of this kind; else a new one."""
        batch = self._open_batches.get(run_no)
        if batch is None or batch.kind != kind:
            batch = self._open_batches[run_no] = EventBatch(run_no, kind, session)
            self.events.append(batch)
        return batch

    def event(self, run_no: int, kind: str, data: dict[str, Any], task: TaskRow | None = None) -> None:
        self._open_batches.pop(run_no, None)
        if task is None:
            self.events.append(EventRow(run_no, None, None, kind, self.by_session, data))
        else:
            self.events.append(EventRow(run_no, task.pos, task.idx, kind, self.by_session, data))

    def cluster_event(self, kind: str, session: str | None, data: dict[str, Any]) -> None:
        """What happens to nodes and to the leader belongs to no run, and to no replay."""
        self.events.append(EventRow(CLUSTER, None, None, kind, session, data))

    def sign(self, actor: str, asked: str, about: dict[str, Any]) -> None:
        """Who asked for this stands in the first event that came of it; what leaves none of its own (a pool's size, a
        stop that its node has yet to carry out) leaves an event `asked`. What changed nothing leaves none."""
        if self.events:
            first = self.events[0]
            assert isinstance(first, EventRow)
            assert isinstance(first.data, dict)
            first.data = {**first.data, "actor": actor}
        elif self.dirty_tasks or self.pools.sizes or self.pruned.runs:
            self.cluster_event("asked", None, {"actor": actor, "command": asked, **about})

    def new_task(
        self, run: RunRow, pos: int, idx: int, generation: int, demand: str, open_needs: int, attempt: int = 0
    ) -> TaskRow:
        """A fresh pending row; it is written with the draft, and may be moved on at once."""
        if run.ordinals >= TASKS_MAX:
            raise IllegalTransition(f"run {run.id}: more than {TASKS_MAX} tasks")
        row = TaskRow(
            (run.no << ORDINAL_BITS) + run.ordinals, run.no, pos, idx, demand,
            generation=generation, attempt=attempt, open=open_needs,
        )  # fmt: skip
        row.guard = Guard("new", attempt, None)  # never in dirty_tasks: it is inserted, not updated
        run.ordinals += 1
        run.open += 1
        definition = self.workflows[run.workflow].tasks[pos]
        if not definition.final:
            run.open_main += 1
        if idx >= 0 or not definition.mapped:
            run.total += 1
        if run.level_open is not None and self._in_level(run, pos):
            run.level_open += 1
        self.touch_run(run)
        self.created.tasks.append(row)
        self.tasks[row.id] = row
        self.at[(run.no, pos, idx)] = row
        return row


def queue(draft: Draft, run: RunRow, task: TaskRow) -> None:
    """pending → queued: `move` written out for a task that is no map and runs no other workflow."""
    if task.state != "pending":
        raise IllegalTransition(f"task {task.id}: {task.state} -> queued, though it is not pending")
    draft.touch(task)
    task.state = "queued"
    run.active += 1
    if not run.dirty:
        draft.touch_run(run)


def add_first_tasks(draft: Draft, run: RunRow, demands: Sequence[str], head_starts: Sequence[int]) -> list[TaskRow]:
    """What a new run begins with, all of it pending: `new_task` for each position of its workflow."""
    tasks = draft.workflows[run.workflow].tasks
    if run.ordinals or run.level_open is not None or len(tasks) > TASKS_MAX:
        raise IllegalTransition(f"run {run.id} cannot begin with {len(tasks)} tasks")
    first, no, guard = run.no << ORDINAL_BITS, run.no, Guard("new", 0, None)
    rows = [
        TaskRow(
            first + pos, no, pos, WHOLE, demands[pos],
            open=1 if definition.final and not definition.needs else len(definition.needs), guard=guard,
        )
        for pos, definition in enumerate(tasks)
    ]  # fmt: skip
    for row, head_start in zip(rows, head_starts, strict=False):  # or there are none
        row.head_start = head_start
    run.ordinals = run.open = len(rows)
    run.open_main = len(rows) - sum([definition.final for definition in tasks])
    run.total = len(rows) - sum([one.map is not None or one.replicas is not None for one in tasks])  # mapped ones
    draft.touch_run(run)
    draft.created.tasks += rows
    draft.tasks.update({row.id: row for row in rows})
    draft.at.update({(no, row.pos, WHOLE): row for row in rows})
    return rows
