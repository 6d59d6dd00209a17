"""`verify`: a run rebuilt from its events alone, and compared with what is stored."""

from typing import TYPE_CHECKING

from weft.core.history.replay import Replay
from weft.core.invariants import check_budgets, check_family, check_history, check_pools, check_run, current_rows
from weft.core.placement.budgets import run_scope
from weft.core.rows import ORDINAL_BITS, PoolRow, TaskRow
from weft.core.rules.maps import array_hash
from weft.core.rules.names import OUTCOME
from weft.operations.history.run_replay import events_of
from weft.operations.reading.budgets import budgets_of, spending
from weft.operations.reading.runs import family_of, run_row
from weft.operations.replies import Verification
from weft.store.queries import TASK_COLUMNS

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess


ALL = 2**62


def verify(access: "StoreAccess", ref: str) -> Verification:
    """Rebuild the run from its events and compare; then check the invariants between its rows. What its tasks started
    is verified with it."""
    with access.snapshot():
        (no, run_id), *others = family_of(access, ref)
        found = _verify(access, no, run_id)
        for child_no, child_id in others:
            child = _verify(access, child_no, child_id)
            found.events += child.events
            found.tasks += child.tasks
            found.differences += [f"run {child_id}: {difference}" for difference in child.differences]
        if others and run_row(access, no).root == no:
            runs = [run_row(access, one) for one, _ in ((no, run_id), *others)]
            every = [row for run in runs for row in tasks_of(access, run.no)]
            found.differences += check_family(runs, every)
        pools = [PoolRow(*row) for row in access.read("pools_all")]
        holding = [row[4] for row in access.read("pool_holders")] if pools else []
        found.differences += check_pools(pools, holding)
    return found


def _verify(access: "StoreAccess", no: int, run_id: str) -> Verification:
    run = run_row(access, no)
    workflow = access.workflow(run.workflow)
    rows = tasks_of(access, no)
    replay = Replay(workflow, run.bounded, access.workflow)
    events = 0
    for event in events_of(access, no, settled=ALL):
        replay.apply(event.kind, event.place, event.data)
        events += 1
    hashes = dict(access.read("result_hashes", no << ORDINAL_BITS, (no + 1) << ORDINAL_BITS))
    replay.settle()
    differences = check_run(run, rows, workflow)
    running = [
        (t.id, t.demand) for t in rows if t.state == "running" and t.elements is None and t.session is not None
    ]
    budgets = budgets_of(access, [run_scope(no)])
    differences += check_budgets(budgets, running, spending(access, no << ORDINAL_BITS, (no + 1) << ORDINAL_BITS))
    current = current_rows(rows)
    for query, said, what in (
        ("arrays_of_run", replay.arrays, "what it maps over"),
        ("labels_of_run", replay.labels, "what its elements are called"),
    ):
        stored = {(pos, generation): array_hash(text) for pos, generation, text in access.read(query, no)}
        for pos, generation in sorted({*stored, *said}):
            if stored.get((pos, generation)) != said.get((pos, generation)):
                name = "its outcome" if pos == OUTCOME else workflow.tasks[pos].name
                differences.append(f"{name}: {what} in generation {generation} is not what its event says")
    differences += check_history(run, current, workflow, replay, hashes)
    return Verification(run_id=run_id, events=events, tasks=len(current), differences=differences)


def tasks_of(access: "StoreAccess", no: int) -> list[TaskRow]:
    """All of a run, in all generations."""
    return [TaskRow(*row[: len(TASK_COLUMNS)]) for row in access.read("tasks_of_run", no)]
