"""Every load that a rule may ask for: what it finds, in which order."""

from typing import Any, get_args

import pytest

from tests.store.conformance import draft_of, make_world, put_run, put_session, run_row, task_id, task_row
from weft.core.decision import needs as n
from weft.core.rows import (
    AttemptRow,
    BackfillRow,
    BudgetRow,
    FireRow,
    HandleRow,
    LeadershipRow,
    Pin,
    PoolRow,
    RunRow,
    SessionRow,
    StoredWorkflow,
    TaskRow,
    TokenRow,
    TriggerRow,
)
from weft.store.protocol import Look, Superseded, Watch

T3, T5, T11 = task_id(3, 0), task_id(5, 0), task_id(11, 0)
FAR = 2**62

#: a need, and what identifies the rows that it must find
CASES: list[tuple[n.Need, list[Any]]] = [
    (n.Session("s1"), ["s1"]),
    (n.Session("nobody"), []),
    (n.Lease("nobody"), []),
    (n.Runs([7, 3, 5, 99]), [3, 5, 7]),
    (n.Runs([]), []),
    (n.RunsIfFree([7, 3, 99]), [3, 7]),
    (n.RunsOwnedBy("s1"), [7]),
    (n.RunsOwnedBy("nobody"), []),
    (n.HeldEnds([]), []),
    (n.UnclosedHandles([T3 + 10, T3 + 1, T3 + 99]), [(T3 + 1, 2, "orphaned"), (T3 + 10, 1, "orphaned")]),
    (n.UnclosedHandles([]), []),
    (n.HandleHistory(T3 + 1, "e", "n"), [(1, 0, 0), (2, 0, 0)]),
    (n.HandleHistory(T3 + 1, "e", "m"), []),
    (n.HeldEnds([T3]), []),
    (n.RunById("three"), [3]),
    (n.RunById("thre"), []),
    (n.RunByKey("key-3"), [("three", 3, "body", "running")]),
    (n.RunByKey("key"), []),
    (n.Tasks([T5, T3 + 4, T3, T3 + 400]), [T3, T3 + 4, T5]),
    (n.Tasks([]), []),
    (n.TasksAt([(3, 5, -1), (3, 1, -1)]), [T3 + 1, T3 + 5]),
    (n.TasksAt([(5, 0, -1), (3, 8, 1), (3, 8, -1)]), [T3 + 8, T3 + 10, T5]),
    (n.Elements(3, 8), [T3 + 9, T3 + 10]),
    (n.Elements(3, 1), []),
    (n.QueuedTasks(["x", "y"], None, 10), [T3 + 3, T11, T5, T3 + 2]),
    (n.QueuedTasks(["x", "y"], None, 2), [T3 + 3, T11]),
    (n.QueuedTasks(["x"], None, 10), [T11, T5, T3 + 2]),
    (n.QueuedTasks(["x", "y"], 3, 10), [T3 + 3, T11, T3 + 2]),
    (n.QueuedTasks(["y"], 5, 10), []),
    (n.QueuedTasks(["x"], 3, 10), [T11, T3 + 2]),
    (n.QueuedTasks([], None, 10), []),
    (n.QueuedTasks(["x", "y"], None, 10, ["no such", "nobody*"]), []),
    (n.QueuedTasks(["x", "y"], None, 10, ["*"]), [T3 + 3, T11, T5, T3 + 2]),
    (n.QueuedTasksPerDemand(["x", "y"], None, 1, ["*"]), [T3 + 3, T11, T5, T3 + 2]),
    (n.QueuedTasksPerDemand(["x", "y"], None, 10), [T3 + 3, T11, T5, T3 + 2]),
    (n.QueuedTasksPerDemand(["x", "y"], None, 1), [T3 + 3, T11]),
    (n.QueuedTasksPerDemand(["y", "x"], 3, 1), [T3 + 3, T11, T3 + 2]),
    (n.QueuedTasksPerDemand(["y"], 5, 10), []),
    (n.QueuedTasksPerDemand([], None, 10), []),
    (n.DemandsWithQueued(["y", "z", "x"]), [("x",), ("y",)]),
    (n.DemandsWithQueued([]), []),
    (n.Pools(["small", "nobody", "large"]), ["large", "small"]),
    (n.Pools([]), []),
    (n.Budgets(["run:5", "run:99", "pool:small"]), ["pool:small", "run:5"]),
    (n.Budgets([]), []),
    (n.BudgetsIfFree(["run:5", "pool:small"]), ["pool:small", "run:5"]),
    (n.BudgetsIfFree([]), []),
    (n.Spending([T5, T3, T11]), [(T3, 7, 70), (T5, 8, 80)]),
    (n.Spending([]), []),
    (n.DemandBodies(["y", "nobody"]), [("y", '{"kind":"y"}')]),
    (n.RunningByDemand(), [("s1", "x", 2)]),
    (n.LiveSessions(), ["s1"]),
    (n.QueuedTasksOfRun(3), [T3 + 3, T3 + 2]),
    (n.UnlockedQueuedTasks(3), [T3 + 3, T3 + 2]),
    (n.UnlockedQueuedTasks(3, 10), [T3 + 3, T3 + 2]),
    (n.UnlockedQueuedTasks(3, 1), [T3 + 3]),
    (n.Durations("w", "nothing", 10), []),
    (n.RunningTasksOfRun(3), [T3 + 1, T3 + 8, T3 + 10]),
    (n.ReadyTasks(3, 10), [T3 + 12, T3 + 4]),
    (n.ReadyTasks(3, 1), [T3 + 12]),
    (n.HeldTasks("s1"), [T3 + 1, T3 + 10]),
    (n.TasksClaimedAt("s1", 5), [T3 + 10]),
    (n.TasksClaimedAt("s1", 3), []),
    (n.StopRequests("s1"), [T3 + 10]),
    (n.UnsettledTasks(10), [T3 + 11, T5 + 2]),
    (n.UnsettledTasks(1), [T3 + 11]),
    (n.UnsettledTasks(10, 5), [T5 + 2]),
    (n.RunsToSweep(10), [5, 7]),
    (n.RunsToSweep(1), [5]),
    (n.RunsToSweep(10, 3), []),
    (n.RunsToSweep(10, 5), [5]),
    (n.UnendedTasks(3, 0, 3), [T3 + 2, T3 + 3, T3 + 4]),
    (n.UnendedTasks(3, T3 + 4, 100), [T3 + 5, T3 + 6, T3 + 7, T3 + 12, T3 + 13, T3 + 14]),
    (n.UnendedTasks(5, 0, 100), [T5, T5 + 1, T5 + 3]),
    (n.CurrentTasks(5), [T5, T5 + 1, T5 + 2, T5 + 3]),
    (n.NewDemands(0), [(1, "x", '{"kind":"x"}'), (2, "y", '{"kind":"y"}')]),
    (n.NewDemands(1), [(2, "y", '{"kind":"y"}')]),
    (n.Workflows(["other", "hash"]), ["hash"]),
    (n.Workflows(["other"]), []),
    (n.WorkflowNames(10), [("w",)]),
    (n.WorkflowsByName(["w", "other", "nothing"]), ["hash", "hash"]),
    (n.ChildActions(10), [T3 + 14, T11 + 1]),
    (n.ChildActions(1), [T3 + 14]),
    (n.ChildActions(10, 3), [T3 + 14, T11 + 1]),
    (n.ChildActions(10, 5), []),
    (n.UnreportedRuns(10), [(11, T3 + 8), (12, T5 + 1)]),
    (n.UnreportedRuns(1), [(11, T3 + 8)]),
    (n.UnreportedRuns(10, 11), [(11, T3 + 8)]),
    (n.Roots([11, 3, 99]), [(3, 3, "three", "w"), (11, 3, "three", "other")]),
    (n.RunOrigin(11), [("/here", '{"a":"b"}', False)]),
    (n.PinsOfFamily(3), [("hash", "/a", "./x.yaml"), ("hash", "/b", "./x.yaml")]),
    (n.PinsOfFamily(5), []),
    (n.FinishedRuns(FAR, ["succeeded", "failed"], 10), [9, 13, 6]),
    (n.FinishedRuns(FAR, ["succeeded", "failed"], 1), [9]),
    (n.FinishedRuns(FAR, ["succeeded"], 10), [13, 6]),
    (n.FinishedRuns(0, ["succeeded"], 10), []),
    (n.AppliedVersion("v"), [("applied",)]),
    (n.AppliedVersion("w"), []),
    (n.ApplyLock(), []),
    (n.Trigger("w/tick"), ["w/tick"]),
    (n.Trigger("w/tic"), []),
    (n.TriggersOf("w"), ["w/tick", "w/tock"]),
    (n.TriggersOf("v"), ["v/after", "v/gone", "v/hook"]),
    (n.TriggersByKey("webhook", ["hook", "other"]), ["v/hook"]),
    (n.TriggersByKey("after", ["w"]), ["v/after"]),
    (n.TriggersByKey("after", []), []),
    (n.UnfinishedRunsOfTrigger("w/tick"), [(8, "run-8")]),
    (n.UnfinishedRunsOfTrigger("w/tock"), []),
    (n.FiresByCause("w/tick", ["9", "3", "1"]), [("w/tick", "1"), ("w/tick", "3")]),
    (n.FiresByCause("w/tick", []), []),
    (n.QueuedFires("w/tick", 10), [("w/tick", "2"), ("w/tick", "3")]),
    (n.QueuedFires("w/tick", 1), [("w/tick", "2")]),
    (n.QueuedFires("w/tock", 10), []),
    (n.FiresSince("w/tick", 0), [(3,)]),
    (n.FiresSince("w/tock", 0), [(0,)]),
    (n.FiresSince("w/tick", FAR), [(0,)]),
    (n.LastEvent(), [(0,)]),
    (n.FailedTasks(3), [(0, "pending"), (11, "failed")]),
    (n.FailedTasks(5), []),
]

