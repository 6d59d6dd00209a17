"""Can a run's tasks run anywhere at all? Asked before anything is stored."""

import os

import msgspec

from weft.cli.exits import BAD_INPUT, GiveUp
from weft.control.local import LocalControl
from weft.control.records import NodeInfo
from weft.core.demands import demand_of
from weft.core.placement import NodeFacts, eligible
from weft.core.workflow import Workflow

KINDS = ("shell", "python")


def alive(control: LocalControl, node: NodeInfo) -> bool:
    """Its lease holds; and its process is there, where all share a file on this machine."""
    if node.state != "live" or node.lease_ms is None or node.lease_ms <= 0:
        return False
    if node.pid is None or control.store.path is None:
        return True
    try:
        os.kill(node.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def workers(control: LocalControl) -> list[NodeInfo]:
    """Live nodes that take anything."""
    return [node for node in control.nodes() if node.scope is None and alive(control, node)]


def refuse_unplaceable(control: LocalControl, workflow: Workflow, labels: dict[str, str] | None) -> None:
    """`labels` of the node in this process; None: there will be none."""
    nodes = [
        NodeFacts(tuple(node.kinds), node.labels, node.node, functions=tuple(node.functions))
        for node in workers(control)
    ]
    if labels is not None:
        nodes.insert(0, NodeFacts(KINDS, labels, "this node"))
    seen: dict[str, None] = {}
    for task in workflow.tasks:
        if task.kind == "wait":
            continue  # it runs nowhere
        id, body = demand_of(task)
        if id in seen:
            continue
        seen[id] = None
        reasons = [eligible(msgspec.json.decode(body), node) for node in nodes]
        if reasons and all(reasons):
            told = "; ".join(f"{node.name}: {', '.join(why)}" for node, why in zip(nodes, reasons, strict=True))
            raise GiveUp(
                BAD_INPUT,
                f"no live node can run {task.name}: {told}",
                "start one that can, or label this one: --label",
            )
