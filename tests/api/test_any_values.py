"""Whatever stands in a path, a query or a body, the server answers, and never with 500. On both stores: they bound
numbers and texts in different ways."""

import json
import os
import random
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import CHAIN, Running
from tests.cluster.conftest import STORES

REQUESTS = 200 * (50 if os.environ.get("WEFT_HUNT") else 1)
NUMBERS = (0, -1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40, 1.5, 1e308)
TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "\udcff", "\U0001f4a3", "last", "null", "nan", "Infinity", "1e400", "9" * 5000,
    "٣", "../..", "%2e%2e", "%", "a" * 300, "a.99999999999999999999", "a.1", "main", "x/y", "\n", "'", '"', "--",
    "9" * 18, "0-0", "1-a", "9999999999999999-zz", "a/b", "007",
)  # fmt: skip
RAW = ("%ff", "%00", "%ed%a0%80", "%c0%af", "a%00b")


@pytest.fixture(params=sorted(STORES))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path, node=False, connection=STORES[request.param](tmp_path)[1]())
    made.submit(CHAIN)
    yield made
    made.close()


class Draw:
    """A request, from a seed: one of those that the server describes, with values of all kinds."""

    def __init__(self, seed: str, operations: list[tuple[str, str, dict[str, Any]]]) -> None:
        self._random = random.Random(seed)
        self.method, path, operation = self._random.choice(operations)
        query = []
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", self._encoded())
            elif parameter["in"] == "query" and self._random.random() < 0.5:
                query.append(f"{parameter['name']}={self._encoded()}")
        self.path = path + ("?" + "&".join(query) if query else "")
        self.body = json.dumps(self._body(operation)).encode() if "requestBody" in operation else None

    def _encoded(self) -> str:
        if self._random.random() < 0.1:
            return self._random.choice(RAW)
        return urllib.parse.quote(str(self._value()), safe="", errors="surrogateescape")

    def _value(self) -> Any:
        value = self._random.choice(self._random.choice((NUMBERS, TEXTS)))
        return value if value != "\ud800" else "last"  # which only JSON can carry

    def _body(self, operation: dict[str, Any]) -> Any:
        """The names that it asks for, with anything."""
        if self._random.random() < 0.1:
            return self._any()
        return {name: self._any() for name in operation["names"] if self._random.random() < 0.6}

    def _any(self, deep: int = 0) -> Any:
        kind = self._random.randrange(8 if deep < 3 else 5)
        if kind < 5:
            return self._random.choice((*NUMBERS, *TEXTS, None, True, "a", {"tasks": {"a": "true"}}))
        if kind < 6:
            return [self._any(deep + 1) for _ in range(self._random.randrange(3))]
        return {str(self._random.choice(TEXTS)): self._any(deep + 1) for _ in range(self._random.randrange(3))}


def operations_of(server: Running) -> list[tuple[str, str, dict[str, Any]]]:
    """(method, path, what the server says of it). Without streams, which do not end."""
    described = server.get("/openapi.json").json
    schemas = described["components"]["schemas"]
    found = []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            kinds = [kind for answer in operation["responses"].values() for kind in answer.get("content", {})]
            if "text/event-stream" not in kinds:
                found.append((method.upper(), path, {**operation, "names": _names(operation, schemas)}))
    return found


def _names(operation: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """What a body may have."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    schema = schemas.get(content.get("$ref", "").rpartition("/")[2], content)
    return list(schema.get("properties", ()))


def test_any_value_is_answered(server: Running) -> None:
    operations = operations_of(server)
    statuses: dict[int, int] = {}
    for number in range(REQUESTS):
        seed = f"{number}" + (f" {os.urandom(8).hex()}" if os.environ.get("WEFT_HUNT") else "")
        draw = Draw(seed, operations)
        answer = server.call(draw.method, draw.path, draw.body, Weft_Command=f"c{number}")
        assert answer.status < 500, f"seed {seed!r}: {draw.method} {draw.path} {draw.body!r}\n{answer}"
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
    assert statuses.get(200, 0) > REQUESTS / 50, f"most are refused, but not all: {statuses}"
