"""Output that nodes send: guarded by attempt and session, said twice it is stored once, gone with its run."""

from typing import Any

import apsw

from tests.store.conformance import Backend, blank, draft_of, make_world, put_session, task_id
from weft.core.rows import AttemptRow
from weft.store.shipment import CHUNK_MAX, Chunk, Shipment

HELD = (task_id(3, 1), 1, "s1")
ALL = "SELECT task_id, attempt, stream, at, data FROM output_chunks ORDER BY 1, 2, 3, 4"
ENDS = "SELECT task_id, attempt, stream, size FROM output_ends ORDER BY 1, 2, 3"


def chunk(at: int = 0, data: bytes = b"data", of: tuple[int, int, str] = HELD, **more: Any) -> Chunk:
    return Chunk(*of, "stdout", at, data, **more)


def stored(backend: Backend, store: Any) -> list[tuple[int, bytes]]:
    if store.kind == "etcd":  # beside the replica
        file = apsw.Connection(str(store.path.parent / "output.db"), flags=apsw.SQLITE_OPEN_READONLY)
        return [(at, bytes(data)) for at, data in file.execute("SELECT at, data FROM output_chunks ORDER BY at")]
    return [(row[3], bytes(row[4])) for row in backend.query(store, ALL)]


def test_an_attempt_s_own_session_may_send(backend: Backend, store: Any) -> None:
    make_world(store)
    data = bytes(range(256)) * 4
    assert store.keep_output(Shipment([chunk(0, data), chunk(1024, b"\0\xff", size=1026)])) == []
    assert stored(backend, store) == [(0, data), (1024, b"\0\xff")]
    assert backend.query(store, ENDS) == [(HELD[0], 1, "stdout", 1026)]


def test_nobody_else_may(backend: Backend, store: Any) -> None:
    make_world(store)
    with store.transaction() as tx:
        put_session(tx, "s2")
    others = [(HELD[0], 1, "s2"), (HELD[0], 2, "s1"), (task_id(3, 2), 0, "s1"), (task_id(77, 1), 1, "s1")]
    for other in others:
        assert store.keep_output(Shipment([chunk(of=other, size=4)])) == [other[:2]]
    mixed = Shipment([chunk(of=others[2]), chunk(0, b"mine")])
    assert store.keep_output(mixed) == [others[2][:2]]
    assert stored(backend, store) == [(0, b"mine")]
    assert backend.query(store, ENDS) == []


def test_after_the_attempt_s_end_its_session_may_go_on_unless_it_was_lost(backend: Backend, store: Any) -> None:
    make_world(store)
    mine, lost = (task_id(3, 0), 4, "s1"), (task_id(3, 6), 2, "s1")
    with store.transaction() as tx:
        draft = draft_of(tx)
        for (task, attempt, session), outcome in ((mine, "succeeded"), (lost, "lost")):
            given = {"task_id": task, "attempt": attempt, "generation": 1, "session": session, "outcome": outcome}
            draft.attempts.append(blank(AttemptRow, **given, finished_at=tx.now))
        tx.write(draft)
    assert store.keep_output(Shipment([chunk(of=mine, size=4), chunk(of=lost, size=4)])) == [lost[:2]]
    assert backend.query(store, ENDS) == [(mine[0], 4, "stdout", 4)]


def test_a_shipment_said_twice_is_stored_once(backend: Backend, store: Any) -> None:
    make_world(store)
    shipment = Shipment([chunk(0, b"a" * CHUNK_MAX), chunk(CHUNK_MAX, b"b", size=CHUNK_MAX + 1)])
    for _ in range(2):
        assert store.keep_output(shipment) == []
    assert [(at, len(data)) for at, data in stored(backend, store)] == [(0, CHUNK_MAX), (CHUNK_MAX, 1)]


def test_what_lies_within_the_middle_is_dropped(backend: Backend, store: Any) -> None:
    make_world(store)
    store.keep_output(Shipment([chunk(at, b"0123456789") for at in range(0, 60, 10)]))
    store.keep_output(Shipment([chunk(60, b"end", drop=(20, 45), size=63)]))
    assert [at for at, _ in stored(backend, store)] == [0, 10, 40, 50, 60]


def test_it_is_read_from_any_offset(backend: Backend, store: Any) -> None:
    make_world(store)
    store.keep_output(Shipment([chunk(0, b"a" * CHUNK_MAX), chunk(CHUNK_MAX, b"bcd"), chunk(CHUNK_MAX + 9, b"e")]))
    reader = store.reader()

    def read(offset: int) -> list[tuple[int, int]]:
        return [(at, len(data)) for at, data in reader.read("output_read", 3, 1, -1, 1, "stdout", offset, CHUNK_MAX)]

    assert read(0) == read(CHUNK_MAX - 1) == [(0, CHUNK_MAX)]
    assert read(CHUNK_MAX) == read(CHUNK_MAX + 2) == [(CHUNK_MAX, 3)]
    assert read(CHUNK_MAX + 3) == [(CHUNK_MAX + 9, 1)], "what comes after a gap"
    assert read(CHUNK_MAX + 10) == []
    reader.close()


def test_it_goes_with_its_run(backend: Backend, store: Any) -> None:
    make_world(store)
    store.keep_output(Shipment([chunk(size=4)]))
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.pruned.runs = [2]
        tx.write(draft)
    assert len(stored(backend, store)) == 1
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.pruned.runs = [3]
        tx.write(draft)
    if store.kind == "etcd":
        store.output.tend(store.path, store.revision)  # every few seconds in a node
    assert (stored(backend, store), backend.query(store, ENDS)) == ([], [])
