"""Drives the rules over a real store (in memory, if none is given), one command at a time: for tests of the core."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from tests.core.history import events
from weft.core import commands as c
from weft.core.decision.needs import CurrentTasks, NewDemands, RunById
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import document_hash, encode_document
from weft.core.definition.read import read
from weft.core.history.replay import Replay
from weft.core.invariants import (
    check_budgets,
    check_budgets_step,
    check_family,
    check_handles,
    check_history,
    check_pools,
    check_pools_step,
    check_run,
    current_rows,
)
from weft.core.placement.budgets import Amount
from weft.core.placement.eligibility import node_facts
from weft.core.rows import ORDINAL_BITS, BudgetRow, HandleRow, Pin, PoolRow, RunRow, TaskRow
from weft.core.workflow import Workflow
from weft.node.committer import Committer
from weft.node.eligibility import Eligibility, requirements
from weft.store.sqlite.driver import SqliteStore

CHIEF = "chief"  # leads where a story needs a leader and does not say who


class Engine:
    """A store with a clock that tests set, and sessions that claim and report when told to."""

    def __init__(self, store: Any = None, committer: Callable[[Any], Committer] = Committer) -> None:
        self.actor: str | None = None  # who asks, as the history has it
        self.store: Any = store or SqliteStore(None)
        self.store.clock = self
        self.committer = committer(self.store)
        self.time_ms = 1_000_000
        self.names: dict[str, str] = {}  # of nodes, by session
        self.numbers: dict[str, int] = {}
        self.held: dict[str, dict[str, c.Claim]] = {}  # session -> task name -> claim
        self.eligible: dict[str, Eligibility] = {}
        self._pools: list[PoolRow] = []  # as they were at the last check
        self._budgets: list[BudgetRow] = []  # likewise
        self.workflows: dict[str, Workflow] = {}
        self.runs = 0

    def now(self) -> int:
        return self.time_ms

    def commit(self, command: c.Command, command_id: str | None = None) -> Any:
        return self.committer.commit(command, command_id=command_id, actor=self.actor)

    # -- people ------------------------------------------------------------------------------------------

    def submit(self, document: Mapping[str, Any], **more: Any) -> str:
        reading = read(dict(document))
        assert not reading.problems, reading.problems
        assert reading.document is not None
        hash = document_hash(reading.document)
        self.runs += 1
        run_id: str = more.pop("run_id", f"run-{self.runs}")
        name = reading.document["name"]
        documents, pins = [], []
        for reference, child in more.pop("children", {}).items():
            called = read(dict(child)).document
            assert called is not None
            documents.append((document_hash(called), called["name"], encode_document(called)))
            pins.append(Pin(hash, more.get("source"), reference, documents[-1][0], more.get("source")))
        more.setdefault("children", documents)
        more.setdefault("pins", pins)
        self.commit(c.Submit(run_id, hash, name, encode_document(reading.document), "{}", **more))
        self.workflows[run_id] = compile_workflow(reading.document, hash)
        return run_id

    def children(self, run_id: str) -> list[str]:
        """Ids of the runs that its tasks started, at any depth, oldest first."""
        found = []
        for id, hash in self.store.reader().execute(
            "SELECT id, workflow FROM runs WHERE root = (SELECT no FROM runs WHERE id = ?) AND id <> ? ORDER BY no",
            (run_id, run_id),
        ):
            self.workflows[id] = self.committer.workflows[hash]
            found.append(id)
        return found

    # -- nodes -------------------------------------------------------------------------------------------

    def node(
        self,
        session: str,
        ttl_ms: int = 30_000,
        scope: str | None = None,
        role: Any = "auto",
        gave_up: str | None = None,
        **facts: Any,
    ) -> str:
        """`gave_up`: the session of the same process before. `facts` are fields of NodeFacts."""
        body = {"kinds": ["inline", "shell"], **facts}
        text = msgspec.json.encode(body).decode()
        name = self.names[session] = f"node-{session}" if gave_up is None else self.names[gave_up]
        self.commit(c.Register(session, name, ttl_ms, scope, text, role, gave_up))
        self.eligible[session] = Eligibility(node_facts(body, name, session))
        self.eligible[session].set_down({})  # its engines answer
        self.numbers[session] = 0
        self.held[session] = {}
        return session

    def term(self) -> int:
        """The term of a leader that does nothing else, for chores."""
        known = list(self.store.reader().execute("SELECT 1 FROM sessions WHERE id = ?", (CHIEF,)))
        if not known:
            self.commit(c.Register(CHIEF, CHIEF, 10**12, None, "{}", "leader"))
        term = self.commit(c.Lead(CHIEF, 10**12)).term
        assert term is not None
        return int(term)

    def exchange(self, session: str, reports: list[c.Report] | None = None, want: int = 100) -> c.ExchangeReply:
        command = self.next_exchange(session, reports or [], want, self.held[session].values())
        reply: c.ExchangeReply = self.commit(command)
        for claim in reply.claims:
            self.held[session][self.name(claim)] = claim
        return reply

    def next_exchange(
        self, session: str, reports: list[c.Report], want: int, held: Iterable[c.Claim] = (), **more: Any
    ) -> c.Exchange:
        """What this session's node would say, beside the attempts that it still holds."""
        eligible = self.eligible[session]
        with self.store.transaction() as tx:
            eligible.learn(tx.load([NewDemands(eligible.known)])[0])
        ended = {(report.task_id, report.attempt) for report in reports}
        requires = [self.requires(claim) for claim in held if (claim.task_id, claim.attempt) not in ended]
        self.numbers[session] += 1
        return c.Exchange(
            session, self.numbers[session], reports, want, eligible.demands, eligible.known,
            free=eligible.free(requires), costs=eligible.costs, spends=eligible.spends, **more,
        )  # fmt: skip

    def requires(self, claim: c.Claim) -> Mapping[str, Any]:
        hash = self.store.reader().execute("SELECT workflow FROM runs WHERE no = ?", (claim.run_no,)).get
        return requirements(self.committer.workflows[hash].tasks[claim.pos], claim)

    def name(self, claim: c.Claim) -> str:
        hash = self.store.reader().execute("SELECT workflow FROM runs WHERE no = ?", (claim.run_no,)).get
        task = self.committer.workflows[hash].tasks[claim.pos].name
        return task if claim.idx < 0 else f"{task}.{claim.idx}"

    def report(self, session: str, task: str, outcome: str = "succeeded", **more: Any) -> c.Report:
        claim = self.held[session].pop(task)
        if outcome == "failed":
            more.setdefault("error", "it failed")
        return c.Report(claim.task_id, claim.pos, claim.idx, claim.attempt, outcome, started_ago_ms=1, **more)  # type: ignore[arg-type]

    def finish(
        self, session: str, task: str, outcome: str = "succeeded", want: int = 100, **more: Any
    ) -> c.ExchangeReply:
        return self.exchange(session, [self.report(session, task, outcome, **more)], want)

    # -- looking -----------------------------------------------------------------------------------------

    def run(self, run_id: str) -> RunRow:
        with self.store.transaction() as tx:
            row: RunRow = tx.load([RunById(run_id)])[0][0]
        return row

    def rows(self, run_id: str) -> list[TaskRow]:
        with self.store.transaction() as tx:
            rows: list[TaskRow] = tx.load([CurrentTasks(self.run_no(run_id))])[0]
        return rows

    def run_no(self, run_id: str) -> int:
        no: int = self.store.reader().execute("SELECT no FROM runs WHERE id = ?", (run_id,)).get
        return no

    def states(self, run_id: str) -> dict[str, str]:
        workflow = self.workflows[run_id]
        return {
            workflow.tasks[t.pos].name if t.idx < 0 else f"{workflow.tasks[t.pos].name}.{t.idx}": t.state
            for t in current_rows(self.rows(run_id))
        }

    def task(self, run_id: str, name: str) -> TaskRow:
        workflow = self.workflows[run_id]
        stem, _, index = name.partition(".")
        return next(
            t
            for t in current_rows(self.rows(run_id))
            if workflow.tasks[t.pos].name == stem and t.idx == (int(index) if index else -1)
        )

    def history(self, run_id: str) -> list[tuple[str, str | None, dict[str, Any]]]:
        workflow = self.workflows[run_id]
        out = []
        for event in events(self.store.reader(), "run_no = ?", (self.run_no(run_id),)):
            name = None
            if event.pos is not None and event.idx is not None:
                name = workflow.tasks[event.pos].called(event.idx)
            out.append((event.kind, name, event.data))
        return out

    def pools(self) -> list[PoolRow]:
        rows = self.store.reader().execute("SELECT name, size, used FROM pools ORDER BY name")
        return [PoolRow(*row) for row in rows]

    def check_pools(self) -> list[str]:
        after = self.pools()
        running = self.store.reader().execute(
            "SELECT demand FROM tasks WHERE state = 'running' AND elements IS NULL AND session IS NOT NULL"
        )
        found = check_pools(after, [demand for (demand,) in running]) + check_pools_step(self._pools, after)
        self._pools = after
        return found

    def budgets(self) -> list[BudgetRow]:
        return [BudgetRow(*row) for row in self.store.reader().execute("SELECT * FROM budgets ORDER BY scope")]

    def check_budgets(self) -> list[str]:
        after = self.budgets()
        running = list(
            self.store.reader().execute(
                "SELECT id, demand FROM tasks WHERE state = 'running' AND elements IS NULL AND session IS NOT NULL"
            )
        )
        rows = self.store.reader().execute("SELECT task_id, usd, tokens FROM spending")
        found = check_budgets(after, running, {id: Amount(usd, tokens) for id, usd, tokens in rows})
        found += check_budgets_step(self._budgets, after)
        self._budgets = after
        return found

    def check(self, run_id: str) -> None:
        """The invariants hold, and the events alone tell the same story as the tables; of its children, too."""
        family = [run_id, *self.children(run_id)]
        for id in family:
            self._check_one(id)
        runs = [self.run(id) for id in family]
        if runs[0].root == runs[0].no:
            found = check_family(runs, [row for id in family for row in self.rows(id)])
            assert not found, "\n".join(found)

    def _check_one(self, run_id: str) -> None:
        run, rows, workflow = self.run(run_id), self.rows(run_id), self.workflows[run_id]
        found = check_run(run, rows, workflow)
        replay = Replay(workflow, run.bounded, self.committer.workflows.__getitem__)
        position = workflow.position
        for kind, name, data in self.history(run_id):
            place = None
            if name is not None:
                stem, _, index = name.partition(".")
                place = (position[stem], int(index) if index else -1)
            replay.apply(kind, place, data)
        replay.settle()
        hashes = self.store.reader().read("result_hashes", run.no << ORDINAL_BITS, (run.no + 1) << ORDINAL_BITS)
        found += check_history(run, current_rows(rows), workflow, replay, dict(hashes))
        found += self.check_pools() + self.check_budgets()
        handles = [HandleRow(*row) for row in self.store.reader().execute("SELECT * FROM handles")]
        mine = [handle for handle in handles if handle.task_id >> ORDINAL_BITS == run.no]
        found += check_handles(mine, {row.id: row for row in rows})
        story = "\n".join(f"{kind:12} {name or '':12} {data}" for kind, name, data in self.history(run_id))
        assert not found, "\n".join(found) + "\n\nthe story:\n" + story
