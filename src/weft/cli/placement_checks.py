"""Can a run's tasks run anywhere at all? A node of this process must be able to; all others may still come."""

import os
from argparse import Namespace
from collections.abc import Iterable

from weft.cli.exit_codes import BAD_INPUT, GiveUp
from weft.cli.session import CommandSession
from weft.client.local import StoreConnection
from weft.client.verbs import Connection
from weft.core.placement.eligibility import NodeFacts
from weft.core.workflow import Workflow
from weft.local_node.engines import engines_down
from weft.local_node.factory import own_facts
from weft.local_node.plugin_executors import plugin_kinds, plugins_here
from weft.operations.reading.placement import facts_of, unplaceable, waits_for_nodes
from weft.operations.replies import NodeInfo


def alive(connection: Connection, node: NodeInfo) -> bool:
    """Its lease holds; and its process is there, where all share a file on this machine."""
    if node.state != "live" or node.lease_ms is None or node.lease_ms <= 0:
        return False
    if node.pid is None or not isinstance(connection, StoreConnection) or connection.store.kind != "sqlite":
        return True
    try:
        os.kill(node.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def workers(connection: Connection) -> list[NodeInfo]:
    """Live nodes that take anything."""
    return [n for n in connection.nodes() if n.scope is None and n.slots != 0 and alive(connection, n)]


def facts_here(session: CommandSession, workflows: list[Workflow]) -> NodeFacts:
    """The node that this process would be to run these."""
    added, down = plugins_here(session.config, plugin_kinds(workflows))
    return own_facts(
        session.local(), session.config, down=engines_down(session.config, workflows) | down, plugins=added
    )


def refuse_unplaceable(
    session: CommandSession, args: Namespace, connection: Connection, workflows: Iterable[Workflow]
) -> None:
    """A run that is to be worked on here, by a node that could not, is refused before anything is stored. One
    that is left to others is not: they may start later (`waits`)."""
    if session.server is not None or getattr(args, "detach", False):
        return
    workflows = list(workflows)
    here = facts_here(session, workflows)
    nodes = [facts_of(node) for node in workers(connection)]
    for workflow in workflows:
        why = unplaceable(workflow, nodes, here)
        if why is not None:
            raise GiveUp(
                BAD_INPUT,
                why,
                _fix(workflow, here),
            )


def _fix(workflow: Workflow, here: NodeFacts) -> str:
    missing = [kind for kind in plugin_kinds([workflow]) if kind not in here.kinds]
    if missing:
        return f"install the plugin that adds {missing[0]}, or start a worker that has it; see `weft executors`"
    return "start one that can, or say what this one has: --label, --capability, --memory, --cpus, --gpus"


def waits(session: CommandSession, connection: Connection, workflows: Iterable[Workflow]) -> list[str]:
    """What a run that was left to others waits for, with the nodes that are alive now."""
    nodes = [facts_of(node) for node in workers(connection)]
    if not nodes:
        here = ", or work on it here with `weft resume last`" if session.server is None else " on its store"
        return [f"no live worker: start one with `weft worker`{here}"]
    return waits_for_nodes(workflows, nodes)
