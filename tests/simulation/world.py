"""A small world: real nodes over one in-memory store, with crashes, pauses, lost requests and lost replies.

The nodes, the exchange, the committer, the rules and the SQL are the production code. Only the clock, the order of
callbacks, the link and the processes are simulated.
"""

import asyncio
import contextvars
import random
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from tests.core.history import events
from tests.simulation.auditor import Auditor
from tests.simulation.engines import KIND, PLUGIN_KIND, SimulatedEngine, SimulatedRemote, SimulatedService
from tests.simulation.loop import OWNER, SimulatedLoop
from tests.simulation.notices import LateReports, SimulatedSender
from tests.simulation.replicas import Observed, SimulatedAppender, SimulatedLog
from tests.simulation.violations import Violated, Violation, found_by
from tests.simulation.workers import SimulatedServers, SimulatedTransport
from weft.core import commands as c
from weft.core.decision.draft import Hint
from weft.core.decision.needs import Leadership
from weft.core.expressions import run_names
from weft.core.history.replay import Replay
from weft.core.invariants import (
    check_budgets,
    check_budgets_step,
    check_family,
    check_fires,
    check_handles,
    check_history,
    check_leadership,
    check_memos,
    check_pools,
    check_pools_step,
    check_run,
    check_step,
    check_triggers_step,
    current_rows,
)
from weft.core.liveness import agree
from weft.core.placement.budgets import NOTHING, Amount
from weft.core.rows import (
    ORDINAL_BITS,
    BackfillRow,
    BudgetRow,
    FireRow,
    HandleRow,
    LeadershipRow,
    MemoRow,
    PoolRow,
    RunRow,
    TaskRow,
    TriggerRow,
)  # fmt: skip
from weft.core.workflow import Workflow
from weft.executors.protocol import Ended, Launch, OnceQuestion, Outcome, StopReason, Usage
from weft.node.committer import Committer
from weft.node.log_committer import LogCommitter
from weft.node.node import Node
from weft.node.ports import LinkFull, LinkLost, NodeSettings, Ports, Renewal, RestingLease, RunFacts
from weft.node.workers.remote_link import RemoteLink
from weft.store.protocol import Look, OutboxLook, StoreFull, Watch, Woken
from weft.store.queries import MEMO_COLUMNS, RUN_COLUMNS, TASK_COLUMNS, TRIGGER_COLUMNS
from weft.store.replicated import entry as e
from weft.store.sqlite.driver import SqliteStore

TTL_S = 3.0
EXPIRE_S = 0.5
LEADER_TTL_S = 3.0
LEADER_RENEW_S = 1.0
NODE_MEMORY = 4 * 2**30
OVER_HTTP = 10_000_000  # seeds from here on have workers without a store
ON_LOG = 20_000_000  # from here on, nodes with replicas of a log

T = TypeVar("T")


class Faults(msgspec.Struct):
    """Chances per call, and times in seconds."""

    lose_request: float = 0.0
    lose_reply: float = 0.0
    delay_max: float = 0.01
    long_delay: float = 0.0  # chance of a delay of seconds
    drop_wakeups: float = 0.0
    old_reads: float = 0.0  # of what is due


