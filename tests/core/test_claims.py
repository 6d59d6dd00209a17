"""Which queued tasks a node gets, where there are limits."""

from typing import Any

import pytest

from tests.core.driver import Engine
from weft.core import commands as c
from weft.core.decision.draft import Draft, Hint

GIB = 2**30
WORK = {"inline": "work"}


@pytest.fixture
def engine() -> Engine:
    return Engine()


def submit(engine: Engine, tasks: dict[str, Any], **more: Any) -> str:
    return engine.submit({"name": "w", "tasks": tasks}, **more)


def names(engine: Engine, reply: c.ExchangeReply) -> list[str]:
    return [engine.name(claim) for claim in reply.claims]


def test_what_does_not_fit_hides_nothing_behind_it(engine: Engine) -> None:
    """A thousand tasks of a better rank wait for a pool and for memory; the plain one is claimed all the same."""
    engine.commit(c.SetPool("license", 1))
    tasks: dict[str, Any] = {
        "licensed": {**WORK, "replicas": 1000, "pools": "license", "priority": 5},
        "large": {**WORK, "replicas": 1000, "requires": {"memory": GIB}, "priority": 5},
        "plain": WORK,
    }
    run = submit(engine, tasks)
    engine.node("a", memory=2 * GIB)
    assert names(engine, engine.exchange("a", want=4)) == ["licensed.0", "large.0", "large.1", "plain"]
    assert names(engine, engine.exchange("a", want=4)) == []
    engine.check(run)


def test_room_is_shared_between_demands(engine: Engine) -> None:
    submit(engine, {f"m{n}": {**WORK, "requires": {"memory": n * GIB}} for n in (4, 3, 2, 1)})
    engine.node("a", memory=6 * GIB)
    assert names(engine, engine.exchange("a")) == ["m4", "m2"]
    assert names(engine, engine.finish("a", "m4")) == ["m3", "m1"]


def test_two_nodes_share_a_pool(engine: Engine) -> None:
    engine.commit(c.SetPool("p", 3))
    run = submit(engine, {"t": {**WORK, "replicas": 8, "pools": "p"}})
    for session in ("a", "b"):
        engine.node(session)
    assert len(engine.exchange("a", want=2).claims) == 2
    assert len(engine.exchange("b", want=5).claims) == 1
    assert len(engine.finish("a", "t.0", want=9).claims) == 1, "the place that a report frees is there at once"
    engine.commit(c.Expire("a", "process"))
    assert len(engine.exchange("b", want=9).claims) == 2
    engine.check(run)
    assert [(pool.size, pool.used) for pool in engine.pools()] == [(3, 3)]


def test_a_free_place_wakes_those_that_were_left_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.commit(c.SetPool("p", 1))
    submit(engine, {"a": {**WORK, "pools": "p"}, "b": {**WORK, "pools": "p"}, "plain": WORK})
    for session in ("x", "y"):
        engine.node(session)
    engine.exchange("x", want=1)
    engine.exchange("y", want=1)
    woken: list[int] = []
    genuine = Draft.hint

    def hint(draft: Draft) -> Hint:
        woken.append(genuine(draft).queued)
        return genuine(draft)

    monkeypatch.setattr(Draft, "hint", hint)
    engine.finish("y", "plain", want=0)
    engine.finish("x", "a", want=0)
    assert woken == [0, 1]
    engine.commit(c.SetPool("p", 0))
    engine.commit(c.SetPool("p", 4))
    assert woken[2:] == [0, 0]


def test_a_node_of_one_run_takes_nothing_else_from_a_pool(engine: Engine) -> None:
    engine.commit(c.SetPool("p", 5))
    submit(engine, {"other": {**WORK, "replicas": 3, "pools": "p", "priority": 9}})
    run = submit(engine, {"own": {**WORK, "replicas": 2, "pools": "p"}})
    engine.node("a", scope=run)
    command = engine.next_exchange("a", [], 10)
    command.scope = engine.run_no(run)
    assert names(engine, engine.commit(command)) == ["own.0", "own.1"]


def test_only_the_node_it_was_given_to_may_claim_it(engine: Engine) -> None:
    run = engine.submit({"name": "w", "placement": "scored", "tasks": {"a": {**WORK, "requires": {"labels": ["x"]}}}})
    engine.node("m")
    engine.node("n", labels={"x": ""})
    assert engine.commit(c.Place()).changed == 1
    assert engine.task(run, "a").demand.startswith("session:n/place:inline=work:")
    assert names(engine, engine.exchange("m")) == []
    assert names(engine, engine.exchange("n")) == ["a"]
    assert engine.task(run, "a").demand.startswith("place:inline=work:"), "tried again, it is placed again"
    engine.check(run)


