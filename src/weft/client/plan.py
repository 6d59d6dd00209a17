"""A dry run: what a run of a definition would do."""

from collections.abc import Sequence
from typing import Any

import msgspec

from weft.client.verbs import Connection
from weft.core.definition.child_workflows import kind_of, references_of
from weft.core.placement.demands import demand_of
from weft.core.placement.eligibility import NodeFacts, eligible
from weft.core.workflow import Workflow
from weft.operations.errors import NotFound
from weft.operations.reading.placement import facts_of, unplaceable
from weft.operations.replies import NodeInfo
from weft.operations.resources.definitions import Plan, PlannedTask

NOWHERE = ("wait", "workflow")  # kinds of tasks that take no node
NODES_SHOWN = 20
WHY_SHOWN = 5
PROBLEMS_SHOWN = 20
PlacedNode = tuple[str, NodeFacts]


def live_nodes(connection: Connection) -> list[NodeInfo]:
    """Nodes that take tasks of any run."""
    return [n for n in connection.nodes() if n.scope is None and n.slots != 0 and n.health in ("healthy", "stale")]


def plan_of(
    connection: Connection,
    workflow: Workflow,
    inputs: dict[str, Any],
    *,
    after: int = 0,
    limit: int = 50,
    spec_max: int = 500,
    here: NodeFacts | None = None,
) -> Plan:
    """`after` counts tasks, in the order of levels and then of the document. `here` is the node that this process
    will be."""
    nodes = [(node.node, facts_of(node)) for node in live_nodes(connection)]
    nodes += [] if here is None else [("this node", here)]
    order = sorted(range(len(workflow.tasks)), key=workflow.levels.__getitem__)
    by_level: dict[int, int] = {}
    for level in workflow.levels:
        by_level[level] = by_level.get(level, 0) + 1
    return Plan(
        name=workflow.name, hash=workflow.hash, inputs=inputs, on_failure=workflow.on_failure,
        max_parallel=workflow.max_parallel, total=len(order), levels=len(by_level),
        widest=max(by_level.values(), default=0), nodes=len(nodes), problems=_problems(connection, workflow, nodes),
        tasks=[_planned(workflow, pos, nodes, spec_max) for pos in order[after : after + limit]],
    )  # fmt: skip


def _problems(connection: Connection, workflow: Workflow, nodes: Sequence[PlacedNode]) -> list[str]:
    found = [] if nodes else ["no node is alive: tasks would wait for one (weft worker, weft serve)"]
    why = unplaceable(workflow, [facts for _, facts in nodes])
    found += [] if why is None else [why]
    for reference in references_of(workflow):
        if kind_of(reference) != "name":
            found.append(f"{reference} is a file or a flow: it is looked up where the definition is loaded, not here")
            continue
        try:
            connection.version(reference)
        except NotFound:
            found.append(f"the store knows no workflow {reference}, which a task would run")
    return found[:PROBLEMS_SHOWN]


def _planned(workflow: Workflow, pos: int, nodes: Sequence[PlacedNode], spec_max: int) -> PlannedTask:
    task = workflow.tasks[pos]
    text = msgspec.json.encode(task.spec).decode()
    able, why = ([], []) if task.kind in NOWHERE else _able(workflow, pos, nodes)
    return PlannedTask(
        name=task.name, level=workflow.levels[pos], type=task.kind,
        needs=[workflow.tasks[need].name for need in task.needs], when=task.when, condition=task.condition,
        mapped=task.mapped, replicas=task.replicas, retries=task.retry.max, timeout_ms=task.timeout_ms,
        allow_failure=task.allow_failure, pools=list(task.pools), secrets=list(task.secrets),
        spec=text if len(text) <= spec_max else text[:spec_max] + "…",
        nodes=None if task.kind in NOWHERE else able, why=why,
    )  # fmt: skip


def _able(workflow: Workflow, pos: int, nodes: Sequence[PlacedNode]) -> tuple[list[str], list[str]]:
    """(nodes that could run it, why none could)."""
    body = demand_of(workflow.tasks[pos])[1] if workflow.own is None else workflow.own[1]
    demand = msgspec.json.decode(body)
    reasons = {name: eligible(demand, facts, workflow.name) for name, facts in nodes}
    able = [name for name, why in reasons.items() if not why]
    return able[:NODES_SHOWN], [] if able else [f"{n}: {', '.join(w)}" for n, w in list(reasons.items())[:WHY_SHOWN]]
