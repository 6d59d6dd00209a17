"""What a rule may ask the store for, while it decides.

A rule is a generator: it yields a tuple of these and gets a tuple of row lists back. All of one tuple are loaded
in one go, under the locks of ENGINE.md's order. Every load has a total order.
"""

import msgspec

from weft.core.rows import TASKS_MAX


class Session(msgspec.Struct):
    """That session, locked; its lease's expiry; 0 or 1 row."""

    id: str


class Lease(msgspec.Struct):
    """Milliseconds left of a session's lease by the store's clock; no row: it is dead."""

    session: str


class Leadership(msgspec.Struct):
    """The one row that says who leads, locked before everything else."""


class InsistingLeaders(msgspec.Struct):
    """Live sessions with the role `leader` whose leases have not passed, by id: (id,)."""


class TasksPastDeadline(msgspec.Struct):
    """Ids of running tasks whose attempts should have ended by now, earliest first: (id,). Not locked: what is done
    about them asks for their runs first."""

    limit: int


class Runs(msgspec.Struct):
    """Runs by number, locked, ascending."""

    nos: list[int]


class RunsIfFree(msgspec.Struct):
    """Those of these runs that can be locked at once, ascending: who asks holds tasks already, and never waits."""

    nos: list[int]


class RunsOwnedBy(msgspec.Struct):
    """Runs that this session owns, locked, ascending."""

    session: str


class RunById(msgspec.Struct):
    id: str


class RunByKey(msgspec.Struct):
    """(id, number, body hash, state) of the run that was submitted with this idempotency key."""

    key: str


class Tasks(msgspec.Struct):
    """Tasks by id, locked, ascending."""

    ids: list[int]


class TasksAt(msgspec.Struct):
    """The current rows (newest generation) at these places of a run: (run, position, index)."""

    places: list[tuple[int, int, int]]


class Elements(msgspec.Struct):
    """The current rows of all elements of a mapped task, by index."""

    run_no: int
    pos: int


class QueuedTasks(msgspec.Struct):
    """Claimable tasks, best rank first; those locked by others are left out. `root`: of that run's family only;
    `workflows`: of runs of these only (core/placement/worker_binding.py)."""

    demands: list[str]
    root: int | None
    limit: int
    workflows: list[str] = []


class QueuedTasksPerDemand(msgspec.Struct):
    """Like QueuedTasks, but up to `limit` of each demand: a long queue of one must not hide the others."""

    demands: list[str]
    root: int | None
    limit: int
    workflows: list[str] = []


class DemandsWithQueued(msgspec.Struct):
    """Those of these demands under which something is queued, as (demand,), ascending. Nothing is locked."""

    demands: list[str]


class Pools(msgspec.Struct):
    """Pools by name, locked, ascending."""

    names: list[str]


class Budgets(msgspec.Struct):
    """Budgets of these scopes, locked, ascending. Whoever asks for those of runs holds the runs."""

    scopes: list[str]


class BudgetsIfFree(msgspec.Struct):
    """Those of these budgets that can be locked at once, ascending: a claim does not hold their runs, so it never
    waits for whoever does."""

    scopes: list[str]


class Spending(msgspec.Struct):
    """(task, usd, tokens): what these tasks have spent so far, by task; none: nothing. Of a task that is queued or
    running it changes only under the task's lock, or its run's."""

    task_ids: list[int]


class ParkedTasks(msgspec.Struct):
    """The first queued tasks of a run that wait for room in its budget, best rank first, locked; after this (rank,
    id)."""

    run_no: int
    after: tuple[int, int]
    limit: int


class Token(msgspec.Struct):
    """The token with this id, locked."""

    id: str


class PlacementDemands(msgspec.Struct):
    """Demands, as (demand,), ascending, of queued tasks that wait for the leader or belong to a session."""


class LiveSessions(msgspec.Struct):
    """Sessions that have not ended and whose lease holds, by id."""


class Measurements(msgspec.Struct):
    """(session, what its node measured of its machine, as JSON) of sessions that have not ended, by id."""


class RunningByDemand(msgspec.Struct):
    """(session, demand, how many) of all running tasks."""


class DemandBodies(msgspec.Struct):
    """(id, body) of these demands."""

    ids: list[str]


class QueuedTasksOfRun(msgspec.Struct):
    """All queued tasks of a run."""

    run_no: int


class UnlockedQueuedTasks(msgspec.Struct):
    """The first queued tasks of a run, best rank first, without those that another node's claim holds at this
    moment."""

    run_no: int
    limit: int = TASKS_MAX


class ChildActions(msgspec.Struct):
    """Tasks with something to do about their child, ascending (of the family of one run, or of any); their runs are
    locked, and those that others hold are left out."""

    limit: int
    run_no: int | None = None


class UnreportedRuns(msgspec.Struct):
    """(number, parent task) of ended runs whose end has not been reported to the parent, ascending; both runs are
    locked, and where others hold one of them the pair is left out."""

    limit: int
    run_no: int | None = None


