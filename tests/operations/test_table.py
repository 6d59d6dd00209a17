"""Every operation of the table, on a store and through a server: the same reply, or the same error. None of them is
listed here a second time: requests are made from the declarations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.api.conftest import CHAIN, Running
from tests.docs.http import errors_reference, http_reference
from weft.authoring.load import load_value
from weft.client.local import StoreConnection
from weft.client.remote import ServerConnection
from weft.client.verbs import Connection
from weft.operations.access import StoreAccess
from weft.operations.declare import Operation
from weft.operations.submission import submission
from weft.operations.table import OPERATIONS
from weft.store.sqlite.driver import SqliteStore

CALLED = [operation for operation in OPERATIONS if operation.run is not None]
TIMED = {**CHAIN, "name": "timed", "triggers": [{"name": "nightly", "cron": "0 2 * * *"}]}
RUN = "k3v9x2m8qa4t"
#: Names that are there in a filled store, by the field that they stand in.
KNOWN: dict[str, Any] = {
    "run": RUN, "other": RUN, "task": "a", "name": "timed", "trigger": "nightly", "node": "nobody", "id": "abcd",
    "backfill": "abcd", "stream": "stdout", "text": "a", "event": 2**40, "path": "x", "since": 0, "until": 1000,
}  # fmt: skip
UNKNOWN: dict[str, Any] = {
    "run": "zzzz",
    "other": RUN,
    "task": "nothing",
    "name": "nowhere",
    "trigger": "never",
    "node": "nobody",
    "id": "ffff",
    "backfill": "ffff",
    "stream": "stderr",
    "text": "a",
    "event": 0,
    "path": "x",
    "since": 0,
    "until": 1000,
}
#: Fields that differ from store to store, or from moment to moment.
CHANGING = {
    "now",
    "created_at",
    "started_at",
    "at",
    "location",
    "size_bytes",
    "ready_at",
    "token",
    "id",
    "expires_at",
    "since",
}


STARTS = ("rerun_run", "fire_trigger")


class Pair:
    """Two stores that were filled alike: one is called here, one through a server."""

    def __init__(self, directory: Path) -> None:
        stores = []
        for name in ("local", "served"):
            store = StoreConnection(StoreAccess(SqliteStore(directory / name / ".weft" / "weft.db")))
            store.submit(submission(load_value(CHAIN), "{}", source="/", run_id=RUN))
            store.apply(load_value(TIMED), "/", "a test")
            store.set_pool("db", 1)
            stores.append(store)
        self.local, served = stores
        self.hash = self.local.run(RUN).workflow
        self._server = Running(directory, node=False, connection=served)
        self.remote = ServerConnection(f"http://127.0.0.1:{self._server.port}")

    def close(self) -> None:
        self.remote.close()
        self._server.close()
        self.local.close()


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """For all operations that only look."""
    made = Pair(tmp_path_factory.mktemp("pair"))
    yield made
    made.close()


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path, operation: Operation[Any, Any]) -> Iterator[Pair]:
    if not operation.writes:
        yield request.getfixturevalue("looked_at")
        return
    made = Pair(tmp_path)
    yield made
    made.close()


def request_of(operation: Operation[Any, Any], names: dict[str, Any], hash: str) -> Any:
    values = {
        field.name: {**names, "hash": hash}[field.name]
        for field in operation.fields
        if field.location == "path" or (field.location == "query" and field.required)
    }
    body = msgspec.convert(operation.example or {}, operation.body_type) if operation.body_type else None
    if body is not None:
        values |= {name: getattr(body, name) for name in body.__struct_fields__}
    return operation.request(**values)


def outcome(connection: Connection, operation: Operation[Any, Any], request: Any) -> Any:
    """What it replied, without what differs from store to store; or what it raised."""
    try:
        reply = connection.call(operation, request)
    except Exception as error:
        return type(error), str(error)
    assert isinstance(reply, operation.reply)
    return _same(msgspec.to_builtins(reply))


def _same(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _same(one) for name, one in value.items() if name not in CHANGING}
    return [_same(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("operation", CALLED, ids=lambda operation: operation.name)
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_the_same_on_a_store_and_through_a_server(pair: Pair, operation: Operation[Any, Any], known: bool) -> None:
    hash = pair.hash if known else "f" * 64
    request = request_of(operation, KNOWN if known else UNKNOWN, hash)
    local, remote = (outcome(connection, operation, request) for connection in (pair.local, pair.remote))
    if operation.name in STARTS and isinstance(local, dict):  # a new run has an id of its own
        assert local.pop("run") != remote.pop("run")
    assert local == remote


def test_names_and_routes_are_unique() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({operation.route for operation in OPERATIONS}) == len(OPERATIONS)


def test_every_operation_says_what_it_does() -> None:
    assert [one.name for one in OPERATIONS if not one.description or len(one.summary) > 160] == []


def test_a_tool_of_an_operation_takes_what_the_operation_takes() -> None:
    from weft.mcp.server import BY_NAME

    for operation in OPERATIONS:
        if operation.tool is not None:
            tool = BY_NAME[operation.tool.name or operation.name]
            assert (tool.takes, tool.gives, tool.role) == (operation.request, operation.reply, operation.role)


def test_the_reference_pages_are_what_the_tables_say() -> None:
    reference = Path(__file__).parents[2] / "docs" / "reference"
    assert (reference / "http.md").read_text() == http_reference(), "make docs"
    assert (reference / "errors.md").read_text() == errors_reference(), "make docs"