#: tested below, each in a way of its own
APART = (
    n.PlacementDemands, n.DueTasks, n.NextWakeTime, n.BeginExchange, n.NextRun, n.Lease, n.TaskEnds, n.RunInputs,
    n.ContextOfRun, n.MapArray, n.SignalOfRun, n.Memos, n.Token, n.Measurements, n.Leadership, n.InsistingLeaders,
    n.TasksPastDeadline, n.LossesByOutage, n.ParkedTasks, n.Takeovers, n.RunsKeptForOthers, n.EndsToTakeOver,
    n.MapLabels, n.Backfill, n.UnfinishedRunsOfBackfill, n.DueDeadlines, n.FirstStart, n.NotifyState,
    n.Notifications, n.FailedNotifications,
)  # fmt: skip


def identity(row: Any) -> Any:
    if isinstance(row, FireRow):
        return row.trigger, row.cause
    if isinstance(row, TaskRow | SessionRow | TriggerRow):
        return row.id
    if isinstance(row, BudgetRow):
        return row.scope
    if isinstance(row, PoolRow):
        return row.name
    if isinstance(row, HandleRow):
        return (row.task_id, row.attempt, row.state)
    if isinstance(row, StoredWorkflow):
        return row.workflow
    if isinstance(row, Pin):
        return (row.workflow, row.source, row.name)
    return row.no if isinstance(row, RunRow) else tuple(row)


