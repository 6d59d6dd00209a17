"""Real worker processes around one store. A store joins by one more entry in STORES."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from weft.client.local import StoreConnection
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore

STARTUP_MAX_S = 60.0  # a Python process on a machine that is busy with other tests
#: Short times, so that tests are; the ratios are those of the defaults.
LEASE_S, LEADER_TTL_S, LEADER_RENEW_S = 3.0, 3.0, 1.0
TIMES = {
    "WEFT_LEASE_TTL": f"{LEASE_S}s", "WEFT_RENEW_EVERY": "500ms", "WEFT_LEADER_TTL": f"{LEADER_TTL_S}s",
    "WEFT_LEADER_RENEW": f"{LEADER_RENEW_S}s", "WEFT_POLL": "200ms",
}  # fmt: skip


def sqlite(directory: Path) -> tuple[str, Callable[[], StoreConnection]]:
    path = directory / ".weft" / "weft.db"
    return str(path), lambda: StoreConnection(StoreAccess(SqliteStore(path)))


def postgres(directory: Path, store: str | None = None) -> tuple[str, Callable[[], StoreConnection]]:
    from tests.postgres_server import emptied
    from weft.store.postgres.driver import PostgresStore

    url = store or emptied()
    return url, lambda: StoreConnection(StoreAccess(PostgresStore(url), root=directory / ".weft"))


STORES = {"sqlite": sqlite, "postgres": postgres}


class Cluster:
    """`kind` is the store's: what only some stores can do is asked by that name."""

    def __init__(
        self,
        kind: str,
        directory: Path,
        store: str | None = None,
        connect: Callable[[], StoreConnection] | None = None,
    ) -> None:
        self.kind = kind
        self.directory = directory
        if store is not None and connect is not None:
            self.store, self._connection = store, connect
        else:
            self.store, self._connection = STORES[kind](directory) if store is None else postgres(directory, store)
        self.processes: dict[str, forked.Process] = {}  # workers, by name
        self._started: list[forked.Process] = []
        directory.joinpath(".weft").mkdir(exist_ok=True)
        self.connection = self._connection()

    def weft(self, *words: str, at: str = "", store: str | None = None, **env: str) -> forked.Process:
        """`at`: a directory of its own, as if on another machine. `store`: another way to the same one."""
        place = self.directory / at
        place.joinpath(".weft").mkdir(parents=True, exist_ok=True)
        with (self.directory / "log").open("a") as log:
            process = forked.start([*words, "--store", store or self.store], place, self._env(env), log)
        self._started.append(process)
        return process

    def call(self, *words: str, **env: str) -> Any:
        done = forked.run(
            [*words, "--store", self.store, "--json"], self.directory, self._env(env), timeout=STARTUP_MAX_S
        )
        with (self.directory / "log").open("ab") as log:
            log.write(done.stderr)
        return json.loads(done.stdout) if done.returncode == 0 else done.returncode

    def _env(self, more: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        return {**kept, **TIMES, "PYTHONUTF8": "1", **more}

    def worker(self, name: str, *words: str, at: str = "", store: str | None = None, **env: str) -> forked.Process:
        """Started, and registered when this returns."""
        return self.workers(name, *words, at=at, store=store, **env)[0]

    def workers(
        self, names: str, *words: str, at: str = "", store: str | None = None, **env: str
    ) -> list[forked.Process]:
        """Several at once, named in one text."""
        started = []
        for name in names.split():
            place = at or (name if self.kind == "replicated" else "")  # a replica each, as on a machine of its own
            started.append(self.weft("worker", "--name", name, *words, at=place, store=store, **env))
            self.processes[name] = started[-1]
        pids = {process.pid for process in started}

        def here() -> bool:
            over = {process.pid for process in started if process.poll() is not None}
            known = {node.pid for node in self.connection.nodes(ended=True)}  # one that has crashed was here too
            assert over <= known, self.story()
            return pids <= known

        self.until(here)
        return started

    def submit(self, text: str) -> str:
        (self.directory / "w.yaml").write_text(text)
        run_id: str = self.call("submit", "w.yaml")["run"]
        return run_id

    def leader(self) -> str | None:
        return self.connection.leader().node

    def until(self, condition: Callable[[], Any], seconds: float = STARTUP_MAX_S) -> Any:
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, f"it did not come\n{self.story()}"
            time.sleep(0.02)
        return value

    def ended(self, run_id: str) -> None:
        self.until(lambda: self.connection.run(run_id).finished)

    def outcomes(self) -> dict[str, int]:
        """How attempts ended, all together."""
        rows = self.query("SELECT outcome, count(*) FROM all_attempts GROUP BY outcome")
        return {str(outcome): int(count) for outcome, count in rows}

    def query(self, sql: str) -> list[Any]:
        reader: Any = self.connection.store.reader()  # both kinds of stores have it, but only for tests
        try:
            return list(reader.query(sql))
        finally:
            reader.close()

    def journal(self) -> Counter[str]:
        """What tasks wrote when they started, a line each."""
        path = self.directory / "journal"
        return Counter(path.read_text().splitlines() if path.exists() else [])

    def over(self, session: str) -> bool:
        """The store has ended it, and what it held is queued again."""
        return self.connection.node(session).ended_at is not None

    def stale_reports(self) -> int:
        return int(self.query("SELECT count(*) FROM stale_reports")[0][0])

    def sound(self, run_id: str, tasks: int) -> None:
        """All have succeeded, once; no attempt of any began twice; state and events agree."""
        run = self.connection.run(run_id)
        assert (run.state, run.succeeded) == ("succeeded", tasks), self.story()
        assert self.outcomes()["succeeded"] == tasks, self.outcomes()
        twice = [line for line, times in self.journal().items() if times > 1]
        assert not twice, f"{twice}\n{self.story()}"
        found = self.connection.verify(run_id)
        assert found.ok, found.differences

    def story(self) -> str:
        events = self.connection.events(None, limit=10_000)[-80:]
        shown = "\n".join(f"{e.kind:15} {e.task or '':10} {e.node or '':8} {e.data}" for e in events)
        return f"{shown}\n{(self.directory / 'log').read_text()[-3000:]}"

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            with process:  # closes its pipe
                pass
        self.connection.close()


@pytest.fixture
def postgres_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """For faults that only a server between processes can have."""
    made = Cluster("postgres", tmp_path)
    yield made
    made.close()


@pytest.fixture(params=sorted(STORES))
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(request.param, tmp_path)
    yield made
    made.close()
