"""Any order of commands keeps the invariants: Hypothesis looks for one that does not, and shrinks it."""

import contextlib
import copy
import random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.core.driver import Engine
from tests.simulation.scenario import POOLS, make_document
from weft.core import commands as c
from weft.core.invariants import check_step
from weft.core.rows import TaskRow

SESSIONS = ("a", "b", "c")


class EngineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()
        self.before: dict[int, TaskRow] = {}
        self.alive: dict[str, str] = {}  # slot -> session id
        self.births = 0
        self.old_reports: list[tuple[str, c.Report]] = []
        self.submissions = 0

    @initialize(seed=st.integers(0, 10_000))
    def first(self, seed: int) -> None:
        for name, size in POOLS.items():
            self.engine.commit(c.SetPool(name, size))
        self.submit(seed)
        self.birth("a")

    @precondition(lambda self: self.submissions < 3)
    @rule(seed=st.integers(0, 10_000))
    def submit(self, seed: int) -> None:
        self.submissions += 1
        rng = random.Random(seed)
        files: dict[str, Any] = {}
        if seed % 3 == 0:
            leaf = {
                "name": "leaf",
                "inputs": {"n": {"type": "integer", "default": 1}},
                "tasks": {"x": {"inline": "work"}, "y": {"inline": "work", "needs": ["x"]}},
            }
            files = {"./leaf.yaml": leaf}
        self.engine.submit(make_document(rng, self.submissions, children=list(files)), children=files)

    @rule(slot=st.sampled_from(SESSIONS))
    def birth(self, slot: str) -> None:
        if slot not in self.alive:
            self.births += 1
            self.alive[slot] = self.engine.node(f"{slot}{self.births}", memory=4 * 2**30, gpus=1)

    @rule(slot=st.sampled_from(SESSIONS), want=st.integers(0, 5), data=st.data())
    def exchange(self, slot: str, want: int, data: st.DataObject) -> None:
        session = self.alive.get(slot)
        if session is None:
            return
        held = sorted(self.engine.held[session])
        chosen = data.draw(st.lists(st.sampled_from(held), unique=True)) if held else []
        outcomes = [data.draw(st.sampled_from(["succeeded", "failed", "returned", "cancelled"])) for _ in chosen]
        reports = [self.engine.report(session, task, outcome) for task, outcome in zip(chosen, outcomes, strict=True)]
        reply = self.engine.exchange(session, reports, want)
        assert not reply.stale
        assert len(reply.claims) <= want
        self.old_reports += [(session, copy.copy(r)) for r in reports]

    @precondition(lambda self: self.old_reports)
    @rule(data=st.data())
    def say_an_old_report_again(self, data: st.DataObject) -> None:
        """Under a new exchange number it is stale, and changes nothing."""
        session, report = data.draw(st.sampled_from(self.old_reports))
        if session not in self.alive.values():
            return
        before = self._rows()
        reply = self.engine.exchange(session, [report], 0)
        assert reply.stale == [(report.task_id, report.attempt)]
        row = self._rows()[report.task_id]
        if before[report.task_id].state not in ("scheduled", "pending"):
            assert (row.state, row.attempt) == (before[report.task_id].state, before[report.task_id].attempt)

    @rule(slot=st.sampled_from(SESSIONS), proof=st.sampled_from(["process", "left"]))
    def death(self, slot: str, proof: str) -> None:
        session = self.alive.pop(slot, None)
        if session is None:
            return
        held = list(self.engine.held[session])
        self.engine.commit(c.Expire(session, proof))  # type: ignore[arg-type]
        late = [self.engine.report(session, task) for task in held]
        if late:
            reply = self.engine.exchange(session, late, 5)
            assert reply.dead
            assert len(reply.stale) == len(late)

    @rule(which=st.integers(0, 2))
    def cancel(self, which: int) -> None:
        if which < self.submissions:
            self.engine.commit(c.CancelRun(f"run-{which + 1}"))

    @rule(which=st.integers(0, 2), dead=st.booleans())
    def resume(self, which: int, dead: bool) -> None:
        if which < self.submissions:
            with contextlib.suppress(c.Refused):  # an unfinished run keeps its dead letters
                self.engine.commit(c.Resume(f"run-{which + 1}", only_dead=dead))

    @rule(name=st.sampled_from(sorted(POOLS)), size=st.integers(0, 3))
    def resize(self, name: str, size: int) -> None:
        self.engine.commit(c.SetPool(name, size))

    @rule()
    def place(self) -> None:
        self.engine.commit(c.Place())

    @rule(ms=st.sampled_from([1, 200, 5000, 11_000]))
    def time_passes(self, ms: int) -> None:
        self.engine.time_ms += ms

    def _rows(self) -> dict[int, TaskRow]:
        ids = [f"run-{number + 1}" for number in range(self.submissions)]
        ids += [child for id in ids for child in self.engine.children(id)]
        return {row.id: row for id in ids for row in self.engine.rows(id)}

    @invariant()
    def holds(self) -> None:
        after: dict[int, Any] = self._rows()
        assert check_step(self.before, after) == []
        self.before = after
        for number in range(self.submissions):
            self.engine.check(f"run-{number + 1}")


EngineMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestEngine = EngineMachine.TestCase
