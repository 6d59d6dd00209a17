"""What `why` looks at, read from a store as the engine left it."""

import msgspec

from tests.core.driver import Engine
from weft.core.explain import NodeView, PoolView, Situation
from weft.core.placement.budgets import NOTHING, Amount, pool_scope, run_scope
from weft.core.placement.demands import SPENDS, holder_of, pools_of, public, unpark
from weft.core.placement.eligibility import NodeFacts, node_facts
from weft.core.rows import BudgetRow, HandleRow, TaskRow


def situation(engine: Engine, run_id: str, name: str, nodes: tuple[NodeFacts, ...] = ()) -> Situation:
    """What `why` would look at, read from the store; without nodes, the sessions that have not ended."""
    run, task, workflow = engine.run(run_id), engine.task(run_id, name), engine.workflows[run_id]
    needs = {pos: engine.task(run_id, workflow.tasks[pos].name) for pos in workflow.tasks[task.pos].needs}
    reader = engine.store.reader()
    views = tuple(NodeView(facts) for facts in nodes) or _nodes(engine)
    demand = unpark(task.demand) if workflow.own is None else workflow.own[0]
    body = reader.execute("SELECT body FROM demands WHERE id = ?", (demand,)).get
    ahead = reader.execute(
        "SELECT count(*) FROM tasks WHERE state = 'queued' AND demand = ? AND (rank, id) < (?, ?)",
        (task.demand, task.rank, task.id),
    ).get
    longer = reader.execute(
        "SELECT count(*) FROM tasks WHERE state = 'queued' AND run_no = ? AND head_start > ?",
        (run.no, task.head_start),
    ).get
    pools = [
        PoolView(pool.name, pool.size, pool.used, _holders(engine, pool.name))
        for pool in engine.pools()
        if pool.name in pools_of(task.demand)
    ]
    child = None
    if task.child is not None:
        (child,) = reader.execute("SELECT id, name, state FROM runs WHERE no = ?", (task.child,))
    return Situation(
        run, task, workflow, needs, views, msgspec.json.decode(body), ahead, engine.time_ms,
        task.session or holder_of(task.demand), pools, longer=longer, child=None if child is None else tuple(child),
        handle=_handle(engine, task.id), budgets=_budgets(engine, task), spent=_spent(engine, task.id),
    )  # fmt: skip


def _budgets(engine: Engine, task: TaskRow) -> list[BudgetRow]:
    scopes = [run_scope(task.run_no), *map(pool_scope, pools_of(task.demand))]
    return [row for row in engine.budgets() if row.scope in scopes and SPENDS in task.demand]


def _spent(engine: Engine, task_id: int) -> Amount:
    rows = list(engine.store.reader().execute("SELECT usd, tokens FROM spending WHERE task_id = ?", (task_id,)))
    return Amount(*rows[0]) if rows else NOTHING


def _handle(engine: Engine, task_id: int) -> HandleRow | None:
    sql = "SELECT * FROM handles WHERE task_id = ? AND state IN ('open', 'orphaned')"
    rows = list(engine.store.reader().execute(sql, (task_id,)))
    return HandleRow(*rows[0]) if rows else None


def _nodes(engine: Engine) -> tuple[NodeView, ...]:
    reader = engine.store.reader()
    out = []
    sessions = list(reader.execute("SELECT id, state, body FROM sessions WHERE ended_at IS NULL ORDER BY id"))
    for id, state, body in sessions:
        facts = msgspec.json.decode(body)
        held = []
        for (demand,) in list(reader.execute("SELECT demand FROM tasks WHERE session = ? ORDER BY id", (id,))):
            text = reader.execute("SELECT body FROM demands WHERE id = ?", (public(demand),)).get
            held.append(msgspec.json.decode(text).get("requires", {}) if text else {})  # none: of a run it owns
        slots = facts.get("slots")
        out.append(NodeView(node_facts(facts, id, id), state == "draining", None, slots, len(held), tuple(held)))
    return tuple(out)


def _holders(engine: Engine, pool: str) -> tuple[str, ...]:
    rows = engine.store.reader().execute(
        "SELECT r.id, t.pos, t.idx, t.demand FROM tasks t JOIN runs r ON r.no = t.run_no"
        " WHERE t.session IS NOT NULL ORDER BY t.id"
    )
    return tuple(
        f"{run_id}/{engine.workflows[run_id].tasks[pos].called(idx)}"
        for run_id, pos, idx, demand in rows
        if pool in pools_of(demand)
    )
