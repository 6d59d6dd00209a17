"""Pools: a limit that tasks of many runs and nodes share. Places are taken by claims and given back by Draft.move."""

from weft.core.commands import Refused, Reply, SetPool
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Budgets, Pools
from weft.core.placement.budgets import pool_scope
from weft.core.placement.demands import WORKFLOW_POOL, workflow_pool
from weft.core.rows import BudgetRow
from weft.core.rules.budgets import missing_unit
from weft.core.workflow import Usage, Workflow


def set_pool(draft: Draft, command: SetPool) -> Rule:
    """A smaller size stops nothing that runs: no new task starts until enough have ended."""
    (rows,) = yield (Pools([command.name]),)
    (budgets,) = yield (Budgets([pool_scope(command.name)]),)
    draft.pools.sizes[command.name] = command.size
    _set_budget(draft, command, known=bool(budgets))
    spending = command.renew or command.usd is not None or command.tokens is not None
    draft.wake = spending or not rows or rows[0].size < command.size
    used = rows[0].used if rows else 0
    return Reply(existing=bool(rows), changed=1, data={"name": command.name, "size": command.size, "used": used})


def _set_budget(draft: Draft, command: SetPool, *, known: bool) -> None:
    """Every pool that people make has one, so that what its tasks spend is counted before there is a limit."""
    scope = pool_scope(command.name)
    if not known:
        draft.budgets.add(BudgetRow(scope, command.usd, command.tokens))
        return
    if command.usd is not None or command.tokens is not None:
        draft.budgets.limit(scope, Usage(command.usd, command.tokens))
    if command.renew:
        draft.budgets.renew(scope)


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
    yield from _check_budgets(draft, workflow)
    own = workflow_pool(workflow.name)
    if workflow.concurrency is not None and known.get(own) != workflow.concurrency:
        draft.pools.sizes[own] = workflow.concurrency
        draft.wake = True


def _check_budgets(draft: Draft, workflow: Workflow) -> Rule:
    """Where a pool has a budget, a task in it must say how much of that may be set aside for it."""
    spending = [task for task in workflow.tasks if task.pools and task.spends]
    if not spending:
        return
    (rows,) = yield (Budgets(sorted({pool_scope(pool) for task in spending for pool in task.pools})),)
    limits = {row.scope: Usage(row.usd, row.tokens) for row in rows}
    for task in spending:
        for pool in task.pools:
            unit = missing_unit(limits.get(pool_scope(pool), Usage()), task.budget)
            if unit is not None:
                text = f"{task.name}: the pool {pool!r} has a budget, so the task needs one of its own"
                raise Refused("invalid", f"{text}; add budget: {{{unit}: …}} to its agent")
