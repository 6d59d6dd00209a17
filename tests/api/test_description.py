"""The API as its own description says it is: what Schemathesis makes of that, sent to a real server.

No 5xx, no status that is not described, and every body as its schema says. Without a node: nothing that is submitted
here ever runs. Deterministic: the same requests every time.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from tests.api.conftest import CHAIN, Running
from tests.cluster.conftest import STORES
from weft.api.access.auth import OneToken, Open
from weft.api.app import create_app
from weft.api.responses import PROBLEM_MEDIA_TYPE as MEDIA_TYPE
from weft.client.local import StoreConnection
from weft.operations.access import StoreAccess
from weft.operations.declare import JSON, Operation
from weft.operations.errors import Problem
from weft.operations.table import OPERATIONS
from weft.store.sqlite.driver import SqliteStore

schemathesis = pytest.importorskip("schemathesis")

TOKEN = "a-token-of-some-length"
HERE = Path(__file__).parent
EXAMPLES = int(os.environ.get("WEFT_EXAMPLES", "3"))  # of each kind of request
#: Names of things that are there: half of the requests ask for them.
KNOWN = {"run": "last", "task": "a", "node": "here", "pool": "db", "trigger": "nightly", "stream": "stdout"}
TIMED = {**CHAIN, "name": "timed", "triggers": [{"name": "nightly", "cron": "0 2 * * *"}]}
#: A stream does not end by itself: tests/api/test_streams.py reads those.
LABELS = [f"{route.method} {route.path}" for route in OPERATIONS if not route.path.endswith("/stream")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("described"), node=False, gate=OneToken(TOKEN))
    client = made.client(TOKEN)
    assert client.post("/v1/runs", {"definition": CHAIN}).status == 201
    assert client("PUT", "/v1/workflows/timed", {"definition": TIMED}).status == 200
    yield made
    made.close()


@pytest.fixture(scope="module")
def operations(server: Running) -> dict[str, Any]:
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")
    return {operation.label: operation for operation in (found.ok() for found in schema.get_all_operations())}


@cache
def checks() -> list[Any]:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as described

    return [
        not_a_server_error, described.status_code_conformance, described.content_type_conformance,
        described.response_schema_conformance,
    ]  # fmt: skip


def sent(operation: Any, mode: Any, check: Callable[[Any, bool], None]) -> None:
    """Some requests of one kind; those with every parameter wrong cannot be made where there is none."""

    @settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    def send(case: Any, known: bool) -> None:
        check(case, known)

    try:
        send()
    except Unsatisfiable:
        assert mode is schemathesis.GenerationMode.NEGATIVE


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_every_answer_is_one_that_is_described(
    server: Running, operations: dict[str, Any], label: str, mode: str
) -> None:
    def check(case: Any, known: bool) -> None:
        if known and mode == "POSITIVE":
            here = {**KNOWN, "name": "db" if "/pools/" in label else "timed"}
            case.path_parameters = {name: here.get(name, value) for name, value in case.path_parameters.items()}
        answer = case.call(headers={"Authorization": f"Bearer {TOKEN}"})
        case.validate_response(answer, checks=checks())

    sent(operations[label], getattr(schemathesis.GenerationMode, mode), check)


@pytest.mark.parametrize("label", [f"{route.method} {route.path}" for route in OPERATIONS if route.role != "anyone"])
def test_without_a_token_there_is_only_one_answer(server: Running, operations: dict[str, Any], label: str) -> None:
    def check(case: Any, known: bool) -> None:
        answer = case.call(headers={"Authorization": "Bearer of-no-known-token"} if known else {})
        assert answer.status_code == 401, answer.text
        case.validate_response(answer, checks=checks())

    sent(operations[label], schemathesis.GenerationMode.POSITIVE, check)


@cache
def described() -> dict[str, Any]:
    """By route: what the description says of it."""
    with tempfile.TemporaryDirectory() as directory:
        connection = StoreConnection(StoreAccess(SqliteStore(Path(directory) / "weft.db")))
        try:
            paths: dict[str, Any] = create_app(connection, gate=Open()).openapi()["paths"]
            return {f"{method.upper()} {path}": paths[path][method] for path in paths for method in paths[path]}
        finally:
            connection.close()


@pytest.mark.parametrize("route", OPERATIONS, ids=lambda route: f"{route.method} {route.path}")
def test_every_answer_has_an_example(route: Operation[Any, Any]) -> None:
    """Those of JSON are of the type that the route replies with, and nothing in them is unknown to it."""
    operation = described()[f"{route.method} {route.path}"]
    assert "\n" not in operation["summary"]
    for status, answer in operation["responses"].items():
        if status == "204":
            continue
        ((media, content),) = answer["content"].items()
        if media == MEDIA_TYPE:
            for code, example in content["examples"].items():
                found = msgspec.convert(example["value"], Problem)
                assert (found.status, found.code) == (int(status), code)
            continue
        example = content["example"]
        if media == JSON:
            assert msgspec.to_builtins(msgspec.convert(example, route.reply)) == example
        else:
            assert isinstance(example, str)


def test_the_examples_of_requests_can_be_sent(serving: Callable[..., Running]) -> None:
    """As they stand, to a server that knows nothing of what they name, but takes them for what they are."""
    server = serving(node=False)
    here = {"run": "last", "task": "a", "node": "here", "name": "nightly", "trigger": "cron", "backfill": "b"}
    sent = 0
    for route in OPERATIONS:
        if route.role == "worker" or (route.body_type is None and not route.any_body):  # workers send msgpack
            continue
        content = described()[f"{route.method} {route.path}"]["requestBody"]["content"][JSON]
        answer = server.call(route.method, route.path.format(**here), content["example"])
        assert answer.status not in (400, 415, 422), (route.path, answer)
        assert answer.status in (*route.statuses, *route.error_statuses)
        sent += 1
    assert sent > 12


def test_everything_that_is_declared_is_described(tmp_path: Path) -> None:
    connection = StoreConnection(StoreAccess(SqliteStore(tmp_path / "weft.db")))
    try:
        paths = create_app(connection, gate=Open()).openapi()["paths"]
        found = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
        assert found == {f"{route.method} {route.path}" for route in OPERATIONS}
    finally:
        connection.close()


@pytest.mark.parametrize("kind", sorted(STORES))
def test_schemathesis_finds_nothing(kind: str, tmp_path: Path) -> None:
    """All its checks, in short: requests from the description, wrong ones too, and requests that follow each other.
    On PostgreSQL without those that cover all parameters: these do not depend on it. In full: `make fuzz-api`."""
    short = "WEFT_EXAMPLES" not in os.environ and kind == "postgres"
    phases = "examples,fuzzing" if short else "examples,coverage,fuzzing,stateful"
    connection = STORES[kind](tmp_path)[1]()
    server = Running(tmp_path, node=False, connection=connection, gate=OneToken(TOKEN))
    try:
        client = server.client(TOKEN)
        assert client.post("/v1/runs", {"definition": CHAIN}).status == 201
        assert client("PUT", "/v1/workflows/timed", {"definition": TIMED}).status == 200
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml"), "run",
             f"http://127.0.0.1:{server.port}/openapi.json", "-H", f"Authorization: Bearer {TOKEN}",
             "--checks", "all", "--phases", phases,
             "--max-examples", os.environ.get("WEFT_EXAMPLES", "1"), "--exclude-path-regex", "stream$", "--seed", "1",
             "--continue-on-failure", "--no-color"],
            capture_output=True, text=True, timeout=3000,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-20_000:]
        assert f"Tested: {len(LABELS)}\n" in done.stdout, done.stdout[-2000:]
    finally:
        server.close()
