"""The HTTP API on PostgreSQL: a database that is gone, or silent, is told within 5 s; when it is back, so are we."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.conftest import CHAIN, Answer, Running, until
from tests.postgres.proxy import Proxy
from weft.client.local import StoreConnection
from weft.operations.access import StoreAccess
from weft.store.postgres.driver import PostgresStore

WITHIN_S = 5.0


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    made = Proxy.to(url)
    yield made
    made.close()


@pytest.fixture
def server(url: str, proxy: Proxy, tmp_path: Path) -> Iterator[Running]:
    store = PostgresStore(proxy.through(url))
    connection = StoreConnection(StoreAccess(store, root=tmp_path / ".weft"))
    connection.access.wait_s = 2.0  # as `weft serve` has it
    made = Running(tmp_path, node=False, connection=connection)
    yield made
    made.close()


def timed(ask: Callable[[], Answer]) -> Answer:
    began = time.monotonic()
    answer = ask()
    took = time.monotonic() - began
    assert answer.status == 503, answer
    assert int(answer.headers["retry-after"]) > 0
    assert answer.code == "store_busy"
    assert took < WITHIN_S, took
    return answer


def ask_everything(server: Running) -> None:
    timed(lambda: server.get("/v1/runs"))
    timed(lambda: server.post("/v1/runs", {"definition": CHAIN}))
    timed(lambda: server.get("/readyz"))
    assert server.get("/healthz").status == 200


def test_a_database_that_is_gone_and_comes_back(server: Running, proxy: Proxy) -> None:
    run = server.submit(CHAIN)
    proxy.refuse = True
    proxy.cut()
    ask_everything(server)
    proxy.refuse = False
    until(lambda: server.get("/readyz").status == 200)
    assert server.get(f"/v1/runs/{run}").json["run"]["state"] == "running"
    server.submit(CHAIN)


def test_a_database_that_says_nothing(server: Running, proxy: Proxy) -> None:
    """Connections that are there get no answer, and new ones get none either."""
    run = server.submit(CHAIN)
    proxy.hold()
    ask_everything(server)
    proxy.release()
    until(lambda: server.get("/readyz").status == 200)
    assert server.get(f"/v1/runs/{run}").json["run"]["state"] == "running"
    server.submit(CHAIN)


def test_a_node_says_that_the_store_was_silent_and_that_it_is_back(url: str, proxy: Proxy, tmp_path: Path) -> None:
    said: list[str] = []
    connection = StoreConnection(StoreAccess(PostgresStore(proxy.through(url)), root=tmp_path / ".weft"))
    server = Running(tmp_path, connection=connection, log=lambda message, fields: said.append(message))
    try:
        server.ended(server.submit(CHAIN))
        proxy.refuse = True
        proxy.cut()
        until(lambda: "the store did not answer" in said)
        assert "the store answers again" not in said
        proxy.refuse = False
        until(lambda: "the store answers again" in said)
        server.ended(server.submit(CHAIN))
    finally:
        server.close()
