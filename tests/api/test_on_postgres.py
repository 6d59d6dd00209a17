"""The same on PostgreSQL: streams that follow what another process commits, tokens, metrics."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.conftest import CHAIN, Running, until
from tests.api.test_metrics import figures
from tests.api.test_streams import Reader, happened, readers, shown
from tests.postgres_server import emptied
from weft.api.access.token_gate import Tokens
from weft.api.metrics import METRICS
from weft.client.local import StoreConnection
from weft.client.remote import ServerConnection
from weft.operations.access import StoreAccess
from weft.operations.replies import EventInfo
from weft.store.postgres.driver import PostgresStore

TOKEN = "0123456789abcdef"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Running]:
    """A server with a node, on a store that another connection of ours writes to."""
    url = emptied()
    connection = StoreConnection(StoreAccess(PostgresStore(url), root=tmp_path / "server"))
    made = Running(tmp_path, connection=connection, gate=Tokens(connection.token_holder, TOKEN))
    made.other = StoreConnection(StoreAccess(PostgresStore(url), root=tmp_path / "other"))
    yield made
    made.other.close()
    made.close()


def test_what_others_commit_is_told_too(elsewhere: Running) -> None:
    admin = elsewhere.client(TOKEN)
    last = elsewhere.connection.last_event()
    cluster = Reader(elsewhere, "/v1/events/stream", TOKEN)
    until(lambda: readers(elsewhere) == 1)
    made = elsewhere.other.create_token("of another process", "viewer")
    (first,) = cluster.take(1)
    assert first.data["kind"] == "token_created"
    assert first.data["seq"] > last
    cluster.close()
    run = admin.post("/v1/runs", {"definition": CHAIN}).json["run"]
    messages = list(Reader(elsewhere, f"/v1/runs/{run}/events/stream", made.token))
    assert shown(messages) == happened(elsewhere, run)
    assert messages[-1].data["reason"] == "finished"
    elsewhere.other.revoke_token(made.id)
    until(lambda: Reader(elsewhere, f"/v1/runs/{run}/events/stream", made.token).status == 401)
    (submitted,) = elsewhere.connection.events(run, kinds=["submitted"])
    assert submitted.data["actor"] == "WEFT_TOKEN"


def test_metrics_are_read(elsewhere: Running) -> None:
    elsewhere.get = elsewhere.client(TOKEN).get
    run = elsewhere.client(TOKEN).post("/v1/runs", {"definition": CHAIN}).json["run"]
    until(lambda: elsewhere.connection.run(run).finished)
    found = figures(elsewhere)
    assert found["weft_runs", "succeeded"] == 1
    assert {name for name, *_ in found} >= {name for name, known in METRICS.items() if known.kind == "gauge"} - {
        "weft_tasks_open", "weft_queue_tasks", "weft_queue_oldest_seconds", "weft_leader",
        "weft_budget_limit", "weft_budget_spent", "weft_budget_reserved",
    }  # fmt: skip


def test_a_run_is_followed_from_elsewhere(elsewhere: Running) -> None:
    """Events that PostgreSQL shows later than others come in their order all the same, each once."""
    connection = ServerConnection(f"http://127.0.0.1:{elsewhere.port}", TOKEN)
    run = elsewhere.client(TOKEN).post("/v1/runs", {"definition": CHAIN}).json["run"]
    follower = connection.follow(run)
    shown: list[EventInfo] = []
    while not shown or shown[-1].kind != "run_finished":
        follower.wait(5.0)
        shown += follower.events(2)
    follower.close()
    assert [event.seq for event in shown] == [event.seq for event in elsewhere.other.events(run)]
    until(lambda: connection.node_work("here").running_count == 0)
    work = connection.node_work("here")
    assert (work.claims, work.outcomes, work.counted) == (2, {"succeeded": 2}, "all")
    connection.close()


def test_the_past_and_what_ran_where(elsewhere: Running) -> None:
    """The statements of these are the same on SQLite, where tests/operations/test_history.py looks closely."""
    admin = elsewhere.client(TOKEN)
    definition = {"name": "past", "tasks": {"part": {"replicas": 3, "run": "true"}}}
    run = admin.post("/v1/runs", {"definition": definition}).json["run"]
    until(lambda: elsewhere.connection.run(run).finished)
    until(lambda: admin.get(f"/v1/runs/{run}/states?event={2**60}").json["state"] == "succeeded")
    first = elsewhere.connection.events(run, limit=1)[0].seq
    assert admin.get(f"/v1/runs/{run}/at/{first}").json["run"]["state"] in ("pending", "running")
    assert admin.get(f"/v1/runs/{run}/tasks/part/states").json["states"] == "sss"
    assert admin.get(f"/v1/runs/{run}/tasks/part/why?event={first}").status == 200
    assert len(admin.get(f"/v1/runs/{run}/timeline").json["pos"]) == 4
    assert sorted(admin.get("/v1/timeline").json["task"]) == ["part.0", "part.1", "part.2"]