class World:
    def __init__(self, seed: int, loop: SimulatedLoop, faults: Faults, slow_clocks: bool = False) -> None:
        self.seed = seed
        self.loop = loop
        self.random = random.Random(f"world-{seed}")
        self.backfills = False  # there are some, so leaders look for them
        self.faults = faults
        #: Nodes whose clocks run too slow trust their leases too long: their processes overlap with others', and only
        #: the fence keeps their late results out.
        self.slow_clocks = slow_clocks
        self.log = SimulatedLog(self) if seed >= ON_LOG else None
        if self.log is None:
            self.store = SqliteStore(None)
            self.store.clock = self
            self.committer = Committer(self.store, self._woken)
        else:
            self.store = self.log.observer
            self.committer = LogCommitter(self.log.observer, lambda hint: None, lambda hint: None)
        self.auditor = Auditor(slow_clocks, self._when_of, has={"memory": NODE_MEMORY, "gpu": 1})
        self.listeners: dict[int, Woken] = {}
        self.script: dict[str, int] = {}  # how many attempts of a task fail
        self.durations: dict[str, float] = {}
        self.away_until = self.full_until = float("-inf")  # the store does not answer; it has no space
        self.story: list[str] = []
        self.violations: list[Violation] = []  # of the first commit that had any
        self.commits = 0
        self.stale = 0
        self.effects: dict[str, bool] = {}  # tasks that have effects once; True: they raise when they do not know
        self.refused_terms = 0  # chores of leaders that were none any more
        self.chores = 0
        self._before: dict[int, TaskRow] = {}
        self.remembered = 0  # rows that were there to be compared with the store's
        self._checked: dict[int, tuple[RunRow, list[TaskRow]]] = {}
        self._memos: dict[str, MemoRow] = {}
        self._pools: list[PoolRow] = []
        self._budgets: list[BudgetRow] = []
        self.spent: dict[tuple[int, int], int] = {}  # by task and attempt: what its process has said, in all
        self._triggers: list[TriggerRow] = []
        self._seen_events = 0
        self._next_owner = 1
        self.sessions: dict[int, str] = {}  # of crashed nodes
        self.sent: list[str] = []  # notifications
        self.late_reports = LateReports()
        self.nodes: dict[int, tuple[Node, asyncio.Task[None], SimulatedExecutor]] = {}
        self.engines = [SimulatedEngine(self, "engine-a"), SimulatedEngine(self, "engine-b")]
        self.remote_kind = PLUGIN_KIND if seed % 10 == 7 else KIND  # of tasks on engines
        self.remotes: dict[int, SimulatedRemote | SimulatedService] = {}
        #: Of these seeds, two of three nodes have no store and go through servers.
        self.servers = SimulatedServers(self) if OVER_HTTP <= seed < ON_LOG else None

    def _when_of(self, run_no: int, pos: int) -> str:
        hash = self.store.reader().execute("SELECT workflow FROM runs WHERE no = ?", (run_no,)).get
        return self.committer.workflows[hash].tasks[pos].when

    def now(self) -> int:
        return int(self.loop.time() * 1000) if self.log is None else self.store.clock.now()

    def tell(self, text: str) -> None:
        self.story.append(f"{self.loop.time() - 1000:9.3f}  {text}")

    # -- nodes -------------------------------------------------------------------------------------------

    def start_node(self, name: str, slots: int, role: c.Role = "auto") -> int:
        owner = self._next_owner
        self._next_owner += 1
        context = contextvars.copy_context()
        context.run(OWNER.set, owner)
        skew = self.random.uniform(-3600, 3600)  # nobody's clock matters but the store's
        rate = self.clock_rate(owner)
        clock = lambda: self.loop.time() * rate + skew  # noqa: E731
        executor = SimulatedExecutor(self, owner, clock)
        made = SimulatedRemote if self.remote_kind == KIND else SimulatedService
        remote: Any = made(self, self.engines[owner % 2], owner, clock)
        self.remotes[owner] = remote
        rng = random.Random(f"node-{self.seed}-{owner}")
        ids = iter(f"{name}-{owner}-{k}" for k in range(10**6))
        remote_worker = self.servers is not None and not name.startswith("fresh") and owner % 3 != 1
        local = SimulatedLink(self, owner) if self.log is None else SimulatedLogLink(self, self.log, owner)
        log = lambda m, f: self.tell(f"{name}: {m} {f}")  # noqa: E731
        link: Any = local
        if self.servers is not None and remote_worker:
            role = "worker"
            link = context.run(RemoteLink, SimulatedTransport(self, self.servers, owner), TTL_S, log)
        ports = Ports(
            link,
            {"inline": executor, "agent": executor, self.remote_kind: remote},
            clock,
            rng,
            lambda: next(ids),
            log,
        )
        ports.chores = None if remote_worker else local
        ports.notifier = SimulatedSender(self, owner)
        settings = NodeSettings(
            name=name, slots=slots, output_root="/nowhere", workdir="/nowhere", lease_ttl_s=TTL_S, renew_every_s=0.5,
            poll_s=1.0, expire_every_s=EXPIRE_S, drain_s=1.0, role=role, leader_ttl_s=LEADER_TTL_S,
            leader_renew_s=LEADER_RENEW_S, overdue_every_s=1.0, memory=NODE_MEMORY, gpus=1,
            notify_timeout_s=2.0, notify_backoff_s=0.2,
        )  # fmt: skip
        node = context.run(Node, ports, settings)
        task = self.loop.create_task(node.run(), context=context)
        self.nodes[owner] = (node, task, executor)
        self.tell(f"{name} starts as {owner} ({role})")
        return owner

    def clock_rate(self, owner: int) -> float:
        """Every other node's clock is slow, so that somebody declares the slow ones dead in time."""
        return 0.2 if self.slow_clocks and owner % 2 else 1.0

    def crash(self, owner: int) -> None:
        """SIGKILL: nothing of the node runs any more, and its spawner kills its processes."""
        self.tell(f"node {owner} crashes")
        self.loop.dead.add(owner)
        self.listeners.pop(owner, None)
        node, _, executor = self.nodes.pop(owner)
        self.sessions[owner] = node.session
        executor.kill_everything()
        self.remotes.pop(owner).kill_everything()
        if self.log is not None:
            self.log.crash(owner)

    def pause(self, owner: int, seconds: float) -> None:
        self.tell(f"node {owner} pauses for {seconds:.1f} s")
        self.loop.paused[owner] = self.loop.time() + seconds

    def away(self, seconds: float) -> None:
        self.tell(f"the store is away for {seconds:.1f} s")
        self.away_until = self.loop.time() + seconds

    def full(self, seconds: float) -> None:
        self.tell(f"the store has no space for {seconds:.1f} s")
        self.full_until = self.loop.time() + seconds

    def delay(self) -> float:
        """Of one message."""
        if self.random.random() < self.faults.long_delay:
            return self.random.uniform(0.5, 2 * TTL_S)
        return self.random.uniform(0, self.faults.delay_max)

    def leads(self, owner: int) -> bool:
        leader = self.nodes[owner][0].leader
        return leader is not None and leader.term is not None

    def _woken(self, hint: Hint) -> None:
        for owner in list(self.listeners):
            self.wake(owner, hint)

    def wake(self, owner: int, hint: Hint) -> None:
        if owner in self.listeners and self.random.random() >= self.faults.drop_wakeups:
            self.loop.call_soon(self.listeners[owner], hint)

    # -- the store, and the checks after every step ------------------------------------------------------

    def commit(self, command: c.Command, command_id: str | None = None) -> Any:
        if self.log is not None:
            return self.committer.commit(command, command_id=command_id)  # `applied` checks it
        before = self._leadership()
        lease = self._lease_of(command)
        try:
            reply = self.committer.commit(command, command_id=command_id)
        except c.Refused as refused:
            self.refused_terms += refused.code == "stale_term"
            raise
        self._committed(Observed(command, before, self._leadership(), lease, reply, self.now()))
        self.check()
        return reply

    def applied(self, seen: Iterable[Observed]) -> None:
        """What an entry of the log did."""
        for one in seen:
            self._committed(one)
        self.check()

    def _committed(self, observed: Observed) -> None:
        command, reply = observed.command, observed.reply
        self.commits += 1
        self._check_leader(observed)
        if isinstance(command, c.StepBackfill):
            self._check_backfills()
        if isinstance(reply, c.ExchangeReply):
            self.stale += len(reply.stale)
        if isinstance(command, c.Once):
            run_no = command.task_id >> ORDINAL_BITS
            pos, idx = self.store.reader().execute("SELECT pos, idx FROM tasks WHERE id = ?", (command.task_id,)).get
            self.auditor.once((run_no, pos, idx), command, reply)

    def _leadership(self) -> LeadershipRow:
        with self.store.transaction() as tx:
            assert tx is not None
            row: LeadershipRow = tx.load([Leadership()])[0][0]
            return row

    def _lease_of(self, command: c.Command) -> int | None:
        """Until when, by the store's clock, the lease lasts of the session that this command would end."""
        if not isinstance(command, c.Expire):
            return None
        sql = "SELECT expires_at FROM leases WHERE session = ?"
        expires_at: int | None = self.store.reader().execute(sql, (command.session,)).get
        return expires_at

    def _check_leader(self, observed: Observed) -> None:
        """Terms only go up, one holder each; a chore was done under the term that the store had; a session was ended
        by its lease only after that had passed."""
        command, before, after, lease, reply, now = observed
        found = found_by(check_leadership, before, after)
        term = getattr(command, "term", None)
        if term is not None and not isinstance(command, c.Resign):
            self.chores += 1
            if (before.term, before.session is None) != (term, False):
                found.append(Violation("term", f"{command} was accepted in term {before.term} of {before.session}"))
        if isinstance(command, c.Expire) and command.proof == "lease" and reply.state == "dead":
            self.tell(f"session {command.session} is expired")
            if lease is not None and lease > now:
                text = f"{command.session} was expired {lease - now} ms before its lease had passed"
                found.append(Violation("lease", text))
        self.violations += found

    def _check_backfills(self) -> None:
        """No more of its runs are unfinished than it may have; nobody resumes them here."""
        many = self.store.reader().execute(
            "SELECT b.id, b.parallel, count(*) FROM backfills b JOIN runs r ON r.backfill = b.id"
            " WHERE r.finished_at IS NULL GROUP BY b.id, b.parallel HAVING count(*) > b.parallel"
        )
        for id, parallel, count in many:
            self.violations.append(Violation("backfill", f"{id} has {count} unfinished runs, {parallel} at most"))

    def check(self) -> None:
        if not self.violations:
            self.violations += self._found()
        if self.violations:
            raise Violated(self.violations)

    def _found(self) -> list[Violation]:
        connection = self.store.reader()
        told_of: set[int] = set()
        for seq, run_no, pos, idx, kind, session, shown in events(connection, "e.seq > ?", (self._seen_events,)):
            self._seen_events = seq
            told_of.add(run_no)
            self.auditor.event(run_no, pos, idx, kind, session, shown)
            if "cached" in shown:
                self._check_cached(run_no, shown)
            if kind == "late":
                self.late_reports.event(run_no, pos, shown, self.now())
        after = {row.id: row for row in self._all_rows()}
        found = found_by(check_step, {k: v for k, v in self._before.items() if k in after}, after)
        self._before = after
        records = {
            row[0]: MemoRow(*row) for row in connection.execute(f"SELECT {', '.join(MEMO_COLUMNS)} FROM memos")
        }
        found += found_by(check_memos, self._memos, records)
        self._memos = records
        by_run: dict[int, list[TaskRow]] = {}
        for row in after.values():
            by_run.setdefault(row.run_no, []).append(row)
        runs = self._all_runs()
        found += self._check_remembered(after, runs)
        for run in runs:
            seen = (run, by_run[run.no])
            if run.no not in told_of and self._checked.get(run.no) == seen:
                continue  # nothing of it has changed, and nothing was told of it
            self._checked[run.no] = seen
            workflow = self.committer.workflows[run.workflow]
            found += found_by(check_run, run, by_run[run.no], workflow)
            found += self._check_replay(run, by_run[run.no], workflow)
        found += self._check_pools(after.values()) + self._check_budgets(after.values())
        handles = [HandleRow(*row) for row in connection.execute("SELECT * FROM handles")]
        found += found_by(check_handles, handles, after)
        found += found_by(check_family, runs, after.values())
        found += self._check_triggers()
        return found + self.auditor.objections + self.late_reports.objections

    def _check_cached(self, run_no: int, shown: dict[str, Any]) -> None:
        """A cached result is that of a success, word for word, and never of a run that wanted none."""
        source, reader = shown["cached"], self.store.reader()
        no, hash = reader.execute("SELECT no, workflow FROM runs WHERE id = ?", (source["run"],)).get
        name, _, index = source["task"].partition(".")
        place = (no, self.committer.workflows[hash].position[name], int(index) if index else -1)
        found = reader.execute(
            "SELECT a.outcome, a.result_hash FROM all_attempts a JOIN tasks t ON t.id = a.task_id"
            " WHERE t.run_no = ? AND t.pos = ? AND t.idx = ? AND a.attempt = ?", (*place, source["attempt"]),
        ).fetchall()  # fmt: skip
        if found != [("succeeded", shown["hash"])]:
            self.violations.append(Violation("cached source", f"cached {shown}, but that attempt left {found}"))
        if self.store.reader().execute("SELECT fresh FROM runs WHERE no = ?", (run_no,)).get:
            self.violations.append(Violation("fresh", f"run {run_no} wanted nothing cached, and got {shown}"))

    def _check_pools(self, rows: Iterable[TaskRow]) -> list[Violation]:
        pools = [PoolRow(*row) for row in self.store.reader().execute("SELECT name, size, used FROM pools")]
        running = [t.demand for t in rows if t.state == "running" and t.elements is None]
        found = found_by(check_pools, pools, running) + found_by(check_pools_step, self._pools, pools)
        self._pools = pools
        return found

    def _spending(self) -> dict[int, Amount]:
        rows = self.store.reader().execute("SELECT task_id, usd, tokens FROM spending")
        return {id: Amount(usd, tokens) for id, usd, tokens in rows}

    def _check_budgets(self, rows: Iterable[TaskRow]) -> list[Violation]:
        budgets = [BudgetRow(*row) for row in self.store.reader().execute("SELECT * FROM budgets")]
        running = [(t.id, t.demand) for t in rows if t.state == "running" and t.elements is None]
        found = found_by(check_budgets, budgets, running, self._spending())
        found += found_by(check_budgets_step, self._budgets, budgets)
        self._budgets = budgets
        return found

    def check_spending(self) -> None:
        """What processes have said they spent, and nothing else, is in the store: all of it, but for the last words
        of attempts whose reports were not accepted."""
        said: dict[int, int] = {}
        accepted: dict[int, int] = {}
        outcomes: dict[Any, str] = {}
        for id, attempt, outcome in self.store.reader().execute("SELECT task_id, attempt, outcome FROM all_attempts"):
            outcomes[(id, attempt)] = outcome
        for (id, attempt), usd in self.spent.items():
            said[id] = said.get(id, 0) + usd
            if outcomes.get((id, attempt)) not in (None, "lost"):
                accepted[id] = accepted.get(id, 0) + usd
        stored = self._spending()
        for id, most in said.items():
            have = stored.get(id, NOTHING).usd
            if not accepted.get(id, 0) <= have <= most:
                text = (
                    f"task {id} has spent {have}; its attempts said {most}, {accepted.get(id, 0)} in accepted reports"
                )
                raise Violated([Violation("spending", text)])
        for id, amount in stored.items():
            if id not in said and any(amount):
                raise Violated([Violation("spending", f"task {id} has spent {amount}, and no process said so")])

    def trigger_rows(self) -> list[TriggerRow]:
        sql = f"SELECT {', '.join(TRIGGER_COLUMNS)} FROM triggers"
        return [TriggerRow(*row) for row in self.store.reader().execute(sql)]

    def _check_triggers(self) -> list[Violation]:
        rows = self.trigger_rows()
        if not rows:
            return []
        before, self._triggers = self._triggers, rows
        reader = self.store.reader()
        fires = [FireRow(*row) for row in reader.execute("SELECT * FROM fires")]
        runs = list(reader.execute('SELECT id, "trigger" FROM runs WHERE "trigger" IS NOT NULL'))
        return found_by(check_fires, fires, runs) + found_by(check_triggers_step, before, rows)

    def _all_rows(self) -> list[TaskRow]:
        sql = f"SELECT {', '.join(TASK_COLUMNS)} FROM tasks"
        return [TaskRow(*row) for row in self.store.reader().execute(sql)]

    def _all_runs(self) -> list[RunRow]:
        sql = f"SELECT {', '.join(RUN_COLUMNS)} FROM runs ORDER BY no"
        return [RunRow(*row) for row in self.store.reader().execute(sql)]

    def _check_remembered(self, tasks: dict[int, TaskRow], runs: list[RunRow]) -> list[Violation]:
        """What the store need not read again is what it would read."""
        kept, stored = self.store.remembered, {run.no: run for run in runs}
        self.remembered += len(kept.tasks)
        wrong = [f"task {id}" for id, row in kept.tasks.items() if tasks.get(id) != row]
        wrong += [f"run {no}" for no, row in kept.runs.items() if stored.get(no) != row]
        return [Violation("remembered", f"{what} is not as it is stored") for what in wrong]

    def _check_replay(self, run: Any, rows: list[TaskRow], workflow: Workflow) -> list[Violation]:
        replay = Replay(workflow, run.bounded, self.committer.workflows.__getitem__)
        for _, _, pos, idx, kind, _, data in events(self.store.reader(), "e.run_no = ?", (run.no,)):
            replay.apply(kind, None if pos is None or idx is None else (pos, idx), data)
        replay.settle()
        hashes = self.store.reader().read("result_hashes", run.no << ORDINAL_BITS, (run.no + 1) << ORDINAL_BITS)
        return found_by(check_history, run, current_rows(rows), workflow, replay, dict(hashes))