NAMES = [f"{i}-{type(need).__name__}" for i, (need, _) in enumerate(CASES)]


@pytest.mark.parametrize(("need", "found"), CASES, ids=NAMES)
def test_load(store: Any, need: n.Need, found: list[Any]) -> None:
    make_world(store)
    with store.transaction() as tx:
        (rows,) = tx.load([need])
    assert [identity(row) for row in rows] == found


def test_orphans(store: Any) -> None:
    """Of the engines that are asked for, with the word whether their tasks shall stop."""
    make_world(store)
    found = store.orphans(["e", "f"], 10)
    assert [(row.task_id, row.attempt, row.adoptable, stopping) for row, stopping in found] == [
        (T3 + 1, 2, True, False),
        (T3 + 10, 1, False, True),
    ]
    assert [row.name for row, _ in store.orphans(["e", "g"], 10)] == ["n"]
    assert len(store.orphans(["e", "f"], 1)) == 1
    assert store.orphans([], 10) == []


def test_every_need_is_tested() -> None:
    tested = {type(need) for need, _ in CASES} | set(APART)
    assert tested >= set(get_args(n.Need)), "a new need must be tested here: every store has to answer it"


def test_current_rows_are_in_the_order_of_the_document(store: Any) -> None:
    make_world(store)
    with store.transaction() as tx:
        (rows,) = tx.load([n.CurrentTasks(3)])
    places = [(row.pos, row.idx, row.generation) for row in rows]
    assert places == sorted(places)
    assert len(places) == 15


def test_due_tasks_come_earliest_first(store: Any) -> None:
    make_world(store)
    with store.transaction() as tx:
        ((*due,), (*one,)) = tx.load([n.DueTasks(10), n.DueTasks(1)])
    assert [row.id for row in due] == [T3 + 13, T3 + 6]
    assert [row.id for row in one] == [T3 + 13]


def test_what_waits_for_its_node(store: Any) -> None:
    with store.transaction() as tx:
        rows = [
            task_row(1, 0, state="queued", demand="place:x"),
            task_row(1, 1, state="queued", demand="x"),
            task_row(1, 2, state="queued", demand="session:s1/place:x", wake_at=tx.now + 10_000),
            task_row(1, 3, state="queued", demand="session:s1"),
            task_row(1, 4, state="running", demand="place:y", session="s1", attempt=1),
            task_row(1, 5, state="queued", demand="placed"),
            task_row(1, 6, state="queued", demand="place:x"),
            task_row(1, 7, state="queued", demand="place:a@pool"),
        ]
        put_run(tx, run_row(1), rows)
        (found,) = tx.load([n.PlacementDemands()])
    assert [tuple(row) for row in found] == [
        ("place:a@pool",), ("place:x",), ("session:s1",), ("session:s1/place:x",),
    ]  # fmt: skip


