"""Exchanges on an event loop's own thread: they wait no longer than a moment, and what is late is sent again."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.postgres.test_races import submission
from weft.core import commands as c
from weft.core.decision import needs as n
from weft.node.local import LocalLink
from weft.store.postgres import driver
from weft.store.postgres import statements as s
from weft.store.postgres.driver import PostgresStore
from weft.store.postgres.transactions import sending
from weft.store.postgres.wire import Wire
from weft.store.protocol import Superseded
from weft.store.queries import RUN_CHANGING

Make = Callable[..., PostgresStore]
NODE = '{"kinds": ["shell"], "slots": 1, "labels": {}}'


class Working:
    """A session that has claimed the first task of a chain of three."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.link = LocalLink(store)
        commit = self.link.committer.commit
        tasks = {"a": {"run": "true"}, "b": {"run": "true", "needs": ["a"]}, "c": {"run": "true", "needs": ["b"]}}
        commit(submission("r", tasks))
        commit(c.Register("s", "n", 60_000, None, NODE))
        new = commit(c.Exchange("s", 1, [], 0, [], 0)).demands
        self.demands = [id for _, id, _ in new]
        (self.claim,) = commit(c.Exchange("s", 2, [], 1, self.demands, new[-1][0])).claims
        self.threads: list[str] = []
        genuine = self.link._exchange

        def counted(command: c.Exchange) -> c.ExchangeReply:
            self.threads.append("store")
            return genuine(command)

        self.link._exchange = counted  # type: ignore[method-assign]

    def report(self, number: int = 3) -> c.ExchangeReply:
        """It has ended; what follows may be claimed."""
        one = self.claim
        report = c.Report(one.task_id, one.pos, one.idx, one.attempt, "succeeded", 0, result="{}", result_hash="h")
        command = c.Exchange("s", number, [report], 10, self.demands, 99, following=[(one.run_no, one.pos + 1, -1)])
        return asyncio.run(self.link.exchange(command, alone=True))

    def rows(self) -> list[tuple[Any, ...]]:
        return self.store.reader().query("SELECT pos, state, attempt FROM tasks ORDER BY id")


@pytest.fixture
def working(make_store: Make) -> Iterator[Working]:
    made = Working(make_store())
    yield made
    made.link.close()


AFTER_REPORT = [(0, "succeeded", 1), (1, "running", 1), (2, "pending", 0)]


def test_while_the_store_is_quick_no_thread_is_used(working: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "MOMENT_S", 30.0)  # of a machine as slow as it likes
    reply = working.report()
    assert ([claim.pos for claim in reply.claims], working.threads) == ([1], [])
    assert list(working.link._facts) == [1], "the run's facts were read, too"
    assert working.rows() == AFTER_REPORT


def test_a_slow_store_is_left_to_the_thread(working: Working) -> None:
    working.link._exchange_s = 1.0
    assert [claim.pos for claim in working.report().claims] == [1]
    assert working.threads == ["store"]


@pytest.mark.parametrize("late", [1, 2, 3], ids=["the load", "the commit", "the run's facts"])
def test_what_is_late_is_said_again_and_applied_once(
    working: Working, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """Of the exchange's two round trips and that for a run's facts, this one's reply does not come in its moment. If
    it was the COMMIT's, the second time the store gives what it gave the first time."""
    monkeypatch.setattr(driver, "MOMENT_S", 30.0)
    genuine = Wire._receive
    moments: list[float] = []

    def receive(wire: Wire, moment_s: float | None = None) -> Any:
        if moment_s is not None:
            moments.append(moment_s)
            moment_s = 0.0 if len(moments) == late else moment_s
        return genuine(wire, moment_s)

    monkeypatch.setattr(Wire, "_receive", receive)
    reply = working.report()
    assert [(claim.pos, claim.attempt) for claim in reply.claims] == [(1, 1)]
    assert working.threads == ([] if late == 3 else ["store"])
    assert working.rows() == AFTER_REPORT
    assert [facts.no for facts in asyncio.run(working.link.facts([1]))] == [1]
    assert working.store._wire is not None
    assert not working.store._wire.behind
    kinds = [row[0] for row in working.store.reader().query("SELECT kind FROM events WHERE run_no = 1 ORDER BY seq")]
    assert kinds.count("finished") == 1
    working.link.check_writable()


def test_a_lock_of_another_holds_the_loop_for_a_moment_only(working: Working, make_store: Make) -> None:
    other = make_store()

    async def main() -> c.ExchangeReply:
        with other.transaction() as tx:
            assert tx is not None
            tx.load([n.Runs([1])])
            report = asyncio.create_task(asyncio.to_thread(working.report))
            await asyncio.sleep(0.2)
            assert not report.done()
        return await report

    assert [claim.pos for claim in asyncio.run(main()).claims] == [1]
    assert working.threads == ["store"]
    assert working.rows() == AFTER_REPORT


# -- several writes in one statement ---------------------------------------------------------------------------


def test_a_chain_is_written_by_one_statement_and_its_guards_hold(
    working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the run's lock, of which the rules make sure, another may have taken the task."""
    sent: list[tuple[tuple[str, int], ...]] = []
    genuine = s.combined

    def combined(parts: tuple[tuple[str, int], ...], known: bool) -> Any:
        sent.append(parts)
        return genuine(parts, known)

    monkeypatch.setattr(sending, "combined", combined)
    working.report()
    assert sent == [
        (
            ("run_update_progress", 1),
            ("tasks_succeed_if_running", 1),
            ("tasks_ready_if_pending", 1),
            ("events_insert", 2),
        )
    ]
    before = working.rows()
    with working.store.transaction() as tx:
        assert tx is not None
        (run,), (task,) = tx.load([n.Runs([1]), n.Tasks([working.claim.task_id + 1])])
        statement = genuine((("run_update", 1), ("tasks_succeed_if_running", 1)))
        assert statement is not None
        changed = (run.no, *[getattr(run, column) for column in RUN_CHANGING])
        tx._wire.send(statement, *changed, tx.now, "another", 0, task.id, task.attempt, 1, 2, "h", "{}", None)
        with pytest.raises(Superseded):
            tx._wire.sync()
        tx._wire.roll_back()
        tx._begun = False
    assert working.rows() == before


def test_there_are_so_many_combinations_and_no_more(working: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s, "COMBINED_MAX", 0)
    monkeypatch.setattr(s, "_combined", {})
    assert [claim.pos for claim in working.report().claims] == [1]
    assert working.rows() == AFTER_REPORT
