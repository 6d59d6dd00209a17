"""What an exchange costs a store, counted: statements, and on PostgreSQL round trips. Seconds differ from machine to
machine, these do not. Fewer is fine: lower the number. More needs a reason."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.store.conformance import Backend
from weft.authoring.load import load_value
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.operations.access import StoreAccess
from weft.operations.submission import submission
from weft.store.postgres.statements import Statement
from weft.store.postgres.wire import Wire

NODE = '{"kinds": ["shell"], "slots": 1, "labels": {}}'
#: By store: statements with BEGIN and COMMIT, and round trips.
COUNTS = {
    "sqlite": {
        "submit 192 tasks": (12, 0), "claim 96": (6, 0), "report 96, claim 96": (8, 0), "nothing to do": (4, 0),
        "one task of a chain": (9, 0), "one more task of a chain": (9, 0), "submit a graph": (14, 0),
    },
    "postgres": {
        "submit 192 tasks": (13, 2), "claim 96": (8, 2), "report 96, claim 96": (9, 2), "nothing to do": (5, 2),
        "one task of a chain": (9, 2), "one more task of a chain": (2, 1), "submit a graph": (14, 2),
    },
}  # fmt: skip


class Counted(Counter[str]):
    """Since it was asked last."""

    def taken(self) -> tuple[int, int]:
        found = self["statements"], self["round trips"]
        self.clear()
        return found


@pytest.fixture
def counted(store: Any, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    counts = Counted()
    if backend.name == "postgres":
        send, sync = Wire.send, Wire.sync

        hints: set[int] = set()  # connections that are about to wake other nodes, from a thread of their own

        def sent(wire: Wire, statement: Statement, *parameters: Any) -> None:
            if b"pg_notify" in statement.text:
                hints.add(id(wire))
            else:
                counts["statements"] += 1
            send(wire, statement, *parameters)

        def synced(wire: Wire) -> Any:
            if id(wire) in hints:
                hints.discard(id(wire))
            else:
                counts["round trips"] += 1
            return sync(wire)

        monkeypatch.setattr(Wire, "send", sent)
        monkeypatch.setattr(Wire, "sync", synced)
        yield counts
        return

    def traced(cursor: Any, text: str, bound: Any) -> bool:
        counts["statements"] += 1
        return True

    store._writer.exec_trace = traced
    yield counts
    store._writer.exec_trace = None


class Working:
    """A session that reports all that it claimed as succeeded."""

    def __init__(self, store: Any) -> None:
        self.connection = StoreConnection(StoreAccess(store))
        self.commit = self.connection.link.committer.commit
        self.commit(c.Register("s", "n", 60_000, None, NODE))
        self.number = 0
        self.demands: list[str] = []
        self.known = 0

    def submit(self, tasks: dict[str, Any]) -> None:
        loaded = load_value({"name": "w", "tasks": tasks}, "w")
        self.connection.submit(submission(loaded, "{}", source=None), loaded.workflow)
        if not self.demands:
            new = self.exchange([], 0).demands
            self.demands, self.known = [id for _, id, _ in new], new[-1][0]

    def exchange(
        self, claims: list[c.Claim], want: int, following: bool = False, undisturbed: bool = False
    ) -> c.ExchangeReply:
        self.number += 1
        reports = [
            c.Report(
                one.task_id, one.pos, one.idx, one.attempt, "succeeded", 0,
                started_ago_ms=3, result="{}", result_hash="h",
            )
            for one in claims
        ]  # fmt: skip
        places = [(one.run_no, one.pos + 1, -1) for one in claims] if following else []
        reply: c.ExchangeReply = self.commit(
            c.Exchange(
                "s", self.number, reports, want, self.demands, self.known, following=places, undisturbed=undisturbed
            )
        )
        return reply


def measure(store: Any, counted: Counted) -> dict[str, tuple[int, int]]:
    working = Working(store)
    working.submit({"first": {"run": "true"}})
    claims = working.exchange([], 1).claims
    working.exchange(claims, 0)  # everything is prepared now
    found = {}
    counted.taken()
    working.submit({f"t{i}": {"run": "true"} for i in range(192)})
    found["submit 192 tasks"] = counted.taken()
    claims = working.exchange([], 96).claims
    assert len(claims) == 96
    found["claim 96"] = counted.taken()
    claims = working.exchange(claims, 96).claims
    assert len(claims) == 96
    found["report 96, claim 96"] = counted.taken()
    working.exchange(claims, 0)
    counted.taken()
    working.exchange([], 10)
    found["nothing to do"] = counted.taken()
    working.submit({"a": {"run": "true"}, "b": {"run": "true", "needs": ["a"]}, "c": {"run": "true"}})
    found["submit a graph"] = counted.taken()
    for _ in range(3):
        claims = working.exchange([], 3).claims
        working.exchange(claims, 0)
    working.submit({f"t{i}": {"run": "true", "needs": [f"t{i - 1}"] if i else []} for i in range(9)})
    claims = working.exchange([], 1).claims
    claims = working.exchange(claims, 1, following=True).claims
    counted.taken()
    (claim,) = working.exchange(claims, 1, following=True).claims
    assert claim.pos == 2
    found["one task of a chain"] = counted.taken()
    (claim,) = working.exchange([claim], 1, following=True, undisturbed=True).claims
    found["one more task of a chain"] = counted.taken()
    return found


def test_no_exchange_takes_more_statements_than_before(store: Any, backend: Backend, counted: Counted) -> None:
    backend.needs("count of statements")
    assert measure(store, counted) == COUNTS["postgres" if backend.name == "postgres" else "sqlite"]