class SimulatedLink:
    """Loses requests before they arrive and replies after COMMIT, and takes its time."""

    def __init__(self, world: World, owner: int) -> None:
        self._world = world
        self.off_loop = world.seed % 2 == 1
        self.hears = world.seed % 4 > 1
        self._owner = owner
        self._store: SqliteStore = world.store
        self._due: tuple[int, int | None, bool, list[TriggerRow]] | None = None
        self._steps: list[tuple[BackfillRow, TriggerRow]] | None = None

    async def _call(self, work: Callable[[], T]) -> T:
        """What was sent arrives, whatever becomes of the sender meanwhile: it may have crashed, or given up."""
        world = self._world
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        wire = contextvars.Context()
        world.loop.call_later(world.delay(), self._arrive, work, done, wire, context=wire)
        return await done

    def _arrive(self, work: Callable[[], Any], done: "asyncio.Future[Any]", wire: contextvars.Context) -> None:
        world = self._world
        away = world.loop.time() < world.away_until
        if away or world.random.random() < world.faults.lose_request:
            world.loop.call_later(0.1, self._answer, done, None, LinkLost("request lost"), context=wire)
            return
        reply, error = None, None
        try:
            reply = work()
        except Exception as refused:
            error = refused
        if world.random.random() < world.faults.lose_reply:
            error = LinkLost("reply lost after commit")
        world.loop.call_later(world.delay(), self._answer, done, reply, error, context=wire)

    def _answer(self, done: "asyncio.Future[Any]", reply: Any, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(reply)

    def _need_space(self) -> None:
        if self._world.loop.time() < self._world.full_until:
            raise LinkFull("no space left")

    def _commit(self, command: c.Command) -> Any:
        self._need_space()
        return self._world.commit(command)

    async def _send(self, command: c.Command) -> Any:
        return await self._call(lambda: self._commit(command))

    async def register(self, command: c.Register) -> c.Reply:
        reply: c.Reply = await self._send(command)
        return reply

    async def exchange(self, command: c.Exchange, *, alone: bool = False) -> c.ExchangeReply:
        reply: c.ExchangeReply = await self._send(command)
        return reply

    async def renew(
        self, session: str, ttl_ms: int, facts: str | None, digest: tuple[int, int, int] | None, *, own: bool = False
    ) -> Renewal:
        stored = await self._renew(session, ttl_ms, facts, own)
        agrees = stored is None or digest is None or agree(digest, stored)
        if not agrees:
            self._world.tell(f"session {session} and the store differ about its attempts")
        return Renewal(stored is not None, agrees)

    async def _renew(self, session: str, ttl_ms: int, facts: str | None, own: bool) -> tuple[int, int, int] | None:
        def work() -> tuple[int, int, int] | None:
            if self._world.seed % 2:  # in the others a renewal stays within its page, and needs no space
                self._need_space()
            return self._store.renew(session, ttl_ms, facts, own=own)

        return await self._call(work)

    async def look(self, session: str, demands: list[str], known_demands: int) -> Look:
        return await self._call(lambda: self._store.look(session, demands, known_demands))

    async def commit(self, command: c.Command) -> Any:
        return await self._send(command)

    async def reconcile(self, command: c.Reconcile) -> c.Reply:
        reply: c.Reply = await self._send(command)
        return reply

    async def drain(self, command: c.Drain) -> c.Reply:
        reply: c.Reply = await self._send(command)
        return reply

    async def open_handle(self, command: c.OpenHandle) -> c.HandleReply:
        reply: c.HandleReply = await self._send(command)
        return reply

    async def close_handles(self, command: c.CloseHandles) -> c.Reply:
        reply: c.Reply = await self._send(command)
        return reply

    async def watch(self, *, late: bool = False) -> Watch:
        return await self._call(lambda: self._store.watch(late=late))

    async def expire_dead(self, own: str) -> int:
        return 0  # as between machines: nobody can prove another's death, only a lease that has passed

    async def place(self, term: int | None) -> int:
        return await self._call(lambda: self._place(term))

    def _place(self, term: int | None) -> int:
        if not self._store.placing_waits():
            return 0
        reply: c.Reply = self._commit(c.Place(term))
        return reply.changed

    async def due_triggers(self) -> tuple[int, int | None, bool, list[TriggerRow]]:
        """Sometimes as it was at the last look: who reads may be late."""
        known, self._due = self._due, await self._call(self._store.due_triggers)
        if known is not None and self._world.random.random() < self._world.faults.old_reads:
            return known
        return self._due

    async def backfills_to_step(self, limit: int) -> list[tuple[BackfillRow, TriggerRow]]:
        """Sometimes as it was at the last look, as with triggers. (Stories without any draw nothing for it.)"""
        if not self._world.backfills:
            return []
        known = self._steps
        self._steps = await self._call(lambda: self._store.backfills_to_step(limit))
        old = known is not None and self._world.random.random() < self._world.faults.old_reads
        return known if old and known is not None else self._steps

    async def outbox(self, term: int, limit: int) -> OutboxLook:
        return await self._call(lambda: self._store.outbox(term, limit))

    async def ends_to_follow(self, limit: int) -> list[tuple[Any, ...]]:
        return await self._call(lambda: self._store.ends_to_follow(limit))

    async def triggers_behind(self, lag: int) -> tuple[int, list[TriggerRow]]:
        return await self._call(lambda: self._store.triggers_behind(lag))

    async def leave(self, session: str) -> None:
        await self._send(c.Expire(session, "left"))

    def forget(self, session: str) -> None:
        """There are no files to close."""

    async def orphans(self, engines: list[str]) -> list[tuple[HandleRow, bool]]:
        return await self._call(lambda: self._store.orphans(engines, 100))

    async def facts(self, run_nos: list[int]) -> list[RunFacts]:
        return await self._call(
            lambda: [RunFacts(no, id, name, wf, msgspec.json.decode(inputs), source, bool(fresh), generation)
                     for no, id, name, wf, inputs, source, fresh, generation in self._store.run_facts(run_nos)]
        )  # fmt: skip

    async def workflow(self, hash: str) -> Workflow:
        return await self._call(lambda: self._world.committer.workflows[hash])

    async def ends(self, run_no: int, positions: list[int]) -> list[run_names.Ended]:
        return await self._call(lambda: [run_names.Ended(*row) for row in self._store.ends_at(run_no, positions)])

    async def context(self, run_no: int) -> dict[str, Any]:
        return await self._call(lambda: self._store.context_of(run_no))

    async def cached(self, keys: list[str]) -> list[MemoRow]:
        return await self._call(lambda: self._store.cached(keys))

    async def once(self, command: c.Once) -> c.OnceReply:
        reply: c.OnceReply = await self._send(command)
        return reply

    async def array(self, run_no: int, pos: int, generation: int) -> Any:
        return await self._call(lambda: self._store.array_of(run_no, pos, generation))

    def listen(self, woken: Woken, rest: RestingLease | None = None) -> Callable[[], None]:
        self._world.listeners[self._owner] = woken
        return lambda: self._world.listeners.pop(self._owner, None) and None


class SimulatedLogLink(SimulatedLink):
    """Reads the replica of its node, which may be behind; what it changes goes through the log."""

    def __init__(self, world: World, log: SimulatedLog, owner: int) -> None:
        super().__init__(world, owner)
        self._store = log.start(owner)
        self._appender = SimulatedAppender(log, self._store)

    async def _call(self, work: Callable[[], T]) -> T:
        """It is on this machine."""
        await asyncio.sleep(0)
        return work()

    async def _send(self, command: Any) -> Any:
        try:
            return await self._appender.send(command)
        except StoreFull as full:
            raise LinkFull(str(full)) from None
        except TimeoutError:
            raise LinkLost("not applied here in time") from None

    async def _renew(self, session: str, ttl_ms: int, facts: str | None, own: bool) -> tuple[int, int, int] | None:
        stored: tuple[int, int, int] | None = await self._send(e.Renew(session, ttl_ms, facts))
        return stored

    async def place(self, term: int | None) -> int:
        if not await self._call(self._store.placing_waits):
            return 0
        reply: c.Reply = await self._send(c.Place(term))
        return reply.changed


class SimulatedExecutor:
    """Processes that take virtual time, fail by script, sometimes ignore SIGTERM, and die when trust ends."""

    kinds = frozenset({"inline", "agent"})

    def __init__(self, world: World, owner: int, clock: Callable[[], float]) -> None:
        self._world = world
        self._owner = owner
        self._clock = clock
        self._running: dict[tuple[int, int], tuple[Launch, Ended, float, asyncio.TimerHandle]] = {}
        self._trust: asyncio.TimerHandle | None = None
        self._trusted_until = float("-inf")
        self._machine = contextvars.Context()  # what the kernel and the spawner do goes on while the node is paused

    async def open(self) -> None: ...

    def start(self, launch: Launch, ended: Ended) -> None:
        world = self._world
        key = (launch.task_id, launch.attempt)
        if self._clock() >= self._trusted_until:  # the spawner refuses what comes after the deadline
            context = contextvars.copy_context()
            outcome = Outcome(launch.task_id, launch.attempt, False, None, None, self._clock(), "no lease", "lease")
            world.loop.call_soon(ended, outcome, context=context)
            return
        world.auditor.process_started(self._place(launch), launch.attempt, str(self._owner), self._takes(launch))
        if "ITEM" in launch.env:
            world.auditor.item_seen(self._place(launch), launch.env["GENERATION"], launch.env["ITEM"])
        took = world.durations.get(launch.task.split(".")[0], 0.05) * world.random.uniform(0.5, 1.5)
        started = self._clock()
        timer = world.loop.call_later(took, self._exit, key, None, context=self._machine)
        self._running[key] = (launch, ended, started, timer)
        if launch.kind == "agent":
            for share in (0.3, 0.6):
                context = contextvars.copy_context()
                world.loop.call_later(took * share, self._spend, launch, context=context)
        raises = world.effects.get(launch.task.split(".")[0])
        if raises is not None:
            world.loop.create_task(self._have_effect(launch, raises))

    def _spend(self, launch: Launch) -> None:
        """An agent says what it has spent; mostly it keeps to its allowance."""
        key = (launch.task_id, launch.attempt)
        if key not in self._running:
            return
        assert launch.spent is not None
        assert launch.allowance is not None
        assert launch.allowance.usd is not None
        if launch.allowance.usd <= 0:
            self._world.violations.append(Violation("allowance", f"{key} started with {launch.allowance}"))
        more = round(launch.allowance.usd * self._world.random.choice([0, 0.1, 0.3, 0.6]))
        self._world.spent[key] = self._world.spent.get(key, 0) + more
        launch.spent(*key, Usage(self._world.spent[key], 0))

    async def _have_effect(self, launch: Launch, raises: bool) -> None:
        """What a function does with weft.once, as long as its process lives and its node passes on what it asks."""
        world, key = self._world, (launch.task_id, launch.attempt)
        assert launch.ask is not None
        answer = await launch.ask(*key, OnceQuestion("effect", take_over=not raises))
        if answer.status != "call" or key not in self._running:
            return
        await asyncio.sleep(world.random.uniform(0, 0.05))
        if key not in self._running:
            return
        if world.random.random() < 0.2:
            await launch.ask(*key, OnceQuestion("effect", "failed", '"it failed"'))
            return
        world.auditor.effect(self._place(launch), "effect", launch.attempt)
        await launch.ask(*key, OnceQuestion("effect", "completed", f"{launch.attempt}"))

    def _place(self, launch: Launch) -> tuple[int, int, int]:
        workflow = next(iter(self._world.committer.workflows.values()))
        name, _, index = launch.task.partition(".")
        run_no = launch.task_id >> ORDINAL_BITS
        run_hash = self._world.store.reader().execute("SELECT workflow FROM runs WHERE no = ?", (run_no,)).get
        workflow = self._world.committer.workflows[run_hash]
        return (run_no, workflow.position[name], int(index) if index else -1)

    def _takes(self, launch: Launch) -> dict[str, int]:
        """What the definition says that it takes of its node, and how much of that there is."""
        place = self._place(launch)
        run_hash = self._world.store.reader().execute("SELECT workflow FROM runs WHERE no = ?", (place[0],)).get
        workflow = self._world.committer.workflows[run_hash]
        requires = workflow.tasks[place[1]].requires
        out: dict[str, int] = {name: requires[name] for name in ("memory", "gpu") if name in requires}
        if "max_per_node" in requires:
            out[f"{workflow.name}/{workflow.tasks[place[1]].name}"] = 1
        return out

    def _exit(self, key: tuple[int, int], stopped: StopReason | None) -> None:
        entry = self._running.pop(key, None)
        if entry is None:
            return
        launch, ended, started, timer = entry
        timer.cancel()
        world = self._world
        ok = stopped is None and launch.attempt > world.script.get(launch.task.split(".")[0], 0)
        world.auditor.process_ended(self._place(launch), launch.attempt, str(self._owner), ok)
        outcome = Outcome(
            launch.task_id, launch.attempt, ok, 0 if ok else 1, started, self._clock(),
            None if ok else "scripted failure", stopped,
        )  # fmt: skip
        if key in world.spent:
            world.spent[key] += world.random.randint(0, 1000)
            outcome.usage = Usage(world.spent[key], None)
        outcome.output = f"{launch.run_id} {launch.task} {launch.attempt}" if ok else msgspec.UNSET
        if ok and "WRITES" in launch.env:
            outcome.context = {launch.env["WRITES"]: [launch.task_id] * world.random.randint(0, 5)}
        context = contextvars.Context()
        context.run(OWNER.set, self._owner)
        world.loop.call_soon(ended, outcome, context=context)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        world = self._world
        ignores = world.random.random() < 0.3
        after = grace_s if ignores else min(grace_s, world.random.uniform(0, 0.1))
        world.loop.call_later(after, self._exit, (task_id, attempt), reason, context=self._machine)

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        return accepted

    def trust(self, until: float) -> None:
        if self._trust is not None:
            self._trust.cancel()
        self._trusted_until = until
        rate = self._world.clock_rate(self._owner)
        left = (until - self._clock()) / rate
        self._trust = self._world.loop.call_later(left, self._lost_trust, context=self._machine)

    def _lost_trust(self) -> None:
        for key in list(self._running):
            self._exit(key, "lease")

    def kill_everything(self) -> None:
        for key in list(self._running):
            self._exit(key, "lease")

    async def close(self) -> None:
        self.kill_everything()