def test_a_batch_is_spread_by_what_each_node_has(engine: Engine) -> None:
    engine.submit(
        {"name": "w", "placement": "scored", "tasks": {"t": {**WORK, "replicas": 4, "requires": {"memory": GIB}}}}
    )
    engine.node("m", memory=GIB)
    engine.node("n", memory=2 * GIB)
    assert engine.commit(c.Place()).changed == 3, "there is no room for the fourth anywhere"
    assert names(engine, engine.exchange("m")) == ["t.0"]
    assert names(engine, engine.exchange("n")) == ["t.1", "t.2"]
    assert engine.commit(c.Place()).changed == 0
    engine.finish("m", "t.0", want=0)
    assert engine.commit(c.Place()).changed == 1
    assert names(engine, engine.exchange("m")) == ["t.3"]


def test_the_leader_gives_no_node_more_than_its_slots(engine: Engine) -> None:
    """Else tasks would wait in one node's queue while another becomes free."""
    engine.submit({"name": "w", "placement": "scored", "tasks": {"t": {**WORK, "replicas": 5}}})
    engine.node("m", slots=2)
    assert engine.commit(c.Place()).changed == 2
    assert engine.commit(c.Place()).changed == 0
    assert names(engine, engine.exchange("m")) == ["t.0", "t.1"]
    assert engine.commit(c.Place()).changed == 0
    engine.finish("m", "t.0", want=0)
    engine.node("n", slots=1)
    assert engine.commit(c.Place()).changed == 2


def test_what_finds_no_room_for_a_minute_is_open_to_all(engine: Engine) -> None:
    """Claims keep memory for whoever waits longest; the leader does not."""
    tasks = {"a": {**WORK, "requires": {"memory": GIB}}, "b": {**WORK, "requires": {"memory": GIB, "labels": ["x"]}}}
    run = engine.submit({"name": "w", "placement": "scored", "tasks": tasks}, priority=5)
    engine.node("m", ttl_ms=10**6, memory=GIB, labels={"x": ""})
    engine.commit(c.Place())
    engine.exchange("m")
    engine.time_ms += 59_999
    engine.commit(c.Place())
    assert engine.task(run, "b").demand.startswith("place:")
    engine.time_ms += 1
    engine.commit(c.Place())
    assert names(engine, engine.finish("m", "a")) == ["b"]
    engine.check(run)


def test_what_cannot_be_placed_hides_nothing_behind_it(engine: Engine) -> None:
    tasks: dict[str, Any] = {"far": {**WORK, "replicas": 300, "priority": 9, "requires": {"labels": ["moon"]}}}
    engine.submit({"name": "w", "placement": "scored", "tasks": {**tasks, "near": WORK}})
    engine.node("m")
    assert engine.commit(c.Place()).changed == 1
    assert names(engine, engine.exchange("m")) == ["near"]


@pytest.mark.parametrize("own", [0, 3])
def test_nothing_starves_under_a_stream_of_urgent_tasks(engine: Engine, own: int) -> None:
    """One point of priority is worth a minute: whatever comes, a task waits at most ten of them for its turn."""
    engine.node("a", ttl_ms=10**9)
    patient = submit(engine, {"patient": {**WORK, "priority": own}})
    began = engine.time_ms
    for n in range(100):
        submit(engine, {f"urgent_{n}": {**WORK, "priority": 10}})
        engine.time_ms += 10_000
        for name in names(engine, engine.exchange("a", want=1)):  # there is always one more
            engine.finish("a", name, want=0)
        if engine.states(patient)["patient"] == "succeeded":
            break
    waited = (engine.time_ms - began) / 60_000
    assert 10 - own <= waited <= 11 - own


def test_a_resumed_task_is_placed_again(engine: Engine) -> None:
    """It was cancelled while only one node might have claimed it; that node is nothing to its next generation."""
    run = engine.submit({"name": "w", "placement": "scored", "tasks": {"a": WORK}})
    engine.node("m")
    engine.commit(c.Place())
    engine.commit(c.CancelRun(run))
    engine.commit(c.Expire("m", "process"))
    engine.commit(c.Resume(run))
    assert engine.task(run, "a").demand == "place:inline=work"
    engine.node("n")
    assert engine.commit(c.Place()).changed == 1
    assert names(engine, engine.exchange("n")) == ["a"]
    engine.check(run)


def test_a_task_that_needs_two_pools_gets_them_in_the_end(engine: Engine) -> None:
    """Others take and free one of them at a time, for ever; after ten minutes both are kept for it."""
    for pool in ("p", "q"):
        engine.commit(c.SetPool(pool, 1))
    engine.node("a", ttl_ms=10**9)
    held: dict[str, str | None] = {"p": None, "q": None}
    for n in range(60):
        submit(engine, {f"p{n}": {**WORK, "pools": "p"}, f"q{n}": {**WORK, "pools": "q"}})
        if n == 1:
            both, began = submit(engine, {"both": {**WORK, "pools": ["p", "q"]}}), engine.time_ms
        for name in list(held.values()):  # never both pools free at a time, unless one is kept
            reports = [engine.report("a", name)] if name else []
            for claimed in names(engine, engine.exchange("a", reports)):
                if claimed == "both":
                    assert 600_000 <= engine.time_ms - began <= 640_000
                    return
                held[claimed[0]] = claimed
        engine.time_ms += 20_000
    pytest.fail(f"it still waits: {engine.states(both)}")
