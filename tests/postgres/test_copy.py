"""A store moves from its file to PostgreSQL: with unfinished runs, killed anywhere, and never beside its copy."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import forked
from weft.client.local import StoreConnection
from weft.client.move import store_copy as copying
from weft.config import store_from
from weft.operations.access import StoreAccess
from weft.operations.reading.verification import verify
from weft.operations.replies import Verification
from weft.store.postgres.driver import PostgresStore
from weft.store.postgres.fill import Filling
from weft.store.postgres.url import PostgresUrl
from weft.store.sqlite.driver import SqliteStore
from weft.store.sqlite.source import SqliteSource

DONE = """\
name: done
on_failure: continue
tasks:
  talk: {run: 'yes 0123456789 | head -c 300000; printf "\\377"; echo no >&2'}
  many: {needs: [talk], replicas: 3, run: 'echo element $WEFT_INDEX'}
  bad: {run: 'echo broken >&2; exit 3', retry: {max: 1, backoff: 10ms}}
output: {many: '${{ tasks.many.output }}'}
"""
WAITS = """\
name: waits
tasks:
  first: {run: 'echo "{\\"n\\": 5}" > $WEFT_OUTPUT; echo key=1 > $WEFT_CONTEXT'}
  asked: {needs: [first], wait: {signal: go}}
  last: {needs: [asked, first], run: 'echo ${{ tasks.first.output.n }} > last'}
