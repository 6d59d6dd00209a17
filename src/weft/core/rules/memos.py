"""Memos that outlive an attempt: results kept for `cache`, and effects that `weft.once` has seen through.

Both are written only by the attempt that the store has running. A completed effect never changes.
"""

from weft.core.commands import Once, OnceReply, Report
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Memos, Runs, Session, Tasks
from weft.core.memo_keys import once_key
from weft.core.rows import ORDINAL_BITS, MemoRow, SessionRow, TaskRow


def keep_result(draft: Draft, task: TaskRow, session: str, report: Report) -> None:
    """A success whose result may stand for later ones. The newest wins."""
    assert report.keep is not None
    key, ttl_ms = report.keep
    run = draft.runs[task.run_no]
    draft.kept_results.cached[key] = MemoRow(
        key=key, kind="cache", status="completed", value=report.result, hash=report.result_hash, run=run.id,
        task=draft.definition(task).called(task.idx), task_id=task.id, attempt=task.attempt, session=session,
        created_at=draft.now, expires_at=None if ttl_ms is None else draft.now + ttl_ms,
    )  # fmt: skip


def once(draft: Draft, command: Once) -> Rule:
    """An effect begins, or has ended. What an earlier attempt completed is handed out, never done again."""
    run_no = command.task_id >> ORDINAL_BITS
    sessions, runs, tasks = yield (Session(command.session), Runs([run_no]), Tasks([command.task_id]))
    draft.add_loaded_runs(runs)
    why = _not_held(command, sessions, draft.add_loaded(tasks))
    if why is not None:
        return OnceReply("stale", why)
    run, task = draft.runs[run_no], draft.tasks[command.task_id]
    name = draft.definition(task).called(task.idx)
    key = once_key(run.id, name, command.key)
    (found,) = yield (Memos([key]),)
    known: MemoRow | None = found[0] if found else None
    made = MemoRow(
        key=key, kind="once", status=command.ending or "pending", value=command.value, hash=command.hash, run=run.id,
        task=name, task_id=task.id, attempt=task.attempt, session=command.session, created_at=draft.now,
        expires_at=None,
    )  # fmt: skip
    return _begin(draft, command, known, made) if command.ending is None else _end(draft, known, made)


def _not_held(command: Once, sessions: list[SessionRow], tasks: list[TaskRow]) -> str | None:
    if not sessions or sessions[0].state in ("dead", "left"):
        return "its session is over"
    if not tasks:
        return "no such task"
    task = tasks[0]
    if (task.state, task.attempt, task.session) != ("running", command.attempt, command.session) or task.held:
        return f"the task is {task.state}, attempt {task.attempt}"
    return None


def _begin(draft: Draft, command: Once, known: MemoRow | None, made: MemoRow) -> OnceReply:
    if known is not None and known.status == "completed":
        return OnceReply("completed", known.value)
    if known is not None and known.status == "pending":
        if known.attempt == made.attempt:
            return OnceReply("call")  # said again: the reply was lost, and an attempt asks for one thing at a time
        if not command.take_over:
            return OnceReply("unknown", f"attempt {known.attempt} began it, and how it ended is not known")
    draft.kept_results.once = made
    return OnceReply("call")


def _end(draft: Draft, known: MemoRow | None, made: MemoRow) -> OnceReply:
    if known is None or known.attempt != made.attempt:
        return OnceReply("stale", "this attempt has not begun it")
    if known.status == "completed":
        same = (known.status, known.hash) == (made.status, made.hash)
        return OnceReply("kept") if same else OnceReply("stale", "it was completed with another value")
    draft.kept_results.once = made
    return OnceReply("kept")
