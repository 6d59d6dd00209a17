"""Seeded stories: three real nodes over one store, with crashes, pauses and replies lost after COMMIT.

A failing seed replays exactly: `python -m tests.simulation SEED`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tests.simulation.scenario import play
from tests.simulation.violations import Violated, Violation
from tests.simulation.world import OVER_HTTP
from weft.core import commands as c
from weft.core.decision import needs as n
from weft.core.decision.draft import Draft, Rule
from weft.core.rows import MemoRow, TaskRow, TriggerRow
from weft.core.rules import attempts
from weft.store.sqlite.remembered import RememberedRows

#: Each of these is played once: those of the first three tests are counted besides.
FIRST = range(40)
ENGINES = range(42, 242, 10)
PLUGINS = range(47, 307, 10)
OTHERS = [seed for seed in range(40, 200) if seed not in ENGINES and seed not in PLUGINS]
SHARD = 16


@pytest.mark.parametrize("first", range(0, len(OTHERS), SHARD))
def test_seeds_keep_the_invariants(first: int) -> None:
    for seed in OTHERS[first : first + SHARD]:
        play(seed)


def test_workers_without_a_store_keep_the_invariants() -> None:
    """Their calls go through the messages and two servers that forget all they know now and then."""
    worlds = [play(seed) for seed in range(OVER_HTTP, OVER_HTTP + SHARD)]
    servers = [world.servers for world in worlds if world.servers is not None]
    assert len(servers) == SHARD
    assert sum(one.restarts for one in servers) > 0
    assert sum(one.doubled for one in servers) > 0


def test_a_seed_replays_exactly() -> None:
    one, two = play(7), play(7)
    assert one.story == two.story
    assert one.commits == two.commits
    assert one.loop.steps == two.loop.steps


def first_objection(seeds: Iterable[int], known: Sequence[int] = ()) -> Violated | None:
    """`known`: seeds that objected when this was written, to begin with. If none does any more, all are played."""
    for seed in [*known, *seeds]:
        try:
            play(seed)
        except Violated as objection:
            return objection
    return None


def expect(rule: str, seeds: Iterable[int], known: Sequence[int] = ()) -> None:
    """The engine was broken on purpose: the first seed that objects must do so because of this rule, and no other."""
    objection = first_objection(seeds, known)
    assert objection is not None, f"no seed found {rule}"
    assert {violation.rule for violation in objection.violations} == {rule}, str(objection)


def test_a_planted_bug_is_known_by_its_rule_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that breaks another rule, several rules, or the engine itself, is not taken for what was expected."""

    def breaks(*rules: str) -> None:
        def fails(seed: int) -> None:
            raise Violated([Violation(rule, f"in seed {seed}") for rule in rules], f"seed {seed} failed")

        monkeypatch.setattr(f"{__name__}.play", fails)

    breaks("term")
    expect("term", [1])
    for rules in [("drained",), ("term", "drained"), ()]:
        breaks(*rules)
        with pytest.raises(AssertionError, match="seed 1 failed"):
            expect("term", [1])
    with pytest.raises(AssertionError, match="no seed found term"):
        expect("term", [])


def test_what_is_to_be_tried_occurs() -> None:
    """Late reports that are refused, leaders that change and chores of old terms, effects and cached results."""
    worlds = [play(seed) for seed in FIRST]
    assert sum(world.stale for world in worlds) > 0
    assert sum(world.chores for world in worlds) > 300
    assert sum(world.refused_terms for world in worlds) > 0
    assert sum(world.store.reader().execute("SELECT term FROM leadership").get > 1 for world in worlds) > 20
    assert sum(world.auditor.cached for world in worlds) > 10
    assert sum(world.auditor.effects for world in worlds) > 20
    assert sum(len(world.auditor.done) for world in worlds) > 20
    assert sum(len(world.auditor.given_up) for world in worlds) > 5
    assert sum(world.auditor.handled for world in worlds) > 5


