"""What becomes of fires: catch-up, overlap, queues, pauses, versions; and that nothing fires twice."""

from typing import Any

import msgspec
import pytest

from tests.core.driver import Engine
from weft.core import commands as c
from weft.core.decision.needs import Trigger
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import document_hash, encode_document
from weft.core.definition.read import read
from weft.core.invariants import check_fires
from weft.core.rows import FireRow, TriggerRow
from weft.core.rules.fire import LATE_MS, QUEUE_MAX

SECOND = 1000


class Triggers(Engine):
    def apply(self, name: str = "w", tasks: Any = None, **document: Any) -> c.Reply:
        reading = read({"name": name, "tasks": tasks or {"a": {"inline": "work"}}, **document})
        assert reading.document is not None, reading.problems
        workflow = compile_workflow(reading.document, document_hash(reading.document))
        self.known = workflow
        command = c.Apply(workflow.hash, name, encode_document(reading.document), "/src", workflow.triggers, "a test")
        reply: c.Reply = self.commit(command)
        return reply

    def row(self, id: str) -> TriggerRow:
        with self.store.transaction() as tx:
            row: TriggerRow = tx.load([Trigger(id)])[0][0]
            return row

    def fire(self, id: str, *times: int, **more: Any) -> c.Reply:
        """As the leader's chore does it, until nothing is left to do."""
        while True:
            row = self.row(id)
            left = [at for at in times if at > row.since_ms]
            firings = [c.Firing(str(at), f"r{at}", {"time": f"t{at}"}, at) for at in left]
            until = left[-1] if left else row.since_ms
            command = c.Fire(
                id, firings, self.term(), row.since_ms, row.cursor, until, self.time_ms + 1, run_id=f"q{self.time_ms}"
            )
            reply: c.Reply = self.commit(msgspec.structs.replace(command, **more))
            if not reply.more:
                return reply

    def fires(self) -> list[tuple[str, str]]:
        rows = self.store.reader().execute("SELECT * FROM fires ORDER BY due_at, cause")
        fires = [FireRow(*row) for row in rows]
        runs = list(self.store.reader().execute('SELECT id, "trigger" FROM runs WHERE "trigger" IS NOT NULL'))
        assert check_fires(fires, runs) == []
        return [(fire.cause, fire.outcome) for fire in fires]

    def runs_made(self) -> list[str]:
        return [id for (id,) in self.store.reader().execute("SELECT id FROM runs ORDER BY no")]

    def end_runs(self) -> None:
        for (id,) in list(self.store.reader().execute("SELECT id FROM runs WHERE finished_at IS NULL")):
            self.commit(c.CancelRun(id))


@pytest.fixture
def engine() -> Triggers:
    return Triggers()


def every(**more: Any) -> list[dict[str, Any]]:
    return [{"every": "1s", **more}]


def times(engine: Triggers, *seconds: float) -> list[int]:
    return [engine.time_ms + int(s * SECOND) for s in seconds]


def test_a_time_makes_one_run_with_its_inputs(engine: Triggers) -> None:
    engine.apply(inputs={"at": "string"}, triggers=every(inputs={"at": "${{ trigger.time }}"}))
    (at,) = times(engine, 1)
    engine.time_ms = at + 5
    reply = engine.fire("w/every", at)
    assert (reply.run_id, reply.state) == (f"r{at}", "started")
    run = engine.store.reader().execute('SELECT inputs, source, "trigger", workflow FROM runs').fetchall()
    assert run == [(f'{{"at":"t{at}"}}', "/src", "w/every", engine.known.hash)]
    row = engine.row("w/every")
    assert (row.since_ms, row.next_ms) == (at, engine.time_ms + 1)


def test_a_fire_that_somebody_has_done_already_does_nothing(engine: Triggers) -> None:
    engine.apply(triggers=every(overlap="allow"))
    row, (at,) = engine.row("w/every"), times(engine, 1)
    engine.time_ms = at
    command = c.Fire(
        "w/every", [c.Firing(str(at), "first", {}, at)], engine.term(), row.since_ms, row.cursor, at, at + SECOND
    )
    assert engine.commit(command).run_id == "first"
    again = msgspec.structs.replace(command, firings=[c.Firing(str(at), "second", {}, at)])
    assert engine.commit(again).existing
    manual_advance = msgspec.structs.replace(again, term=None)
    assert (engine.commit(manual_advance).run_id, engine.commit(manual_advance).existing) == ("first", True), (
        "the same cause"
    )
    assert engine.runs_made() == ["first"]


