"""Nodes and pools as placement sees them: for `why`, for the list of pools, and for what no live node could run."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from weft.core.explain import NodeView, PoolView
from weft.core.placement.budgets import pool_scope
from weft.core.placement.demands import demand_of, pools_of, public, unpark
from weft.core.placement.eligibility import NodeFacts, eligible, engines_down, engines_up, unknown_types
from weft.core.rows import BudgetRow
from weft.core.workflow import Workflow
from weft.operations.reading import nodes as node_reading
from weft.operations.reading.budgets import budget_info
from weft.operations.replies import NodeInfo, PoolInfo

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

NO_NODE = "no node is alive: it waits until one is there; start one with `weft worker` or `weft serve`"
NODES_SHOWN = 10  # nodes named in one text; a hundred of them would say no more


def facts_of(node: NodeInfo) -> NodeFacts:
    return NodeFacts(
        tuple(node.kinds), node.labels, node.node, node.session, tuple(node.capabilities), node.memory, node.disk,
        node.gpus, node.gpu_memory, None if node.functions is None else tuple(node.functions), node.cpus,
        engines_down(node.resources), engines_up(node.resources), tuple(node.workflows),
    )  # fmt: skip


def unplaceable(workflow: Workflow, nodes: Sequence[NodeFacts], here: NodeFacts | None = None) -> str | None:
    """Why some task can run on none of these nodes, however long it waits; None: each has a place. `here` is the node
    that this process will be."""
    demands = {
        demand_of(task)[1]: task.name for task in reversed(workflow.tasks) if task.kind not in ("wait", "workflow")
    }
    if workflow.own is not None:  # one node runs all of it
        demands = {workflow.own[1]: f"a run of {workflow.name} alone"}
    for body, what in reversed(demands.items()):
        demand = msgspec.json.decode(body)
        reasons = [("this node", eligible(demand, here, workflow.name))] if here is not None else []
        reasons += [(node.name, eligible(demand, node, workflow.name)) for node in nodes]
        if reasons and all(why for _, why in reasons):
            lines = [f"{name}: {', '.join(why)}" for name, why in reasons[:NODES_SHOWN]]
            unknown = unknown_types(demand, [*nodes, *([] if here is None else [here])])
            if unknown:
                return f"no live node has an executor for tasks of type {unknown[0]}, so none can run {what}"
            return f"no live node can run {what}: {'; '.join(lines)}"
    return None


def waits_for_nodes(workflows: Iterable[Workflow], nodes: Sequence[NodeFacts]) -> list[str]:
    """Warnings for a submission of these: with these nodes alone its run would wait. No reason to refuse it: a node
    may be restarting right now, or start tomorrow."""
    if not nodes:
        return [NO_NODE]
    found = [unplaceable(workflow, nodes) for workflow in workflows]
    return [f"{why}. It waits for a node that can" for why in found if why is not None]


def node_views(access: "StoreAccess") -> list[NodeView]:
    """Every node that is there, with what it holds."""
    held: dict[str, list[dict[str, Any]]] = {}
    bodies: dict[str, dict[str, Any]] = {}
    for session, demand, count in access.read("demands_occupied"):
        if demand not in bodies:
            bodies[demand] = demand_body(access, demand).get("requires", {})
        held.setdefault(session, []).extend([bodies[demand]] * count)
    return [
        NodeView(
            facts_of(node), node.state == "draining", node.scope, node.slots, node.running,
            tuple(held.get(node.session, ())),
        )
        for node in node_reading.nodes(access, False)
        if node.state in ("live", "draining")
    ]  # fmt: skip


def demand_body(access: "StoreAccess", demand: str) -> dict[str, Any]:
    for name in (demand, unpark(public(demand))):  # that of a session which is over may be gone
        rows = access.read("demand_body", name)
        if rows:
            body: dict[str, Any] = msgspec.json.decode(rows[0][0])
            return body
    return {"kind": "?"}


def pools(access: "StoreAccess") -> list[PoolInfo]:
    waiting: dict[str, int] = {}
    for demand, count in access.read("pool_queue"):
        for name in pools_of(demand):
            waiting[name] = waiting.get(name, 0) + count
    holders: dict[str, list[str]] = {}
    for run_id, workflow, pos, idx, demand, _ in access.read("pool_holders"):
        task = access.workflow(workflow).tasks[pos].called(idx)
        for name in pools_of(demand):
            holders.setdefault(name, []).append(f"{run_id}/{task}")
    budgets = {row[0]: budget_info(BudgetRow(*row)) for row in access.read("budgets_of_pools")}
    return [
        PoolInfo(
            name=name, size=size, used=used, waiting=waiting.get(name, 0), holders=holders.get(name, []),
            budget=budgets.get(pool_scope(name)),
        )
        for name, size, used in access.read("pools_all")
    ]  # fmt: skip


def pool_views(access: "StoreAccess", demand: str) -> list[PoolView]:
    wanted = pools_of(demand)
    if not wanted:
        return []
    return [PoolView(p.name, p.size, p.used, tuple(p.holders)) for p in pools(access) if p.name in wanted]
