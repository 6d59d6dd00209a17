"""The sessions of workers, as a server knows them: whose they are, and what they may claim and read.

All of it is in the store, and here only so that the store need not be asked each time: a server that has just been
started, or that a worker comes to because another one is gone, reads it again.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import msgspec

from weft.core.placement.demands import SESSION, holder_of
from weft.core.placement.eligibility import NodeFacts, costs, decode_facts, eligible, free, node_facts
from weft.node.ports import RunFacts
from weft.store.shipment import FILES, Chunk

SESSIONS_MAX = 10_000
RUNS_MAX = 2000
STREAMS_MAX = 10_000  # of which the bytes are counted
SENT = 4  # times output_max: what an attempt may send of a stream


class WorkerSession(msgspec.Struct):
    id: str
    token: str
    node: str
    facts: NodeFacts
    slotless: frozenset[str]
    runs: OrderedDict[int, RunFacts | None]  # of which it has claimed tasks
    eligible: dict[str, bool]  # demands that were judged
    sent: OrderedDict[tuple[int, int, str], int] = msgspec.field(default_factory=OrderedDict)  # bytes of each stream

    def claimed(self, run_nos: Iterable[int]) -> None:
        for no in run_nos:
            self.runs.setdefault(no, None)
            self.runs.move_to_end(no)
        while len(self.runs) > RUNS_MAX:
            self.runs.popitem(last=False)

    def may_ship(self, chunks: list[Chunk], output_max: int) -> bool:
        """Counts all that is sent of a stream, also what is sent again. A node of ours sends a stream's beginning and
        its end, less than twice output_max; a server that is restarted counts from nothing."""
        for chunk in chunks:
            if chunk.stream == FILES:  # which have a bound of their own
                continue
            stream = (chunk.task_id, chunk.attempt, chunk.stream)
            self.sent[stream] = self.sent.pop(stream, 0) + len(chunk.data)
            if self.sent[stream] > SENT * output_max:
                return False
        while len(self.sent) > STREAMS_MAX:
            self.sent.popitem(last=False)
        return True

    @property
    def run_ids(self) -> dict[int, str]:
        return {no: facts.id for no, facts in self.runs.items() if facts is not None}

    @property
    def workflows(self) -> frozenset[str]:
        return frozenset(facts.workflow for facts in self.runs.values() if facts is not None)


def session_of(id: str, token: str, node: str, body: str) -> WorkerSession:
    said = decode_facts(body)
    facts = node_facts(said, node, id)
    return WorkerSession(id, token, node, facts, frozenset(said.get("slotless", ())), OrderedDict(), {})


class KnownSessions:
    """The newest, by id."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, WorkerSession] = OrderedDict()

    def get(self, id: str) -> WorkerSession | None:
        found = self._known.get(id)
        if found is not None:
            self._known.move_to_end(id)
        return found

    def add(self, session: WorkerSession) -> WorkerSession:
        self._known[session.id] = session
        while len(self._known) > SESSIONS_MAX:
            self._known.popitem(last=False)
        return session

    def forget(self, id: str) -> None:
        self._known.pop(id, None)


class Demand(msgspec.Struct, frozen=True):
    body: dict[str, Any]
    costs: dict[str, int]

    @property
    def requires(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body.get("requires", {})
        return found


class Catalog:
    """All demands that there are, but for those of single sessions."""

    def __init__(self) -> None:
        self.newest = 0
        self._demands: dict[str, Demand] = {}

    def learn(self, demands: Iterable[tuple[int, str, str]]) -> None:
        for number, id, body in demands:
            self.newest = max(self.newest, number)
            if not id.startswith(SESSION):
                decoded = msgspec.json.decode(body)
                self._demands[id] = Demand(decoded, costs(decoded.get("requires", {})))

    def unknown(self, ids: Iterable[str]) -> bool:
        return any(id not in self._demands and not id.startswith(SESSION) for id in ids)

    def eligible(self, session: WorkerSession, ids: Iterable[str]) -> list[str]:
        """Those that the session may claim of; what the worker thinks of itself does not count."""
        return [id for id in ids if self._may_claim(session, id)]

    def _may_claim(self, session: WorkerSession, id: str) -> bool:
        if id.startswith(SESSION):
            return holder_of(id) == session.id
        known = session.eligible.get(id)
        if known is None:
            demand = self._demands.get(id)
            if demand is None:
                return False
            known = session.eligible[id] = not eligible(demand.body, session.facts)
        return known

    def costs(self, ids: Iterable[str]) -> dict[str, dict[str, int]]:
        found = {id: self._demands[id].costs for id in ids if id in self._demands}
        return {id: cost for id, cost in found.items() if cost}

    def free(self, session: WorkerSession, ids: Iterable[str], said: dict[str, int]) -> dict[str, int]:
        """What the worker says that it has left, and no more than it registered with."""
        requires = [self._demands[id].requires for id in ids if id in self._demands and self._demands[id].costs]
        whole = free(session.facts, requires, ())
        return {name: min(amount, whole[name]) for name, amount in said.items() if name in whole}

    def all_eligible(self, session: WorkerSession) -> list[str]:
        """All that the session may claim of."""
        return self.eligible(session, list(self._demands))
