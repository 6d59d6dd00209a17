"""The tools of MCP servers: programs below this process, or servers at an address."""

import os
import re
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.executors.agent.api.request import ApiFailure

if TYPE_CHECKING:
    from mcp import Client

_NAME_MAX: Final = 64  # of a tool, for both kinds of API
_RESULT_MAX: Final = 256 * 1024
_CALL_S: Final = 600.0
_START_S: Final = 60.0
_PAGES_MAX: Final = 50


class ToolServers:
    """`async with ToolServers(servers) as tools`: all of them answer, or ApiFailure."""

    def __init__(self, servers: dict[str, dict[str, Any]]) -> None:
        self._servers = servers
        self._stack = AsyncExitStack()
        self._calls: dict[str, tuple[Client, str]] = {}
        self.described: list[dict[str, Any]] = []  # name, description, input_schema

    async def __aenter__(self) -> "ToolServers":
        if self._servers:
            try:
                import mcp  # noqa: F401
            except ImportError:
                raise ApiFailure(
                    "tools of MCP servers need the package mcp: install weft[mcp]", again=False
                ) from None
        for name, server in self._servers.items():
            try:
                await self._connect(name, server)
            except Exception as error:
                await self._stack.aclose()
                raise ApiFailure(f"the MCP server {name} cannot be used: {_reason(error)}", again=True) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _connect(self, name: str, server: dict[str, Any]) -> None:
        from mcp import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        if "url" in server:
            headers = {"Authorization": f"Bearer {server['token']}"} if "token" in server else {}
            http = await self._stack.enter_async_context(create_mcp_http_client(headers=headers))
            transport: Any = streamable_http_client(server["url"], http_client=http)
        else:
            env = {**os.environ, **server["env"]}
            parameters = StdioServerParameters(command=server["command"], args=server["args"], env=env)
            transport = stdio_client(parameters, errlog=sys.stderr)
        client = await self._stack.enter_async_context(Client(transport, read_timeout_seconds=_START_S))
        cursor: str | None = None
        for _ in range(_PAGES_MAX):
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                own = self._own_name(name, tool.name)
                self._calls[own] = (client, tool.name)
                self.described.append(
                    {"name": own, "description": tool.description or "", "input_schema": tool.input_schema}
                )
            cursor = page.next_cursor
            if cursor is None:
                return

    def _own_name(self, server: str, tool: str) -> str:
        """As claude calls it, within the letters and the length that APIs allow; no name twice."""
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{server}__{tool}")[:_NAME_MAX]
        number = 1
        while name in self._calls:
            number += 1
            name = f"{name[: _NAME_MAX - 4]}_{number}"
        return name

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """What the model reads, and whether it is an error. Nothing that a tool does ends the conversation."""
        if "not_json" in arguments:
            return "the arguments are no JSON object", True
        found = self._calls.get(name)
        if found is None:
            return f"there is no tool {name}", True
        client, own = found
        try:
            result = await client.call_tool(own, arguments, read_timeout_seconds=_CALL_S)
        except Exception as error:
            return f"the tool failed: {_reason(error)}", True
        parts = [_content(item) for item in result.content]
        if not parts and result.structured_content is not None:
            parts = [msgspec.json.encode(result.structured_content).decode()]
        text = "\n".join(parts)
        if len(text) > _RESULT_MAX:
            text = f"{text[:_RESULT_MAX]}\n… ({len(text) - _RESULT_MAX:,} more characters are left out)"
        return text, bool(result.is_error)


def _content(item: Any) -> str:
    return str(item.text) if item.type == "text" else f"({item.type}, which is not shown here)"


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split())[:300] or type(error).__name__
