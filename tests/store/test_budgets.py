"""Budgets hold at every moment, whoever claims, spends and reports at the same time."""

import random
import threading
import time
from typing import Any

from tests.store.conformance import Backend
from weft.core import commands as c
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import document_hash, encode_document
from weft.core.definition.read import read
from weft.core.invariants import check_budgets, check_pools
from weft.core.placement.budgets import Amount
from weft.core.rows import BudgetRow, PoolRow
from weft.node.committer import Committer
from weft.store.protocol import StoreBusy

NODES = 4
TASKS = 24
RUNS = 3
USD = 100  # of a task, in millionths of a dollar
LIMIT_OF_RUN = 700  # so that some tasks fail


def document() -> dict[str, Any]:
    agent = {"prompt": "work", "budget": {"usd": USD / 1e6}}
    task = {"agent": agent, "replicas": TASKS, "tolerate": TASKS, "pools": "llm"}
    return {"name": "w", "budget": {"usd": LIMIT_OF_RUN / 1e6}, "tasks": {"a": task}}


class Spender(threading.Thread):
    """A node whose attempts spend up to what they may, some of it while they run."""

    def __init__(self, committer: Committer, session: str, over: threading.Event) -> None:
        super().__init__()
        self._committer = committer
        self._session = session
        self._random = random.Random(session)
        self._over = over
        self.spent = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.error = error

    def _work(self) -> None:
        self._commit(c.Register(self._session, self._session, 600_000, None, "{}"))
        reports: list[c.Report] = []
        spent: list[tuple[int, int, int, int]] = []
        number = 0
        while not self._over.is_set():
            number += 1
            exchange = c.Exchange(
                self._session, number, reports, 2, [f"agent@${USD},llm"], 100, spends=True, spent=spent
            )  # fmt: skip
            reply = self._commit(exchange)
            reports, spent = [], []
            for claim in reply.claims:
                assert claim.allowance is not None
                assert claim.allowance.usd == USD
                first, rest = self._random.randint(0, USD // 2), self._random.randint(0, USD // 2)
                self.spent += first + rest
                spent.append((claim.task_id, claim.attempt, first, 0))
                report = c.Report(claim.task_id, claim.pos, claim.idx, claim.attempt, "succeeded", started_ago_ms=0)
                report.usage = (rest, 0)
                reports.append(report)
            if not reply.claims and not reply.more:
                time.sleep(0.002)

    def _commit(self, command: c.Command) -> Any:
        while True:
            try:
                return self._committer.commit(command)
            except StoreBusy:
                continue


def test_nothing_is_spent_past_a_budget(backend: Backend, make_store: Any) -> None:
    backend.needs("sharing")
    store = make_store()
    committer = backend.committer(store)
    committer.commit(c.SetPool("llm", 3, usd=2 * USD))  # so that at most two of its three places are taken
    made = read(document()).document
    assert made is not None
    hash = document_hash(made)
    committer.know(compile_workflow(made, hash))
    for number in range(RUNS):
        committer.commit(c.Submit(f"run-{number}", hash, "w", encode_document(made), "{}"))
    over = threading.Event()
    spenders = [Spender(backend.committer(make_store()), f"s{number}", over) for number in range(NODES)]
    for spender in spenders:
        spender.start()
    try:
        _watch(backend, store, committer)
    finally:
        over.set()
        for spender in spenders:
            spender.join(60)
    assert [spender.error for spender in spenders] == [None] * NODES
    budgets = [BudgetRow(*row) for row in backend.query(store, "SELECT * FROM budgets ORDER BY scope")]
    rows = backend.query(store, "SELECT task_id, usd, tokens FROM spending")
    spending = {id: Amount(usd, tokens) for id, usd, tokens in rows}
    assert check_budgets(budgets, [], spending) == []
    assert sum(amount.usd for amount in spending.values()) == sum(spender.spent for spender in spenders)
    runs = [row for row in budgets if row.scope.startswith("run:")]
    assert [row.usd_spent <= LIMIT_OF_RUN for row in runs] == [True] * RUNS
    assert (
        check_pools([PoolRow(*row) for row in backend.query(store, "SELECT name, size, used FROM pools")], []) == []
    )
    ends = dict(backend.query(store, "SELECT state, count(*) FROM tasks WHERE idx >= 0 GROUP BY state"))
    assert sum(ends.values()) == RUNS * TASKS
    assert ends.keys() == {"succeeded", "failed"}, ends


def _watch(backend: Backend, store: Any, committer: Committer) -> None:
    """Until all runs have ended; meanwhile no moment shows more than may be spent. The pool is renewed when nothing
    more can start in it."""
    until = time.monotonic() + 100
    while backend.query(store, "SELECT 1 FROM runs WHERE finished_at IS NULL"):
        assert time.monotonic() < until, backend.query(store, "SELECT * FROM budgets ORDER BY scope")
        for scope, limit, spent, reserved in backend.query(
            store, "SELECT scope, usd, usd_spent, usd_reserved FROM budgets"
        ):
            assert spent + reserved <= limit, (scope, limit, spent, reserved)
            if scope == "pool:llm" and limit - spent < USD:
                committer.commit(c.SetPool("llm", 3, renew=True))
        time.sleep(0.005)
