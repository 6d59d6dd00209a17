"""What runs, tasks and pools may spend, and have spent."""

from typing import TYPE_CHECKING

import msgspec

from weft.core.placement.budgets import NOTHING, Amount, pool_scope, run_scope
from weft.core.placement.demands import SPENDS, pools_of
from weft.core.rows import ORDINAL_BITS, BudgetRow, TaskRow
from weft.core.workflow import MICROS
from weft.operations.reading.runs import find_run, run_row
from weft.operations.replies import BudgetInfo

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess


class TaskSpending(msgspec.Struct, kw_only=True):
    """What the attempts of a task have spent together, in one generation."""

    task: str
    generation: int
    usd: float
    tokens: int


class RunBudget(msgspec.Struct, kw_only=True):
    """`spends`: some of its tasks can have a budget."""

    spends: bool
    budget: BudgetInfo
    tasks: list[TaskSpending]  # those that have spent something


def budget_info(row: BudgetRow) -> BudgetInfo:
    return BudgetInfo(
        usd=None if row.usd is None else row.usd / MICROS, tokens=row.tokens,
        usd_spent=row.usd_spent / MICROS, tokens_spent=row.tokens_spent,
        usd_reserved=row.usd_reserved / MICROS, tokens_reserved=row.tokens_reserved,
    )  # fmt: skip


def budgets_for(access: "StoreAccess", task: TaskRow) -> tuple[list[BudgetRow], Amount]:
    """Of its run and its pools, and what it has spent itself; nothing if it cannot spend."""
    if SPENDS not in task.demand:
        return [], NOTHING
    scopes = [run_scope(task.run_no), *map(pool_scope, pools_of(task.demand))]
    spent = spending(access, task.id, task.id + 1).get(task.id, NOTHING)
    return budgets_of(access, scopes), spent


def budgets_of(access: "StoreAccess", scopes: list[str]) -> list[BudgetRow]:
    return [BudgetRow(*row) for row in access.read("budgets_of", msgspec.json.encode(scopes).decode())]


def spending(access: "StoreAccess", first: int, end: int) -> dict[int, Amount]:
    """By the ids of tasks."""
    return {task_id: Amount(usd, tokens) for task_id, usd, tokens in access.read("spending_between", first, end)}


def run_budget(access: "StoreAccess", ref: str) -> RunBudget:
    no, _ = find_run(access, ref)
    rows = budgets_of(access, [run_scope(no)])
    spent = spending(access, no << ORDINAL_BITS, (no + 1) << ORDINAL_BITS)
    workflow = access.workflow(run_row(access, no).workflow)
    tasks = []
    for id, amount in spent.items():
        for pos, idx, generation in access.read("task_place", id):
            name = workflow.tasks[pos].called(idx)
            usd = amount.usd / MICROS
            tasks.append(TaskSpending(task=name, generation=generation, usd=usd, tokens=amount.tokens))
    scope = run_scope(no)
    return RunBudget(spends=bool(rows), budget=budget_info(rows[0] if rows else BudgetRow(scope)), tasks=tasks)
