"""A pool's limit holds at every moment, whoever claims and reports at the same time."""

import threading
from typing import Any

from tests.store.conformance import Backend
from weft.core import commands as c
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import document_hash, encode_document
from weft.core.definition.read import read
from weft.core.invariants import check_pools
from weft.core.rows import PoolRow
from weft.node.committer import Committer
from weft.store.protocol import StoreBusy

NODES = 4
TASKS = 120
SIZE = 3


def document() -> dict[str, Any]:
    task = {"inline": "work", "replicas": TASKS // 2}
    return {"name": "w", "concurrency": 5, "tasks": {"a": {**task, "pools": "p"}, "b": {**task, "pools": ["p", "q"]}}}


class Claimer(threading.Thread):
    """A node that claims and reports as fast as it can. What it holds is held by nobody else, so the sum over all of
    them is how many run: counted after the claim is known and before the report is said."""

    def __init__(self, committer: Committer, session: str, running: list[int], lock: threading.Lock) -> None:
        super().__init__()
        self._committer = committer
        self._session = session
        self._running, self._lock = running, lock
        self.most = self.done = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.error = error

    def _work(self) -> None:
        self._commit(c.Register(self._session, self._session, 600_000, None, "{}"))
        pools = "p,workflow:w", "p,q,workflow:w"
        demands = [f"inline=work@{names}" for names in pools]
        reports: list[c.Report] = []
        for number in range(1, 2000):
            with self._lock:
                self._running[0] -= len(reports)
            reply = self._commit(c.Exchange(self._session, number, reports, 2, demands, 100))
            with self._lock:
                self._running[0] += len(reply.claims)
                self.most = max(self.most, self._running[0])
            reports = [
                c.Report(claim.task_id, claim.pos, claim.idx, claim.attempt, "succeeded", started_ago_ms=0)
                for claim in reply.claims
            ]
            self.done += len(reports)
            if not reports and self._over():
                return
        raise AssertionError("it did not come to an end")

    def _commit(self, command: c.Command) -> Any:
        while True:
            try:
                return self._committer.commit(command)
            except StoreBusy:
                continue

    def _over(self) -> bool:
        reader = self._committer.store.reader()
        try:
            return bool(reader.read("run_state", 1)[0][0] == "succeeded")
        finally:
            reader.close()


def _most_by_events(store: Any) -> int:
    """Numbers of events are drawn while the pool is locked, so their order is that of claims and ends."""
    reader = store.reader()
    running = most = 0
    unfiltered = (0, None, None, None, None, 10 * TASKS, 2**62, 1)
    for _, _, _, _, _, kind, _, many, *_ in reader.read("events_found_of_run", *unfiltered):
        running += {"assigned": many, "finished": -many}.get(kind, 0)
        most = max(most, running)
    return most


def test_no_more_than_its_places_are_ever_taken(backend: Backend, make_store: Any) -> None:
    backend.needs("sharing")
    store = make_store()
    committer = backend.committer(store)
    committer.commit(c.SetPool("p", SIZE))
    committer.commit(c.SetPool("q", 1))
    made = read(document()).document
    assert made is not None
    hash = document_hash(made)
    committer.know(compile_workflow(made, hash))
    committer.commit(c.Submit("run", hash, "w", encode_document(made), "{}"))
    running, lock = [0], threading.Lock()
    claimers = [Claimer(backend.committer(make_store()), f"s{number}", running, lock) for number in range(NODES)]
    for claimer in claimers:
        claimer.start()
    for claimer in claimers:
        claimer.join(120)
    assert [claimer.error for claimer in claimers] == [None] * NODES
    assert sum(claimer.done for claimer in claimers) == TASKS
    assert max(claimer.most for claimer in claimers) <= SIZE
    assert _most_by_events(store) == SIZE
    rows = [PoolRow(*row) for row in store.reader().read("pools_all")]
    assert check_pools(rows, []) == []
    assert [(row.name, row.size) for row in rows] == [("p", SIZE), ("q", 1), ("workflow:w", 5)]