def test_a_leader_of_an_old_term_fires_nothing(engine: Triggers) -> None:
    engine.apply(triggers=every())
    term = engine.term()
    with pytest.raises(c.Refused, match="is over"):
        engine.fire("w/every", engine.time_ms + 1, term=term + 1)
    assert engine.fires() == []


@pytest.mark.parametrize(
    ("catch_up", "overlap", "outcomes"),
    [
        ("none", "allow", ["missed"]),
        ("last", "allow", ["missed", "started"]),
        ("all", "allow", ["started", "started", "started"]),
        ("all", "queue", ["started", "queued", "queued"]),
    ],
)
def test_times_that_passed(engine: Triggers, catch_up: str, overlap: str, outcomes: list[str]) -> None:
    engine.apply(triggers=every(catch_up=catch_up, overlap=overlap))
    passed = times(engine, 1, 2, 3)
    engine.time_ms = passed[-1] + LATE_MS + 1
    engine.fire("w/every", *passed)
    assert [outcome for _, outcome in engine.fires()] == outcomes
    assert engine.row("w/every").since_ms == passed[-1]


def test_a_little_late_is_not_missed(engine: Triggers) -> None:
    engine.apply(triggers=every(overlap="allow"))
    passed = times(engine, 1, 2)
    engine.time_ms = passed[0] + LATE_MS
    engine.fire("w/every", *passed)
    assert [outcome for _, outcome in engine.fires()] == ["started", "started"]


def test_the_last_that_passed_is_enough_if_one_is_due_now(engine: Triggers) -> None:
    engine.apply(triggers=every(catch_up="last", overlap="allow"))
    passed = times(engine, 1, 2)
    engine.time_ms += LATE_MS + 10 * SECOND
    now = engine.time_ms - 1
    engine.fire("w/every", *passed, now)
    assert engine.fires() == [(str(passed[1]), "missed"), (str(now), "started")]


def test_overlap_skip(engine: Triggers) -> None:
    engine.apply(triggers=every())
    one, two, three = times(engine, 1, 2, 3)
    engine.time_ms = two
    engine.fire("w/every", one, two)
    engine.end_runs()
    engine.time_ms = three
    engine.fire("w/every", three)
    assert engine.fires() == [(str(one), "started"), (str(two), "skipped"), (str(three), "started")]


def test_overlap_queue_starts_them_one_after_another(engine: Triggers) -> None:
    engine.apply(inputs={"at": "string"}, triggers=every(overlap="queue", inputs={"at": "${{ trigger.time }}"}))
    due = times(engine, 1, 2, 3)
    engine.time_ms = due[-1]
    engine.fire("w/every", *due)
    for left in (2, 1, 0):
        assert [outcome for _, outcome in engine.fires()].count("queued") == left
        assert engine.fire("w/every").changed == 0, "its run goes on"
        engine.end_runs()
        engine.time_ms += 1
        engine.fire("w/every")
    inputs = [text for (text,) in engine.store.reader().execute("SELECT inputs FROM runs ORDER BY no")]
    assert inputs == [f'{{"at":"t{at}"}}' for at in due], "as they were when they were due"


def test_a_time_that_comes_with_a_queued_fires_turn_is_not_lost(engine: Triggers) -> None:
    engine.apply(triggers=every(overlap="queue"))
    one, two, three = times(engine, 1, 2, 3)
    engine.time_ms = two
    engine.fire("w/every", one, two)
    engine.end_runs()
    engine.time_ms = three
    engine.fire("w/every", three)
    assert engine.fires() == [(str(one), "started"), (str(two), "started"), (str(three), "queued")]


def test_a_queue_has_an_end(engine: Triggers) -> None:
    engine.apply(triggers=every(overlap="queue"))
    due = times(engine, *range(1, QUEUE_MAX + 4))
    engine.time_ms = due[0]
    engine.fire("w/every", *due)
    outcomes = [outcome for _, outcome in engine.fires()]
    assert (outcomes.count("queued"), outcomes.count("skipped")) == (QUEUE_MAX, 2)