class RunningTasksOfRun(msgspec.Struct):
    """All running tasks of a run."""

    run_no: int


class ReadyTasks(msgspec.Struct):
    """Tasks of a run that wait for nothing but room, best rank first."""

    run_no: int
    limit: int


class BeginExchange(msgspec.Struct):
    """The only need that writes: the session's row gets the exchange's number and is locked, in one statement. 1 row
    (SessionRow, next wake-up time, unsettled ends, sweeps and child actions, stops for this session, the number of
    the newest demand, whether notify_state has rows); none if the session is over, or has made this exchange
    before. `undisturbed`: see Exchange."""

    session: str
    number: int
    undisturbed: bool = False


class DueTasks(msgspec.Struct):
    """Scheduled tasks whose wake-up time has come, earliest first."""

    limit: int


class NextWakeTime(msgspec.Struct):
    """The earliest wake-up time of a task, or deadline of a run that goes on, but for these; 0 or 1 row."""

    but_tasks: list[int]
    but_runs: list[int]


class HeldTasks(msgspec.Struct):
    """Running tasks of a session, ascending."""

    session: str


class UnclosedHandles(msgspec.Struct):
    """Handles of these tasks that are open or orphaned, by task. They change only under the task's lock."""

    task_ids: list[int]


class HandleHistory(msgspec.Struct):
    """(attempt, bytes of stdout, bytes of stderr that the store has of it) of all handles of a task with this engine
    and name, ascending."""

    task_id: int
    engine: str
    name: str


class LossesByOutage(msgspec.Struct):
    """(how many) attempts of a task were lost with sessions that were given up because the store did not answer."""

    task_id: int


class TasksClaimedAt(msgspec.Struct):
    """Running tasks of a session that its exchange of this number claimed."""

    session: str
    number: int


class StopRequests(msgspec.Struct):
    """Running tasks of a session that shall stop."""

    session: str


class UnsettledTasks(msgspec.Struct):
    """Ended tasks that their dependents have not counted yet (of one run, or of any)."""

    limit: int
    run_no: int | None = None


class RunsToSweep(msgspec.Struct):
    """Runs with a sweep to go on with, and runs past their deadline."""

    limit: int
    run_no: int | None = None


class UnendedTasks(msgspec.Struct):
    """Tasks of a run after this id that have not ended and are not running, ascending."""

    run_no: int
    after: int
    limit: int


class CurrentTasks(msgspec.Struct):
    """The current rows of a run, all of them, by position and index."""

    run_no: int


class HeldEnds(msgspec.Struct):
    """(task id, result hash, result) of these tasks' current attempts, by id. The result is None unless it sets keys
    of the context."""

    task_ids: list[int]


class NewDemands(msgspec.Struct):
    """Demands numbered above this one."""

    above: int


class TaskEnds(msgspec.Struct):
    """How the tasks at these positions ended, elements included: `names.Ended`, by position and index."""

    run_no: int
    positions: list[int]


class RunInputs(msgspec.Struct):
    """A run's inputs; one mapping."""

    run_no: int


class ContextOfRun(msgspec.Struct):
    """(key, value as JSON, writer's position, writer's index) of a run's context, by key."""

    run_no: int


class MapArray(msgspec.Struct):
    """(generation, array as JSON) that a map over the context was given last; 0 or 1 row."""

    run_no: int
    pos: int


class FailedTasks(msgspec.Struct):
    """(position, state) of the tasks of a run that have failed, and of all that an earlier generation had too, by
    position, the newest generation last. No elements."""

    run_no: int


class SignalOfRun(msgspec.Struct):
    """(data as JSON, reason of rejection) of a run's signal of this name, if it has come."""

    run_no: int
    name: str


class Memos(msgspec.Struct):
    """Memos by key, locked, in the order of their keys."""

    keys: list[str]


class NextRun(msgspec.Struct):
    """A fresh run number."""


class Workflows(msgspec.Struct):
    """Those of these workflows that are stored, by hash; from then on the draft knows them."""

    hashes: list[str]


class Durations(msgspec.Struct):
    """(position, ms) of the first so many tasks of the newest run of this definition that succeeded, if it is among
    the newest runs of its name. Tasks that did not start are left out."""

    name: str
    workflow: str
    tasks: int


class WorkflowsByName(msgspec.Struct):
    """What these names of workflows mean now, by name: the version of the newest run that nobody's task started,
    else of any run, else the one stored last."""

    names: list[str]


class WorkflowNames(msgspec.Struct):
    """(name) of stored workflows, each once, in their order."""

    limit: int


class PinsOfFamily(msgspec.Struct):
    """What the names in a root's family mean."""

    root: int


class Roots(msgspec.Struct):
    """(number, its root's number, its root's id, its workflow's name) of runs, ascending; not locked."""

    nos: list[int]


class RunOrigin(msgspec.Struct):
    """(directory, labels as JSON, whether it uses no kept results) of a run."""

    run_no: int


