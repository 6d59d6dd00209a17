"""Which queued tasks a node gets: best rank first, never more than it has room for, nor than a pool has places or
money.

A node says what it has free and what a task of each demand takes of it. A pool is one more thing to have free, but
its row is locked before it is counted. A demand without such limits costs nothing of this.

Nothing starves: a task that does not fit now lets younger ones pass for a minute (the worth of one point of
priority), and then what it waits for is kept for it.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from weft.core.commands import Claim, Exchange
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Budgets, DemandsWithQueued, Pools, QueuedTasks, QueuedTasksPerDemand
from weft.core.placement.budgets import Amount, Standing, left, pool_scope
from weft.core.placement.demands import OWN, SPENDS, budget_of, memory_of, pools_of
from weft.core.placement.eligibility import EACH
from weft.core.placement.worker_binding import allows
from weft.core.rows import TaskRow
from weft.core.rules.budgets import allowance_of, park_unaffordable, within_budgets
from weft.core.rules.ownership import take_runs
from weft.core.workflow import Usage

POOL: Final = "pool:"
MONEY: Final = "money:"
LOOK_PAST: Final = 100  # tasks that their runs have no money for, in one claim
UNBOUNDED: Final = 1 << 62
PATIENCE_MS: Final = 60_000
#: A task that needs places in several pools at once holds up more than one node, so it waits longer before it does.
POOLS_PATIENCE_MS: Final = 600_000


def unlimited(demands: list[str], command: Exchange) -> list[str]:
    """Those of which a task takes nothing that is counted: no pool, no memory."""
    return [d for d in demands if "@" not in d and d not in command.costs]


def remaining(draft: Draft, command: Exchange, claims: list[Claim]) -> dict[str, int]:
    """What the node has left after these claims."""
    left = dict(command.free)
    for claim in claims:
        for name, amount in command.costs.get(draft.tasks[claim.task_id].demand, {}).items():
            left[name] = left.get(name, 0) - amount
    return left


def claim(draft: Draft, command: Exchange) -> Rule:
    """The exchange has loaded the first `want` tasks of unlimited demands already."""
    limited = [d for d in command.demands if "@" in d or d in command.costs]
    if limited:
        limited = yield from _asked_for(draft, limited)
    if limited:
        return (yield from _claim_within(draft, command, limited))
    demands = unlimited(command.demands, command)
    changed = _changed(draft)
    if changed:
        (rows,) = yield (QueuedTasks(demands, command.scope, command.want + changed, command.workflows),)
        draft.add_loaded(rows)
    chosen = yield from _chosen(draft, command, _queued(draft, command, demands))
    return _take(draft, command, chosen)


def _claim_within(draft: Draft, command: Exchange, limited: list[str]) -> Rule:
    room = _Room(command.free)
    limited = yield from _with_room(draft, command, limited, room)
    plain = unlimited(command.demands, command)
    changed = _changed(draft)
    most = min(command.want, max(1, max((room.times(d) for d in limited), default=0)))
    if any(SPENDS in d for d in limited):
        most = command.want + LOOK_PAST
    rows, others = yield (
        QueuedTasks(plain, command.scope, command.want + changed if changed else 0, command.workflows),
        QueuedTasksPerDemand(limited, command.scope, most + changed, command.workflows),
    )
    draft.add_loaded(rows)
    draft.add_loaded(others)
    queued = yield from park_unaffordable(draft, _queued(draft, command, [*plain, *limited]))
    room.spending = draft.budgets.spending
    chosen = yield from _chosen(draft, command, [task for task in queued if room.take(task)])
    return _take(draft, command, within_budgets(draft, chosen))


def _chosen(draft: Draft, command: Exchange, queued: list[TaskRow]) -> Rule:
    """The best of them; of runs that one node owns, only those that this session owns or can take now."""
    if any(d.startswith(OWN) for d in command.demands) and any(task.demand.startswith(OWN) for task in queued):
        return (yield from take_runs(draft, command.session, queued, command.want))
    return queued[: command.want]


def _asked_for(draft: Draft, limited: list[str]) -> Rule:
    """Those under which something is queued: no pool is locked, and nothing more is asked, for the others."""
    (rows,) = yield (DemandsWithQueued(limited),)
    stored = frozenset(row[0] for row in rows)
    drafted = frozenset(t.demand for t in draft.tasks.values() if t.state == "queued")
    return [d for d in limited if d in stored or d in drafted]


def _with_room(draft: Draft, command: Exchange, limited: list[str], room: "_Room") -> Rule:
    """Lock the pools, and leave out what only waits for a full one."""
    names = sorted({pool for demand in limited for pool in pools_of(demand)})
    if names:
        (rows,) = yield (Pools(names),)
        draft.pools.loaded |= {row.name: row for row in rows}
    yield from _load_pool_budgets(draft, limited)
    fitting = []
    for demand in limited:
        pools = pools_of(demand)
        cost = dict(command.costs.get(demand, {}))
        if any(pool not in draft.pools.loaded for pool in pools):
            continue  # it was removed by hand: nothing may pass a limit that is not there
        for pool in pools:
            room.left[POOL + pool] = draft.room_in(pool)
            cost[POOL + pool] = 1
        paused = any(draft.pools.loaded[pool].size == 0 for pool in pools)
        full = any(draft.room_in(pool) <= 0 for pool in pools)
        spent = SPENDS in demand and room.count_money(demand, _standings(draft, pools))
        if paused or spent or (full and len(pools) == 1):
            continue
        room.costs[demand] = cost
        fitting.append(demand)
    return fitting


def _load_pool_budgets(draft: Draft, limited: list[str]) -> Rule:
    """After the pools themselves."""
    scopes = sorted({pool_scope(pool) for demand in limited if SPENDS in demand for pool in pools_of(demand)})
    if scopes:
        (rows,) = yield (Budgets(scopes),)
        draft.budgets.loaded |= {row.scope: row for row in rows}


def _standings(draft: Draft, pools: list[str]) -> dict[str, Standing]:
    """Where the budgets of these pools stand, by what a task takes of them: `money:usd:llm`."""
    scopes = {pool: pool_scope(pool) for pool in pools}
    return {
        f"{MONEY}{standing.unit}:{pool}": standing
        for pool, scope in scopes.items() if scope in draft.budgets.loaded
        for standing in draft.budgets.standings(scope)
    }  # fmt: skip


class _Room:
    """What is left while tasks are taken one by one."""

    def __init__(self, free: Mapping[str, int]) -> None:
        self.left = dict(free)
        self.costs: dict[str, dict[str, int]] = {}
        self._kept: dict[str, int] = {}  # for a task that waits: those of a worse rank than this may not have it
        self.money: dict[str, dict[str, Standing]] = {}  # by demand: the budgets of its pools
        self.spending: Mapping[int, Amount] = {}  # of tasks

    def count_money(self, demand: str, standings: dict[str, Standing]) -> bool:
        """Tasks of this demand take part in these budgets. True: nothing is left in one of them."""
        if standings:
            self.money[demand] = standings
        for name, standing in standings.items():
            self.left[name] = standing.free
        return any(standing.free <= 0 for standing in standings.values())

    def _cost(self, task: TaskRow, cost: Mapping[str, int]) -> Mapping[str, int]:
        """With what it may still spend; one without a budget fits into none."""
        standings = self.money.get(task.demand)
        if standings is None:
            return cost
        rest = left(budget_of(task.demand) or Usage(), self.spending[task.id])
        amounts = {"usd": rest.usd, "tokens": rest.tokens}
        wanted = {name: amounts[standing.unit] for name, standing in standings.items()}
        return {**cost, **{name: UNBOUNDED if amount is None else amount for name, amount in wanted.items()}}

    def times(self, demand: str) -> int:
        """How many tasks of a demand would fit if there were no others."""
        return min(
            (self.left.get(name, 0) // amount for name, amount in self.costs[demand].items() if amount), default=1
        )

    def take(self, task: TaskRow) -> bool:
        shared = self.costs.get(task.demand)
        if shared is None:
            return True
        cost = self._cost(task, shared)
        missing = [name for name, amount in cost.items() if self.left.get(name, 0) < amount]
        if missing:
            self._keep(task, cost, missing)
            return False
        if any(task.rank > self._kept[name] for name in cost if name in self._kept):
            return False
        for name, amount in cost.items():
            self.left[name] -= amount
        return True

    def _keep(self, task: TaskRow, cost: Mapping[str, int], missing: list[str]) -> None:
        """What is short on this node is kept for the first task that lacks it, and the places of pools for one that
        needs several at once. A task that lacks both waits for the pools: this node is not what holds it up. One that
        runs here as often as it may (max_per_node) keeps nothing from others."""
        if any(name.startswith(EACH) for name in missing):
            return
        if any(name.startswith(MONEY) for name in missing):
            standings = self.money[task.demand]
            if any(cost[name] > one.limit - one.spent for name, one in standings.items()):
                return  # only a person can help
            missing = [name for name in missing if name.startswith(MONEY)]
        lacks_pool = any(name.startswith(POOL) for name in missing)
        names = [name for name in cost if name.startswith(POOL)] if lacks_pool else missing
        for name in names:
            self._kept.setdefault(name, task.rank + (POOLS_PATIENCE_MS if lacks_pool else PATIENCE_MS))


def _queued(draft: Draft, command: Exchange, demands: list[str]) -> list[TaskRow]:
    wanted = frozenset(demands)
    queued = [
        t for t in draft.tasks.values()
        if t.state == "queued" and t.demand in wanted
        and (command.scope is None or t.run_no == command.scope or _of_family(draft, t, command.scope))
    ]  # fmt: skip
    if command.workflows:
        queued = [t for t in queued if _allowed(draft, t, command.workflows)]
    queued.sort(key=_order)
    return queued


def _allowed(draft: Draft, task: TaskRow, workflows: list[str]) -> bool:
    """A row whose run this draft does not have was just loaded as one of these workflows."""
    run = draft.runs.get(task.run_no)
    return run is None or allows(workflows, run.name)


def _of_family(draft: Draft, task: TaskRow, root: int) -> bool:
    """A row whose run this draft does not have was just loaded as one of the family."""
    run = draft.runs.get(task.run_no)
    return run is None or run.root == root


def _changed(draft: Draft) -> int:
    """The store does not know yet that these are no longer queued."""
    return sum([t.state != "queued" and t.guard is not None and t.guard.state == "queued" for t in draft.dirty_tasks])


def _take(draft: Draft, command: Exchange, tasks: list[TaskRow]) -> list[Claim]:
    draft.claim(tasks, command.session, command.number)
    now = draft.now
    claims = [
        Claim(
            t.id, t.attempt, t.run_no, t.pos, t.idx, t.generation, now - (t.ready_at or now),
            memory_of(t.demand) if "+" in t.demand else None,
        )
        for t in tasks
    ]  # fmt: skip
    if draft.budgets.spending:
        for task, one in zip(tasks, claims, strict=True):
            one.allowance = allowance_of(draft, task)
    return claims


_order = attrgetter("rank", "id")
