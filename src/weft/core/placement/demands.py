"""A demand: a distinct set of placement requirements. Many tasks share one; nodes judge each only once.

Its id says who may claim what is queued under it, and from which pools a place must be taken:

    shell                          any node with that executor
    shell:4f0c…                    those that satisfy the requirements in its body
    shell:4f0c…@license,render     the same, with a place in each of these pools
    agent:4f0c…@$2000000/9000,llm  the same, of a task that spends: what it may spend, in millionths of a dollar and
                                   in tokens; `@$` alone: it has no budget of its own
    budget:agent:4f0c…@$2000000    nobody, until other tasks of its run have given back what is reserved for them
    shell:4f0c…+memory=2147483648  the same with more memory, after an attempt that ran out of it; pools follow
    place:shell:4f0c…              nobody, until the leader has picked a node (`placement: scored`)
    session:9a3b…/place:shell:…    that session only, until a deadline
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from weft.core.workflow import TaskDef, Usage

PLACE: Final = "place:"
SESSION: Final = "session:"
PARKED: Final = "budget:"
SPENDS: Final = "@$"
#: In the name of a workflow's own pool, because demands separate pools by commas.
_ESCAPED: Final = str.maketrans({",": "%2C", "%": "%25"})
WORKFLOW_POOL: Final = "workflow:"  # no pool that people make may be called so: their names have no colon
MEMORY: Final = "+memory="
MEMORY_MAX: Final = 1 << 60  # no node has as much, and every store can keep the number
OWN: Final = "own:"  # demands of runs that wait for an owner begin with it


@lru_cache(maxsize=2048)
def _plain_demand(kind: str, function: str | None) -> tuple[str, str]:
    if function is None:
        return kind, f'{{"kind":"{kind}"}}'
    return f"{kind}={function}", msgspec.json.encode({"function": function, "kind": kind}).decode()


def demand_of(task: TaskDef) -> tuple[str, str]:
    """(id, body) of what a task is queued under."""
    if not (task.requires or task.pools or task.scored or task.spends):
        return _plain_demand(task.kind, task.spec["inline"] if task.kind == "inline" else None)
    body: dict[str, Any] = {"kind": task.kind}
    id = task.kind
    if task.kind == "inline":  # not every node with inline functions has this one
        body["function"] = task.spec["inline"]
        id += f"={body['function']}"
    if task.requires:
        body["requires"] = task.requires
        id += f":{hashlib.sha256(msgspec.json.encode(body, order='sorted')).hexdigest()[:16]}"
    if task.pools or task.spends:
        id += f"@{','.join((_spending(task), *task.pools) if task.spends else task.pools)}"
    return (PLACE if task.scored else "") + id, msgspec.json.encode(body, order="sorted").decode()


def _spending(task: TaskDef) -> str:
    budget = task.budget or Usage()
    tokens = "" if budget.tokens is None else f"/{budget.tokens}"
    return f"${'' if budget.usd is None else budget.usd}{tokens}"


def budget_of(demand: str) -> Usage | None:
    """What a task may spend, all its attempts together; None: it spends nothing."""
    _, found, rest = demand.partition(SPENDS)
    if not found:
        return None
    usd, _, tokens = rest.partition(",")[0].partition("/")
    return Usage(int(usd) if usd else None, int(tokens) if tokens else None)


def park(demand: str) -> str:
    """What a task is queued under while its run's budget has no room for it."""
    return PARKED + demand


def unpark(demand: str) -> str:
    return demand.removeprefix(PARKED)


def with_memory(task: TaskDef, memory: int) -> tuple[str, str]:
    """(id, body) of what a task is queued under that now requires so many bytes of memory."""
    id, body = demand_of(task)
    before, at, pools = id.partition("@")
    raised = msgspec.json.decode(body)
    raised["requires"]["memory"] = memory
    return f"{before}{MEMORY}{memory}{at}{pools}", msgspec.json.encode(raised, order="sorted").decode()


def memory_of(demand: str) -> int | None:
    """The memory that an earlier attempt's end has raised, in bytes; None: it was not."""
    _, found, memory = demand.partition("@")[0].partition(MEMORY)
    return int(memory) if found else None


def workflow_pool(name: str) -> str:
    """The pool that holds a workflow's `concurrency`, over all its runs."""
    return WORKFLOW_POOL + name.translate(_ESCAPED)


def pools_of(demand: str) -> list[str]:
    """The pools a task takes a place of while it runs, ascending."""
    _, at, names = demand.partition("@")
    if names.startswith("$"):
        _, at, names = names.partition(",")
    return names.split(",") if at else []


def private(session: str, demand: str) -> str:
    """What a task is queued under while only this session may claim it."""
    return f"{SESSION}{session}/{demand}"


def public(demand: str) -> str:
    """The same without a session's name before it; what never had one is as it was."""
    return demand.partition("/")[2] if demand.startswith(SESSION) and "/" in demand else demand


def open_to_all(demand: str) -> str:
    """What it is queued under when any eligible node may claim it."""
    return public(demand).removeprefix(PLACE)


def holder_of(demand: str) -> str | None:
    """The session that alone may claim it."""
    return demand[len(SESSION) :].partition("/")[0] if demand.startswith(SESSION) else None


def own_demand(tasks: Iterable[TaskDef]) -> tuple[str, str]:
    """(id, body) of what a node needs to own a run of all these tasks: each of their demands."""
    bodies = dict(demand_of(task) for task in tasks if task.kind not in ("wait", "workflow"))
    text = f'{{"all":[{",".join(bodies[id] for id in sorted(bodies))}]}}'
    return f"{OWN}{hashlib.sha256(text.encode()).hexdigest()[:16]}", text


def private_demand(session: str) -> str:
    """Only this session offers it."""
    return SESSION + session