def test_engines_are_tried() -> None:
    """Handles that are orphaned, adopted, and removed by other nodes."""
    worlds = [play(seed) for seed in ENGINES]
    assert sum(world.auditor.unverified for world in worlds) > 8
    assert sum(world.auditor.adopted for world in worlds) > 1
    assert sum(engine.removed for world in worlds for engine in world.engines) > 1


@pytest.mark.parametrize("broken", ["the wait for the engine", "the engine's word"])
def test_the_simulation_finds_attempts_that_are_left_running(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose an attempt without asking its engine, or call gone what was only asked to stop: some seed must notice."""
    from tests.simulation.engines import SimulatedRemote
    from weft.core.rules import sessions
    from weft.executors.protocol import Handle

    async def believes(self: SimulatedRemote, handles: Sequence[Handle]) -> list[Handle]:
        return list(handles)

    def forgets(draft: Draft, tasks: Iterable[TaskRow]) -> Rule:
        yield ()

    if broken == "the engine's word":
        monkeypatch.setattr(SimulatedRemote, "remove", believes)
    else:
        monkeypatch.setattr(sessions, "load_handles", forgets)
    objection = first_objection(range(2, 602, 5), known=[17, 132])
    assert objection is not None
    allowed = {"remote overlap", "left running", "check_handles"}
    assert {violation.rule for violation in objection.violations} <= allowed, str(objection)


def test_plugins_on_engines_are_tried() -> None:
    worlds = [play(seed) for seed in PLUGINS]
    assert sum(world.auditor.unverified for world in worlds) > 8
    assert sum(world.auditor.adopted for world in worlds) > 1
    assert sum(engine.removed for world in worlds for engine in world.engines) > 5


def test_the_simulation_finds_a_plugin_that_does_not_wait_for_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report a stop that was only requested: some seed must notice."""
    from weft.plugins import PolledExecutor

    async def hurries(self: PolledExecutor, watched: Any, handle: Any) -> None:
        await self._answered(watched, lambda: self.look(handle), until_stop=True)

    monkeypatch.setattr(PolledExecutor, "_discard", hurries)
    objection = first_objection(range(7, 507, 10), known=[117])
    assert objection is not None
    assert {violation.rule for violation in objection.violations} <= {"remote overlap", "left running"}, str(
        objection
    )


def test_the_simulation_finds_a_missing_term_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let chores of any term pass: some seed must notice."""
    from weft.core.decision.needs import Leadership
    from weft.core.rules import fire, liveness, place

    def unfenced(draft: Draft, term: int | None) -> Rule:
        (rows,) = yield (Leadership(),)
        return rows[0]

    for rules in (fire, liveness, place):
        monkeypatch.setattr(rules, "require_term", unfenced)
    expect("term", range(60), known=[6])


def test_the_simulation_finds_a_trigger_that_fires_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a fire pass though somebody has fired since, under a cause of its own: some seed must notice."""
    from weft.core.decision import decide
    from weft.node.chores import fire

    guarded = decide.RULES[c.Fire]

    def unguarded(draft: Draft, command: c.Fire) -> Rule:
        rule = guarded(draft, command)
        try:
            needs = next(rule)
            while True:
                loaded = yield needs
                for row in loaded[0]:
                    if isinstance(row, TriggerRow):
                        command.since, command.cursor = row.since_ms, row.cursor
                needs = rule.send(loaded)
        except StopIteration as done:
            return done.value

    monkeypatch.setitem(decide.RULES, c.Fire, unguarded)

    def another(cause: str, run_id: str, *more: Any, **named: Any) -> c.Firing:
        return c.Firing(f"{cause}#{run_id}", run_id, *more, **named)

    monkeypatch.setattr(fire, "Firing", another)
    expect("fires", range(1, 30, 3))  # the seeds with triggers


def change_beginning(monkeypatch: pytest.MonkeyPatch, change: Callable[[c.Exchange, list[Any]], Rule]) -> None:
    """What an exchange loads of its session is what `change` makes of it."""
    from weft.core.decision import decide

    genuine = decide.RULES[c.Exchange]

    def changed(draft: Draft, command: c.Exchange) -> Rule:
        rule = genuine(draft, command)
        try:
            begun, *others = yield next(rule)
            needs = rule.send(((yield from change(command, begun)), *others))
            while True:
                needs = rule.send((yield needs))
        except StopIteration as done:
            return done.value

    monkeypatch.setitem(decide.RULES, c.Exchange, changed)


def test_the_simulation_finds_a_claim_after_a_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.node.node import Node

    def forgets(command: c.Exchange, begun: list[Any]) -> Rule:
        if begun and begun[0][0].state == "draining":
            begun[0][0].state = "live"
        yield from ()
        return begun

    change_beginning(monkeypatch, forgets)
    monkeypatch.setattr(Node, "_drained", lambda self, left_s: None)
    expect("drained", range(60), known=[4])


def test_the_simulation_finds_a_failure_that_is_taken_for_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.core.rules import exchange

    genuine = attempts.apply_report

    def lenient(draft: Draft, session: str, report: c.Report, ended: list[TaskRow]) -> bool:
        report.outcome = "succeeded" if report.outcome == "failed" else report.outcome
        return genuine(draft, session, report, ended)

    monkeypatch.setattr(exchange, "apply_report", lenient)
    expect("report", range(60))


def test_the_simulation_finds_a_missing_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break the guard on reports: a late result of a dead session is applied. Some seed must notice. Claims keep
    their guard: what a dead session claims would never end, which is another violation."""
    from weft.core.rules import claims, exchange

    genuine, genuine_claim = attempts.apply_report, claims.claim
    over: set[str] = set()

    def unfenced(draft: Draft, session: str, report: c.Report, ended: list[TaskRow]) -> bool:
        task = draft.tasks.get(report.task_id)
        if task is not None and task.state == "running" and task.session is not None:
            report.attempt = task.attempt
            session = task.session
        return genuine(draft, session, report, ended)

    def never_over(command: c.Exchange, begun: list[Any]) -> Rule:
        over.clear()
        if not begun:
            (sessions,) = yield (n.Session(command.session),)
            if sessions[0].state in ("dead", "left"):
                over.add(command.session)
                return [(sessions[0], None, False, False, False, 0, False)]
        return begun

    def claim(draft: Draft, command: c.Exchange) -> Rule:
        return [] if command.session in over else (yield from genuine_claim(draft, command))

    monkeypatch.setattr(exchange, "apply_report", unfenced)
    change_beginning(monkeypatch, never_over)
    monkeypatch.setattr(exchange, "claim", claim)
    expect("reporter", range(3, 243, 4), known=[23])  # nodes with slow clocks: those whose results come late


@pytest.mark.parametrize(("broken", "rule"), [("the fence", "effect holder"), ("the memory", "effect granted")])
def test_the_simulation_finds_effects_that_are_granted_wrongly(
    broken: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.core.rules import memos as records

    if broken == "the fence":
        monkeypatch.setattr(records, "_not_held", lambda command, sessions, tasks: None)
    else:
        genuine = records._begin

        def forgetful(draft: Draft, command: c.Once, known: MemoRow | None, made: MemoRow) -> c.OnceReply:
            reply = genuine(draft, command, known, made)
            return c.OnceReply("call") if reply.status == "completed" else reply

        monkeypatch.setattr(records, "_begin", forgetful)
    expect(rule, range(60), known=[58] if broken == "the fence" else [])


def test_the_simulation_finds_a_remembered_row_that_is_not_the_stored_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(3).remembered > 0, "nothing was compared"
    take_in = RememberedRows._take_in

    def keeps_too_much(rows: RememberedRows, draft: Draft) -> None:
        for task in draft.dirty_tasks:
            task.failures += task.state == "running" and task.guard is not None and task.guard.state == "queued"
        take_in(rows, draft)

    monkeypatch.setattr(RememberedRows, "_take_in", keeps_too_much)
    expect("remembered", range(5))
