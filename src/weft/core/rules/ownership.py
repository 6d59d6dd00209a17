"""Runs that one node owns (`mode: levels`, `ownership: run`).

While such a run is free, its queued tasks carry a demand that begins with `own:` and asks for all that its tasks
need together. Whoever claims the first of them takes the run, and from then on its tasks queue under that session's
private demand, which nobody else offers. When the session ends, the run is free again.
"""

from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import QueuedTasksOfRun, RunsIfFree, UnlockedQueuedTasks
from weft.core.placement.demands import OWN, private_demand
from weft.core.rows import RunRow, TaskRow


def enqueue(draft: Draft, run: RunRow, task: TaskRow) -> None:
    """To the queue, under the demand of those who may take it."""
    own = draft.workflows[run.workflow].own
    if own is not None:
        task.demand = own[0] if run.owner is None else private_demand(run.owner)
    draft.move(task, "queued")


def waits_for_owner(task: TaskRow) -> bool:
    return task.demand.startswith(OWN)


def take_runs(draft: Draft, session: str, queued: list[TaskRow], want: int) -> Rule:
    """The best of these candidates that the session may have; free runs among theirs become its own. It holds the
    candidates already, so it waits for nobody: a run that somebody else holds is left to them, and a queued task that
    somebody's claim holds keeps its demand, which the owner offers as well."""
    refused: dict[int, None] = {}
    taken: list[RunRow] = []
    mine: list[RunRow] = []  # owned before; a claim of somebody else held this task when they were taken
    while True:
        chosen = [t for t in queued if t.run_no not in refused][:want]
        asked = sorted({t.run_no for t in chosen if waits_for_owner(t)} - {run.no for run in [*taken, *mine]})
        if not asked:
            break
        missing = [no for no in asked if no not in draft.runs]
        if missing:
            (runs,) = yield (RunsIfFree(missing),)
            draft.add_loaded_runs(runs)
        for no in asked:
            run = draft.runs.get(no)
            if run is None or run.owner not in (None, session):
                refused[no] = None
                continue
            if run.owner == session:
                mine.append(run)
                continue
            draft.touch_run(run)
            run.owner = session
            draft.event(no, "owned", {"session": session})
            taken.append(run)
    claimed = {t.id: None for t in chosen}
    for run in taken:
        for task in (yield from _queued(draft, run, UnlockedQueuedTasks(run.no))):
            if task.id not in claimed:
                draft.touch(task)
                task.demand = private_demand(session)
    return chosen


def _queued(draft: Draft, run: RunRow, need: QueuedTasksOfRun | UnlockedQueuedTasks) -> Rule:
    """What is in the queue, or was just put there."""
    (rows,) = yield (need,)
    draft.add_loaded(rows)
    return [t for t in draft.tasks.values() if t.run_no == run.no and t.state == "queued"]


def free_run(draft: Draft, run: RunRow) -> Rule:
    """Its owner's session is over: what is queued may be taken by anyone who can own it."""
    draft.touch_run(run)
    draft.event(run.no, "disowned", {"session": run.owner})
    run.owner = None
    own = draft.workflows[run.workflow].own
    assert own is not None
    for task in (yield from _queued(draft, run, QueuedTasksOfRun(run.no))):
        draft.touch(task)
        task.demand = own[0]
