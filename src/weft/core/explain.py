"""Why is this task not running? Answered from the predicates that the scheduler itself uses."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from weft.core.definition.field_types.text_formats import rounded_duration
from weft.core.placement.budgets import NOTHING, POOL, Amount, lacking, left, refusal, standings_of
from weft.core.placement.demands import PLACE, WORKFLOW_POOL, budget_of, holder_of
from weft.core.placement.eligibility import INSTALL, NodeFacts, eligible, free, no_room, unknown_types
from weft.core.rows import BudgetRow, HandleRow, RunRow, TaskRow
from weft.core.rules.readiness import can_still_start, ending_of
from weft.core.states import TERMINAL
from weft.core.workflow import Usage, Workflow

NO_SLOTS = "it has no slots, and runs nothing"


class NodeView(msgspec.Struct, frozen=True):
    """A live node as an explanation sees it."""

    facts: NodeFacts
    draining: bool = False
    scope: str | None = None  # the run that it works for, if it works for one only
    slots: int | None = None
    running: int = 0
    held: tuple[dict[str, Any], ...] = ()  # the requirements of what it runs


class PoolView(msgspec.Struct, frozen=True):
    name: str
    size: int
    used: int
    holders: tuple[str, ...] = ()  # RUN/TASK


class Situation(msgspec.Struct):
    """What an explanation is made from."""

    run: RunRow
    task: TaskRow
    workflow: Workflow
    needs: Mapping[int, TaskRow]  # whole tasks by position
    nodes: Sequence[NodeView]
    demand: dict[str, Any]
    ahead: int  # queued tasks with a better rank and the same demand
    now: int
    holder: str | None  # the node that runs it, or to which it was given
    pools: Sequence[PoolView] = ()  # those that it needs a place of
    owner: str | None = None  # the node that owns the run
    longer: int = 0  # queued tasks of its run with longer paths to the end of the run
    child: tuple[str, str, str] | None = None  # of a task that runs another workflow: that run's id, name and state
    handle: HandleRow | None = None  # of an attempt on an engine: the one that is not closed
    budgets: Sequence[BudgetRow] = ()  # of the run and of its pools, if it spends
    spent: Amount = NOTHING  # by its attempts so far
    origin: str | None = None  # where its result was made, if a rerun took it over: "task of run id"


def explain(s: Situation) -> tuple[str, list[str]]:
    """(answer, evidence)."""
    by_state = {
        "pending": _pending, "queued": _queued, "scheduled": _scheduled, "running": _running, "waiting": _waiting,
    }  # fmt: skip
    answer, evidence = by_state.get(s.task.state, _ended)(s)
    if s.run.stop and s.run.deadline_at is not None and s.task.state not in TERMINAL and _survives(s):
        left = rounded_duration(s.run.deadline_at - s.now)
        evidence.append(f"the run was stopped ({s.run.reason}); its handlers may take {left} more")
    return answer, evidence


def _survives(s: Situation) -> bool:
    return can_still_start(s.run, s.workflow.tasks[s.task.pos])


def _pending(s: Situation) -> tuple[str, list[str]]:
    task, definition = s.task, s.workflow.tasks[s.task.pos]
    if s.run.stop and not _survives(s):
        return "the run was stopped; it is about to be cancelled", [s.run.reason or s.run.stop]
    if not _survives(s):
        return "the run was halted by a failure; it is about to be cancelled", [s.run.reason or ""]
    if s.run.paused and (task.ready_at is not None or task.child_action is not None):
        return "it is ready, and the run is paused", [f"weft unpause {s.run.id} lets it start"]
    if task.ready_at is not None and s.run.advance_state == "paused" and not task.admitted:
        return "it is ready, and the run is paused", [
            f"weft advance {s.run.id} starts it; with --task, one task at a time"
        ]
    if task.child_action is not None:
        return "it is ready; its run is about to begin", ["a node does that with its next exchange"]
    if task.ready_at is not None:
        return (
            f"it is ready, but the run may have {s.run.max_parallel or 1} tasks at a time and has {s.run.active}",
            ["it starts when one of them ends (max_parallel)"],
        )
    level_plan = s.workflow.level_plan
    if level_plan is not None and s.run.level is not None and task.ready_at is None and task.idx < 0:
        return _other_level(s, level_plan.at[task.pos], s.run.level)
    if task.idx >= 0:
        limit = definition.max_parallel
        return f"{definition.name} may run {limit} elements at a time", ["it starts when an earlier element ends"]
    if definition.final and not definition.needs:
        return f"it starts after all other tasks; {s.run.open_main} have not ended", [f"when: {definition.when}"]
    open_needs = [pos for pos in definition.needs if s.needs[pos].state not in TERMINAL]
    names = [f"{s.workflow.tasks[pos].name} is {s.needs[pos].state}" for pos in open_needs]
    shown = ", ".join(s.workflow.tasks[pos].name for pos in open_needs[:3])
    more = f" and {len(open_needs) - 3} more" if len(open_needs) > 3 else ""
    return f"it waits for {shown}{more}", [*names[:20], f"when: {definition.when}"]


def _other_level(s: Situation, own: int, now: int) -> tuple[str, list[str]]:
    if s.run.advance_state == "paused" and s.run.level_open is None:
        return f"it belongs to level {own + 1}, and the run is paused before level {now + 1}", [
            f"weft advance {s.run.id} works on that level"
        ]
    left = f"{s.run.level_open} of its tasks have not finished"
    return f"it belongs to level {own + 1}; the run works on level {now + 1}", [
        left,
        "a level starts when all before it are done",
    ]


def _unaffordable(s: Situation) -> tuple[str, list[str]] | None:
    """A budget that has no room for it."""
    need = left(budget_of(s.task.demand) or Usage(), s.spent)
    for row in s.budgets:
        lack = lacking(standings_of(row), need)
        if lack is None:
            continue
        standing, never = lack
        pool = row.scope.removeprefix(POOL)
        if pool == row.scope:
            more = f"weft budget {s.run.id} --{standing.unit} N lets it spend more"
            return refusal(standing, need, "the run"), [
                "it fails with the next exchange" if never else "it starts when enough of that is given back", more
            ]  # fmt: skip
        waits = [] if never else ["it starts when enough of that is given back"]
        more = f"weft pools set {pool} SIZE --{standing.unit} N lets them spend more, --renew begins anew"
        return refusal(standing, need, f"the pool {pool}"), [*waits, more]
    return None


def _queued(s: Situation) -> tuple[str, list[str]]:
    if s.budgets and (answer := _unaffordable(s)) is not None:
        return answer
    start = "start one: weft worker, or weft resume RUN"
    if not s.nodes:
        return "no node is running", [start]
    if all(node.slots == 0 for node in s.nodes):
        return "no node works", [*(f"{node.facts.name}: {NO_SLOTS}" for node in s.nodes), start]
    refusals = [(node.facts.name, refusals_of(s.demand, node, s.run.id, s.run.name)) for node in s.nodes]
    able = [name for name, reasons in refusals if not reasons]
    details = [f"{name}: {'; '.join(reasons)}" for name, reasons in refusals if reasons]
    busy = [
        f"{node.facts.name}: all of its {node.slots} slots are taken"
        for node, (_, reasons) in zip(s.nodes, refusals, strict=True)
        if not reasons and node.slots is not None and node.running >= node.slots
    ]
    may = [f"nodes that may take it: {', '.join(able)}"] if able else []
    full = [_pool_text(pool) for pool in s.pools if pool.used >= pool.size]
    if full:
        return full[0], [*full[1:], *may, *busy, *details]
    if holder_of(s.task.demand) is not None and s.task.wake_at is not None:
        left = rounded_duration(s.task.wake_at - s.now)
        return f"it was given to {s.holder or 'a node'}, which alone may take it for {left}", [*busy, *details]
    if not able:
        waits = any(
            not eligible(s.demand, node.facts, s.run.name)
            for node in s.nodes
            if not node.draining and node.scope is None and node.slots != 0
        )
        unknown = unknown_types(s.demand, [node.facts for node in s.nodes])
        if unknown:
            return f"no live node has an executor for tasks of type {unknown[0]}", [INSTALL, *details]
        return "no live node has room for it now" if waits else "no live node may take it", details
    if s.run.owner is not None:
        return f"it waits for room on {s.owner or s.run.owner}, which owns the run", []
    if s.task.demand.startswith(PLACE):
        return "the leader has not picked its node yet (placement: scored)", [*may, *busy, *details]
    return (
        f"it is in the queue with {s.ahead} ahead of it" if s.ahead else "it is next in the queue",
        [*_longer(s), *may, *busy, *details],
    )


def _longer(s: Situation) -> list[str]:
    if not s.longer:
        return []
    have = "task of this run has a longer path" if s.longer == 1 else "tasks of this run have longer paths"
    return [f"{s.longer} queued {have} to its end (order: longest_path)"]


def refusals_of(demand: dict[str, Any], node: NodeView, run_id: str | None, workflow: str) -> list[str]:
    """Why a live node does not take a task of this demand now, whatever is ahead of it."""
    reasons = []
    if node.slots == 0:
        reasons.append(NO_SLOTS)
    if node.draining:
        reasons.append("it is draining and takes nothing more")
    if node.scope is not None and node.scope != run_id:
        reasons.append(f"it works for run {node.scope} only")
    impossible = eligible(demand, node.facts, workflow)
    if impossible:
        return reasons + impossible
    requires = demand.get("requires", {})
    return reasons + no_room(requires, free(node.facts, [requires], node.held))


def _pool_text(pool: PoolView) -> str:
    workflow = pool.name.removeprefix(WORKFLOW_POOL)
    held = ", ".join(pool.holders[:3]) + (f" and {len(pool.holders) - 3} more" if len(pool.holders) > 3 else "")
    if workflow != pool.name:
        return f"workflow {workflow} runs {pool.used} of at most {pool.size} tasks at a time (concurrency): {held}"
    if pool.size == 0:
        return f"the pool {pool.name} has no places (weft pools set {pool.name} SIZE)"
    return f"the pool {pool.name} is full: {pool.used} of {pool.size} places are held by {held}"


def _scheduled(s: Situation) -> tuple[str, list[str]]:
    left = rounded_duration((s.task.wake_at or s.now) - s.now)
    details = [f"attempt {s.task.attempt} failed: {s.task.reason}"] if s.task.reason else []
    retry = s.workflow.tasks[s.task.pos].retry
    return f"it is tried again in {left}", [*details, f"{s.task.failures} of {retry.max} retries used"]


def _running(s: Situation) -> tuple[str, list[str]]:
    if s.task.held is not None:
        return _held(s)
    if s.task.elements is not None:
        return f"{s.task.open} of its {s.task.elements} elements have not ended", []
    if s.child is not None:
        id, name, state = s.child
        details = [f"it has been asked to stop ({s.task.stop})"] if s.task.stop else []
        return f"it is running as run {id} of {name}, which is {state}", [*details, f"weft why {id} says more"]
    since = rounded_duration(s.now - (s.task.started_at or s.task.claimed_at or s.now))
    details = [f"it has been asked to stop ({s.task.stop})"] if s.task.stop else []
    if s.handle is not None and s.handle.state == "orphaned":
        return _unverified(s, s.handle, details)
    if s.handle is not None:
        details += [s.handle.note] if s.handle.note else []
        details.append(f"{s.handle.name} on {s.handle.engine}")
    return f"it is running on {s.holder or 'a node'}, attempt {s.task.attempt}, for {since}", details


def _unverified(s: Situation, handle: HandleRow, details: list[str]) -> tuple[str, list[str]]:
    """Nobody watches it, and its engine has not said that it is gone."""
    name = s.workflow.tasks[s.task.pos].called(s.task.idx)
    able = [node.facts.name for node in s.nodes if handle.engine in node.facts.engines]
    ways = f"nodes that reach it: {', '.join(able)}" if able else "no live node reaches it"
    return f"attempt {handle.attempt} is not verified as stopped: its node is lost", [
        f"{handle.name} on {handle.engine}",
        f"it goes on when a node that reaches that engine has {'adopted' if handle.adoptable else 'removed'} it",
        ways,
        f"weft release {s.run.id} {name} goes on without that proof",
        *details,
    ]


def _held(s: Situation) -> tuple[str, list[str]]:
    how = "succeeded" if s.task.held == "succeeded" else "failed, which it may"
    return f"it has finished ({how}); that counts when all of level {(s.run.level or 0) + 1} is done", [
        f"{s.run.level_open} of its tasks have not finished"
    ]


def _waiting(s: Situation) -> tuple[str, list[str]]:
    if s.task.held is not None:
        return _held(s)
    spec = s.workflow.tasks[s.task.pos].spec
    left = None if s.task.wake_at is None else rounded_duration(s.task.wake_at - s.now)
    if "signal" not in spec:
        return "it waits for a signal or a time" if left is None else f"it waits; it goes on in {left}", []
    details = [f"weft signal {s.run.id} {spec['signal']} answers it"]
    if left is not None:
        then = "its default is taken" if "default" in spec else "it fails"
        details.append(f"in {left} its timeout passes, and {then}")
    return f"it waits for the signal {spec['signal']!r}", details


def _ended(s: Situation) -> tuple[str, list[str]]:
    definition = s.workflow.tasks[s.task.pos]
    details = []
    if s.task.state == "skipped":
        for pos in definition.needs:
            need = s.needs.get(pos)
            if need is not None and ending_of(need.state, need.upstream, s.workflow.tasks[pos].allow_failure) != "ok":
                details.append(f"{s.workflow.tasks[pos].name} is {need.state}")
        details.append(f"when: {definition.when}")
    if s.task.reason and s.task.state in ("failed", "cancelled", "skipped"):
        return s.task.reason, details  # the state is shown before it
    if s.origin is not None:
        details.append(f"nothing ran: its result was taken over from {s.origin}")
    if s.task.reason and s.task.state == "succeeded" and s.task.elements is None:
        return f"it was marked as succeeded: {s.task.reason}", details
    word = {"dead_letter": "it used up its retries", "succeeded": "it succeeded", "failed": "it failed"}.get(
        s.task.state, f"it was {s.task.state}"
    )
    return f"{word}: {s.task.reason}" if s.task.reason else word, details