def test_overlap_replace_ends_the_earlier_run(engine: Triggers) -> None:
    engine.apply(triggers=every(overlap="replace"))
    one, two = times(engine, 1, 2)
    engine.time_ms = two
    engine.fire("w/every", one, two)
    states = dict(engine.store.reader().execute("SELECT id, state FROM runs"))
    assert states == {f"r{one}": "cancelled", f"r{two}": "running"}
    reason = engine.store.reader().execute("SELECT reason FROM runs WHERE id = ?", (f"r{one}",)).get
    assert reason == "replaced by the next fire of w/every"


def test_inputs_that_cannot_be_made_fail_the_fire_and_not_the_next(engine: Triggers) -> None:
    trigger = {"webhook": {"name": "h", "token": "T"}, "inputs": {"n": "${{ trigger.body.n }}"}}
    engine.apply(inputs={"n": "integer"}, triggers=[trigger])
    for cause, body in (("a", {}), ("b", {"n": "text"}), ("c", {"n": 3})):
        engine.commit(c.Fire("w/webhook", [c.Firing(cause, f"run-{cause}", {"body": body})]))
    assert engine.fires() == [("a", "failed"), ("b", "failed"), ("c", "started")]


def test_a_missing_pool_fails_the_fire(engine: Triggers) -> None:
    engine.apply(tasks={"a": {"inline": "work", "pools": "nowhere"}}, triggers=every())
    (at,) = times(engine, 1)
    engine.time_ms = at
    reply = engine.fire("w/every", at)
    assert reply.state == "failed"
    assert "nowhere" in reply.data["reason"]
    assert engine.row("w/every").since_ms == at, "the next one is not held up"


def test_a_rate_is_kept(engine: Triggers) -> None:
    engine.apply(triggers=[{"webhook": {"name": "h", "token": "T", "rate": "2/m"}}])
    for cause in "ab":
        engine.commit(c.Fire("w/webhook", [c.Firing(cause, f"run-{cause}", {})]))
    third = c.Fire("w/webhook", [c.Firing("c", "run-c", {})])
    with pytest.raises(c.Refused, match="at most 2 times in 60 s"):
        engine.commit(third)
    engine.time_ms += 60_000
    assert engine.commit(third).run_id == "run-c"


def test_pauses(engine: Triggers) -> None:
    engine.apply(triggers=every())
    assert engine.commit(c.PauseTrigger("w/every", True)).changed == 1
    assert engine.commit(c.PauseTrigger("w/every", True)).existing
    one, two = times(engine, 1, 2)
    engine.time_ms = one
    assert engine.store.due_triggers()[1:] == (None, False, [])
    assert engine.fire("w/every", one).existing, "a chore that had looked before"
    engine.commit(c.PauseTrigger("w/every", False))
    assert engine.row("w/every").since_ms == one, "nothing is made up for"
    engine.time_ms = two
    engine.fire("w/every", two)
    assert engine.fires() == [(str(two), "started")]
    with pytest.raises(c.Refused, match="no trigger"):
        engine.commit(c.PauseTrigger("w/nothing", True))


def test_applying_again_keeps_what_stays(engine: Triggers) -> None:
    both = [*every(name="tick"), {"cron": "0 2 * * *"}]
    assert engine.apply(triggers=both).data["added"] == ["tick", "cron"]
    assert engine.apply(triggers=both).existing
    before = engine.row("w/tick")
    engine.commit(c.PauseTrigger("w/tick", True))
    engine.time_ms += 5000
    reply = engine.apply(triggers=every(name="tick", inputs={}, overlap="allow"))
    assert (reply.data["changed"], reply.data["removed"]) == (["tick"], ["cron"])
    row = engine.row("w/tick")
    assert (row.paused, row.since_ms, row.hash) == (True, before.since_ms, engine.known.hash)
    assert not engine.row("w/cron").active
    engine.apply(triggers=[{"every": "2s", "name": "tick"}])
    assert engine.row("w/tick").since_ms == engine.time_ms, "other times begin now"
    assert engine.apply(triggers=both).data["added"] == ["cron"], "it is there again"


def test_a_definition_that_pauses_and_one_that_no_longer_does(engine: Triggers) -> None:
    engine.apply(triggers=every(paused=True))
    assert engine.row("w/every").paused
    engine.commit(c.PauseTrigger("w/every", False))
    engine.apply(triggers=every(paused=True, overlap="allow"))
    assert not engine.row("w/every").paused, "somebody resumed it"
    engine.apply(triggers=every())
    assert not engine.row("w/every").paused