class DueDeadlines(msgspec.Struct):
    """Open deadlines whose moment has passed, earliest first; of one run, or of any. Not locked: what is done about
    them asks for their runs first, and is guarded."""

    limit: int
    run_no: int | None = None


class FirstStart(msgspec.Struct):
    """(when,) the first attempt of a run, or of a task of it (`pos`, its elements included), has started; 0 or 1
    row."""

    run_no: int
    pos: int


class NotifyState(msgspec.Struct):
    """(key, body) of what notifications need to know besides definitions, locked, by key."""

    keys: list[str]


class Notifications(msgspec.Struct):
    """Notifications by id, locked, ascending."""

    ids: list[str]


class FailedNotifications(msgspec.Struct):
    """Notifications that are no longer tried, locked, by id."""

    limit: int


class FinishedRuns(msgspec.Struct):
    """Runs that finished before a moment, oldest first. What a run's tasks started goes with it: right before it.
    Without those that other runs took results over from."""

    before: int
    states: list[str]
    limit: int
    nos: list[int] | None = None  # only families of these


class Takeovers(msgspec.Struct):
    """(number, id, source's number, source's id) of runs that took over results, where one of the two is among these
    runs, ascending; not locked."""

    nos: list[int]


class RunsKeptForOthers(msgspec.Struct):
    """(id, id of a run that took over results) of runs that FinishedRuns leaves out for that, oldest first."""

    before: int
    states: list[str]
    limit: int


class EndsToTakeOver(msgspec.Struct):
    """(task id, result hash, result) of the current attempts of a run's tasks, by id. The result is None unless it
    sets keys of the context or refers to an artifact."""

    run_no: int


class MapLabels(msgspec.Struct):
    """(generation, labels as JSON) that the elements of a map were given last; 0 or 1 row."""

    run_no: int
    pos: int


class ApplyLock(msgspec.Struct):
    """Nothing; but only one command at a time that asks for it goes on, and no workflow is pruned meanwhile."""


class AppliedVersion(msgspec.Struct):
    """(hash,) of a workflow's current version, by name; 0 or 1 row."""

    name: str


class Trigger(msgspec.Struct):
    """That trigger, locked; 0 or 1 row."""

    id: str


class TriggersOf(msgspec.Struct):
    """All triggers of a workflow, locked, by id."""

    workflow: str


class TriggersByKey(msgspec.Struct):
    """Active triggers of a kind with one of these keys, by id. Nothing is locked."""

    kind: str
    keys: list[str]


class LastEvent(msgspec.Struct):
    """(number,) of the newest event before which nothing can appear any more."""


class UnfinishedRunsOfTrigger(msgspec.Struct):
    """(number, id) of a trigger's runs that have not ended, oldest first, but for those of backfills. Nothing is
    locked."""

    trigger: str


class Backfill(msgspec.Struct):
    """That backfill, locked; 0 or 1 row."""

    id: str


class UnfinishedRunsOfBackfill(msgspec.Struct):
    """(number, id) of a backfill's runs that have not ended, oldest first. Nothing is locked."""

    backfill: str


class FiresByCause(msgspec.Struct):
    """Fires of a trigger for these causes, by cause."""

    trigger: str
    causes: list[str]


class QueuedFires(msgspec.Struct):
    """Queued fires of a trigger, oldest first."""

    trigger: str
    limit: int


class FiresSince(msgspec.Struct):
    """(how many) fires of a trigger were started or queued since a moment."""

    trigger: str
    since: int


Need = (
    ApplyLock | AppliedVersion | Trigger | TriggersOf | TriggersByKey | LastEvent | UnfinishedRunsOfTrigger
    | FiresByCause | QueuedFires | FiresSince | RunsIfFree | UnlockedQueuedTasks | RunsOwnedBy | HeldEnds | MapArray
    | Leadership | InsistingLeaders | TasksPastDeadline | ContextOfRun | FailedTasks | SignalOfRun | BeginExchange
    | TaskEnds | RunInputs | NextRun | Workflows | Session | Lease | Runs | RunById | RunByKey | WorkflowsByName
    | WorkflowNames | PinsOfFamily | RunOrigin | Roots | ChildActions | UnreportedRuns | Tasks | TasksAt | Elements
    | QueuedTasks | QueuedTasksOfRun | RunningTasksOfRun | ReadyTasks | DueTasks | NextWakeTime | HeldTasks
    | TasksClaimedAt | StopRequests | UnsettledTasks | RunsToSweep | UnendedTasks | CurrentTasks | NewDemands
    | FinishedRuns | Memos | QueuedTasksPerDemand | DemandsWithQueued | Pools | Token | PlacementDemands
    | LiveSessions | Measurements | RunningByDemand | DemandBodies | LossesByOutage | Durations | UnclosedHandles
    | HandleHistory | Budgets | BudgetsIfFree | Spending | ParkedTasks | Takeovers | RunsKeptForOthers
    | EndsToTakeOver | MapLabels | Backfill | UnfinishedRunsOfBackfill | DueDeadlines | FirstStart | NotifyState
    | Notifications | FailedNotifications
)  # fmt: skip
