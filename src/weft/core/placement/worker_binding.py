"""What the token of a worker is bound to: the labels of its nodes, and the workflows whose tasks they may run."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

_NODE_NAME: Final = re.compile(r"[\w][\w.-]*")


class WorkerBinding(msgspec.Struct, frozen=True, omit_defaults=True):
    labels: dict[str, str] | None = None  # of all its nodes; None: each says its own
    workflows: tuple[str, ...] = ()  # names, or beginnings of names with a * after them; none: all


def read_binding(text: str | None) -> WorkerBinding:
    return WorkerBinding() if text is None else msgspec.json.decode(text, type=WorkerBinding)


def allows(patterns: Iterable[str], workflow: str) -> bool:
    """May tasks of a workflow with this name be run? The statements `…_of_workflows` say the same."""
    found = False
    for pattern in patterns:
        found = True
        if workflow.startswith(pattern[:-1]) if pattern.endswith("*") else workflow == pattern:
            return True
    return not found


def is_node_name(text: str) -> bool:
    """Nodes of a worker's token are called like its label."""
    return _NODE_NAME.fullmatch(text) is not None
