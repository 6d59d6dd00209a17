"""Real workers, each with a directory of its own, around a log on real etcd members."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.cluster.conftest import STARTUP_MAX_S, TIMES
from tests.replicated.etcd_cluster import MISSING, PROGRAM, EtcdCluster
from weft import config
from weft.client.local import StoreConnection
from weft.client.opening import open_connection
from weft.operations.errors import NotFound

STARTED = "-- started"


class Nodes:
    """Workers named n0, n1 and so on, as if each were on a machine of its own."""

    def __init__(self, directory: Path, etcd: EtcdCluster, prefix: str) -> None:
        self.directory = directory
        self.etcd = etcd
        self.prefix = prefix
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._connections: list[StoreConnection] = []
        self.within: dict[str, list[str]] = {}  # words that start a node elsewhere, by its name

    def url(self, name: str) -> str:
        """Each asks another member first."""
        return self.etcd.url(self.prefix, int(name[1:]) % len(self.etcd.ports))

    def home(self, name: str) -> Path:
        place = self.directory / name
        place.joinpath(".weft").mkdir(parents=True, exist_ok=True)
        return place

    def env(self, name: str, **more: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
        return {**kept, **TIMES, "PYTHONUTF8": "1", "WEFT_STORE": self.url(name), **more}

    def start(self, *names: str, slots: int = 4, **env: str) -> None:
        for name in names:
            with self.home(name).joinpath("log").open("a") as log:
                log.write(f"{STARTED}\n")
                log.flush()
                words = [sys.executable, "-m", "weft", "worker", "--name", name, "--slots", str(slots)]
                self.processes[name] = subprocess.Popen(
                    [*self.within.get(name, ()), *words],
                    cwd=self.home(name), env=self.env(name, **env), stdout=log, stderr=log, text=True,
                )  # fmt: skip
        for name in names:
            self.until(partial(self.said, name, "ready"))

    def said(self, name: str, text: str) -> bool:
        log = self.home(name).joinpath("log").read_text()
        process = self.processes.get(name)
        assert process is None or process.poll() is None or text in log, log
        return text in log.rpartition(STARTED)[2]

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes[name]
        process.send_signal(how)
        if how in (signal.SIGKILL, signal.SIGTERM):
            process.wait(30)
            del self.processes[name]

    def call(self, name: str, *words: str, fails: bool = False) -> Any:
        done = forked.run([*words, "--json"], self.home(name), self.env(name), timeout=STARTUP_MAX_S)
        if fails:
            assert done.returncode != 0, done.stdout.decode()
            return done.stderr.decode()
        assert done.returncode == 0, done.stderr.decode() + self.story()
        return json.loads(done.stdout) if done.stdout else None

    def submit(self, name: str, text: str) -> str:
        self.home(name).joinpath("w.yaml").write_text(text)
        run_id: str = self.call(name, "submit", "w.yaml")["run"]
        return run_id

    def connection(self, name: str) -> StoreConnection:
        """The replica of a node that runs, from this process."""
        settings = config.load({"WEFT_STORE": self.url(name)}, self.home(name), {})
        connection = open_connection(settings, self.home(name), node=False)
        self._connections.append(connection)
        return connection

    def until(self, condition: Callable[[], Any], seconds: float = STARTUP_MAX_S) -> Any:
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, f"it did not come\n{self.story()}"
            time.sleep(0.02)
        return value

    def until_ended(self, name: str, run: str, seconds: float = STARTUP_MAX_S) -> str:
        """As this node sees it, which may not have heard of it yet."""
        connection = self.connection(name)

        def finished() -> bool:
            try:
                return connection.run(run).finished
            except NotFound:
                return False

        self.until(finished, seconds)
        return connection.run(run).state

    def story(self) -> str:
        return "\n".join(f"-- {log}\n{log.read_text()[-3000:]}" for log in sorted(self.directory.glob("*/log")))

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(30)


@pytest.fixture
def own_etcd() -> Iterator[EtcdCluster]:
    """For tests that harm it."""
    if PROGRAM is None:
        pytest.skip(MISSING)
    cluster = EtcdCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def nodes(tmp_path: Path, own_etcd: EtcdCluster) -> Iterator[Nodes]:
    found = Nodes(tmp_path, own_etcd, "weft")
    yield found
    found.close()
