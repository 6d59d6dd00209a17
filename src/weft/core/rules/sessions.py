"""Node sessions: they begin, and end once. What a session held when it ended goes back to the queue."""

from weft.core.commands import Expire, Refused, Register, Reply
from weft.core.draft import Draft, Rule
from weft.core.needs import Held, Lease, RunById, Runs, Session
from weft.core.rows import SessionRow, TaskRow
from weft.core.rules.attempts import lose
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
    (held,) = yield (Held(command.session),)
    held = draft.adopt(held)
    (runs,) = yield (Runs(sorted({t.run_no for t in held})),)
    draft.adopt_runs(runs)
    ended: list[TaskRow] = []
    for task in held:
        lose(draft, task, ended)
    yield from settle(draft, ended)
    draft.wake = True
    return Reply(changed=len(held), state="dead")
