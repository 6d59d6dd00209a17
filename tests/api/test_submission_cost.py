"""How often a definition is encoded, decoded and compiled on its way from a client over HTTP into the store."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.api.conftest import Running
from weft.authoring import load
from weft.authoring.load import load_value
from weft.client import verbs
from weft.client.remote import ServerConnection
from weft.core.definition.compile import compile_workflow
from weft.node import committer
from weft.operations import access
from weft.operations.submission import submission
from weft.sdk.client import Client

LARGE = 20_000  # bytes: whatever is larger than this holds the definition
DEFINITION = {"name": "large", "tasks": {"a": {"run": "echo " + "x" * LARGE}, "b": {"run": "true", "needs": ["a"]}}}


class Costs(Counter[str]):
    """Counts in all threads: the client is the thread of the test, the server has others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._client = threading.current_thread()
        encode, decode = msgspec.json.encode, msgspec.json.decode

        def counted_encode(*arguments: Any, **named: Any) -> bytes:
            encoded = encode(*arguments, **named)
            if len(encoded) > LARGE:
                self.add("encoded")
            return encoded

        def counted_decode(data: Any, *arguments: Any, **named: Any) -> Any:
            if len(data) > LARGE:
                self.add("decoded")
            return decode(data, *arguments, **named)

        def counted_compile(*arguments: Any) -> Any:
            self.add("compiled")
            return compile_workflow(*arguments)

        monkeypatch.setattr(msgspec.json, "encode", counted_encode)
        monkeypatch.setattr(msgspec.json, "decode", counted_decode)
        for module in (load, verbs, committer, access):
            monkeypatch.setattr(module, "compile_workflow", counted_compile)

    def add(self, what: str) -> None:
        self[f"{'client' if threading.current_thread() is self._client else 'server'} {what}"] += 1

    def taken(self) -> dict[str, int]:
        found = dict(self)
        self.clear()
        return found


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    server = Running(tmp_path, node=False)
    yield f"http://127.0.0.1:{server.port}"
    server.close()


def test_one_submission(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client encodes the canonical document and the request; the server decodes the request, encodes it as the
    key under which it keeps loaded definitions, and encodes the canonical document for its hash and for the store."""
    path = tmp_path / "large.json"
    path.write_bytes(msgspec.json.encode(DEFINITION))
    costs = Costs(monkeypatch)
    with Client(url) as client:
        client.start(path)
        first = {"client encoded": 2, "server decoded": 1, "server encoded": 2, "server compiled": 1}
        assert costs.taken() == first
        client.start(path)
        assert costs.taken() == {"client encoded": 2, "server decoded": 1, "server encoded": 1}


def test_the_same_document_in_other_words_is_not_compiled_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = ServerConnection(url)
    costs = Costs(monkeypatch)
    connection.apply(load_value(DEFINITION))
    assert costs.taken()["server compiled"] == 1
    for other in ({"definition": DEFINITION, "name": "unused"}, {"workflow": "large"}):
        connection._write("POST", "/v1/runs", other)
        assert "server compiled" not in costs.taken()
    connection.close()


def test_a_batch_of_equal_definitions(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = ServerConnection(url)
    costs = Costs(monkeypatch)
    loaded = load_value(DEFINITION)
    replies = connection.submit_each([submission(loaded, "{}", source=str(tmp_path)) for _ in range(10)])
    assert len({reply.run_id for reply in replies if not isinstance(reply, Exception)}) == 10
    assert costs.taken() == {
        "client encoded": 2, "server decoded": 1, "server encoded": 10 + 1, "server compiled": 1,
    }  # fmt: skip
    connection.close()
