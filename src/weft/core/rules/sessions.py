"""Node sessions: they begin, and end once. What a session held when it ended goes back to the queue."""

from weft.core.commands import Expire, Refused, Register, Reply
from weft.core.draft import Draft, Rule
from weft.core.needs import Held, Lease, OwnedBy, RunById, Runs, Session
from weft.core.rows import SessionRow, TaskRow
from weft.core.rules.attempts import lose
from weft.core.rules.levels import drop_held
from weft.core.rules.ownership import free_run
from weft.core.rules.settle import settle


def register(draft: Draft, command: Register) -> Rule:
    scope: int | None = None
    if command.scope is not None:
        (runs,) = yield (RunById(command.scope),)
        if not runs:
            raise Refused("not_found", f"there is no run {command.scope}")
        scope = runs[0].no
    (known,) = yield (Session(command.session),)
    if known:
        raise Refused("conflict", f"session {command.session} is known already")
    row = SessionRow(command.session, command.node, "live", 0, scope, draft.now, None, command.body)
    draft.new_session = (row, command.ttl_ms)
    return Reply(run_no=scope, state="live")


def expire(draft: Draft, command: Expire) -> Rule:
    """End a session. By its lease only if that has passed by the store's clock, whatever the caller believes."""
    sessions, leases = yield (Session(command.session), Lease(command.session))
    if not sessions or sessions[0].state in ("dead", "left"):
        return Reply(changed=0)
    if command.proof == "lease" and leases and leases[0] > 0:
        return Reply(changed=0, state="live")
    draft.by_session = command.session
    draft.ended_sessions.append((command.session, "left" if command.proof == "left" else "dead"))
    owned, held = yield (OwnedBy(command.session), Held(command.session))
    owned = draft.adopt_runs(owned)
    held = [task for task in draft.adopt(held) if task.held is None]
    (runs,) = yield (Runs(sorted({t.run_no for t in held})),)
    draft.adopt_runs(runs)
    for run in owned:
        yield from free_run(draft, run)
        if run.level is not None and command.proof != "left":  # what was finished before leaving stays finished
            yield from drop_held(draft, run, command.session)
    ended: list[TaskRow] = []
    for task in held:
        lose(draft, task, ended)
    yield from settle(draft, ended)
    draft.wake = True
    return Reply(changed=len(held), state="dead")
