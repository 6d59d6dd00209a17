"""Budgets: what a task, a run and the tasks in a pool may spend.

A task's budget covers all attempts of a generation. When it is claimed, what is left of it is reserved in the budgets
of its run and its pools; what it spends moves from there to what is spent; when it stops running, the rest is given
back. So nothing starts that could lead past a budget.

A task that does not fit into a pool's budget stays in the queue. One that does not fit into its run's is parked: it
is queued under a demand that no node offers, so that it does not hide tasks of other runs, until what other tasks of
the run have reserved is given back. If it would not fit even then, it fails.

On PostgreSQL, only whoever holds a run waits for its budget; a claim, which holds none, takes those that are free.
"""

from collections.abc import Iterable

from weft.core.commands import Exchange, Refused, SetBudget
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Budgets, BudgetsIfFree, ParkedTasks, RunById, Spending
from weft.core.placement.budgets import (
    NOTHING,
    Amount,
    Standing,
    lacking,
    left,
    limits_in_words,
    pool_scope,
    refusal,
    reserved,
    run_scope,
    used_up,
)
from weft.core.placement.demands import PARKED, SPENDS, budget_of, park, pools_of, unpark
from weft.core.rows import BudgetRow, RunRow, TaskRow
from weft.core.rules.readiness import can_still_start
from weft.core.workflow import MICROS, Usage, Workflow

PARKED_MAX = 1000  # looked at in one load
LOOK = "budget"  # a chore that holds the run shall see whether the task can ever start


def load_spending(draft: Draft, tasks: Iterable[TaskRow]) -> Rule:
    """Of those that spend, and are not known yet: before any of them is claimed, or stops running."""
    known = draft.budgets.spending
    ids = sorted({t.id for t in tasks if SPENDS in t.demand and t.id not in known})
    if ids:
        (rows,) = yield (Spending(ids),)
        known.update(dict.fromkeys(ids, NOTHING))
        known.update({task_id: Amount(usd, tokens) for task_id, usd, tokens in rows})


def load_budgets(draft: Draft, run_nos: Iterable[int]) -> Rule:
    """Of runs that this transaction holds: before it asks for pools."""
    scopes = sorted({run_scope(no) for no in run_nos} - draft.budgets.loaded.keys())
    if scopes:
        (rows,) = yield (Budgets(scopes),)
        draft.budgets.loaded |= {row.scope: row for row in rows}


def take_spending(draft: Draft, command: Exchange) -> Rule:
    """What attempts say that they have spent, before their reports are applied."""
    tasks = draft.tasks
    found = [
        r for r in command.reports if (t := tasks.get(r.task_id)) is not None and (SPENDS in t.demand or r.usage)
    ]
    if not found and not command.spent:
        return
    said = [*command.spent, *((r.task_id, r.attempt, *r.usage) for r in found if r.usage is not None)]
    ids = dict.fromkeys([*(report.task_id for report in found), *(one[0] for one in said)])
    spending = [t for id in ids if (t := tasks.get(id)) is not None and SPENDS in t.demand]
    yield from load_spending(draft, spending)
    yield from load_budgets(draft, [t.run_no for t in spending])
    for task_id, attempt, usd, tokens in said:
        task = draft.tasks.get(task_id)
        if task is not None and (task.state, task.attempt, task.session, task.held) == (
            "running", attempt, command.session, None,
        ):  # fmt: skip
            _spend(draft, task, Amount(max(0, usd), max(0, tokens)))


def _spend(draft: Draft, task: TaskRow, amount: Amount) -> None:
    """It counts, even beyond what was reserved. Of a run that one node owns only the task's own spending is known."""
    budgets = draft.budgets
    budgets.spend(task.id, amount)
    budget = budget_of(task.demand)
    if budget is None:
        return
    before = budgets.spending[task.id]
    after = budgets.spending[task.id] = before.plus(amount)
    change = reserved(budget, after).plus(reserved(budget, before), -1)
    for scope in (run_scope(task.run_no), *map(pool_scope, pools_of(task.demand))):
        budgets.count(scope, amount, change)


def out_of_budget(draft: Draft, task: TaskRow) -> str | None:
    """Why no other attempt of it may start: it has spent what it may spend. Its spending has been loaded."""
    budget = budget_of(task.demand)
    if budget is None or not used_up(budget, draft.budgets.spending[task.id]):
        return None
    return f"it has spent its budget of {limits_in_words(budget)}"


def allowance_of(draft: Draft, task: TaskRow) -> Usage | None:
    """What an attempt that starts now may spend. Its spending has been loaded."""
    budget = budget_of(task.demand)
    if budget is None or budget == Usage():
        return None
    return left(budget, draft.budgets.spending[task.id])


# -- claims ------------------------------------------------------------------------------------------------


def park_unaffordable(draft: Draft, queued: list[TaskRow]) -> Rule:
    """Candidates without those that the budgets of their runs have no room for, as they stand: these are parked. Left
    out are also those whose run's budget another transaction changes right now."""
    spending = [t for t in queued if SPENDS in t.demand]
    if not spending:
        return queued
    yield from load_spending(draft, spending)
    scopes = sorted({run_scope(t.run_no) for t in spending} - draft.budgets.loaded.keys())
    if scopes:
        (rows,) = yield (BudgetsIfFree(scopes),)
        draft.budgets.loaded |= {row.scope: row for row in rows}
    free = [t for t in queued if SPENDS not in t.demand or run_scope(t.run_no) in draft.budgets.loaded]
    return [t for t in free if SPENDS not in t.demand or _fits(draft, t, NOTHING)]


