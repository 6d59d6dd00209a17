"""Reads of runs, page by page, the same on every store."""

from typing import Any

import pytest

from tests.store.conformance import put_run, run_row, task_row
from weft.authoring.load import load_value
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.core.rows import ORDINAL_BITS
from weft.operations.access import StoreAccess
from weft.operations.submission import submission

SIZES = (3, 130, 1, 7)
NODE = '{"kinds": ["shell"], "slots": 1, "labels": {}}'


@pytest.fixture
def connection(store: Any) -> StoreConnection:
    return StoreConnection(StoreAccess(store))


def submit(connection: StoreConnection, tasks: dict[str, Any], priority: int = 0) -> str:
    loaded = load_value({"name": "w", "tasks": tasks}, "w")
    reply = connection.submit(submission(loaded, "{}", source=None, priority=priority), loaded.workflow)
    assert reply.run_id is not None
    return reply.run_id


def test_pages_leave_nothing_out_and_tell_nothing_twice(connection: StoreConnection) -> None:
    """Within a run and beyond it, whatever the size of a page, and with a filter that few tasks pass."""
    runs = [submit(connection, {f"t{i}": {"run": "true"} for i in range(count)}) for count in SIZES]
    connection.cancel(runs[1], "t120")
    everything = [(run, f"t{i}") for run, count in zip(runs, SIZES, strict=True) for i in range(count)]
    for limit in (1, 100, 1000):
        for ref, states, wanted in (
            (None, None, everything),
            (runs[1], None, everything[3:133]),
            (None, ["cancelled"], [(runs[1], "t120")]),
            (runs[1], ["cancelled"], [(runs[1], "t120")]),
        ):
            found: list[tuple[str, str]] = []
            after: int | None = 0
            while after is not None:
                page, after = connection.tasks(ref, states=states, after=after, limit=limit)
                assert len(page) <= limit
                found += [(task.run_id, task.name) for task in page]
            assert found == wanted, (limit, ref, states)


def test_dead_letters_are_paged_through_all_runs_that_have_some(connection: StoreConnection) -> None:
    connection.link.committer.commit(c.Register("s", "n", 60_000, None, NODE))
    submit(connection, {f"t{i}": {"run": "true"} for i in range(130)})
    document = connection.run("last").workflow
    with connection.store.transaction() as tx:
        assert tx is not None
        for no, states in ((7, "dqd"), (8, "qq"), (9, "q" * 120 + "d")):
            rows = [task_row(no, i, state={"d": "dead_letter", "q": "queued"}[s]) for i, s in enumerate(states)]
            dead = states.count("d")
            put_run(tx, run_row(no, workflow=document, ordinals=len(states), dead_letter=dead), rows)
    wanted = [("run-7", "t0"), ("run-7", "t2"), ("run-9", "t120")]
    for limit in (1, 2, 3, 100):
        found: list[tuple[str, str]] = []
        after: int | None = 0
        while after is not None:
            page, after = connection.dead_letters(after=after, limit=limit)
            found += [(task.run_id, task.name) for task in page]
        assert found == wanted, limit
    assert connection.dead_letters(after=(9 << ORDINAL_BITS) + 120) == ([], None)


def test_why_counts_what_is_ahead_in_the_queue(connection: StoreConnection) -> None:
    connection.link.committer.commit(c.Register("s", "n", 60_000, None, NODE))
    late = submit(connection, {f"t{i}": {"run": "true"} for i in range(3)})
    first = submit(connection, {f"u{i}": {"run": "true"} for i in range(4)}, priority=9)
    assert [why.summary for why in connection.why(first)] == [
        "it is next in the queue", *[f"it is in the queue with {n} ahead of it" for n in (1, 2, 3)]
    ]  # fmt: skip
    assert [why.summary for why in connection.why(late)] == [
        f"it is in the queue with {n} ahead of it" for n in (4, 5, 6)
    ]
    assert connection.why(late, "t1")[0].summary == "it is in the queue with 5 ahead of it"


def test_why_tells_of_a_task_that_needs_very_many(connection: StoreConnection) -> None:
    many = {f"t{i}": {"run": "true"} for i in range(300)}
    run = submit(connection, {**many, "join": {"run": "true", "needs": list(many)}})
    assert connection.why(run, "join")[0].summary == "it waits for t0, t1, t2 and 297 more"


def test_events_that_share_a_row_are_read_one_by_one(connection: StoreConnection) -> None:
    """An exchange leaves one row for all that it claimed of a run, and one for all that succeeded: whoever pages,
    filters or follows from the middle of one sees the same events."""
    committer = connection.link.committer
    committer.commit(c.Register("s", "n", 60_000, None, NODE))
    run = submit(connection, {f"t{i}": {"run": "true"} for i in range(100)})
    demands = [id for _, id, _ in committer.commit(c.Exchange("s", 1, [], 0, [], 0)).demands]
    claims = committer.commit(c.Exchange("s", 2, [], 60, demands, 1)).claims
    reports = [
        c.Report(one.task_id, one.pos, one.idx, one.attempt, "failed" if one.pos == 30 else "succeeded", 0,
                 started_ago_ms=one.pos, result="{}", result_hash=f"h{one.pos % 2}")
        for one in claims
    ]  # fmt: skip
    committer.commit(c.Exchange("s", 3, reports, 0, demands, 1))
    whole = connection.events(run, limit=1000)
    numbers = [event.seq for event in whole]
    assert numbers == sorted(set(numbers))
    assert [e.task for e in whole if e.kind == "assigned"] == [f"t{i}" for i in range(60)]
    ended = [e for e in whole if e.kind == "finished"]
    assert [e.task for e in ended] == [f"t{i}" for i in range(60)]
    assert [e.data["state"] for e in ended] == ["succeeded"] * 30 + ["failed"] + ["succeeded"] * 29
    assert all(e.data["started_at"] == e.at - n and e.data["hash"] == f"h{n % 2}" for n, e in enumerate(ended))
    for limit in (1, 7, 64):
        paged, after = [], 0
        while page := connection.events(run, after=after, limit=limit):
            assert len(page) <= limit
            paged += page
            after = page[-1].seq
        assert paged == whole, limit
    assert connection.events(run, task="t45", limit=5) == [e for e in whole if e.task == "t45"]
    assert connection.events(run, kinds=["finished"], after=ended[9].seq, limit=3) == ended[10:13]
    assert connection.verify(run).differences == []
    assert connection.info().events == len(connection.events(None, limit=1000))
