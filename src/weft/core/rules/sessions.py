"""Node sessions: they begin, may be drained, and end once. What a session held when it ended is queued again."""

from weft.core.commands import Drain, Expire, Refused, Register, Reply
from weft.core.draft import Draft, Rule
from weft.core.needs import Held, Leadership, Lease, OwnedBy, RunById, Runs, Session
from weft.core.rows import SessionRow, TaskRow
from weft.core.rules.attempts import lose
from weft.core.rules.leader import end_term, require_term
from weft.core.rules.levels import drop_held
from weft.core.rules.ownership import free_run
from weft.core.rules.settle import settle

OVER = ("dead", "left")


def register(draft: Draft, command: Register) -> Rule:
    scope: int | None = None
    if command.scope is not None:
        (runs,) = yield (RunById(command.scope),)
        if not runs:
            raise Refused("not_found", f"there is no run {command.scope}")
        scope = runs[0].root  # of a run that a task started, the whole family: its end needs the others
    (known,) = yield (Session(command.session),)
    if known:
        raise Refused("conflict", f"session {command.session} is known already")
    row = SessionRow(command.session, command.node, "live", 0, scope, draft.now, None, command.body, command.role)
    draft.new_session = (row, command.ttl_ms)
    draft.cluster_event("node_joined", row.id, {"node": row.node, "role": row.role, "scope": command.scope})
    return Reply(run_no=scope, state="live")


def expire(draft: Draft, command: Expire) -> Rule:
    """End a session. By its lease only if that has passed by the store's clock, whatever the caller believes, and
    only by the leader: a process that is provably gone, or says itself that it leaves, needs nobody's judgement."""
    if command.proof == "lease":
        leadership = yield from require_term(draft, command.term)
    else:
        (rows,) = yield (Leadership(),)
        leadership = rows[0]
    sessions, leases = yield (Session(command.session), Lease(command.session))
    if not sessions or sessions[0].state in OVER:
        return Reply(changed=0)
    if command.proof == "lease" and leases and leases[0] > 0:
        return Reply(changed=0, state="live")
    draft.by_session = command.session
    left = command.proof == "left"
    draft.ended_sessions.append((command.session, "left" if left else "dead"))
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
    _tell_end(draft, sessions[0].node, command, len(held))
    if leadership.session == command.session:
        end_term(draft, leadership, "it left" if left else "its session is dead")
    draft.wake = True
    return Reply(changed=len(held), state="dead")


def _tell_end(draft: Draft, node: str, command: Expire, lost: int) -> None:
    if command.proof == "left":
        draft.cluster_event("node_left", command.session, {"node": node, "lost": lost})
    else:
        data = {"node": node, "proof": command.proof, "lost": lost, "term": command.term}
        draft.cluster_event("node_dead", command.session, data)


def drain(draft: Draft, command: Drain) -> Rule:
    """From this COMMIT on the session claims nothing. A second drain can only make its deadline an earlier one."""
    leadership, sessions = yield (Leadership(), Session(command.session))
    if not sessions:
        raise Refused("not_found", f"there is no session {command.session}")
    session: SessionRow = sessions[0]
    if session.state in OVER:
        raise Refused("conflict", f"node {session.node} (session {session.id}) has ended: it is {session.state}")
    drain_at = draft.now + command.deadline_ms
    if session.drain_at is not None and session.drain_at <= drain_at:
        return Reply(state="draining", existing=True, data={"drain_at": session.drain_at})
    draft.drained_sessions.append((session.id, drain_at))
    data = {"node": session.node, "deadline_ms": command.deadline_ms, "reason": command.reason}
    draft.cluster_event("drain_started", session.id, data)
    if leadership[0].session == session.id:
        end_term(draft, leadership[0], "it is drained")
    draft.wake = True
    return Reply(state="draining", changed=1, data={"drain_at": drain_at})
