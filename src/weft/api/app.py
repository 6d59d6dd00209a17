"""The application: every operation of the table under its route, behind one guard."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from weft.api import health, hooks, metrics, submissions, worker_calls  # noqa: F401 - handlers
from weft.api.access.auth import Gate, allowed_caller
from weft.api.access.request_guard import BODY_MAX, RequestGuard
from weft.api.app_state import THREADS, AppState
from weft.api.calls import HANDLERS, OperationCall, carried_out
from weft.api.openapi import describe
from weft.api.pages import docs_page, plain_page, who_asks  # noqa: F401 - handlers
from weft.api.pages.browser_files import BrowserFiles
from weft.api.pages.token_form import sign_in, token_of_cookie, use_form
from weft.api.responses import problem
from weft.api.streams import handlers, outputs  # noqa: F401 - handlers
from weft.api.streams.hub import Listen
from weft.client.definition_loader import DefinitionLoader
from weft.client.verbs import Connection
from weft.core.definition.site_defaults import NO_DEFAULTS, SiteDefaults
from weft.node.attempts.secrets import Secrets
from weft.node.workers.service import WorkerService
from weft.operations.declare import JSON, Operation
from weft.operations.errors import ApiError, api_error_of
from weft.operations.reading.figures import Figures
from weft.operations.table import OPERATIONS

MCP_PATH: Final = "/mcp"  # where the tools of agents are, if they are there
_NAME = re.compile(r"\{([a-z_]+)\}")


class Mounted(Protocol):
    """Something with an address of its own beside the API (MCP), behind the same guard. It asks the gate itself."""

    def lifespan(self) -> AbstractAsyncContextManager[None]: ...
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Router:
    """Routes by path, each with its operations by method."""

    def __init__(self, operations: Iterable[Operation[Any, Any]]) -> None:
        self._plain: dict[str, dict[str, Operation[Any, Any]]] = {}
        #: By path: what stands before its first name, for a first look, and the pattern.
        self._patterns: dict[str, tuple[str, re.Pattern[str], dict[str, Operation[Any, Any]]]] = {}
        for operation in operations:
            path = operation.path
            if "{" not in path:
                self._plain.setdefault(path, {})[operation.method] = operation
            else:
                pattern = re.compile(_NAME.sub(r"(?P<\1>[^/]+)", path))
                start = path.partition("{")[0]
                self._patterns.setdefault(path, (start, pattern, {}))[2][operation.method] = operation

    def find(self, path: str) -> tuple[dict[str, Operation[Any, Any]], dict[str, str]] | None:
        """The operations of a path by method, and the names in it."""
        methods = self._plain.get(path)
        if methods is not None:
            return methods, {}
        for start, pattern, methods in self._patterns.values():
            match = pattern.fullmatch(path) if path.startswith(start) else None
            if match is not None:
                return methods, match.groupdict()
        return None


class Application:
    """An ASGI application. Starlette's requests and responses, and nothing between them and a handler."""

    def __init__(
        self, state: AppState, operations: tuple[Operation[Any, Any], ...], root_path: str, others: dict[str, Mounted]
    ) -> None:
        self.state = state
        self.operations = operations
        self._root_path = root_path
        self._router = Router(operations)
        self._others = others
        #: What begins and ends with the application; others may be added before it begins.
        self.lifespans = [other.lifespan for other in others.values()]
        self._files = BrowserFiles(self.operations)
        self._description: bytes | None = None

    def openapi(self) -> dict[str, Any]:
        return describe(self.operations, self._root_path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        scope["app"] = self
        request = Request(scope, receive)
        try:
            response = await self._respond(request, receive, send)
        except ClientDisconnect:
            return
        except Exception as error:
            found = api_error_of(error)
            response = sign_in(request, found) or problem(found)
        if response is not None:
            await response(scope, receive, send)

    async def _respond(self, request: Request, receive: Receive, send: Send) -> Response | None:
        """None: it has been sent."""
        path: str = request.scope["path"]
        if path in self._others:
            await self._others[path](request.scope, receive, send)
            return None
        if path == "/openapi.json" and request.method == "GET":
            if self._description is None:
                self._description = msgspec.json.encode(self.openapi())
            return Response(self._description, media_type=JSON)
        if path == "/docs" and request.method == "GET":
            return docs_page.response(self.operations)
        if request.method == "GET" and (shown := self._files.response(request)) is not None:
            return shown
        if (shown := await use_form(request, self.state)) is not None:
            return shown
        found = self._router.find(path)
        if found is None:
            mcp = path == MCP_PATH
            fix = (
                "the tools of agents are here where weft[mcp] is installed" if mcp else "/openapi.json has all routes"
            )
            raise ApiError("no_route", "there is nothing here", fix)
        methods, names = found
        operation = methods.get(request.method)
        if operation is None:
            allowed = ["GET", "HEAD"] if "GET" in methods else []
            allowed += sorted(methods.keys() - {"GET"})
            raise ApiError(
                "method", "this route does not take that method", "/openapi.json has all routes",
                headers={"Allow": ", ".join(allowed)},
            )  # fmt: skip
        cookie = token_of_cookie(request, self.state)
        caller = await allowed_caller(self.state.gate, operation, request, cookie)
        call = OperationCall(operation, self.state, request, names, caller)
        await call.receive()
        return await HANDLERS.get(operation.name, carried_out)(call)

    async def _live(self, receive: Receive, send: Send) -> None:
        """The protocol by which the server starts and ends an application."""
        async with AsyncExitStack() as stack:
            await receive()
            for lifespan in self.lifespans:
                await stack.enter_async_context(lifespan())
            await send({"type": "lifespan.startup.complete"})
            await receive()
        self.state.close()
        await send({"type": "lifespan.shutdown.complete"})


def create_app(
    connection: Connection,
    *,
    gate: Gate,
    hosts: Iterable[str] = (),
    body_max: int = BODY_MAX,
    source: str | None = None,
    ready: Callable[[], str | None] = lambda: None,
    threads: int = THREADS,
    secrets: Secrets | None = None,
    operations: Iterable[Operation[Any, Any]] = OPERATIONS,
    mounted: Mapping[str, Callable[[AppState], Mounted]] | None = None,
    listen: Listen | None = None,
    figures: Callable[[], Figures] | None = None,
    root_path: str = "",
    defaults: SiteDefaults = NO_DEFAULTS,
    workers: WorkerService | None = None,
) -> "GuardedApplication":
    """`source` is where tasks start if a submission names no directory; `hosts` are names of this server; `secrets`
    are those that webhooks are checked with; `mounted` is what else it serves, by path; `listen` calls back after
    this process has committed something, for streams; `figures` are those of /metrics; `root_path` is what stands
    before its paths at a proxy; `defaults` are for definitions that do not state them; `workers` answers those that
    have no store."""
    definitions = DefinitionLoader(connection, source or str(Path.cwd()), defaults)
    state = AppState(connection, gate, definitions, ready, threads, secrets or Secrets({}), listen, figures, workers)
    others = {path: make(state) for path, make in (mounted or {}).items()}
    app = Application(state, tuple(operations), root_path, others)
    return GuardedApplication(app, RequestGuard(app, hosts=list(hosts), body_max=body_max, root_path=root_path))


class GuardedApplication:
    def __init__(self, app: Application, guard: RequestGuard) -> None:
        self.state = app.state
        self.openapi = app.openapi
        self.lifespans = app.lifespans
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(scope, receive, send)