"""
LATER = "name: later\ntasks: {a: 'echo a >> later', b: {needs: [a], run: 'echo b >> later'}}\n"
POINTS = ("copy.marked", "copy.filled", "copy.committed")


class Place:
    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.source = directory / ".weft" / "weft.db"
        self.url = url

    def start(self, *words: str, **env: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "weft", *words], cwd=self.directory, text=True, env=self._env(env),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def weft(self, *words: str, code: int = 0, **env: str) -> tuple[str, str]:
        done = forked.run(words, self.directory, self._env(env), timeout=120)
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code, (words, out, err)
        return out, err

    def _env(self, more: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        return {**kept, "PYTHONUTF8": "1", **more}

    def copy(self, *words: str, code: int = 0, **env: str) -> tuple[str, str]:
        return self.weft("store", "copy", "--to", self.url, *words, code=code, **env)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.directory / f"{name}.yaml").write_text(text)

    def fill(self) -> None:
        self.write(done=DONE, waits=WAITS, later=LATER)
        self.weft("run", "done.yaml", code=1)
        self.weft("submit", "waits.yaml")
        worker = self.start("worker")
        connection = self.old()
        run_id = connection.find("last")[1]
        until(lambda: connection.task(run_id, "asked").state == "waiting")
        connection.close()
        worker.terminate()
        worker.communicate(timeout=60)
        self.weft("submit", "later.yaml", "--key", "once")

    def old(self) -> StoreConnection:
        return StoreConnection(StoreAccess(SqliteStore(self.source)))

    def new(self) -> StoreConnection:
        return StoreConnection(StoreAccess(PostgresStore(self.url), root=self.directory / "elsewhere"))


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def place(tmp_path: Path, fresh_url: str) -> Place:
    return Place(tmp_path, fresh_url)


def picture(connection: StoreConnection) -> list[Any]:
    """All that people see."""
    seen: list[Any] = [connection.runs(limit=100), connection.pools(), connection.last_event()]
    for run in connection.runs(limit=100):
        tasks = list(connection.all_tasks(run.id))
        seen += [tasks, connection.events(run.id), connection.context(run.id), connection.verify(run.id).differences]
        for task in tasks:
            if task.elements is None:
                seen.append(connection.attempts(run.id, task.name))
                for attempt in range(1, task.attempt + 1):
                    for stream in ("stdout", "stderr"):
                        data, piece = b"", connection.open_output(run.id, task.name, attempt, stream).read(0)
                        while piece.data:
                            data += piece.data
                            piece = connection.open_output(run.id, task.name, attempt, stream).read(piece.next)
                        seen.append((task.name, attempt, stream, data, piece.then))
    return seen


def same(place: Place) -> None:
    old, new = place.old(), place.new()
    try:
        for mine, theirs in zip(picture(old), picture(new), strict=True):
            assert mine == theirs
    finally:
        old.close()
        new.close()


def finishes(place: Place) -> None:
    """Unfinished runs go on in their new place, and numbers go on there."""
    connection = place.new()
    later, waits = connection.runs(limit=100)[:2]
    again = json.loads(place.weft("submit", "later.yaml", "--key", "once", "--json", WEFT_STORE=place.url)[0])
    assert (again["run"], again["existing"]) == (later.id, True)
    place.weft("signal", waits.id, "go", WEFT_STORE=place.url)
    fresh = place.weft("submit", "later.yaml", WEFT_STORE=place.url)[0].strip()
    assert connection.run(fresh).no == later.no + 1
    worker = place.start("worker", WEFT_STORE=place.url)
    until(lambda: all(run.finished for run in connection.runs(limit=100)))
    worker.terminate()
    worker.communicate(timeout=60)
    assert [run.state for run in connection.runs(limit=100)] == ["succeeded", "succeeded", "succeeded", "failed"]
    assert all(connection.verify(run.id).ok for run in connection.runs(limit=100))
    assert (place.directory / "last").read_text() == "5\n"
    connection.close()


def test_everything_moves_and_goes_on(place: Place) -> None:
    place.fill()
    old = place.old()
    before = picture(old)
    old.close()
    shown = json.loads(place.copy("--json")[0])
    assert shown["rows"]["runs"] == shown["verified"] == 3
    assert shown["output_bytes"] > 300_000
    same(place)
    old = place.old()
    assert picture(old) == before, "what is left can be looked at"
    old.close()
    for words in (["submit", "later.yaml"], ["cancel", "last"], ["prune", "--older", "0s"], ["worker"]):
        _, err = place.weft(*words, code=2)
        assert f"was moved to {shown['target']}" in err
        assert "Traceback" not in err
    assert "done" in place.weft("ls")[0]
    assert json.loads(place.copy("--json")[0])["rows"] == {}, "said again, it is done already"
    finishes(place)


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_and_run_again(place: Place, point: str) -> None:
    place.fill()
    place.copy(code=-signal.SIGKILL, WEFT_CRASH_AT=point)
    assert "being moved" in place.weft("submit", "later.yaml", code=2)[1]
    if point != "copy.committed":
        with psycopg.connect(place.url) as connection:
            tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
            assert tables == (0,), "nothing is there before all is"
    place.copy()
    assert "was moved" in place.weft("submit", "later.yaml", code=2)[1]
    same(place)


def test_killed_at_any_moment(place: Place) -> None:
    place.fill()
    killed = 0
    for wait_s in (0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.4):
        process = place.start("store", "copy", "--to", place.url)
        try:
            process.communicate(timeout=wait_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            killed += 1
    place.copy()
    assert killed > 0
    same(place)


def test_nodes_at_work_are_named_or_drained(place: Place) -> None:
    place.write(later=LATER, holds="tasks: {h: {run: 'echo begun; while ! test -e open; do sleep 0.05; done'}}\n")
    run_id = place.weft("submit", "holds.yaml")[0].strip()
    worker = place.start("worker", "--name", "one", "--drain", "60s")
    old = place.old()
    until(lambda: old.task(run_id, "h").state == "running")
    assert "nodes are at work on" in (err := place.copy(code=2)[1])
    assert "one (1 running)" in err
    place.weft("submit", "later.yaml")  # nothing has happened to it
    copying = place.start("store", "copy", "--to", place.url, "--wait")
    until(lambda: old.node("one").state == "draining")
    (place.directory / "open").touch()
    out, err = copying.communicate(timeout=120)
    assert copying.returncode == 0, (out, err)
    assert worker.wait(60) == 0
    worker.communicate()
    old.close()
    same(place)


def test_a_node_that_was_killed_loses_its_attempt_before_the_move(place: Place) -> None:
    place.write(holds="tasks: {h: {run: 'test -e open || sleep 600'}}\n")
    run_id = place.weft("submit", "holds.yaml")[0].strip()
    worker = place.start("worker", "--name", "one")
    old = place.old()
    until(lambda: old.task(run_id, "h").state == "running")
    worker.kill()
    worker.communicate()
    place.copy()
    task = old.task(run_id, "h")
    assert (task.state, task.lost) == ("queued", 1)
    old.close()
    same(place)
    (place.directory / "open").touch()
    place.weft("resume", run_id, WEFT_STORE=place.url)


def test_a_target_in_use_is_refused_and_the_source_goes_on(place: Place) -> None:
    place.write(later=LATER)
    place.weft("run", "later.yaml")
    place.weft("submit", "later.yaml", WEFT_STORE=place.url)
    assert "is in use" in place.copy(code=2)[1]
    place.weft("run", "later.yaml")
    missing = "postgresql://weft@127.0.0.1:1/none"
    place.weft("store", "copy", "--to", missing, code=4)
    place.weft("run", "later.yaml")


def test_a_copy_that_was_broken_off_is_undone(place: Place) -> None:
    place.write(later=LATER)
    place.weft("run", "later.yaml")
    place.copy(code=-signal.SIGKILL, WEFT_CRASH_AT="copy.filled")
    other = place.url.rpartition("/")[0] + "/postgres"
    assert "being moved to" in place.weft("store", "copy", "--to", other, code=2)[1]
    place.copy("--undo")
    place.weft("run", "later.yaml")
    place.copy()
    assert "cannot be undone" in place.copy("--undo", code=2)[1]


def test_a_run_that_differs_from_its_events_is_named_and_moved_with_all_others(place: Place) -> None:
    place.write(later=LATER)
    place.weft("run", "later.yaml")
    place.weft("run", "later.yaml")
    store = SqliteStore(place.source)
    with store.transaction():
        store._writer.execute("UPDATE tasks SET failures = 7 WHERE run_no = 1")
    store.close()
    said = place.copy()[1]
    connection = place.new()
    good, bad = connection.runs(limit=100)
    assert f"run {bad.id} is not what its events say, here already: a" in said
    assert f"not what their events say, moved as they are: {bad.id}; see weft verify RUN" in said
    assert connection.verify(good.id).ok
    old = place.old()
    assert connection.verify(bad.id).differences == old.verify(bad.id).differences
    old.close()
    connection.close()


def test_what_differs_is_not_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy of a run is not what the run is."""
    place.write(later=LATER)
    place.weft("run", "later.yaml")

    def differs(access: StoreAccess, ref: str) -> Verification:
        found = verify(access, ref)
        found.events += isinstance(access, copying._Filled)
        return found

    monkeypatch.setattr(copying, "verify", differs)
    target = store_from("--to", place.url, place.directory)
    assert isinstance(target, PostgresUrl)
    copy = copying.Copy(SqliteSource(place.source), Filling(target), lambda text: None)
    with pytest.raises(copying.NotTheSame, match="is not the same there"):
        copy.run(wait=False, quick=False)
    copy.close()
    with psycopg.connect(place.url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
