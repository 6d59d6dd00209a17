"""The disk under the store is full, then there is space again: nodes and servers are still there, and go on."""

import contextlib
import ctypes
import json
import os
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cluster.conftest import LEASE_S, Cluster
from tests.cluster.test_kills import BUSY, since
from tests.conftest import Figure
from tests.postgres_server import Server

GOES_ON_S = 10.0
LONG = """\
tasks:
  long: 'echo long $WEFT_ATTEMPT >> ../journal; while ! test -e ../open; do sleep 0.05; done'
  after: {needs: [long], run: 'echo after $WEFT_ATTEMPT >> ../journal'}
"""


class Disk:
    """A small file system of its own, with a file that takes up what is free."""

    def __init__(self, point: Path, size: str) -> None:
        self.point = point
        point.mkdir()
        self._libc = ctypes.CDLL(None, use_errno=True)
        if self._libc.mount(b"tmpfs", bytes(point), b"tmpfs", 0, f"size={size}".encode()) != 0:
            pytest.skip("needs the right to mount a small tmpfs")
        self.ballast = point / "ballast"

    def fill(self) -> None:
        with self.ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)

    def free(self) -> None:
        self.ballast.unlink()

    def unmount(self) -> None:
        self._libc.umount2(bytes(self.point), 2)


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    with tempfile.TemporaryDirectory(prefix="weft-disk-") as directory:
        os.chmod(directory, 0o755)  # PostgreSQL is somebody else
        made = Disk(Path(directory) / "disk", request.param)
        yield made
        made.unmount()


TOKEN = "0123456789abcdef-secret"


