"""The tools as a server of the Model Context Protocol, whatever carries it: which there are for whom, and how a call
is carried out. A caller's mistake is a result in words, with the fix: a model can correct it by itself."""

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from weft import __version__
from weft.api.access.auth import Caller
from weft.api.app_state import AppState
from weft.api.validation import body_error
from weft.core.definition.suggest import nearest
from weft.mcp import guidance, history, looking, results, submitting
from weft.mcp.replies import shortened
from weft.mcp.tools import RequestContext, Tool, schema_of, tool_of
from weft.operations.declare import RANK
from weft.operations.errors import ApiError, Problem, api_error_of
from weft.operations.table import OPERATIONS

TOOLS: tuple[Tool, ...] = (
    *(tool for group in (submitting.tools, results.tools, looking.tools, history.tools) for tool in group.declared),
    *(tool_of(operation) for operation in OPERATIONS if operation.tool is not None),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
REPLY_MAX = 512 * 1024
TOLD_MAX = 8 * 1024
ABOUT = """Weft runs graphs of tasks (workflows), durably and in parallel. A run is one pass of a workflow; a task of
it may take several attempts. submit_task runs one command; submit_workflow runs a graph: look at it first with
validate_workflow and preview. Both return at once with the run's id; get_task_result and get_workflow_status wait
with wait_s. explain_task says why something does not run. The resource weft://definitions says how definitions are
written. Lists are pages: `next` is the `cursor` of the following
one. Times are milliseconds of the store's clock."""

Context = ServerRequestContext[Any, Any]


CallerOf = Callable[[Context], Awaitable[Caller]]


def make_server(state: AppState, caller_of: CallerOf, *, read_only: bool = False) -> Server[Any]:
    """`read_only`: tools that change something are not there, whoever asks."""

    def there(tool: Tool, caller: Caller) -> bool:
        scope = caller.scope
        allowed = RANK[caller.role] >= RANK[tool.role] if scope is None else scope.may(tool.scope)
        return allowed and (tool.reads_only or not read_only)

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        caller = await caller_of(ctx)
        return types.ListToolsResult(tools=[described(tool) for tool in TOOLS if there(tool, caller)])

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            caller = await caller_of(ctx)
        except ApiError as error:
            return _refused(error.problem)
        tool = BY_NAME.get(params.name)
        if tool is None:
            meant = nearest(params.name, [one.name for one in TOOLS if there(one, caller)])
            fix = f"; did you mean {meant}?" if meant else ""
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:64]!r}{fix}")
        try:
            if not there(tool, caller):
                raise _forbidden(tool, caller, read_only)
            connection = state.connection.for_request(None, caller.name, caller.scope)

            async def progress(done: float, message: str) -> None:
                await ctx.session.report_progress(done, None, message)

            context = RequestContext(state, connection, progress)
            return await _called(context, tool, params.arguments or {})
        except MCPError:
            raise
        except Exception as error:
            return _refused(api_error_of(error).problem)

    return Server(
        "weft", version=__version__, title="Weft", instructions=" ".join(ABOUT.split()), on_list_tools=list_tools,
        on_call_tool=call_tool, get_tool_input_schema=_no_header_parameters,
        on_list_resources=guidance.list_resources, on_list_resource_templates=guidance.list_templates,
        on_read_resource=guidance.read_resource, on_list_prompts=guidance.list_prompts,
        on_get_prompt=guidance.get_prompt,
    )  # fmt: skip


async def caller_of_request(ctx: Context) -> Caller:
    """Over HTTP: whom the gate has let in."""
    caller = ctx.request.state.caller if ctx.request is not None else None
    assert isinstance(caller, Caller)
    return caller


def _no_header_parameters(name: str) -> None:
    """No tool asks for an argument to be repeated in a header, so there is nothing to compare."""


def described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name, description=tool.description, input_schema=schema_of(tool.takes),
        output_schema=schema_of(tool.gives),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads_only, destructive_hint=tool.destructive, idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )  # fmt: skip


async def _called(context: RequestContext, tool: Tool, arguments: dict[str, Any]) -> types.CallToolResult:
    if tool.waits:
        given = _converted(tool, arguments)
        value = await tool.handler(context, given)
        return await context.read(lambda: _call_result(value))
    return await context.read(lambda: _call_result(tool.handler(context, _converted(tool, arguments))))


def _converted(tool: Tool, arguments: dict[str, Any]) -> Any:
    try:
        return msgspec.convert(arguments, tool.takes)
    except msgspec.ValidationError as error:
        raise body_error(error, tool.takes, "arguments", f"{tool.name}: ") from None


def _call_result(value: msgspec.Struct) -> types.CallToolResult:
    text = msgspec.json.encode(value)
    if len(text) > REPLY_MAX:
        raise ApiError("too_long", f"the reply would have {len(text):,} bytes", "ask for less with `limit`")
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text.decode())], structured_content=msgspec.json.decode(text)
    )


def _refused(problem: Problem) -> types.CallToolResult:
    lines = [shortened(problem.detail, TOLD_MAX) or "", *([f"fix: {problem.fix}"] if problem.fix else [])]
    for one in (problem.errors or [])[:20]:
        if one.get("fix") and str(one["fix"]) not in problem.detail:
            lines.append(f"fix: {one.get('path') or ''}: {one['fix']}")
    text = shortened("\n".join(lines), TOLD_MAX) or ""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=True,
        structured_content={"code": problem.code, "detail": text},
    )  # fmt: skip


def _forbidden(tool: Tool, caller: Caller, read_only: bool) -> ApiError:
    if read_only and not tool.reads_only:
        text = f"{tool.name} changes something, and this server only reads"
        return ApiError("read_only", text, "ask a person: it was started with --read-only")
    if caller.scope is not None:
        caller.scope.check(tool.scope)
    return ApiError("forbidden", f"{tool.name} needs the role {tool.role}, and the token has {caller.role}",
        "use a token with that role",
    )  # fmt: skip
