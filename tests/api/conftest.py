"""A real server on loopback: uvicorn in a thread of the test's process, over a real SQLite file, with a node or not.
`weft serve` as a process of its own is in test_serving.py."""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn

from weft import config as settings
from weft.api.access.auth import Gate, Open
from weft.api.app import create_app
from weft.api.serving import BoundedHttpProtocol, Server, listening
from weft.client.local import StoreConnection
from weft.local_node.node_thread import NodeThread
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore

WAIT_S = 30.0

CHAIN: dict[str, Any] = {
    "name": "chain",
    "tasks": {"a": {"run": "echo one"}, "b": {"needs": ["a"], "run": "echo two >&2"}},
}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of a problem, which must be one in every respect."""
        problem = self.json
        assert self.headers["content-type"] == "application/problem+json", self
        assert problem["status"] == self.status
        assert problem["title"]
        assert problem["detail"]
        assert problem["type"].endswith(problem["code"])
        return str(problem["code"])


class Client:
    """One connection, kept open. Every reply is checked for what every reply must have."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        self._token = token

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self._token is not None:
            sent.setdefault("Authorization", f"Bearer {self._token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        self._connection.request(method, path, body, sent)
        answer = self._connection.getresponse()
        found = Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        assert found.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in found.headers
        assert "access-control-allow-origin" not in found.headers
        return found

    def get(self, path: str, **headers: str) -> Answer:
        return self("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self("POST", path, {} if body is None else body, **headers)

    def close(self) -> None:
        self._connection.close()


class PromptServer(Server):
    """Told to end, it does: uvicorn looks ten times a second."""

    async def main_loop(self) -> None:
        self.told = asyncio.Event()
        await self.on_tick(0)
        await self.told.wait()


class Running:
    """`server.get(…)`, and the control behind it to look from the other side."""

    def __init__(
        self,
        directory: Path,
        *,
        node: bool = True,
        connection: StoreConnection | None = None,
        port: int = 0,
        gate: Gate | None = None,
        token: str | None = None,
        log: Callable[[str, Any], None] = lambda message, fields: None,
        **more: Any,
    ) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.connection = connection or StoreConnection(StoreAccess(SqliteStore(directory / ".weft" / "weft.db")))
        self._nodes: NodeThread | None = None
        self.other: StoreConnection = self.connection  # of another process, where a test has one
        if node:
            config = settings.load({}, directory, {"workdir": directory, "name": "here", "slots": 4})
            self._nodes = NodeThread(self.connection, config, {}, log)
            self._nodes.start_worker()
        listener = listening("127.0.0.1", port)
        self.port: int = listener.getsockname()[1]
        self.app = create_app(
            self.connection,
            gate=gate or Open(),
            source=str(directory),
            listen=self.connection.link.on_commit,
            figures=self.connection.figures,
            **more,
        )
        self.prepare()
        self._server = PromptServer(
            uvicorn.Config(
                self.app, log_config=None, access_log=False, lifespan="on", ws="none", http=BoundedHttpProtocol
            )
        )
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(listener,), daemon=True)
        self._thread.start()
        until(lambda: self._server.started)
        self._clients: list[Any] = []
        self.call = self.client(token)
        self.get, self.post = self.call.get, self.call.post

    def prepare(self) -> None:
        """The application is made, and not yet served."""

    def _serve(self, listener: Any) -> None:
        try:
            self.loop.run_until_complete(self._server.serve([listener]))
        finally:
            self.loop.close()

    def client(self, token: str | None = None) -> Client:
        client = Client(self.port, token)
        self.close_with_me(client)
        return client

    def close_with_me(self, client: Any) -> None:
        self._clients.append(client)

    def submit(self, definition: Any, **more: Any) -> str:
        answer = self.post("/v1/runs", {"definition": definition, **more})
        assert answer.status == 201, answer
        return str(answer.json["run"])

    def ended(self, run: str) -> dict[str, Any]:
        """The run, once it has ended."""
        until(lambda: self.connection.run(run).finished)
        found: dict[str, Any] = self.get(f"/v1/runs/{run}").json["run"]
        return found

    def stop_streams(self) -> None:
        """As when the server is told to stop: on its own loop."""
        self.loop.call_soon_threadsafe(self.app.state.begin_stopping)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._server.should_exit = True
        self.stop_streams()
        self.loop.call_soon_threadsafe(self._server.told.set)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        if self._nodes is not None:
            self._nodes.close()
        self.connection.close()


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)
    return value


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """With a node that works."""
    made = Running(tmp_path)
    yield made
    made.close()


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Running]:
    """Without a node: nothing moves unless the test says so."""
    made = Running(tmp_path, node=False)
    yield made
    made.close()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Made as the test wants it."""
    made: list[Running] = []

    def make(**more: Any) -> Running:
        made.append(Running(tmp_path / f"server{len(made)}", **more))
        return made[-1]

    yield make
    for one in made:
        one.close()
