"""What the store and a node that is alive may disagree about: attempts that the node does not know, and attempts that
it should have ended long ago."""

from weft.core.commands import Overdue, Reconcile, Reply
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import HeldTasks, Runs, Session, Tasks, TasksPastDeadline
from weft.core.liveness import OVERDUE_MS
from weft.core.rows import ORDINAL_BITS, TaskRow
from weft.core.rules.attempts import OVERDUE, load_handles, lose
from weft.core.rules.leader import require_term
from weft.core.rules.settle import settle


def reconcile(draft: Draft, command: Reconcile) -> Rule:
    """What the node does not know of is queued again; what only the node knows of is not its to run any more."""
    sessions, held = yield (Session(command.session), HeldTasks(command.session))
    if not sessions or sessions[0].state in ("dead", "left"):
        return Reply(state="dead")
    if sessions[0].exchange != command.number:
        return Reply(state="moved on")  # an exchange came in between: there is nothing to compare
    held = [task for task in draft.add_loaded(held) if task.held is None]  # what has finished its node holds no more
    (runs,) = yield (Runs(sorted({t.run_no for t in held})),)
    draft.add_loaded_runs(runs)
    yield from load_handles(draft, held)
    draft.by_session = command.session
    known = frozenset((task_id, attempt) for task_id, attempt in command.held)
    stored = frozenset((t.id, t.attempt) for t in held)
    ended: list[TaskRow] = []
    missing = [t for t in held if (t.id, t.attempt) not in known]
    for task in missing:
        yield from lose(draft, task, ended)
    yield from settle(draft, ended)
    unknown = [[id, attempt] for id, attempt in command.held if (id, attempt) not in stored]
    return Reply(changed=len(missing), state="live", data={"unknown": unknown})


def overdue(draft: Draft, command: Overdue) -> Rule:
    """First its node is asked to stop it, once more. If that has not helped when the same time has passed again, the
    attempt is taken from it like that of a dead node; a result that still comes is refused."""
    yield from require_term(draft, command.term)
    (late,) = yield (TasksPastDeadline(command.limit),)
    ids = sorted(id for (id,) in late)
    if not ids:
        return Reply()
    runs, tasks = yield (Runs(sorted({id >> ORDINAL_BITS for id in ids})), Tasks(ids))
    draft.add_loaded_runs(runs)
    tasks = draft.add_loaded(tasks)
    yield from load_handles(draft, tasks)
    ended: list[TaskRow] = []
    changed = 0
    for task in tasks:
        if task.state != "running" or task.held or task.deadline_at is None or task.deadline_at > draft.now:
            continue
        changed += 1
        draft.event(task.run_no, "overdue", {"attempt": task.attempt, "taken": task.stop is not None}, task)
        if task.stop is None:
            draft.touch(task)
            task.stop, task.deadline_at = OVERDUE, draft.now + OVERDUE_MS
            draft.wake = draft.stopping = True
        else:
            draft.by_session = task.session
            yield from lose(draft, task, ended)
            draft.by_session = None
    yield from settle(draft, ended)
    return Reply(changed=changed, more=len(ids) == command.limit)
