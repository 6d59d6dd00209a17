"""Who leads: one holder at a time, each under a term of its own, numbered upwards for ever.

The term is a fence: a chore carries the term it was begun under, and is refused once that term is over, however late
it comes. The leader's lease only says when others may stop waiting for it.
"""

from weft.core.commands import Lead, LeadReply, Refused, Reply, Resign
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import InsistingLeaders, Leadership, Lease, Session
from weft.core.rows import LeadershipRow

MAY_LEAD = ("auto", "leader")


def lead(draft: Draft, command: Lead) -> Rule:
    """Renew the term that this session holds, or begin a new one if nobody leads. Whoever may lead but does not
    insist leaves it to those that do (role `leader`), as long as one of them is alive."""
    (rows,) = yield (Leadership(),)  # alone: the clock that decides is read after this lock
    sessions, leases, insisting = yield (Session(command.session), Lease(command.session), InsistingLeaders())
    row: LeadershipRow = rows[0]
    alive = bool(sessions) and sessions[0].state == "live" and bool(leases) and leases[0] > 0
    if not alive:
        return LeadReply(None, row.session)
    session = sessions[0]
    if session.role not in MAY_LEAD:
        raise Refused("conflict", f"a node with the role {session.role} never leads")
    yields = session.role == "auto" and bool(insisting)
    if row.session == session.id and row.expires_at > draft.now:
        if yields:
            end_term(draft, row, "a node with the role leader is there")
            return LeadReply(None)
        draft.sessions.leadership = (LeadershipRow(row.term, session.id, draft.now + command.ttl_ms), row.term)
        return LeadReply(row.term, session.id)
    if yields or not (yield from _free(draft, row)):
        return LeadReply(None, row.session)
    term = row.term + 1
    draft.sessions.leadership = (LeadershipRow(term, session.id, draft.now + command.ttl_ms), row.term)
    draft.cluster_event("leader_elected", session.id, {"term": term, "after": row.session})
    return LeadReply(term, session.id)


def _free(draft: Draft, row: LeadershipRow) -> Rule:
    """Nobody leads: resigned, not renewed in time, or the holder's own lease has passed."""
    if row.session is None or row.expires_at <= draft.now:
        return True
    (leases,) = yield (Lease(row.session),)
    return not leases or leases[0] <= 0


def resign(draft: Draft, command: Resign) -> Rule:
    (rows,) = yield (Leadership(),)
    row: LeadershipRow = rows[0]
    if (row.session, row.term) != (command.session, command.term):
        return Reply(existing=True)
    end_term(draft, row, "it resigned")
    return Reply(changed=1)


def end_term(draft: Draft, row: LeadershipRow, reason: str) -> None:
    """Nobody leads from here on; the next leader has the next term."""
    draft.sessions.leadership = (LeadershipRow(row.term, None, draft.now), row.term)
    draft.cluster_event("leader_resigned", row.session, {"term": row.term, "reason": reason})
    draft.wake = True


def is_led(draft: Draft) -> Rule:
    (rows,) = yield (Leadership(),)
    return not (yield from _free(draft, rows[0]))


def require_term(draft: Draft, term: int | None) -> Rule:
    """The fence of every chore. Gives the leadership's row, which is locked from here on."""
    (rows,) = yield (Leadership(),)
    row: LeadershipRow = rows[0]
    if term is None or row.term != term or row.session is None:
        now = f"term {row.term} is the newest" if row.session else f"nobody leads since term {row.term}"
        raise Refused("stale_term", f"term {term} is over: {now}")
    return row
