"""A service of workers without HTTP: calls go through the real messages, and may be lost on the way."""

import asyncio
import json
import zlib
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from tests.api.conftest import serving  # noqa: F401  a fixture
from tests.cluster.conftest import postgres_cluster  # noqa: F401  a fixture
from weft.authoring.load import load_value
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.core.placement.worker_binding import WorkerBinding
from weft.node.ports import LinkLost
from weft.node.workers.checks import WorkerToken
from weft.node.workers.messages import PLAIN, VERSION, decode_answer, encode
from weft.node.workers.remote_link import RemoteLink
from weft.node.workers.service import WorkerService
from weft.node.workers.store_reach import StoreReach
from weft.operations.access import StoreAccess
from weft.store.artifact_files import ArtifactFiles
from weft.store.kept_files import StoreFiles
from weft.store.sqlite.driver import SqliteStore

T = TypeVar("T")
TOKEN = WorkerToken("t1", "edge")
FACTS = {"slots": 4, "kinds": ["shell"], "labels": {}, "memory": 2**30, "lease_ttl_ms": 60_000}


class DirectTransport:
    """Straight to the service. `lose`: so many more replies are lost, after what they are to was done."""

    def __init__(self, service: WorkerService, token: WorkerToken) -> None:
        self._service = service
        self._token = token
        self.lose = 0

    async def send(self, call: str, data: bytes, timeout_s: float) -> bytes:
        answer = await self._service.answer(self._token, call, data)
        if self.lose:
            self.lose -= 1
            raise LinkLost("the reply was lost")
        return answer

    def changed(self, woken: Callable[[], None]) -> None: ...
    async def close(self) -> None: ...


class Served:
    """A store with a service, and the calls of workers."""

    def __init__(self, directory: Path) -> None:
        store = SqliteStore(directory / "weft.db")
        self.connection = StoreConnection(StoreAccess(store, root=directory))
        self.reach = StoreReach(store, self.connection.link)
        artifacts = ArtifactFiles(directory / "artifacts", "server", 2**24)
        self.service = WorkerService(
            self.reach, "server-1", artifacts, lambda kept: StoreFiles(store.keep_output, self.reach.reader)
        )
        self._loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def call(self, name: str, request: Any, token: WorkerToken = TOKEN) -> Any:
        return self.run(self.answered(name, request, token))

    async def answered(self, name: str, request: Any, token: WorkerToken = TOKEN) -> Any:
        return decode_answer(name, await self.service.answer(token, name, encode(request)))

    def raw(self, name: str, data: bytes) -> bytes:
        return self.run(self.service.answer(TOKEN, name, data))

    def link(self, token: WorkerToken = TOKEN) -> RemoteLink:
        async def make() -> RemoteLink:
            return RemoteLink(DirectTransport(self.service, token), 60.0, lambda message, fields: None)

        return self.run(make())

    def register(self, session: str, token: WorkerToken = TOKEN, node: str = "one", **facts: Any) -> c.Reply:
        body = json.dumps({**FACTS, **facts})
        reply: c.Reply = self.call("register", c.Register(session, node, 60_000, None, body), token)
        return reply

    def exchange(self, session: str, number: int = 1, token: WorkerToken = TOKEN, **more: Any) -> c.ExchangeReply:
        command = c.Exchange(
            session, number, **{"reports": [], "want": 10, "demands": ["shell"], "known_demands": 0, **more}
        )
        reply: c.ExchangeReply = self.call("exchange", command, token)
        return reply

    def submit(self, run_id: str, definition: dict[str, Any], name: str = "w") -> None:
        loaded = load_value({"name": name, **definition}, name)
        workflow = loaded.workflow
        self.connection.link.committer.know(workflow)
        self.connection.link.committer.commit(
            c.Submit(run_id, workflow.hash, workflow.name, loaded.encoded, "{}", source=None)
        )

    def close(self) -> None:
        self.run(self._close())
        self._loop.close()
        self.reach.close()
        self.connection.close()

    async def _close(self) -> None:
        self.service.close()
        await asyncio.sleep(0)


def bound(token: str, name: str, **binding: Any) -> WorkerToken:
    return WorkerToken(token, name, WorkerBinding(**binding))


def bomb(size: int) -> bytes:
    """A message that inflates to so many bytes."""
    return bytes((VERSION, 1)) + zlib.compress(msgspec.msgpack.encode(b"\0" * size), 1)


def plain(value: Any) -> bytes:
    return bytes((VERSION, PLAIN)) + msgspec.msgpack.encode(value)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.close()
