"""The nodes of the cluster, their leader, and the names that people use for nodes."""

from typing import TYPE_CHECKING, Any

import msgspec

from weft.core.definition.suggest import nearest
from weft.core.liveness import health
from weft.core.placement.eligibility import NOT_CHECKED, decode_facts
from weft.core.workflow import REMOTE_KINDS
from weft.operations.errors import Ambiguous, NotFound
from weft.operations.replies import ClaimInfo, ExecutorInfo, LeaderInfo, NodeInfo, NodeWork

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

RUNNING_SHOWN = 100
LOOKED_AT = 100_000
TTL_MS = 30_000  # of a session that does not say


def nodes(access: "StoreAccess", ended: bool) -> list[NodeInfo]:
    now = access.now()
    leading = leader(access)
    lags = _lags(access)
    out = []
    for (
        id, node, state, started, ended_at, body, role, drain_at, scope, expires, running, measured_at, measured
    ) in access.read("sessions_all", ended):  # fmt: skip
        facts = decode_facts(body)
        resources = {} if measured is None else msgspec.json.decode(measured)
        resources.pop("counted", None)  # for /metrics
        through = resources.pop("server", None) or facts.get("server")
        left = None if expires is None else expires - now
        ttl_ms = facts.get("lease_ttl_ms", TTL_MS)
        leads = leading.session == id
        out.append(
            NodeInfo(
                session=id, node=node, state=state, scope=scope, started_at=started, ended_at=ended_at,
                lease_ms=left, running=running, pid=facts.get("pid"), slots=facts.get("slots"),
                labels=facts.get("labels", {}), kinds=facts.get("kinds", []), role=role,
                health=health(state, left, ttl_ms, drained=drain_at is not None), leader=leads,
                term=leading.term if leads else None,
                host=facts.get("host"), drain_at=drain_at, seen_at=None if expires is None else expires - ttl_ms,
                capabilities=facts.get("capabilities", []), memory=facts.get("memory"), disk=facts.get("disk"),
                gpus=facts.get("gpus", 0), gpu_memory=facts.get("gpu_memory"), functions=facts.get("functions"),
                cpus=facts.get("cpus"), measured_at=measured_at, url=facts.get("url"),
                resources=resources, executors=_executors(facts, resources), server=through,
                workflows=facts.get("workflows", []),
                behind=lags.get(id),
            )
        )  # fmt: skip
    return out


def _lags(access: "StoreAccess") -> dict[str, int]:
    """By session, of a store with replicas: how far that of its node was behind."""
    if access.store.kind != "etcd":
        return {}
    from weft.store.replicated.log_store import LogStore  # not above: few processes need it

    assert isinstance(access.store, LogStore)
    return access.store.lags()


def _executors(facts: dict[str, Any], measured: dict[str, Any]) -> dict[str, ExecutorInfo]:
    """From what a node said of itself, and what it has found out since."""
    out, plugins, engines = {}, facts.get("plugins", {}), measured.get("engines", {})
    for kind in facts.get("kinds", ()):
        unknown = {"error": NOT_CHECKED} if kind in plugins or kind in REMOTE_KINDS else {}
        plugin, engine = plugins.get(kind, {}), engines.get(kind, unknown)
        out[kind] = ExecutorInfo(
            usable=not engine.get("error"), error=engine.get("error"), engine=engine.get("engine"),
            plugin=plugin.get("distribution"), version=plugin.get("version"),
        )  # fmt: skip
    return out


def node(access: "StoreAccess", ref: str, *, ended: bool = True) -> NodeInfo:
    """One that is alive before one that has ended, a name before the beginning of an id."""
    for candidates in [nodes(access, False), *([nodes(access, True)] if ended else [])]:
        exact = [n for n in candidates if ref in (n.session, n.node)]
        found = exact or [n for n in candidates if ref and n.session.startswith(ref)]
        if len(found) > 1 and all(n.ended_at is not None for n in found) and exact:
            found = found[-1:]  # of those that ended, the last one of that name is meant
        if len(found) > 1:
            text = ", ".join(f"{n.session} ({n.node})" for n in found)
            raise Ambiguous(f"{ref} could be any of {text}: name one by its session")
        if found:
            found[0].stale_reports = access.read("count_stale_of_session", found[0].session)[0][0]
            return found[0]
    meant = nearest(ref, [n.node for n in nodes(access, ended)])
    text = f"there is no node {ref}" + ("" if ended else " that is alive")
    raise NotFound(text + (f"; did you mean {meant!r}?" if meant else ""))


def leader(access: "StoreAccess") -> LeaderInfo:
    term, session, expires_at, lease_until = access.read("leader")[0]
    now = access.now()
    if session is None or lease_until is None or min(expires_at, lease_until) <= now:
        return LeaderInfo(term=term, session=None, node=None, address=None, expires_in_ms=None)
    name, address, url = None, None, None
    for id, node, *_, body in (row[:6] for row in access.read("sessions_all", False)):
        if id == session:
            facts = decode_facts(body)
            name, address = node, f"{facts.get('host') or '?'}:{facts.get('pid') or '?'}"
            url = facts.get("url")
    return LeaderInfo(
        term=term, session=session, node=name, address=address, expires_in_ms=min(expires_at, lease_until) - now,
        url=url,
    )  # fmt: skip


def work_of(access: "StoreAccess", ref: str) -> NodeWork:
    """What a node has done and does. Attempts have no index by session, which every end would pay: so many of them
    are looked at, and in a store with more, what the node has told of itself goes before that."""
    found = node(access, ref)
    with access.snapshot():
        ended = access.read("attempts_of_session", found.session, LOOKED_AT)
        ((more,),) = access.read("attempts_beyond", LOOKED_AT)
        text = _counted(access.read("facts_of_session", found.session)) if more else None
        held = access.read("tasks_of_session", found.session, RUNNING_SHOWN)
        ((dead,),) = access.read("count_sessions_dead", found.node)
        ((exchanges, claimed_at, running),) = access.read("session_activity", found.session)
    until = None if found.lease_ms is None else access.now() + found.lease_ms
    moments = [at for at in (claimed_at, *(finished for _, _, finished in ended)) if at is not None]
    outcomes = {outcome: count for outcome, count, _ in ended} if text is None else text["outcomes"]
    return NodeWork(
        node=found.node, session=found.session, health=found.health,
        claims=running + sum(outcomes.values()) if text is None else text["claims"], outcomes=outcomes,
        counted="all" if not more else "newest" if text is None else "node",
        running=[
            ClaimInfo(
                run_id=run_id, task=access.workflow(workflow).tasks[pos].called(idx), attempt=attempt,
                claimed_at=claimed, started_at=started, lease_expires_at=until,
            )
            for run_id, workflow, pos, idx, attempt, claimed, started in held
        ],
        running_count=running, leases_expired=dead, stale_reports=found.stale_reports or 0, exchanges=exchanges,
        active_at=max(moments, default=None),
    )  # fmt: skip


def _counted(rows: list[Any]) -> dict[str, Any] | None:
    """What the session has counted (node/meter.py), if it has told of it."""
    found: dict[str, Any] | None = msgspec.json.decode(rows[0][1]).get("counted") if rows else None
    return found
