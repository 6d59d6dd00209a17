"""Can a run's tasks run anywhere at all? Asked before anything is stored."""

import os

from weft.cli.exits import BAD_INPUT, GiveUp
from weft.config import Config
from weft.control.here import own_facts
from weft.control.local import LocalControl
from weft.control.placing import facts_of, unplaceable
from weft.control.protocol import Control
from weft.control.records import NodeInfo
from weft.core.workflow import Workflow


def alive(control: Control, node: NodeInfo) -> bool:
    """Its lease holds; and its process is there, where all share a file on this machine."""
    if node.state != "live" or node.lease_ms is None or node.lease_ms <= 0:
        return False
    if node.pid is None or not isinstance(control, LocalControl) or control.store.path is None:
        return True
    try:
        os.kill(node.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def workers(control: Control) -> list[NodeInfo]:
    """Live nodes that take anything."""
    return [n for n in control.nodes() if n.scope is None and n.slots != 0 and alive(control, n)]


def refuse_unplaceable(control: Control, workflow: Workflow, config: Config | None) -> None:
    """`config` of the node in this process; None: there will be none, nor is there one where a server is asked."""
    here = own_facts(control, config) if config is not None and isinstance(control, LocalControl) else None
    why = unplaceable(workflow, [facts_of(node) for node in workers(control)], here)
    if why is not None:
        raise GiveUp(
            BAD_INPUT, why, "start one that can, or say what this one has: --label, --capability, --memory, --gpus"
        )
