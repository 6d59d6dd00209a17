"""The SDK's own client against a real server: uvicorn over a real SQLite file, with a node or without."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.api.conftest import Running
from weft.mcp.http import Endpoint

T = TypeVar("T")
MODES = ("legacy", "auto")  # the protocol up to 2025-11-25, and since 2026-07-28


def shown(work: Coroutine[Any, Any, T]) -> T:
    """The SDK wraps what goes wrong in groups of one, three deep: the test's own error is what counts."""
    try:
        return asyncio.run(work)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


class Calls:
    """`await calls("list_tasks", limit=3)` gives what the tool gives; a refusal is an error of the test."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **given: Any) -> Any:
        result = await self.raw(tool, **given)
        assert not result.is_error, result.content
        assert result.structured_content is not None
        return result.structured_content

    async def raw(self, tool: str, **given: Any) -> types.CallToolResult:
        result = await self.client.call_tool(tool, given)
        assert isinstance(result, types.CallToolResult)
        return result

    async def refused(self, tool: str, **given: Any) -> tuple[str, str]:
        """(code, words)."""
        result = await self.raw(tool, **given)
        assert result.is_error, result.structured_content
        assert isinstance(result.content[0], types.TextContent)
        assert result.structured_content is not None
        return result.structured_content["code"], result.content[0].text

    async def names(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]


class Agents(Running):
    """A server with the tools at /mcp."""

    def __init__(self, directory: Path, *, read_only: bool = False, **more: Any) -> None:
        mounted = {"/mcp": lambda served: Endpoint(served, read_only=read_only)}
        super().__init__(directory, mounted=mounted, **more)

    @asynccontextmanager
    async def connected(self, token: str | None = None, mode: str = "auto") -> AsyncIterator[Calls]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with create_mcp_http_client(headers=headers) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{self.port}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                yield Calls(client)

    def tell(self, talk: Callable[[Calls], Awaitable[T]], token: str | None = None, mode: str = "auto") -> T:
        """One conversation, from beginning to end."""

        async def whole() -> T:
            async with self.connected(token, mode) as calls:
                return await talk(calls)

        return shown(whole())


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    """With a node that works."""
    made = Agents(tmp_path)
    yield made
    made.close()


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Agents]:
    """Without a node: nothing moves."""
    made = Agents(tmp_path, node=False)
    yield made
    made.close()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Agents]]:
    """Made as the test wants it."""
    made: list[Agents] = []

    def make(**more: Any) -> Agents:
        made.append(Agents(tmp_path / f"server{len(made)}", **more))
        return made[-1]

    yield make
    for one in made:
        one.close()
