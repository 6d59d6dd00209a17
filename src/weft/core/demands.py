"""A demand: a distinct set of placement requirements. Many tasks share one; nodes judge each only once."""

import hashlib
from typing import Any

import msgspec

from weft.core.workflow import TaskDef


def demand_of(task: TaskDef) -> tuple[str, str]:
    """(id, body). The id is the executor's kind where nothing else is asked, else kind and a hash."""
    if task.kind == "inline":
        return _inline(task)
    if not task.requires:
        return task.kind, f'{{"kind":"{task.kind}"}}'
    body: dict[str, Any] = {"kind": task.kind, "requires": task.requires}
    text = msgspec.json.encode(body, order="sorted")
    return f"{task.kind}:{hashlib.sha256(text).hexdigest()[:16]}", text.decode()


def _inline(task: TaskDef) -> tuple[str, str]:
    """Not every node with inline functions has this one."""
    body: dict[str, Any] = {"kind": "inline", "function": task.spec["inline"]}
    if not task.requires:
        return f"inline={body['function']}", msgspec.json.encode(body).decode()
    body["requires"] = task.requires
    text = msgspec.json.encode(body, order="sorted")
    return f"inline:{hashlib.sha256(text).hexdigest()[:16]}", text.decode()
