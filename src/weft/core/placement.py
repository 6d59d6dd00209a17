"""May this node take a task with these requirements? The scheduler and `why` ask the same function."""

from typing import Any

import msgspec


class NodeFacts(msgspec.Struct, frozen=True):
    """What placement knows of a node."""

    kinds: tuple[str, ...]
    labels: dict[str, str] = {}
    name: str = ""
    functions: tuple[str, ...] | None = None  # inline ones; None: any


def eligible(demand: dict[str, Any], node: NodeFacts) -> list[str]:
    """Why not, in words, one entry per requirement that the node does not satisfy; empty: it may."""
    reasons = []
    if demand["kind"] not in node.kinds:
        reasons.append(f"it has no executor for {demand['kind']} tasks")
    elif "function" in demand and node.functions is not None and demand["function"] not in node.functions:
        reasons.append(f"its application gave it no inline function {demand['function']!r}")
    requires: dict[str, Any] = demand.get("requires", {})
    missing = [label for label in _labels(requires.get("labels")) if not _has(node, label)]
    if missing:
        reasons.append(f"it lacks the label{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
    any_of = _labels(requires.get("nodeLabels"))
    if any_of and not any(_has(node, label) for label in any_of):
        reasons.append(f"it has none of the labels {', '.join(any_of)}")
    return reasons


def _labels(value: Any) -> list[str]:
    """Labels as a list of "name" or "name=value"; a mapping means name=value each."""
    if isinstance(value, dict):
        return [f"{k}={v}" for k, v in sorted(value.items())]
    return list(value or [])


def _has(node: NodeFacts, label: str) -> bool:
    name, equals, value = label.partition("=")
    return name in node.labels and (not equals or node.labels[name] == value)
