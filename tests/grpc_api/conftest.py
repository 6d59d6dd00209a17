"""The generated client against a real server on loopback: in a thread of the test's process, over a real SQLite file.
`weft serve --grpc` as a process of its own is in test_processes.py."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.api.conftest import Running
from weft.grpc_api import weft_pb2_grpc
from weft.grpc_api.server import GrpcServer
from weft.grpc_api.statuses import PROBLEM_TRAILER

WAIT_S = 30.0
MESSAGE_MAX = 256 * 1024


class RpcClient:
    """`client("ListNodes", weft_pb2.ListNodesRequest())`, with a token or without."""

    def __init__(self, address: str, token: str | None = None, *options: tuple[str, Any]) -> None:
        self.channel = grpc.insecure_channel(address, options=options)
        self.stub = weft_pb2_grpc.WeftStub(self.channel)  # type: ignore[no-untyped-call]
        self._token = token

    def metadata(self, more: dict[str, str]) -> tuple[tuple[str, str], ...]:
        given = () if self._token is None else (("authorization", f"Bearer {self._token}"),)
        return (*given, *((name.replace("_", "-"), value) for name, value in more.items()))

    def __call__(self, method: str, message: Any, **metadata: str) -> Any:
        return getattr(self.stub, method)(message, metadata=self.metadata(metadata), timeout=WAIT_S)

    def whole(self, method: str, message: Any, **metadata: str) -> Any:
        """The reply, or all of a stream."""
        reply = self(method, message, **metadata)
        return reply if hasattr(reply, "DESCRIPTOR") else list(reply)

    def refused(self, method: str, message: Any, **metadata: str) -> "Refusal":
        with pytest.raises(grpc.RpcError) as found:
            self.whole(method, message, **metadata)
        return Refusal(found.value)

    def close(self) -> None:
        self.channel.close()


class Refusal:
    def __init__(self, error: Any) -> None:
        self.status = error.code().name
        self.message = error.details()
        self.trailers = dict(error.trailing_metadata())

    @property
    def problem(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.trailers[PROBLEM_TRAILER])
        return found

    @property
    def code(self) -> str:
        return str(self.problem["code"]) if PROBLEM_TRAILER in self.trailers else ""


class GrpcRunning(Running):
    """With gRPC beside the API."""

    def __init__(self, directory: Path, *, tls: tuple[Path, Path | None] | None = None, **more: Any) -> None:
        self._tls = tls
        super().__init__(directory, **more)

    def prepare(self) -> None:
        @asynccontextmanager
        async def lifespan() -> AsyncIterator[None]:
            server = GrpcServer(self.app.state, "127.0.0.1", 0, MESSAGE_MAX, self._tls)
            self.address = server.address
            async with server.lifespan():
                yield

        self.app.lifespans.append(lifespan)

    def rpc(self, token: str | None = None, *options: tuple[str, Any]) -> RpcClient:
        client = RpcClient(self.address, token, *options)
        self.close_with_me(client)
        return client

    def on_loop(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)


@pytest.fixture
def working(tmp_path: Path) -> Iterator[GrpcRunning]:
    """With a node that works."""
    made = GrpcRunning(tmp_path)
    yield made
    made.close()


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[GrpcRunning]:
    """Without a node: nothing moves."""
    made = GrpcRunning(tmp_path, node=False)
    yield made
    made.close()


@pytest.fixture
def serving_grpc(tmp_path: Path) -> Iterator[Callable[..., GrpcRunning]]:
    """Made as the test wants it."""
    made: list[GrpcRunning] = []

    def make(**more: Any) -> GrpcRunning:
        made.append(GrpcRunning(tmp_path / f"server{len(made)}", **more))
        return made[-1]

    yield make
    for one in made:
        one.close()