def test_parked_tasks_come_best_rank_first_and_page_by_page(store: Any) -> None:
    first, last = (-FAR, 0), task_id(1, 3)
    with store.transaction() as tx:
        rows = [
            task_row(1, 0, state="queued", demand="agent@$5"),
            task_row(1, 1, state="queued", demand="budget:agent@$5", rank=9),
            task_row(1, 2, state="cancelled", demand="budget:agent@$5"),
            task_row(1, 3, state="queued", demand="budget:agent@$7", rank=4),
            task_row(1, 4, state="queued", demand="budgets"),
        ]
        put_run(tx, run_row(1), rows)
        put_run(tx, run_row(2), [task_row(2, 0, state="queued", demand="budget:agent@$5")])
        asked = [n.ParkedTasks(1, first, 9), n.ParkedTasks(1, first, 1), n.ParkedTasks(1, (4, last), 9)]
        found = tx.load([*asked, n.ParkedTasks(3, first, 9)])
    assert [[row.id for row in rows] for rows in found] == [[last, task_id(1, 1)], [last], [task_id(1, 1)], []]


def test_only_sessions_with_a_lease_are_live(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s2")
        put_session(tx, "s1", state="draining")
        put_session(tx, "late", ttl_ms=-1)
        put_session(tx, "over", ended_at=tx.now)
        (rows,) = tx.load([n.LiveSessions()])
    assert [(row.id, row.state) for row in rows] == [("s1", "draining"), ("s2", "live")]


def test_the_next_wake_leaves_out_what_the_draft_has_changed(store: Any) -> None:
    now = make_world(store)
    with store.transaction() as tx:
        changed: list[list[int]] = [[], [T3 + 13]]
        found = [tx.load([n.NextWakeTime(tasks, [])])[0] for tasks in changed]
        assert found == [[now - 20], [now - 10]]
        all_tasks = [T3 + 6, T3 + 7, T3 + 13]
        changed = [[], [7], [7, 8]]
        found = [tx.load([n.NextWakeTime(all_tasks, runs)])[0] for runs in changed]
        assert found == [[now - 1], [now + 5_000], []], "deadlines of runs count as well"


def test_a_glance_tells_what_there_is_to_do(store: Any) -> None:
    now = make_world(store)
    with store.transaction() as tx:
        ((overview,),) = tx.load([n.BeginExchange("s1", 41)])
        session, wake_at, unsettled, sweeping, stopping, newest_demand, notifying = overview
        assert not notifying
        assert (session.id, session.exchange) == ("s1", 41)
        assert wake_at == now - 20, "the earliest of wake-up times and deadlines, passed ones included"
        assert (bool(unsettled), bool(sweeping), bool(stopping), newest_demand) == (True, True, True, 2)
        assert tx.load([n.BeginExchange("nobody", 1)]) == ([],)


def test_a_glance_at_nothing(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s")
        put_run(tx, run_row(1, deadline_at=tx.now - 5, state="failed", finished_at=tx.now), [])
        ((overview,),) = tx.load([n.BeginExchange("s", 1)])
    assert overview[1] is None, "the deadline of a run that has ended is no reason to wake up"
    assert [bool(value) for value in overview[2:]] == [False] * 5


def test_an_exchange_begins_once_and_only_while_its_session_lasts(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s")
        ((begun,),) = tx.load([n.BeginExchange("s", 2)])
        assert (begun[0].id, begun[0].exchange, begun[0].state) == ("s", 2, "live")
        for number in (1, 2):
            assert tx.load([n.BeginExchange("s", number)]) == ([],), "it was made before"
        draft = draft_of(tx)
        draft.sessions.drained = [("s", tx.now)]
        tx.write(draft)
        ((begun,),) = tx.load([n.BeginExchange("s", 3)])
        assert begun[0].state == "draining"
        draft = draft_of(tx)
        draft.sessions.ended = [("s", "dead")]
        tx.write(draft)
        assert tx.load([n.BeginExchange("s", 4)]) == ([],), "the session is over"
    with store.transaction() as tx:
        assert [(row.exchange, row.state) for row in tx.load([n.Session("s")])[0]] == [(3, "dead")]


def test_the_lease_counts_down(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s", ttl_ms=10_000)
        (left,) = tx.load([n.Lease("s")])
    assert left == [10_000]
    with store.transaction() as later:
        (left,) = later.load([n.Lease("s")])
    assert left == [10_000 - (later.now - tx.now)]


def test_run_numbers_are_never_given_twice(store: Any, make_store: Any) -> None:
    numbers = []
    for _ in range(3):
        with make_store().transaction() as tx:
            numbers += tx.load([n.NextRun()])[0]
            numbers += tx.load([n.NextRun()])[0]
    assert numbers == sorted(set(numbers))


def test_the_newest_generation_is_among_the_rows_at_a_place(store: Any) -> None:
    make_world(store)
    with store.transaction() as tx:
        (rows,) = tx.load([n.TasksAt([(3, 0, -1)])])
    assert max(rows, key=lambda row: row.generation).id == T3 + 12


def test_how_tasks_ended(store: Any) -> None:
    """Elements included; of several generations only the newest counts."""
    make_world(store)
    with store.transaction() as tx:
        (ends,) = tx.load([n.TaskEnds(3, [8, 0, 11])])
    assert [(e.pos, e.idx, e.state) for e in ends] == [
        (0, -1, "pending"), (8, -1, "running"), (8, 0, "succeeded"), (8, 1, "running"),
        (11, -1, "failed"),
    ]  # fmt: skip


def test_what_a_level_holds(store: Any) -> None:
    """The result comes along only where it sets keys of the context; of the current attempt alone."""
    make_world(store)
    results = [(1, 1, '{"output":1}', "h1"), (10, 1, '{"context":{"k":1}}', "h2"), (3, 0, None, None)]
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.attempts = [
            AttemptRow(T3 + at, attempt, 1, "s1", "succeeded", 0, None, None, None, 5, result, hash)
            for at, attempt, result, hash in [*results, (1, 7, '{"context":{}}', "other")]
        ]
        tx.write(draft)
        (ends,) = tx.load([n.HeldEnds([T3 + 10, T3 + 1, T3 + 3, T3 + 2])])
    assert [tuple(row) for row in ends] == [
        (T3 + 1, "h1", None), (T3 + 3, None, None), (T3 + 10, "h2", '{"context":{"k":1}}'),
    ]  # fmt: skip


def test_what_a_rerun_takes_over(store: Any) -> None:
    """Ends of the current attempts, and from row to row in the store; a result only where it must be looked at."""
    source, to = task_id(1, 0), task_id(2, 0)
    results = ['{"output":1}', '{"context":{"k":1}}', '{"artifact":{}}', None]
    with store.transaction() as tx:
        ended = [task_row(1, at, state="succeeded", attempt=2, finished_at=5) for at in range(5)]
        put_run(tx, run_row(1), ended)
        draft = draft_of(tx)
        draft.attempts = [
            AttemptRow(source + at, 2, 1, "s1", "succeeded", 3, "e", 1, 2, 5, result, f"h{at}", '{"run":"x"}')
            for at, result in enumerate(results)
        ]
        tx.write(draft)
        (ends,) = tx.load([n.EndsToTakeOver(1)])
        assert [tuple(row) for row in ends] == [
            (source, "h0", None, '{"run":"x"}'), (source + 1, "h1", results[1], '{"run":"x"}'),
            (source + 2, "h2", results[2], '{"run":"x"}'), (source + 3, "h3", None, '{"run":"x"}'),
        ]  # fmt: skip
        taken = [task_row(2, at, state="succeeded", attempt=1, finished_at=5) for at in range(5)]
        over = [
            (to, source, None, "o"), (to + 1, source + 1, None, "o"), (to + 2, source + 2, "other", "o"),
            (to + 3, source + 3, None, "o"),
        ]  # fmt: skip
        put_run(tx, run_row(2), taken, taken_from=1, taken_over=over)
    rows = store.reader().query(
        f"SELECT task_id, attempt, outcome, exit_code, error, result, result_hash, cached FROM attempts"
        f" WHERE task_id >= {to} ORDER BY task_id"
    )
    assert [tuple(row) for row in rows] == [
        (to + at, 1, "succeeded", 3, "e", result, f"h{at}", "o")
        for at, result in enumerate([results[0], results[1], "other", None])
    ]
    with pytest.raises(Superseded):
        _take_over(store, to + 4, task_id(9, 0))


def _take_over(store: Any, to: int, source: int) -> None:
    with store.transaction() as tx:
        put_run(tx, run_row(9), [], taken_from=1, taken_over=[(to, source, None, "o")])


def test_runs_that_others_took_over_from_are_not_pruned(store: Any) -> None:
    """Nor is anything of their family; but for states and times that prune does not ask for, nothing is said."""
    with store.transaction() as tx:
        for no, extra in ((1, {}), (2, {}), (3, {"taken_from": 2}), (4, {"taken_from": 3}), (5, {})):
            put_run(tx, run_row(no, state="failed", finished_at=no), [], **extra)
        put_run(tx, run_row(6, state="failed", finished_at=1, root=1, parent=task_id(1, 0)), [])
        put_run(tx, run_row(7, finished_at=None), [], taken_from=6)
        finished, takeovers, none, kept, few = tx.load([
            n.FinishedRuns(FAR, ["failed"], 10), n.Takeovers([3, 5]), n.Takeovers([5]),
            n.RunsKeptForOthers(FAR, ["failed"], 10), n.RunsKeptForOthers(3, ["failed"], 1),
        ])  # fmt: skip
    assert [run.no for run in finished] == [4, 5]
    assert [tuple(row) for row in takeovers] == [(3, "run-3", 2, "run-2"), (4, "run-4", 3, "run-3")]
    assert none == []
    assert [tuple(row) for row in kept] == [("run-6", "run-7"), ("run-2", "run-3"), ("run-3", "run-4")]
    assert [tuple(row) for row in few] == [("run-6", "run-7")]


def test_backfills(store: Any) -> None:
    """One that stands elsewhere by now is not moved; runs of a backfill are not its trigger's own."""
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.triggers.new_backfill = BackfillRow("b", "w/tick", 1, 9, 2, True, False, "{}", 9, tx.now, "ann")
        tx.write(draft)
        for no, extra in ((1, {"backfill": "b"}), (2, {"backfill": "b"}), (3, {"backfill": "c"}), (4, {})):
            put_run(tx, run_row(no, finished_at=5 if no == 2 else None), [], trigger="w/tick", **extra)
        ((row,), none, unfinished, own) = tx.load([
            n.Backfill("b"), n.Backfill("x"), n.UnfinishedRunsOfBackfill("b"), n.UnfinishedRunsOfTrigger("w/tick"),
        ])  # fmt: skip
    assert (row.trigger, row.reverse, row.again, row.by, row.cursor) == ("w/tick", True, False, "ann", None)
    assert none == []
    assert [[tuple(one) for one in found] for found in (unfinished, own)] == [[(1, "run-1")], [(4, "run-4")]]
    _move_backfill(store, 9, None)
    with pytest.raises(Superseded):
        _move_backfill(store, 8, None)
    _move_backfill(store, 8, 9)
    with store.transaction() as tx:
        ((row,),) = tx.load([n.Backfill("b")])
    assert (row.cursor, row.started, row.state) == (8, 8, "active")


def _move_backfill(store: Any, to: int, was: int | None) -> None:
    with store.transaction() as tx:
        ((row,),) = tx.load([n.Backfill("b")])
        row.cursor = row.started = to
        draft = draft_of(tx)
        draft.triggers.backfill = (row, was)
        tx.write(draft)


def test_losses_with_sessions_that_were_given_up(store: Any) -> None:
    """Only lost attempts of that task count; a session that was given up outlives a prune while they are there."""
    make_world(store)
    sessions = [("out-1", "lost"), ("out-2", "lost"), ("crash", "lost"), ("out-3", "failed")]
    with store.transaction() as tx:
        for session, _ in [*sessions, ("idle", "")]:
            put_session(tx, session)
            draft = draft_of(tx)
            draft.sessions.abandoned = None if session == "crash" else session
            draft.sessions.ended = [(session, "dead")]
            tx.write(draft)
        draft = draft_of(tx)
        draft.attempts = [
            AttemptRow(T3 + 1, 10 + nth, 1, session, outcome, None, None, None, None, 5, None, None)
            for nth, (session, outcome) in enumerate(sessions)
        ]
        draft.attempts.append(AttemptRow(T3 + 2, 10, 1, "out-1", "lost", None, None, None, None, 5, None, None))
        draft.pruned.before = tx.now + 1
        tx.write(draft)
        found = tx.load([n.LossesByOutage(T3 + 1), n.LossesByOutage(T3 + 2), n.LossesByOutage(T3 + 3)])
        assert [[tuple(row) for row in rows] for rows in found] == [[(2,)], [(1,)], [(0,)]]
        left = [name for name, _ in [*sessions, ("idle", "")] if tx.load([n.Session(name)])[0]]
    assert left == ["out-1", "out-2"]


def test_inputs_of_a_run(store: Any) -> None:
    with store.transaction() as tx:
        put_run(tx, run_row(1), [], inputs='{"day": "2026-01-01", "n": 2}')
        assert tx.load([n.RunInputs(1)]) == ([{"day": "2026-01-01", "n": 2}],)


def test_context_and_signals_of_a_run(store: Any) -> None:
    make_world(store)
    for value in ("1", "2"):
        with store.transaction() as tx:
            draft = draft_of(tx)
            draft.values.context = [(3, "b", value, 4, -1), (3, "a", '{"x":[]}', 8, 1), (5, "b", "9", None, None)]
            tx.write(draft)
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.values.signals = [(3, "approve", '"yes"', None), (3, "other", None, "no"), (5, "approve", None, None)]
        tx.write(draft)
        context, approve, other, never = tx.load(
            [n.ContextOfRun(3), n.SignalOfRun(3, "approve"), n.SignalOfRun(3, "other"), n.SignalOfRun(3, "never")]
        )
    assert [tuple(row) for row in context] == [("a", '{"x":[]}', 8, 1), ("b", "2", 4, -1)], "the last value, by key"
    assert [tuple(row) for rows in (approve, other) for row in rows] == [('"yes"', None), (None, "no")]
    assert never == []
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.values.forgotten_signals = [(3, "approve")]
        tx.write(draft)
        gone, other, same_name = tx.load(
            [n.SignalOfRun(3, "approve"), n.SignalOfRun(3, "other"), n.SignalOfRun(5, "approve")]
        )
    assert (gone, len(other), len(same_name)) == ([], 1, 1)


def test_arrays_of_maps_over_the_context(store: Any) -> None:
    make_world(store)
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.values.arrays = [(3, 1, 1, "[1]"), (3, 1, 2, '["\\u0000é"]'), (3, 2, 1, "[3]"), (5, 1, 3, "[4]")]
        tx.write(draft)
        newest, none = tx.load([n.MapArray(3, 1), n.MapArray(3, 3)])
    assert [tuple(row) for row in newest] == [(2, '["\\u0000é"]')]
    assert none == []
    assert [store.array_of(3, 1, generation) for generation in (1, 2)] == [[1], ["\0é"]]
    assert [tuple(row) for row in store.reader().read("arrays_of_run", 3)] == [
        (1, 1, "[1]"), (1, 2, '["\\u0000é"]'), (2, 1, "[3]"),
    ]  # fmt: skip


def test_labels_of_elements(store: Any) -> None:
    make_world(store)
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.values.labels = [(3, 1, 2, '["\\u0000é"]'), (3, 1, 1, "[]"), (5, 1, 3, "[4]")]
        tx.write(draft)
        newest, none = tx.load([n.MapLabels(3, 1), n.MapLabels(3, 2)])
        assert ([tuple(row) for row in newest], none) == ([(2, '["\\u0000é"]')], [])
    assert [tuple(row) for row in store.reader().read("labels_of_run", 3)] == [(1, 1, "[]"), (1, 2, '["\\u0000é"]')]


def test_many_needs_are_answered_in_their_order(store: Any) -> None:
    make_world(store)
    with store.transaction() as tx:
        answers = tx.load([n.QueuedTasksOfRun(5), n.RunById("three"), n.QueuedTasksOfRun(3)])
    assert [[identity(row) for row in rows] for rows in answers] == [[T5], [3], [T3 + 3, T3 + 2]]


def test_a_loaded_row_is_whole(store: Any) -> None:
    """Columns come back as the types they had: a count is no text, a flag no number that surprises."""
    now = make_world(store)
    with store.transaction() as tx:
        ((stopping,), (run,), (session,)) = tx.load([n.StopRequests("s1"), n.RunById("three"), n.Session("s1")])
    assert (stopping.session, stopping.claim_no, stopping.stop, stopping.attempt) == ("s1", 5, "cancel", 1)
    assert (stopping.wake_at, stopping.reason, bool(stopping.settled), stopping.element) == (None, None, True, True)
    assert (run.name, run.workflow, bool(run.halted), run.deadline_at, run.sweep) == ("w", "hash", False, None, None)
    assert (session.state, session.exchange, session.scope, session.body) == ("live", 0, None, "{}")
    assert now > 1_600_000_000_000, "the clock looks like wall time, in milliseconds"


def test_nobody_leads_a_new_store(store: Any) -> None:
    with store.transaction() as tx:
        assert tx.load([n.Leadership()]) == ([LeadershipRow(0, None, 0)],)
    assert store.watch() == Watch(None, 0)


def test_who_insists_on_leading(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "b", role="leader")
        put_session(tx, "a", role="leader")
        put_session(tx, "auto")
        put_session(tx, "late", role="leader", ttl_ms=0)
        put_session(tx, "drained", role="leader")
        put_session(tx, "dead", role="leader")
        draft = draft_of(tx)
        draft.sessions.drained = [("drained", tx.now + 5)]
        draft.sessions.ended = [("dead", "dead")]
        tx.write(draft)
        (insisting,) = tx.load([n.InsistingLeaders()])
    assert [tuple(row) for row in insisting] == [("a",), ("b",)]


def test_attempts_past_their_deadline(store: Any) -> None:
    with store.transaction() as tx:
        running = {"state": "running", "session": "s", "attempt": 1}
        rows = [
            task_row(1, 0, **running, deadline_at=tx.now - 5),
            task_row(1, 1, **running, deadline_at=tx.now - 9),
            task_row(1, 2, **running, deadline_at=tx.now + 60_000),
            task_row(1, 3, **running),
            task_row(1, 5, **running, held="succeeded", deadline_at=tx.now - 9),
            task_row(1, 4, state="succeeded", deadline_at=tx.now - 9, finished_at=tx.now),
        ]
        put_run(tx, run_row(1), rows)
        late, first = tx.load([n.TasksPastDeadline(10), n.TasksPastDeadline(1)])
    assert [id for (id,) in late] == [task_id(1, 1), task_id(1, 0)]
    assert [id for (id,) in first] == [task_id(1, 1)]


def test_a_token_by_its_id(store: Any) -> None:
    made = TokenRow("0a1b", "hash", "of ann", "operator", 7, 99)
    with store.transaction() as tx:
        tx.load([n.Token("0a1b")])
        draft = draft_of(tx)
        draft.tokens.new = made
        tx.write(draft)
    with store.transaction() as tx:
        (before, nobody) = tx.load([n.Token("0a1b"), n.Token("0a1")])
        draft, now = draft_of(tx), tx.now
        draft.tokens.revoked = "0a1b"
        tx.write(draft)
    assert (before, nobody) == ([made], [])
    rows = store.reader().read("tokens_all", None)
    assert [tuple(row) for row in rows] == [("0a1b", "hash", "of ann", "operator", 7, 99, now, None)]
    assert store.reader().read("tokens_all", "0a1") == []


@pytest.mark.parametrize(
    ("run", "task"),
    [
        ({}, {"state": "queued"}),
        ({}, {"state": "scheduled", "wake_at": 5}),
        ({"deadline_at": 5}, {}),
        ({}, {"state": "failed", "settled": False}),
        ({"sweep": 1}, {}),
        ({}, {"child_action": "start"}),
        ({"reported": False}, {}),
        ({}, {"state": "running", "session": "s", "stop": "cancel"}),
    ],
    ids=lambda given: "-".join(given) or "nothing",
)
def test_a_look_finds_each_reason_to_exchange(store: Any, run: dict[str, Any], task: dict[str, Any]) -> None:
    with store.transaction() as tx:
        put_session(tx, "s")
        put_run(tx, run_row(1), [task_row(1, 0)])
    assert store.look("s", ["x"], 0) == Look(False, None, False)
    with store.transaction() as tx:
        put_run(tx, run_row(2, **run), [task_row(2, 0, **task)])
    assert store.look("s", ["x"], 0).worthwhile


def test_what_a_look_leaves_alone(store: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s", ttl_ms=10_000)
        draft = draft_of(tx)
        draft.sessions.leadership = (LeadershipRow(1, "s", tx.now + 5_000), 0)
        tx.write(draft)
        tasks = [task_row(1, 0, state="queued"), task_row(1, 1, state="scheduled", wake_at=tx.now + 60_000)]
        put_run(tx, run_row(1), tasks)
    worthwhile, wake_in_ms, led = store.look("s", [], 0)
    assert not worthwhile, "a node without room does not ask for queued tasks"
    assert 0 < wake_in_ms <= 60_000
    assert led
    assert store.look("nobody", [], 0).worthwhile, "its session is over"


def test_durations_are_those_of_the_newest_run_that_succeeded(store: Any) -> None:
    with store.transaction() as tx:
        for no, state, ms in ((1, "succeeded", 10), (2, "succeeded", 20), (3, "failed", 30)):
            rows = [
                task_row(no, 0, state="succeeded", started_at=100, finished_at=100 + ms),
                task_row(no, 1, state="skipped", finished_at=100),
                task_row(no, 2, pos=0, idx=0, state="succeeded", started_at=1, finished_at=9),
            ]
            put_run(tx, run_row(no, name="w", workflow="hash", state=state), rows)
        put_run(tx, run_row(4, name="w", workflow="another", state="succeeded"), [])
    with store.transaction() as tx:
        found, none = tx.load([n.Durations("w", "hash", 2), n.Durations("v", "hash", 2)])
    assert [tuple(row) for row in found] == [(0, 20)]
    assert none == []
