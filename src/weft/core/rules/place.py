"""Scored placement: the leader gives each task that asks for it to the best node, and only that node may claim it.

A task that its node does not claim in time, or whose node is gone, is open to every eligible node from then on. So is
one that no node had the memory, disk or GPUs for in a minute: claims keep those for whoever waits longest, the leader
does not.
"""

from typing import Any, Final

import msgspec

from weft.core.commands import Place, Reply
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import (
    DemandBodies,
    LiveSessions,
    Measurements,
    PlacementDemands,
    QueuedTasksPerDemand,
    Roots,
    RunningByDemand,
)
from weft.core.placement.demands import PLACE, holder_of, open_to_all, private, public
from weft.core.placement.eligibility import (
    Load,
    NodeFacts,
    best,
    costs,
    decode_facts,
    eligible,
    engines_down,
    free,
    loads_of,
    no_room,
    node_facts,
)
from weft.core.rows import SessionRow, TaskRow
from weft.core.rules.claims import PATIENCE_MS
from weft.core.rules.leader import is_led, require_term

CLAIM_WITHIN_MS: Final = 10_000  # a live node looks for work every second


def place(draft: Draft, command: Place) -> Rule:
    """Under the leader's term; while nobody leads, whoever asks gets the same answer."""
    if command.term is not None:
        yield from require_term(draft, command.term)
    elif (yield from is_led(draft)):
        return Reply()
    (rows,) = yield (PlacementDemands(),)
    demands = [demand for (demand,) in rows if public(demand).startswith(PLACE)]
    if not demands:
        return Reply()
    waiting, sessions, measured, occupied = yield (
        QueuedTasksPerDemand(demands, None, command.limit), LiveSessions(), Measurements(), RunningByDemand(),
    )  # fmt: skip
    tasks = draft.add_loaded(waiting)
    known = sorted({public(t.demand) for t in tasks} | {public(demand) for _, demand, _ in occupied})
    (bodies,) = yield (DemandBodies(known),)
    requires = {id: msgspec.json.decode(body) for id, body in bodies}
    nodes = _nodes(sessions, dict(measured), occupied, tasks, requires)
    runs: dict[int, tuple[int, str]] = {}  # root and workflow, where some node does not work for all of them
    if any(node.scope is not None or node.facts.workflows for node in nodes.values()):
        (families,) = yield (Roots(sorted({task.run_no for task in tasks})),)
        runs = {no: (root, name) for no, root, _, name in families}
    placed = 0
    for task in tasks:
        holder = holder_of(task.demand)
        if holder is not None:
            if holder in nodes and (task.wake_at or 0) > draft.now:
                continue
            reopen(draft, task)
        else:
            placed += _place(draft, task, requires[task.demand], nodes, *runs.get(task.run_no, (None, None)))
    return Reply(changed=placed)


def reopen(draft: Draft, task: TaskRow) -> None:
    """Any eligible node may claim it."""
    draft.unplace(task, open_to_all(task.demand))
    draft.event(task.run_no, "reopened", {}, task)


class _Node:
    """A node as the leader sees it, while it gives tasks away."""

    def __init__(
        self, session: SessionRow, load: dict[str, float], held: list[dict[str, Any]], down: dict[str, str]
    ) -> None:
        body = decode_facts(session.body)
        self.scope = session.scope
        self.facts = node_facts(body, session.node, session.id, down)
        self.load = load
        self.slots: int | None = body.get("slots")
        self.held = held

    def has_room(self, demand: dict[str, Any]) -> bool:
        requires = demand.get("requires", {})
        if not costs(requires):
            return True
        return not no_room(requires, free(self.facts, [requires], [d.get("requires", {}) for d in self.held]))

    @property
    def has_slot(self) -> bool:
        return self.slots is None or len(self.held) < self.slots

    def seen(self) -> tuple[NodeFacts, Load]:
        return self.facts, Load(running=len(self.held), **self.load)


def _nodes(
    sessions: list[SessionRow],
    measured: dict[str, str],
    occupied: list[Any],
    tasks: list[TaskRow],
    bodies: dict[str, dict[str, Any]],
) -> dict[str, _Node]:
    """What was given to a node counts as if it ran there already, so that a batch spreads."""
    held: dict[str, list[dict[str, Any]]] = {}
    for session, demand, count in occupied:
        held.setdefault(session, []).extend([bodies.get(public(demand), {})] * count)
    for task in tasks:
        holder = holder_of(task.demand)
        if holder is not None:
            held.setdefault(holder, []).append(bodies.get(public(task.demand), {}))
    live = [session for session in sessions if session.state == "live"]
    measurements = {s.id: msgspec.json.decode(measured[s.id]) for s in live if s.id in measured}
    loads = loads_of(measurements, [session.id for session in live])
    return {s.id: _Node(s, loads[s.id], held.get(s.id, []), engines_down(measurements.get(s.id, {}))) for s in live}


def _place(
    draft: Draft,
    task: TaskRow,
    demand: dict[str, Any],
    nodes: dict[str, _Node],
    root: int | None,
    workflow: str | None,
) -> bool:
    open_to_it = [node for node in nodes.values() if node.scope in (None, root)]
    able = [node for node in open_to_it if not eligible(demand, node.facts, workflow)]
    roomy = [node for node in able if node.has_room(demand)]
    chosen = best(demand.get("requires", {}), [node.seen() for node in roomy if node.has_slot])
    if chosen is None:
        if able and not roomy and (task.ready_at or draft.now) + PATIENCE_MS <= draft.now:
            reopen(draft, task)
        return False
    until = draft.now + CLAIM_WITHIN_MS
    id = private(chosen.session, task.demand)
    draft.created.demands[id] = msgspec.json.encode({**demand, "session": chosen.session}, order="sorted").decode()
    draft.place(task, chosen.session, until)
    nodes[chosen.session].held.append(demand)
    draft.event(task.run_no, "placed", {"on": chosen.name, "to": chosen.session, "wake_at": until}, task)
    draft.wake = True
    return True