def ask(url: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Bearer {TOKEN}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def serve(cluster: Cluster) -> str:
    """A server beside the workers, with a node of its own that takes nothing; its address."""
    cluster.processes["server"] = cluster.weft(
        "serve", "--port", "0", "--slots", "0", "--name", "server", "--json", WEFT_TOKEN=TOKEN
    )

    def url() -> str | None:
        lines = (cluster.directory / "log").read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return next((line["url"] for line in found if line["message"] == "ready"), None)

    return str(cluster.until(url))


def log_lines(cluster: Cluster, text: str) -> list[str]:
    return [line for line in (cluster.directory / "log").read_text().splitlines() if text in line]


def until_refused(cluster: Cluster, url: str) -> Any:
    """Submissions, and the reports about them, fill what is left of the space, until neither server nor worker can
    write any more."""
    for size in (9000, 0):

        def refused(size: int = size) -> Any:
            definition = {"tasks": {"t": {"run": "true # " + "x" * size}}}
            status, shown = ask(f"{url}/v1/runs", "POST", {"definition": definition})
            return shown if status == 503 else None

        shown = cluster.until(refused)
    cluster.until(lambda: any(not line.startswith("{") for line in log_lines(cluster, "the store did not answer")))
    return shown


def end_all(cluster: Cluster) -> None:
    for process in cluster.processes.values():
        assert process.poll() is None, cluster.story()
        process.send_signal(signal.SIGTERM)
    for process in cluster.processes.values():
        process.communicate(timeout=60)
        assert process.returncode == 0, cluster.story()


def goes_through(cluster: Cluster, disk: Disk, lease_s: float, freed: Callable[[], None]) -> float:
    """A task runs, the disk is full for twice a short lease, and the task ends meanwhile. How long it took from$
    then on until all had ended."""
    worker = cluster.worker("one", "--slots", "2", WEFT_LEASE_TTL=f"{lease_s:g}s")
    url = serve(cluster)
    run_id = cluster.submit(LONG)
    journal = cluster.directory.parent / "journal"
    cluster.until(journal.exists)
    disk.fill()
    shown = until_refused(cluster, url)
    assert shown["code"] == "store_full", shown
    assert "is full" in shown["detail"]
    assert cluster.call("submit", "w.yaml", WEFT_STORE_WAIT="1s") == 4
    (cluster.directory.parent / "open").touch()  # the end of `long` has to be reported to a store without space
    began = time.monotonic()
    while since(began) < 2 * LEASE_S:
        status, shown = ask(f"{url}/v1/runs/{run_id}")
        assert (status, shown["run"]["state"]) == (200, "running"), "reads are answered"
        time.sleep(0.1)
    assert worker.poll() is None
    disk.free()
    freed()
    at = time.monotonic()
    cluster.ended(run_id)
    took = since(at)
    run = cluster.connection.run(run_id)
    assert run.state == "succeeded", cluster.story()
    if lease_s > LEASE_S:
        assert journal.read_text() == "long 1\nafter 1\n", "the report was kept, and sent when there was space"
    assert took < GOES_ON_S * BUSY
    assert cluster.connection.verify(run_id).ok
    # The registration of a new session may just fit in, so that the disk is full once more.
    sessions = sum(node.node == "one" for node in cluster.connection.nodes(ended=True))
    said = [line for line in log_lines(cluster, "the store ") if " warning " in line and not line.startswith("{")]
    times = len(said) // 2
    assert 1 <= times <= sessions, f"the worker says it once\n{cluster.story()}"
    for line, text in zip(said, ("the store did not answer", "the store answers again") * times, strict=True):
        assert text in line, cluster.story()
    end_all(cluster)
    return took


LEASES = pytest.mark.parametrize("lease_s", [600.0, LEASE_S], ids=["shorter than the lease", "longer than the lease"])


@LEASES
@pytest.mark.parametrize("disk", ["3m"], indirect=True)
def test_a_full_disk_under_sqlite(disk: Disk, figure: Figure, lease_s: float) -> None:
    cluster = Cluster("sqlite", disk.point)
    try:
        took = goes_through(cluster, disk, lease_s, lambda: None)
    finally:
        cluster.close()
    figure(f"disk full under SQLite, lease {lease_s:g} s", f"all there, went on {took:.1f} s after it was freed")


@LEASES
@pytest.mark.parametrize("disk", ["160m"], indirect=True)
def test_a_full_disk_under_postgresql(disk: Disk, tmp_path: Path, figure: Figure, lease_s: float) -> None:
    """A server that has no space for its log goes down; whoever keeps it alive starts it again."""
    data = disk.point / "data"
    data.mkdir(mode=0o700)
    server = Server(durable=True, data=data, settings=("min_wal_size=80MB", "max_wal_size=80MB"))
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE weft")
    (tmp_path / "work").mkdir()
    cluster = Cluster("postgres", tmp_path / "work", server.url("weft"))
    try:
        took = goes_through(cluster, disk, lease_s, server.keep_alive)
    finally:
        cluster.close()
        server.close()
    figure(f"disk full under PostgreSQL, lease {lease_s:g} s", f"all there, went on {took:.1f} s after it was freed")


@LEASES
@pytest.mark.parametrize("disk", ["2m"], indirect=True)
def test_a_full_disk_under_weft_run(disk: Disk, lease_s: float) -> None:
    """It says so once, reads go on beside it, and it ends with the run's own exit code when there is space."""
    cluster = Cluster("sqlite", disk.point)
    try:
        (disk.point / "w.yaml").write_text(LONG)
        process = cluster.processes["run"] = cluster.weft("run", "w.yaml", WEFT_LEASE_TTL=f"{lease_s:g}s")
        journal = disk.point.parent / "journal"
        cluster.until(journal.exists)
        run_id = cluster.connection.find("last")[1]
        disk.fill()
        (disk.point.parent / "open").touch()
        cluster.until(lambda: cluster.call("submit", "w.yaml") == 4)
        began = time.monotonic()
        while since(began) < 2 * LEASE_S:
            assert cluster.call("show", run_id)["run"]["state"] == "running", "commands that read work"
            assert process.poll() is None, cluster.story()
            time.sleep(0.2)
        disk.free()
        process.communicate(timeout=60)
        assert process.returncode == 0, cluster.story()
        assert (cluster.connection.run(run_id).state, cluster.connection.verify(run_id).ok) == ("succeeded", True)
        assert len(log_lines(cluster, "the store did not answer")) == 1, cluster.story()
        if lease_s > LEASE_S:
            assert journal.read_text() == "long 1\nafter 1\n"
    finally:
        cluster.close()
