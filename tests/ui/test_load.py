"""The page under load in a real browser: tasks that change, many runs, much output. What was measured is printed.

Short here; `WEFT_SOAK=1` (`make soak`) makes the changes last a minute.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
from bench.browser_page import needs_of

from tests.api.conftest import Running, until
from tests.ui.conftest import Page
from tests.ui.test_in_browser import SHOWN
from weft.core import commands as c

MIB = 1024 * 1024
CHANGES_S = 60 if os.environ.get("WEFT_SOAK") else 5
RUNS = 100_000
OUTPUT = 1024 * MIB
NODE = '{"kinds": ["shell"], "slots": 100, "labels": {}}'


class Paced(threading.Thread):
    """A session that claims and reports about 500 attempts a second: 1,000 changes. Tasks fail twice before they
    succeed, so that a run of 10,000 tasks changes for a minute."""

    def __init__(self, server: Running) -> None:
        super().__init__(daemon=True)
        self._commit = server.connection.link.committer.commit
        self._commit(c.Register("paced", "paced", 60_000, None, NODE))
        self._over = threading.Event()
        self.attempts = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.problem = error

    def _work(self) -> None:
        new = self._commit(c.Exchange("paced", 1, [], 0, [], 0)).demands
        demands, known = [id for _, id, _ in new], new[-1][0]
        claims: list[c.Claim] = []
        for number in range(2, 1_000_000):
            began = time.monotonic()
            reports = [self._report(one) for one in claims]
            claims = self._commit(c.Exchange("paced", number, reports, 50, demands, known)).claims
            self.attempts += len(claims)
            if self._over.wait(max(0.0, 0.1 - (time.monotonic() - began))):
                return

    def _report(self, one: c.Claim) -> c.Report:
        ends = c.Report(one.task_id, one.pos, one.idx, one.attempt, "succeeded", 0, started_ago_ms=3, result="{}")
        if one.attempt < 3:
            ends.outcome, ends.exit_code, ends.error, ends.result = "failed", 1, "not yet", None
        return ends

    def stop(self) -> None:
        self._over.set()
        self.join()
        assert self.problem is None, self.problem


@pytest.fixture
def paced(page_of: Callable[..., Page]) -> Iterator[tuple[Page, Paced]]:
    page = page_of(node=False)
    worker = Paced(page.server)
    yield page, worker
    if worker.is_alive():
        worker.stop()


def test_a_thousand_changes_a_second(paced: tuple[Page, Paced]) -> None:
    page, worker = paced
    tasks = {
        f"t{pos}": {"run": "true", "needs": [f"t{one}" for one in needs], "retry": {"max": 2, "backoff": "1ms"}}
        for pos, needs in enumerate(needs_of())
    }
    run = page.server.submit({"name": "large", "tasks": tasks})
    page.sign_in(place=f"#/runs/{run}")
    page.until("document.querySelector('weft-graph')?.drawn > 0")
    page.until_text(".legend", "9,900 pending")
    worker.start()
    page.until("document.querySelector('weft-run').model.applied > 500")
    before, began, seen = page.browser.memory(), time.monotonic(), page.eval(APPLIED)
    page.eval(f"new Promise((done) => setTimeout(done, {CHANGES_S * 1000}))")
    took, changes = time.monotonic() - began, page.eval(APPLIED) - seen
    worker.stop()
    after = page.browser.memory()
    print(f"{changes / took:,.0f} changes a second for {took:.0f} s; memory {before:.1f} → {after:.1f} MiB")
    assert changes / took > 200, "a busy machine may be slower than 1,000 a second, and not this slow"
    assert after < before + 5
    page.until(f"({SAME})({states_of(page, run)!r})")
    assert page.broken == []


APPLIED = "document.querySelector('weft-run').model.applied"
#: Whether the page shows these states, by position.
SAME = f"async (wanted) => {{ const shown = await ({SHOWN})(); return Object.values(shown).join() === wanted; }}"


def states_of(page: Page, run: str) -> str:
    """As the store has them."""
    store = apsw.Connection(str(page.server.directory / ".weft" / "weft.db"), flags=apsw.SQLITE_OPEN_READONLY)
    of = "SELECT t.state FROM tasks t JOIN runs r ON r.no = t.run_no WHERE r.id = ? ORDER BY t.pos"
    return ",".join(state for (state,) in store.execute(of, (run,)))


@pytest.fixture
def many_runs(page: Page) -> Page:
    """One run is real; 100,000 more have its row with another number, id, name, state and time."""
    first = page.server.submit({"name": "nightly", "tasks": {"a": "true"}}, labels={"team": "data"})
    until(lambda: page.server.connection.run(first).finished)
    store = apsw.Connection(str(page.server.directory / ".weft" / "weft.db"))
    store.set_busy_timeout(10_000)
    changed = {
        "no": "no + n", "root": "no + n", "id": "printf('b%011d', n)", "name": "'flow' || (n % 40)", "key": "NULL",
        "created_at": "created_at - n * 1000", "state": "CASE n % 10 WHEN 3 THEN 'failed' ELSE state END",
        "reason": "CASE n % 10 WHEN 3 THEN 'load: exit code 3' END",
    }  # fmt: skip
    columns = [name for _, name, *_ in store.execute("PRAGMA table_info(runs)")]
    values = ", ".join(changed.get(name, f'"{name}"') for name in columns)
    numbers = f"WITH RECURSIVE seq(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < {RUNS})"
    with store:
        store.execute(
            f"{numbers} INSERT INTO runs SELECT {values} FROM runs, seq WHERE no = (SELECT max(no) FROM runs)"
        )
    store.close()
    return page


#: What is opened, and what shows that it has come: an address, a selector, words.
PLACES = {
    "failed": ("#/runs?state=failed", "weft-runs tbody", ["load: exit code 3"]),
    "text": ("#/runs?text=b00000000777", "weft-runs tbody", ["b00000000777", "flow17"]),
    "workflow": ("#/runs?name=flow7", "weft-runs tbody", ["flow7"]),
    "workflows": ("#/workflows", "weft-workflows tbody", ["nightly"]),
    "home": ("#/home", "weft-home", ["The last hour", "runs submitted"]),
    "all": ("#/runs", "weft-runs", ["100,001"]),
}


def test_a_hundred_thousand_runs(many_runs: Page) -> None:
    page = many_runs
    page.sign_in()
    page.until_text("weft-runs .chip", "100,001")
    before = page.browser.memory()
    newest = page.text("weft-runs tbody tr:first-child .mono")
    page.click(".pages a", "Older")
    page.until(f"!document.body.textContent.includes({newest!r})")
    took = {}
    for what, (place, selector, words) in PLACES.items():
        began = time.monotonic()
        page.go(place)
        page.until_text(selector, *words)
        took[what] = time.monotonic() - began
        assert page.eval("document.querySelectorAll('tbody tr').length") <= 200
    added = page.browser.memory() - before
    print(", ".join(f"{what} {seconds:.2f} s" for what, seconds in took.items()), f"memory +{added:.1f} MiB")
    assert max(took.values()) < 10
    assert added < 10
    assert page.broken == []


def printed(page: Page) -> tuple[str, Path]:
    """A run, and the file with what its task printed."""
    run = page.server.submit({"name": "talkative", "tasks": {"talk": "echo first; echo last"}})
    until(lambda: page.server.connection.run(run).finished)
    files = (path for path in page.server.directory.rglob("*") if path.is_file())
    (file,) = (path for path in files if path.read_bytes()[:6] == b"first\n")
    return run, file


def test_what_was_cut_out_of_the_middle(page: Page) -> None:
    run, file = printed(page)
    with file.open("r+b") as output:
        output.truncate(8 * MIB)
        output.seek(-10_000, 2)
        output.write(b"the tail\n" * 1111 + b"\n")
    page.sign_in(place=f"#/runs/{run}?task=talk")
    page.until_text("weft-output", "of 8.0 MiB", "the tail")
    page.click(".output-tools button", "Earlier")
    page.until_text(".output-text", "first", "were not kept")
    page.browser.until_idle()
    shown = page.text(".output-text")
    assert (shown.count("the tail"), shown.count("were not kept")) == (1111, 1)


def test_a_gigabyte_of_output(page: Page) -> None:
    run, file = printed(page)
    with file.open("r+b") as output:
        output.truncate(OUTPUT)
        output.seek(-2 * MIB, 2)  # before that is a hole, as if the middle had been cut out
        output.write((b"\x1b[31mcolour\x1b[0m line\n" * 110_000)[: 2 * MIB])  # very dense
    page.sign_in(place=f"#/runs/{run}")
    page.until_text(".legend", "succeeded")
    before = page.browser.memory()
    page.go(f"#/runs/{run}?task=talk")
    page.until_text("weft-output", "of 1.00 GiB", "colour")
    for _ in range(4):
        shown = page.text(".output-tools span")
        page.click(".output-tools button", "Earlier")
        page.until(f"document.querySelector('.output-tools span').textContent !== {shown!r}")
    added = page.browser.memory() - before
    print(f"1 GiB of output: +{added:.1f} MiB")
    assert added < 10
    assert page.broken == []
