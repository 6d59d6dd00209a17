"""Pools: a limit that tasks of many runs and nodes share. Places are taken by claims and given back by Draft.move."""

from weft.core.commands import Refused, Reply, SetPool
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Pools
from weft.core.placement.demands import WORKFLOW_POOL, workflow_pool
from weft.core.workflow import Workflow


def set_pool(draft: Draft, command: SetPool) -> Rule:
    """A smaller size stops nothing that runs: no new task starts until enough have ended."""
    (rows,) = yield (Pools([command.name]),)
    draft.pools.sizes[command.name] = command.size
    draft.wake = not rows or rows[0].size < command.size
    used = rows[0].used if rows else 0
    return Reply(existing=bool(rows), changed=1, data={"name": command.name, "size": command.size, "used": used})


def check_pools(draft: Draft, workflow: Workflow) -> Rule:
    """A run may only ask for pools that are there. Its workflow's own is made, or gets the newest version's size."""
    names = sorted({pool for task in workflow.tasks for pool in task.pools})
    if not names:
        return
    (rows,) = yield (Pools(names),)
    known = {row.name: row.size for row in rows}
    missing = [name for name in names if name not in known and not name.startswith(WORKFLOW_POOL)]
    if missing:
        first = next(task.name for task in workflow.tasks if missing[0] in task.pools)
        raise Refused(
            "invalid", f"{first}: there is no pool {missing[0]!r}; make it with: weft pools set {missing[0]} SIZE"
        )
    own = workflow_pool(workflow.name)
    if workflow.concurrency is not None and known.get(own) != workflow.concurrency:
        draft.pools.sizes[own] = workflow.concurrency
        draft.wake = True
