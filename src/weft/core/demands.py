"""A demand: a distinct set of placement requirements. Many tasks share one; nodes judge each only once."""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from weft.core.workflow import TaskDef

OWN = "own:"  # demands of runs that wait for an owner begin with it


def demand_of(task: TaskDef) -> tuple[str, str]:
    """(id, body). The id is the executor's kind where nothing else is asked, else kind and a hash."""
    if not task.requires:
        return task.kind, f'{{"kind":"{task.kind}"}}'
    body: dict[str, Any] = {"kind": task.kind, "requires": task.requires}
    text = msgspec.json.encode(body, order="sorted")
    return f"{task.kind}:{hashlib.sha256(text).hexdigest()[:16]}", text.decode()


def own_demand(tasks: Iterable[TaskDef]) -> tuple[str, str]:
    """(id, body) of what a node needs to own a run of all these tasks: each of their demands."""
    bodies = dict(demand_of(task) for task in tasks if task.kind != "wait")
    text = f'{{"all":[{",".join(bodies[id] for id in sorted(bodies))}]}}'
    return f"{OWN}{hashlib.sha256(text.encode()).hexdigest()[:16]}", text


def private_demand(session: str) -> str:
    """Only this session offers it."""
    return f"session:{session}"
