"""A database with fewer connections than the fleet wants: work is slower, never lost, and the log says why."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cluster.conftest import LEASE_S, Cluster
from tests.postgres_server import Server

MAX = 12
LONG = """\
tasks:
  long: 'echo $WEFT_ATTEMPT >> ../journal; while ! test -e ../open; do sleep 0.05; done'
"""
OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'weft%'"


class Crowd:
    """Takes connections of the server; one of them is used to look at the others."""

    def __init__(self, server: Server) -> None:
        self.url = server.url("weft")
        self._taken: list[psycopg.Connection[Any]] = [psycopg.connect(self.url, autocommit=True)]

    def ask(self, sql: str) -> Any:
        row = self._taken[0].execute(sql).fetchone()
        assert row is not None
        return row[0]

    def take_all(self) -> None:
        with contextlib.suppress(psycopg.OperationalError):
            while True:
                self._taken.append(psycopg.connect(self.url, autocommit=True))

    def leave(self, free: int) -> None:
        """All but so many are taken."""
        self.take_all()
        for _ in range(free):
            self._taken.pop().close()

    def go(self) -> None:
        while len(self._taken) > 1:
            self._taken.pop().close()

    def close(self) -> None:
        self.go()
        self._taken.pop().close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(settings=(f"max_connections={MAX}", "superuser_reserved_connections=0", "max_wal_senders=0"))
    with psycopg.connect(made.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE weft TEMPLATE template0 ENCODING 'UTF8'")
    yield made
    made.close()


@pytest.fixture
def cluster(tmp_path: Path, server: Server) -> Iterator[Cluster]:
    directory = tmp_path / "cluster"
    directory.mkdir()
    made = Cluster("postgres", directory, server.url("weft"))
    yield made
    made.close()


@pytest.fixture
def crowd(server: Server) -> Iterator[Crowd]:
    made = Crowd(server)
    yield made
    made.close()


def log(cluster: Cluster) -> str:
    return (cluster.directory / "log").read_text()


def state(cluster: Cluster, crowd: Crowd) -> Callable[[], tuple[str, int, int]]:
    sql = "SELECT (state || ' ' || attempt || ' ' || lost) FROM tasks"

    def read() -> tuple[str, int, int]:
        name, attempt, lost = crowd.ask(sql).split()
        return name, int(attempt), int(lost)

    return read


def test_a_node_whose_lease_connection_does_not_work_claims_nothing(cluster: Cluster, crowd: Crowd) -> None:
    cluster.submit(LONG)
    cluster.connection.close()  # its connections are not part of the count
    task = state(cluster, crowd)
    crowd.leave(1)
    worker = cluster.weft("worker", "--name", "one")
    cluster.processes["one"] = worker
    cluster.until(lambda: "the lease could not be renewed" in log(cluster))
    assert "no connection left" in log(cluster)
    assert "too many clients" in log(cluster)
    assert task() == ("queued", 0, 0)
    crowd.go()
    cluster.until(lambda: task()[0] == "running")
    (cluster.directory.parent / "open").touch()
    cluster.until(lambda: task()[0] == "succeeded")
    assert task() == ("succeeded", 1, 0), log(cluster)
    assert log(cluster).count("the lease could not be renewed") <= 3, "once for each session, not for each try"
    cluster.until(lambda: crowd.ask(OURS) == 2)  # an idle worker has two; that for output goes when there is none


def test_a_node_that_lost_its_lease_connection_to_others_keeps_its_work(cluster: Cluster, crowd: Crowd) -> None:
    cluster.submit(LONG)
    cluster.connection.close()
    task = state(cluster, crowd)
    cluster.processes["one"] = cluster.weft("worker", "--name", "one")
    cluster.until(lambda: task()[0] == "running" and crowd.ask(OURS) >= 2)
    crowd.take_all()

    def robbed() -> bool:
        """Its second connection is cut, and the place is taken before it is made anew; that may take some tries."""
        if crowd.ask(OURS) > 1:
            crowd.ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'weft%'"
                " ORDER BY backend_start DESC LIMIT 1"
            )
        for _ in range(20):  # the server takes a moment to give the place up
            crowd.take_all()
            time.sleep(0.005)
        return "no connection left" in log(cluster)

    cluster.until(robbed)
    time.sleep(2 * LEASE_S)
    assert task()[1] == 1, log(cluster)
    crowd.go()
    (cluster.directory.parent / "open").touch()
    cluster.until(lambda: task()[0] == "succeeded")
    assert task()[1:] == (1, 0), log(cluster)