def within_budgets(draft: Draft, chosen: list[TaskRow]) -> list[TaskRow]:
    """Those of the chosen tasks that fit into the budgets of their runs together; all of them are claimed. The others
    are parked."""
    out = []
    taken: dict[int, Amount] = {}
    for task in chosen:
        budget = budget_of(task.demand)
        if budget is None:
            out.append(task)
        elif _fits(draft, task, taken.get(task.run_no, NOTHING)):
            amount = reserved(budget, draft.budgets.spending[task.id])
            taken[task.run_no] = taken.get(task.run_no, NOTHING).plus(amount)
            out.append(task)
    return out


def _fits(draft: Draft, task: TaskRow, taken: Amount) -> bool:
    """There is room for it in its run's budget, of which so much more is taken. If not, it is parked."""
    lack = _lack(draft, task, taken)
    if lack is not None:
        _park(draft, task, never=lack[1])
    return lack is None


def _lack(draft: Draft, task: TaskRow, taken: Amount) -> tuple[Standing, bool] | None:
    need = left(budget_of(task.demand) or Usage(), draft.budgets.spending[task.id])
    standings = draft.budgets.standings(run_scope(task.run_no))
    return lacking([one._replace(reserved=one.reserved + getattr(taken, one.unit)) for one in standings], need)


def _park(draft: Draft, task: TaskRow, *, never: bool) -> None:
    draft.touch(task)
    task.demand = park(task.demand)
    draft.replaced[task.id] = None
    draft.budgets.parked = True
    if never:  # this transaction does not hold its run
        draft.request_child_action(task, LOOK)


# -- what follows when reservations are given back ---------------------------------------------------------


def look_at_parked(draft: Draft, ended: list[TaskRow]) -> Rule:
    """In runs where something was given back, or that may spend more: what fits now is in the queue again, best rank
    first, and what can never start fails. All these runs are held."""
    freed, draft.budgets.freed = sorted(draft.budgets.freed), {}
    yield from load_budgets(draft, freed)
    for run_no in freed:
        if draft.budgets.loaded.get(run_scope(run_no)) is not None:
            yield from _look_at_run(draft, draft.runs[run_no], ended)


def _look_at_run(draft: Draft, run: RunRow, ended: list[TaskRow]) -> Rule:
    after, more = (-(1 << 62), 0), True
    taken = NOTHING
    while more:
        (rows,) = yield (ParkedTasks(run.no, after, PARKED_MAX),)
        found = [t for t in draft.add_loaded(rows) if t.state == "queued" and t.demand.startswith(PARKED)]
        found = [t for t in found if can_still_start(run, draft.definition(t))]  # a sweep comes to the others
        yield from load_spending(draft, found)
        failed = 0
        for task in found:
            lack = _lack(draft, task, taken)
            budget = budget_of(task.demand) or Usage()
            if lack is None:
                taken = taken.plus(reserved(budget, draft.budgets.spending[task.id]))
                _unpark(draft, task)
            elif lack[1]:
                failed += 1
                need = left(budget, draft.budgets.spending[task.id])
                _refuse(draft, task, refusal(lack[0], need, "the run"), ended)
        if rows:
            after = (rows[-1].rank, rows[-1].id)
        more = len(rows) == PARKED_MAX and failed > 0


def _unpark(draft: Draft, task: TaskRow) -> None:
    draft.touch(task)
    task.demand = unpark(task.demand)
    task.child_action = None
    draft.replaced[task.id] = None


def _refuse(draft: Draft, task: TaskRow, reason: str, ended: list[TaskRow]) -> None:
    draft.touch(task)
    task.reason = reason
    draft.move(task, "failed")
    draft.event(task.run_no, "budget", {"state": "failed", "error": reason}, task)
    ended.append(task)


# -- people ------------------------------------------------------------------------------------------------


def first_budget(draft: Draft, run_no: int, workflow: Workflow) -> None:
    """A run whose tasks spend has one, with or without limits."""
    limit = workflow.budget or Usage()
    draft.budgets.add(BudgetRow(run_scope(run_no), limit.usd, limit.tokens))


def change_limit(draft: Draft, command: SetBudget) -> Rule:
    """Of a run: from now on it may spend so much in all. A smaller budget stops nothing that runs."""
    (runs,) = yield (RunById(command.run_id),)
    if not runs:
        raise Refused("not_found", f"there is no run {command.run_id}")
    run = draft.add_loaded_runs(runs)[0]
    workflow = draft.workflows[run.workflow]
    wanted = Usage(command.usd, command.tokens)
    yield from load_budgets(draft, [run.no])
    scope = run_scope(run.no)
    if scope not in draft.budgets.loaded:
        raise Refused("conflict", f"run {run.id} has no budget: none of its tasks can have one")
    for task in workflow.tasks:
        unit = missing_unit(wanted, task.budget) if task.spends else None
        if unit is not None:
            raise Refused(
                "invalid", f"{task.name} has no budget in {unit}, so no part of the run's could be set aside for it"
            )
    draft.budgets.limit(scope, wanted)
    data = {"usd": None if wanted.usd is None else wanted.usd / MICROS, "tokens": wanted.tokens}
    draft.event(run.no, "budget", {unit: amount for unit, amount in data.items() if amount is not None})
    draft.budgets.freed[run.no] = None
    draft.wake = True
    return run


def missing_unit(limit: Usage, budget: Usage | None) -> str | None:
    """A unit in which there is a limit, and the task's own budget says nothing."""
    budget = budget or Usage()
    if limit.usd is not None and budget.usd is None:
        return "usd"
    return "tokens" if limit.tokens is not None and budget.tokens is None else None
