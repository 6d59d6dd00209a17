"""One suite over both controls: on a SQLite store within reach, and through a real server on loopback."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.api.conftest import Running, until
from weft import config as settings
from weft.authoring.load import Loaded, load_value
from weft.client.local import StoreConnection
from weft.client.remote import ServerConnection
from weft.client.verbs import Connection
from weft.core.commands import Submit
from weft.local_node.node_thread import NodeThread
from weft.operations.access import StoreAccess
from weft.operations.submission import submission
from weft.store.sqlite.driver import SqliteStore


class Place:
    """A control, and a node that works if the test says so. `store` looks from the other side."""

    def __init__(self, kind: Literal["local", "remote"], directory: Path) -> None:
        self.directory = directory
        self.store = StoreConnection(StoreAccess(SqliteStore(directory / ".weft" / "weft.db")))
        self.server: Running | None = None
        self.connection: Connection = self.store
        self._nodes: NodeThread | None = None
        if kind == "remote":
            self.server = Running(directory, node=False, connection=self.store)
            self.connection = ServerConnection(f"http://127.0.0.1:{self.server.port}")

    def work(self) -> None:
        config = settings.load({}, self.directory, {"workdir": self.directory, "name": "here", "slots": 4})
        self._nodes = NodeThread(self.store, config, {}, lambda message, fields: None)
        self._nodes.start_worker()

    def submission(self, definition: Any, inputs: str = "{}", **more: Any) -> Submit:
        loaded = definition if isinstance(definition, Loaded) else load_value(definition, "test")
        return submission(loaded, inputs, source=str(self.directory), **more)

    def submit(self, definition: Any, inputs: str = "{}", **more: Any) -> str:
        reply = self.connection.submit(self.submission(definition, inputs, **more))
        assert reply.run_id is not None
        return reply.run_id

    def ended(self, run: str) -> str:
        """The state that it ended in."""
        until(lambda: self.connection.run(run).finished)
        return self.connection.run(run).state

    def close(self) -> None:
        if self._nodes is not None:
            self._nodes.close()
        if self.server is not None:
            self.connection.close()
            self.server.close()
        else:
            self.store.close()


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(request.param, tmp_path)
    yield made
    made.close()
