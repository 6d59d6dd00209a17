"""Node sessions: they begin, may be drained, and end once. What a session held when it ended is queued again."""

import msgspec

from weft.core.commands import Drain, Expire, Refused, Register, Reply
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import HeldTasks, Leadership, Lease, RunById, Runs, RunsOwnedBy, Session
from weft.core.rows import SessionRow, TaskRow
from weft.core.rules.attempts import load_handles, lose
from weft.core.rules.leader import end_term
from weft.core.rules.levels import drop_held
from weft.core.rules.ownership import free_run
from weft.core.rules.settle import settle

OVER = ("dead", "left")


def register(draft: Draft, command: Register) -> Rule:
    _check_readable(command)
    scope: int | None = None
    if command.gave_up is not None:  # before the run: expiry locks in this order
        (known,) = yield (Session(command.gave_up),)
        if known and (known[0].node, known[0].token) == (command.node, command.token):
            draft.sessions.abandoned = command.gave_up
    if command.scope is not None:
        (runs,) = yield (RunById(command.scope),)
        if not runs:
            raise Refused("not_found", f"there is no run {command.scope}")
        scope = runs[0].root  # of a run that a task started, the whole family: its end needs the others
    (known,) = yield (Session(command.session),)
    if known:
        raise Refused("conflict", f"session {command.session} is known already")
    row = SessionRow(
        id=command.session, node=command.node, state="live", exchange=0, scope=scope, started_at=draft.now,
        ended_at=None, body=command.body, role=command.role, token=command.token,
    )  # fmt: skip
    draft.sessions.new = (row, command.ttl_ms)
    data = {"node": row.node, "role": row.role, "scope": command.scope}
    if command.token is not None:
        data["token"] = command.token
    if draft.sessions.abandoned is not None:
        data["gave_up"] = draft.sessions.abandoned
    draft.cluster_event("node_joined", row.id, data)
    return Reply(run_no=scope, state="live")


def _check_readable(command: Register) -> None:
    """Whoever lists nodes reads this row."""
    try:
        command.node.encode()
        msgspec.json.decode(command.body)
    except (UnicodeEncodeError, msgspec.DecodeError) as error:
        raise Refused(
            "invalid", f"what the node says of itself is not UTF-8 text ({error}): look at its name and its labels"
        ) from None


def expire(draft: Draft, command: Expire) -> Rule:
    """End a session. By its lease only if that has passed by the store's clock, whatever the caller believes: then
    any node may do it, and a dead leader delays nothing."""
    (rows,) = yield (Leadership(),)
    leadership = rows[0]
    sessions, leases = yield (Session(command.session), Lease(command.session))
    if not sessions or sessions[0].state in OVER:
        return Reply(changed=0)
    if command.proof == "lease" and leases and leases[0] > 0:
        return Reply(changed=0, state="live")
    draft.by_session = command.session
    left = command.proof == "left"
    draft.sessions.ended.append((command.session, "left" if left else "dead"))
    owned, held = yield (RunsOwnedBy(command.session), HeldTasks(command.session))
    owned = draft.add_loaded_runs(owned)
    held = [task for task in draft.add_loaded(held) if task.held is None]
    (runs,) = yield (Runs(sorted({t.run_no for t in held})),)
    draft.add_loaded_runs(runs)
    yield from load_handles(draft, held)
    for run in owned:
        yield from free_run(draft, run)
        if run.level is not None and command.proof != "left":  # what was finished before leaving stays finished
            yield from drop_held(draft, run, command.session)
    ended: list[TaskRow] = []
    for task in held:
        yield from lose(draft, task, ended, gave_up=sessions[0].gave_up)
    yield from settle(draft, ended)
    _end_event(draft, sessions[0].node, command, len(held))
    if leadership.session == command.session:
        end_term(draft, leadership, "it left" if left else "its session is dead")
    draft.wake = True
    return Reply(changed=len(held), state="dead")


def _end_event(draft: Draft, node: str, command: Expire, lost: int) -> None:
    if command.proof == "left":
        draft.cluster_event("node_left", command.session, {"node": node, "lost": lost})
    else:
        data = {"node": node, "proof": command.proof, "lost": lost}
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
    draft.sessions.drained.append((session.id, drain_at))
    data = {"node": session.node, "deadline_ms": command.deadline_ms, "reason": command.reason}
    draft.cluster_event("drain_started", session.id, data)
    if leadership[0].session == session.id:
        end_term(draft, leadership[0], "it is drained")
    draft.wake = True
    return Reply(state="draining", changed=1, data={"drain_at": drain_at})
