"""Several processes on one store: nothing is lost, nobody starves, and the clock is everybody's."""

import itertools
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pausing import pause
from tests.store.conformance import Backend, draft_of, put_session
from weft.core.decision.needs import NextRun
from weft.core.rows import EventRow
from weft.store.protocol import StoreBusy

ROOT = Path(__file__).parents[2]


class Child:
    """A process of tests/store/child.py."""

    def __init__(self, address: str, name: str, count: int, rows: int = 1) -> None:
        words = [sys.executable, "-m", "tests.store.child", address, name, str(count), str(rows)]
        self.process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def made(self) -> int:
        """How many transactions it made; ends it if it has no number of its own."""
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return int(out)


@pytest.fixture
def children(backend: Backend) -> Iterator[Any]:
    backend.needs("sharing")
    backend.needs("children")
    started: list[Child] = []

    def start(name: str, count: int, rows: int = 1) -> Child:
        assert backend.address is not None
        started.append(Child(backend.address, name, count, rows))
        return started[-1]

    yield start
    for child in started:
        if child.process.poll() is None:
            child.process.kill()
            child.process.wait()
        for pipe in (child.process.stdin, child.process.stdout):
            if pipe is not None:
                pipe.close()


def test_two_processes_lose_nothing(store: Any, backend: Backend, children: Any) -> None:
    both = [children("one", 200), children("two", 200)]
    for child in both:
        child.go()
    assert [child.made() for child in both] == [200, 200]
    assert backend.query(store, "SELECT kind, count(*) FROM events GROUP BY kind ORDER BY kind") == [
        ("one", 200),
        ("two", 200),
    ]
    with store.transaction() as tx:
        assert tx.load([NextRun()])[0] == [401], "every transaction drew a number of its own"
    kinds = [kind for (kind,) in backend.query(store, "SELECT kind FROM events ORDER BY seq")]
    turns = sum(1 for a, b in itertools.pairwise(kinds) if a != b)
    assert turns > 20, "they took turns"


def test_a_busy_writer_starves_nobody(store: Any, backend: Backend, children: Any) -> None:
    """Counted in turns, not in milliseconds: whoever waits at the turnstile is next, or the one after."""
    hog = children("hog", 0, rows=200)
    hog.go()
    while not _hogged(store, backend):
        pass
    passed = []
    for _ in range(40):
        before = _hogged(store, backend)
        with store.transaction() as tx:
            draft = draft_of(tx)
            draft.events = [EventRow(1, None, None, "guest", None, {})]
            tx.write(draft)
        passed.append(_hogged(store, backend) - before)
    made = hog.made()
    assert made > 40, "the busy one went on meanwhile"
    # Its transaction that was under way, the one it may get in before us, one after our own before we look, and those
    # it makes while this process waits for a core. Without the turnstile it makes hundreds.
    assert sorted(passed)[len(passed) // 2] <= 15, passed
    assert max(passed) <= 150, passed


def _hogged(store: Any, backend: Backend) -> int:
    return int(backend.query(store, "SELECT count(*) FROM events WHERE kind = 'hog'")[0][0]) // 200


def test_a_renewal_passes_a_busy_writer(store: Any, backend: Backend, children: Any) -> None:
    with store.transaction() as tx:
        put_session(tx, "s")
    hog = children("hog", 0, rows=200)
    hog.go()
    while not _hogged(store, backend):
        pass
    before = _hogged(store, backend)
    assert all(store.renew("s", 30_000) for _ in range(20))
    assert _hogged(store, backend) - before <= 20 * 20
    hog.made()


def test_threads_of_one_process_take_turns_too(store: Any, backend: Backend) -> None:
    def write(name: str) -> None:
        for _ in range(50):
            with store.transaction() as tx:
                draft = draft_of(tx)
                draft.events = [EventRow(1, None, None, name, None, {})]
                tx.write(draft)

    threads = [threading.Thread(target=write, args=(f"t{i}",)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert backend.query(store, "SELECT count(*) FROM events") == [(150,)]


def test_a_killed_writer_leaves_nothing_half_done(store: Any, backend: Backend, children: Any) -> None:
    """SIGKILL in the middle of a transaction: it never was; and the turnstile is free again at once."""
    hog = children("hog", 0, rows=500)
    hog.go()
    while not _hogged(store, backend):
        pass
    hog.process.kill()
    hog.process.wait()
    (count,) = backend.query(store, "SELECT count(*) FROM events")[0]
    assert count % 500 == 0
    with store.transaction() as tx:
        (number,) = tx.load([NextRun()])[0]
    assert number > count // 500
    if "gapless run numbers" not in backend.lacks:
        assert number == count // 500 + 1


def test_a_writer_that_is_stopped_is_named(store: Any, backend: Backend, children: Any) -> None:
    """SIGSTOP in the middle of a transaction: nobody can write, and whoever tries is told who is in the way."""
    backend.needs("turns")
    hog = children("hog", 0, rows=500)
    hog.go()
    with store.transaction() as tx:
        put_session(tx, "s")
    assert backend.address is not None
    pause(hog.process.pid, backend.address, writing=True)
    store.patience_ms = 300
    writes: list[Callable[[], object]] = [
        lambda: store.transaction().__enter__(),
        lambda: store.renew("s", 30_000),
    ]
    for write in writes:
        with pytest.raises(StoreBusy, match=rf"process {hog.process.pid} has held its lock for more than 0\.3 s"):
            write()
    with store.transaction(wait=False) as tx:
        assert tx is None
    hog.process.send_signal(signal.SIGCONT)
    store.patience_ms = 30_000
    assert store.renew("s", 30_000)
    with store.transaction() as tx:
        put_session(tx, "t")
    hog.made()


def test_the_clock_goes_on_after_reopening(backend: Backend) -> None:
    backend.needs("reopening")
    last = 0
    for _ in range(3):
        store = backend.open()
        with store.transaction() as tx:
            assert tx.now >= last
            last = tx.now
        store.close()
    one, two = backend.open(), backend.open()
    for store in (one, two, one, two):
        with store.transaction() as tx:
            assert tx.now >= last, "all who share a store share its clock"
            last = tx.now
    one.close()
    two.close()


def test_a_store_learns_that_another_wrote(make_store: Any, backend: Backend) -> None:
    backend.needs("sharing")
    backend.needs("count of commits")
    one, two = make_store(), make_store()
    one.changed_by_others()
    assert not one.changed_by_others()
    with one.transaction() as tx:
        put_session(tx, "mine")
    assert not one.changed_by_others(), "its own writes are no news"
    with two.transaction() as tx:
        put_session(tx, "yours")
    assert one.changed_by_others()
