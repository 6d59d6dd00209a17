"""Handles: attempts that run on engines, and what an engine has said of them.

A remote attempt ends when its engine says that nothing of it is left. If its node is lost before, its handle is
orphaned and the task stays running, until a node that reaches the engine has removed what is left, a node adopts it,
or a person releases it. So no two attempts of a task are alive at a time, and a cancel is not over before its
containers are.
"""

from weft.core.commands import Claim, CloseHandles, Exchange, HandleReply, OpenHandle, Refused, ReleaseTask, Reply
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import HandleHistory, Runs, Session, Tasks, UnclosedHandles
from weft.core.placement.demands import memory_of
from weft.core.placement.worker_binding import allows
from weft.core.rows import ORDINAL_BITS, HandleRow, RunRow, TaskRow
from weft.core.rules.attempts import LOST_MAX, load_handles, lose
from weft.core.rules.budgets import allowance_of, load_spending, out_of_budget
from weft.core.rules.readiness import can_still_start
from weft.core.rules.run_commands import named_run, named_task
from weft.core.rules.sessions import OVER
from weft.core.rules.settle import settle


def open_handle(draft: Draft, command: OpenHandle) -> Rule:
    """Under the guard of a report. An attempt that was claimed for adoption has its handle already, under the name of
    the attempt that started it."""
    sessions, runs, tasks = yield (
        Session(command.session),
        Runs([command.task_id >> ORDINAL_BITS]),
        Tasks([command.task_id]),
    )
    (handles,) = yield (UnclosedHandles([command.task_id]),)
    draft.add_loaded_runs(runs)
    found = [
        t for t in draft.add_loaded(tasks)
        if (t.state, t.attempt, t.session, t.held) == ("running", command.attempt, command.session, None)
    ]  # fmt: skip
    if not found or not sessions or sessions[0].state in OVER:
        return HandleReply("stale")
    known: HandleRow | None = handles[0] if handles else None
    if known is None:
        row = HandleRow(
            command.task_id, command.attempt, command.session, command.kind, command.engine, command.name,
            command.place, command.adoptable, "open", draft.now,
        )  # fmt: skip
        draft.handles.opened.append(row)
        return HandleReply("open", row.engine, row.name, row.place)
    if known.name == command.name:
        return HandleReply("open", known.engine, known.name, known.place)  # the first reply was lost
    (attempts,) = yield (HandleHistory(command.task_id, known.engine, known.name),)
    earlier = [(attempt, out, err) for attempt, out, err in attempts if attempt != command.attempt]
    return HandleReply("adopted", known.engine, known.name, known.place, earlier)


def close_handles(draft: Draft, command: CloseHandles) -> Rule:
    """What the handles' attempts held goes on: back to the queue, or to the end that was asked for."""
    ids = sorted({task_id for task_id, _ in command.gone})
    runs, tasks = yield (Runs(sorted({id >> ORDINAL_BITS for id in ids})), Tasks(ids))
    (handles,) = yield (UnclosedHandles(ids),)
    draft.add_loaded_runs(runs)
    by_id = {task.id: task for task in draft.add_loaded(tasks)}
    yield from load_spending(draft, by_id.values())
    gone = frozenset(command.gone)
    ended: list[TaskRow] = []
    changed = 0
    for handle in handles:
        if handle.state != "orphaned" or (handle.task_id, handle.attempt) not in gone:
            continue  # it was adopted, or released, in the meantime
        changed += 1
        draft.handles.states.append((handle.task_id, handle.attempt, "gone"))
        task = by_id.get(handle.task_id)
        if task is not None and task.state == "running":
            draft.by_session = handle.session
            yield from lose(draft, task, ended)
            draft.by_session = None
    yield from settle(draft, ended)
    return Reply(changed=changed)


def adopt(draft: Draft, command: Exchange) -> Rule:
    """Give this session the orphaned attempts that it asks for, as new attempts. Those whose run is being stopped, or
    that have been lost too often, stay orphaned: they are removed."""
    found = [draft.tasks[id] for id, _ in command.adopt if id in draft.tasks]
    found = [t for t in found if t.state == "running" and t.run_no in draft.runs]
    yield from load_handles(draft, found)
    claims: list[Claim] = []
    for task in found[: max(0, command.want + command.want_slotless)]:
        handle = draft.handles.unclosed.pop(task.id, None)
        if handle is None or not _may_be_adopted(draft, task, handle, command):
            continue
        ended: list[TaskRow] = []
        draft.by_session = task.session
        yield from lose(draft, task, ended)
        draft.by_session = command.session
        assert not ended, "an orphan that may be adopted goes back to the queue"
        draft.claim([task], command.session, command.number)
        _hand_over(draft, task, handle)
        claims.append(
            Claim(
                task.id, task.attempt, task.run_no, task.pos, task.idx, task.generation,
                memory=memory_of(task.demand), adopted=True, allowance=allowance_of(draft, task),
            )
        )  # fmt: skip
    return claims


def _hand_over(draft: Draft, task: TaskRow, handle: HandleRow) -> None:
    """What an earlier attempt has started is this one's now."""
    assert task.session is not None
    draft.handles.states.append((task.id, handle.attempt, "adopted"))
    draft.handles.opened.append(
        HandleRow(
            task.id, task.attempt, task.session, handle.kind, handle.engine, handle.name, handle.place, True, "open",
            draft.now,
        )
    )  # fmt: skip
    data = {"attempt": task.attempt, "from": handle.attempt, "engine": handle.engine, "name": handle.name}
    draft.event(task.run_no, "adopted", data, task)


def _may_be_adopted(draft: Draft, task: TaskRow, handle: HandleRow, command: Exchange) -> bool:
    run = draft.runs[task.run_no]
    workflow = draft.workflows[run.workflow]
    return (
        handle.state == "orphaned"
        and handle.adoptable
        and (task.id, handle.attempt) in command.adopt
        and allows(command.workflows, run.name)
        and task.stop is None
        and task.lost < LOST_MAX
        and out_of_budget(draft, task) is None
        and workflow.own is None  # its tasks are one node's
        and can_still_start(run, workflow.tasks[task.pos])
    )


def release_task(draft: Draft, command: ReleaseTask) -> Rule:
    run: RunRow = yield from named_run(draft, command.run_id)
    task: TaskRow = yield from named_task(draft, run, command.task)
    yield from load_handles(draft, [task])
    handle = draft.handles.unclosed.pop(task.id, None)
    if task.state != "running" or handle is None:
        raise Refused(
            "conflict",
            f"{command.task} is {task.state}, and waits for no engine: only an attempt that an engine has not "
            "confirmed as gone can be released",
        )
    draft.handles.states.append((task.id, handle.attempt, "released"))
    data = {"attempt": handle.attempt, "engine": handle.engine, "name": handle.name, "reason": command.reason}
    draft.event(run.no, "released", data, task)
    ended: list[TaskRow] = []
    draft.by_session = task.session
    yield from lose(draft, task, ended)
    draft.by_session = None
    yield from settle(draft, ended)
    draft.wake = True
    return Reply(run.id, run.no, task.state, changed=1)


def note_progress(draft: Draft, command: Exchange) -> None:
    """What attempts on engines wait for: for `why`, and in the history."""
    for task_id, attempt, note in command.notes:
        task = draft.tasks.get(task_id)
        if task is not None and (task.state, task.attempt, task.session) == ("running", attempt, command.session):
            draft.handles.notes.append((task_id, attempt, note))
            draft.event(task.run_no, "progress", {"attempt": attempt, "note": note}, task)
