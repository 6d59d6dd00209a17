"""Whatever nodes and time do: terms only go up, one holder each, and a chore counts only in its own term."""

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.core.driver import Engine
from weft.core import commands as c
from weft.core.decision.needs import Leadership
from weft.core.invariants import check_leadership
from weft.core.rows import LeadershipRow

TTL_MS, LEASE_MS = 3_000, 4_000
SLOTS = st.sampled_from(("a", "b", "c", "d"))
ROLES = st.sampled_from(("auto", "auto", "leader", "worker"))


def leadership(engine: Engine) -> LeadershipRow:
    with engine.store.transaction() as tx:
        row: LeadershipRow = tx.load([Leadership()])[0][0]
        return row


class LeaderMachine(RuleBasedStateMachine):
    """The model is one line: a term that somebody got is theirs until somebody gets a later one, or they end it."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()
        self.live: dict[str, tuple[str, str]] = {}  # slot -> session, role
        self.births = 0
        self.granted: dict[int, str] = {}  # term -> session, for ever
        self.over: set[int] = set()  # terms that ended
        self.lease: dict[str, int] = {}
        self.before = leadership(self.engine)

    @rule(slot=SLOTS, role=ROLES)
    def birth(self, slot: str, role: str) -> None:
        if slot not in self.live:
            self.births += 1
            session = f"{slot}{self.births}"
            self.engine.node(session, LEASE_MS, role=role)
            self.live[slot] = (session, role)
            self.lease[session] = self.engine.time_ms + LEASE_MS

    @rule(slot=SLOTS)
    def renew(self, slot: str) -> None:
        if slot in self.live:
            session = self.live[slot][0]
            assert self.engine.store.renew(session, LEASE_MS)
            self.lease[session] = self.engine.time_ms + LEASE_MS

    @rule(slot=SLOTS)
    def lead(self, slot: str) -> None:
        if slot not in self.live:
            return
        session, role = self.live[slot]
        was, now = leadership(self.engine), self.engine.time_ms
        if role == "worker":
            with contextlib.suppress(c.Refused):
                assert self.engine.commit(c.Lead(session, TTL_MS)).term is None
            return
        reply = self.engine.commit(c.Lead(session, TTL_MS))
        others = [s for s, r in self.live.values() if r == "leader" and self.lease[s] > now and s != session]
        if reply.term is None:
            if was.session == session and leadership(self.engine).session is None:
                assert role == "auto"
                assert others, "it gave its term up for nobody"
                self.over.add(was.term)
            return
        assert self.lease[session] > now, "a session whose lease has passed does not lead"
        if reply.term in self.granted:
            assert self.granted[reply.term] == session
            assert was.expires_at > now
        else:
            busy = was.session is not None and was.expires_at > now and self.lease.get(was.session, 0) > now
            assert not busy, f"{session} took over from {was.session}, which still led"
            self.granted[reply.term] = session
            self.over |= {term for term in self.granted if term < reply.term}
        assert role == "leader" or not others, "auto leaves it to those that insist"

    @rule(slot=SLOTS, how=st.sampled_from(("resign", "left", "process", "drain")))
    def end(self, slot: str, how: str) -> None:
        if slot not in self.live:
            return
        session, _ = self.live.pop(slot)
        row = leadership(self.engine)
        if how == "resign":
            self.engine.commit(c.Resign(session, row.term))
        if how == "drain":
            self.engine.commit(c.Drain(session, 0))
        self.engine.commit(c.Expire(session, "process" if how == "process" else "left"))
        self.lease[session] = 0
        if row.session == session:
            self.over.add(row.term)
            assert leadership(self.engine).session is None

    @rule(term=st.integers(0, 12))
    def chore(self, term: int) -> None:
        """Of the newest term, if that has not ended; of no other."""
        command = c.Overdue(term)
        if term == max(self.granted, default=-1) and term not in self.over:
            self.engine.commit(command)
            return
        for one in (command, c.Prune(None, older_ms=0, term=term)):
            with pytest.raises(c.Refused) as refused:
                self.engine.commit(one)
            assert refused.value.code == "stale_term"

    @rule(ms=st.sampled_from((1, 900, 2_500, 3_000, 4_000)))
    def time_passes(self, ms: int) -> None:
        self.engine.time_ms += ms
        for slot, (session, _) in list(self.live.items()):
            row = leadership(self.engine)
            if self.lease[session] <= self.engine.time_ms:
                assert self.engine.commit(c.Expire(session, "lease")).state == "dead"
                del self.live[slot]
                if row.session == session:
                    self.over.add(row.term)

    @invariant()
    def terms_go_up(self) -> None:
        after: Any = leadership(self.engine)
        if after.term > self.before.term + 1:
            raise AssertionError("a term was left out")
        assert check_leadership(self.before, after) == []
        self.before = after


LeaderMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLeader = LeaderMachine.TestCase


def test_without_a_leader_a_session_ends_when_its_lease_has_passed_and_not_before() -> None:
    engine = Engine()
    engine.node("a", 1_000)
    assert engine.commit(c.Expire("a", "lease")).state == "live"
    engine.time_ms += 2_000
    assert engine.commit(c.Expire("a", "lease")).state == "dead"


def test_pruning_by_a_person_needs_no_term() -> None:
    assert Engine().commit(c.Prune(0)).changed == 0
