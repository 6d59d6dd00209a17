"""Who is there, who leads, and which node somebody means."""

from typing import TYPE_CHECKING

import msgspec

from weft.control.records import Ambiguous, LeaderInfo, NodeInfo, NotFound
from weft.core.liveness import health

if TYPE_CHECKING:
    from weft.control.local import LocalControl

TTL_MS = 30_000  # of a session that does not say


def nodes(control: "LocalControl", ended: bool) -> list[NodeInfo]:
    now = control.now()
    leading = leader(control)
    out = []
    for (
        id, node, state, started, ended_at, body, role, drain_at, scope, expires, running, measured_at, measured
    ) in control._read("sessions_all", ended):  # fmt: skip
        facts = msgspec.json.decode(body)
        left = None if expires is None else expires - now
        ttl_ms = facts.get("lease_ttl_ms", TTL_MS)
        leads = leading.session == id
        out.append(
            NodeInfo(
                session=id, node=node, state=state, scope=scope, started_at=started, ended_at=ended_at,
                lease_ms=left, running=running, pid=facts.get("pid"), slots=facts.get("slots"),
                labels=facts.get("labels", {}), kinds=facts.get("kinds", []), role=role,
                health=health(state, left, ttl_ms), leader=leads, term=leading.term if leads else None,
                host=facts.get("host"), drain_at=drain_at, seen_at=None if expires is None else expires - ttl_ms,
                capabilities=facts.get("capabilities", []), memory=facts.get("memory"), disk=facts.get("disk"),
                gpus=facts.get("gpus", 0), gpu_memory=facts.get("gpu_memory"), functions=facts.get("functions"),
                measured_at=measured_at,
                resources={} if measured is None else msgspec.json.decode(measured),
            )
        )  # fmt: skip
    return out


def node(control: "LocalControl", ref: str, *, ended: bool = True) -> NodeInfo:
    """One that is alive before one that has ended, a name before the beginning of an id."""
    for candidates in [nodes(control, False), *([nodes(control, True)] if ended else [])]:
        exact = [n for n in candidates if ref in (n.session, n.node)]
        found = exact or [n for n in candidates if ref and n.session.startswith(ref)]
        if len(found) > 1 and all(n.ended_at is not None for n in found) and exact:
            found = found[-1:]  # of those that ended, the last one of that name is meant
        if len(found) > 1:
            told = ", ".join(f"{n.session} ({n.node})" for n in found)
            raise Ambiguous(f"{ref} could be any of {told}: name one by its session")
        if found:
            found[0].stale_reports = control._read("count_stale_of_session", found[0].session)[0][0]
            return found[0]
    raise NotFound(f"there is no node {ref}" + ("" if ended else " that is alive"))


def leader(control: "LocalControl") -> LeaderInfo:
    term, session, expires_at, lease_until = control._read("leader")[0]
    now = control.now()
    if session is None or lease_until is None or min(expires_at, lease_until) <= now:
        return LeaderInfo(term=term, session=None, node=None, address=None, expires_in_ms=None)
    name, address = None, None
    for id, node, *_, body in (row[:6] for row in control._read("sessions_all", False)):
        if id == session:
            facts = msgspec.json.decode(body)
            name, address = node, f"{facts.get('host') or '?'}:{facts.get('pid') or '?'}"
    return LeaderInfo(
        term=term, session=session, node=name, address=address, expires_in_ms=min(expires_at, lease_until) - now
    )