def test_a_fire_uses_the_version_that_is_current_then(engine: Triggers) -> None:
    engine.apply(triggers=every(overlap="allow"))
    old = engine.known.hash
    one, two = times(engine, 1, 2)
    engine.time_ms = one
    engine.fire("w/every", one)
    engine.apply(tasks={"b": {"inline": "work"}}, triggers=every(overlap="allow"))
    engine.time_ms = two
    engine.fire("w/every", two)
    runs = list(engine.store.reader().execute("SELECT workflow FROM runs ORDER BY no"))
    assert runs == [(old,), (engine.known.hash,)]


def test_what_is_queued_goes_with_its_trigger(engine: Triggers) -> None:
    engine.apply(triggers=every(overlap="queue"))
    due = times(engine, 1, 2)
    engine.time_ms = due[-1]
    engine.fire("w/every", *due)
    engine.apply(triggers=[])
    assert engine.fires() == [(str(due[0]), "started"), (str(due[1]), "skipped")]
    with pytest.raises(c.Refused, match="no trigger"):
        engine.fire("w/every", due[1] + SECOND)


def test_a_webhooks_name_belongs_to_one_trigger(engine: Triggers) -> None:
    hook = {"webhook": {"name": "h", "token": "T"}}
    engine.apply("one", triggers=[hook])
    with pytest.raises(c.Refused, match="belongs to the trigger one/webhook"):
        engine.apply("two", triggers=[hook])
    engine.apply("one", triggers=[])
    engine.apply("two", triggers=[hook])


def test_workflows_that_follow_each_other_in_a_circle_are_refused(engine: Triggers) -> None:
    engine.apply("b", triggers=[{"after": {"run": "a"}}])
    engine.apply("c", triggers=[{"after": {"run": "b"}}])
    with pytest.raises(c.Refused, match="for ever: a -> b -> c -> a"):
        engine.apply("a", triggers=[{"after": {"run": "c"}}])
    engine.apply("a", triggers=[{"after": {"run": "other"}}])


@pytest.mark.parametrize(
    ("wanted", "count"), [("succeeded", 1), ("failed", 1), ("finished", 3)], ids=["succeeded", "failed", "any"]
)
def test_after_follows_ends(engine: Triggers, wanted: str, count: int) -> None:
    engine.apply("b", triggers=[{"after": {"run": "a", "state": wanted}}])
    row = engine.row("b/after")
    ends = [("succeeded", 5), ("failed", 6), ("cancelled", 7)]
    firings = [c.Firing(f"x@{seq}", f"b{seq}", {"run": {}}, state=state, seq=seq) for state, seq in ends]
    command = c.Fire("b/after", firings, engine.term(), row.since_ms, row.cursor, 7)
    while (reply := engine.commit(command)).more:
        cursor = engine.row("b/after").cursor
        left = [f for f in firings if (f.seq or 0) > cursor]
        command = msgspec.structs.replace(command, cursor=cursor, firings=left)
    assert len(engine.runs_made()) == count
    assert engine.row("b/after").cursor == 7
    assert reply is not None


def test_ended_runs_are_found_by_their_events(engine: Triggers) -> None:
    engine.submit({"name": "a", "tasks": {"t": {"inline": "work"}}}, run_id="before")
    engine.commit(c.CancelRun("before"))
    engine.apply("b", triggers=[{"after": {"run": "a", "state": "finished"}}])
    for run_id, name in (("one", "a"), ("other", "z"), ("two", "a")):
        engine.submit({"name": name, "tasks": {"t": {"inline": "work"}}}, run_id=run_id)
        engine.commit(c.CancelRun(run_id))
    found = engine.store.ends_to_follow(10)
    assert [(row.id, run_id, name) for row, _, run_id, name, _ in found] == [
        ("b/after", "one", "a"), ("b/after", "two", "a")
    ]  # fmt: skip
    newest, behind = engine.store.triggers_behind(0)
    assert [row.id for row in behind] == ["b/after"]
    assert engine.store.triggers_behind(1000) == (newest, [])


def test_a_current_version_outlives_a_prune(engine: Triggers) -> None:
    engine.apply(triggers=every())
    (at,) = times(engine, 1)
    engine.time_ms = at
    engine.fire("w/every", at)
    engine.end_runs()
    engine.time_ms += 10_000
    engine.commit(c.Prune(engine.time_ms - 1))
    assert (engine.runs_made(), engine.fires()) == ([], [])
    engine.committer.workflows.clear()
    engine.fire("w/every", engine.time_ms)
    assert len(engine.runs_made()) == 1
