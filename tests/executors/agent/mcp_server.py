"""An MCP server for tests, over standard input and output: it adds numbers, fails when asked, shows a variable."""

import asyncio
import os
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


async def list_tools(context: ServerRequestContext[Any, Any], params: Any) -> types.ListToolsResult:
    names = {"add": "adds a and b", "fail": "fails", "flood": "says much", "show.env": "shows a variable"}
    return types.ListToolsResult(
        tools=[types.Tool(name=name, description=said, input_schema=NUMBERS) for name, said in names.items()]
    )


async def call_tool(context: ServerRequestContext[Any, Any], params: Any) -> types.CallToolResult:
    arguments = params.arguments or {}
    match params.name:
        case "add":
            text, failed = str(arguments["a"] + arguments["b"]), False
        case "flood":
            text, failed = "x" * 1_000_000, False
        case "show.env":
            text, failed = os.environ.get("SHOWN", "nothing"), False
        case _:
            text, failed = "it broke", True
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=failed)


async def main() -> None:
    server: Server[Any] = Server("test", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
