"""What a run of a definition would do, told without running it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from weft.client.verbs import Connection
from weft.core.definition.child_workflows import kind_of, references_of
from weft.core.placement.demands import demand_of
from weft.core.placement.eligibility import eligible
from weft.core.workflow import Workflow
from weft.operations.errors import NotFound
from weft.operations.reading.placement import facts_of, unplaceable
from weft.operations.replies import NodeInfo

NOWHERE = ("wait", "workflow")  # kinds of tasks that take no node
NODES_SHOWN = 20
PROBLEMS_SHOWN = 20


class PlannedTask(msgspec.Struct, kw_only=True, omit_defaults=True):
    name: str
    level: int  # all tasks of level 0 could start at once, those of level 1 after some of level 0, and so on
    type: str
    needs: list[str] = []
    when: str = "all_success"
    condition: str | None = None
    mapped: bool = False  # becomes as many tasks as its array has elements, known when it starts
    replicas: int | None = None
    retries: int = 0
    timeout_ms: int | None = None
    allow_failure: bool = False
    pools: list[str] = []
    secrets: list[str] = []  # by name; never their values
    spec: str = ""  # what its executor gets, as JSON; templates are not resolved yet
    nodes: list[str] | None = None  # that could run it now; None: it needs none


class Plan(msgspec.Struct, kw_only=True):
    """`problems` would hold up the run, or have it refused. `widest` is the largest number of tasks in one level."""

    name: str
    hash: str
    inputs: dict[str, Any]
    on_failure: str
    max_parallel: int | None
    total: int
    levels: int
    widest: int
    nodes: int  # alive now
    problems: list[str]
    tasks: list[PlannedTask]


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
) -> Plan:
    """`after` counts tasks, in the order of levels and then of the document."""
    nodes = live_nodes(connection)
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


def _problems(connection: Connection, workflow: Workflow, nodes: Sequence[NodeInfo]) -> list[str]:
    found = [] if nodes else ["no node is alive: tasks would wait for one (weft worker, weft serve)"]
    why = unplaceable(workflow, [facts_of(node) for node in nodes])
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


def _planned(workflow: Workflow, pos: int, nodes: Sequence[NodeInfo], spec_max: int) -> PlannedTask:
    task = workflow.tasks[pos]
    text = msgspec.json.encode(task.spec).decode()
    return PlannedTask(
        name=task.name, level=workflow.levels[pos], type=task.kind,
        needs=[workflow.tasks[need].name for need in task.needs], when=task.when, condition=task.condition,
        mapped=task.mapped, replicas=task.replicas, retries=task.retry.max, timeout_ms=task.timeout_ms,
        allow_failure=task.allow_failure, pools=list(task.pools), secrets=list(task.secrets),
        spec=text if len(text) <= spec_max else text[:spec_max] + "…",
        nodes=None if task.kind in NOWHERE else _able(workflow, pos, nodes),
    )  # fmt: skip


def _able(workflow: Workflow, pos: int, nodes: Sequence[NodeInfo]) -> list[str]:
    body = demand_of(workflow.tasks[pos])[1] if workflow.own is None else workflow.own[1]
    demand = msgspec.json.decode(body)
    return [node.node for node in nodes if not eligible(demand, facts_of(node))][:NODES_SHOWN]
