"""The application: all routes over one control, behind one door."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from weft import __version__
from weft.api import (
    dead,
    events,
    health,
    hooks,
    metrics,
    nodes,
    page,
    runs,
    store,
    streams,
    tasks,
    tokens,
    triggers,
    workflows,
)
from weft.api.auth import Gate
from weft.api.description import describe
from weft.api.door import BODY_MAX, Door
from weft.api.hub import Listen
from weft.api.mistakes import parameter_trouble
from weft.api.problems import Trouble, trouble_of
from weft.api.routes import Declared, Routes
from weft.api.served import THREADS, Served
from weft.api.sign_in import sign_in
from weft.api.submitting import Submitting
from weft.control.metrics import Figures
from weft.control.protocol import Control
from weft.core.definition.site_defaults import NO_DEFAULTS, SiteDefaults
from weft.node.secrets import Secrets

RESOURCES: tuple[Routes, ...] = (
    runs.routes, tasks.routes, workflows.routes, events.routes, nodes.routes, dead.routes, store.routes,
    triggers.routes, hooks.routes, streams.routes, tokens.routes, metrics.routes, health.routes, page.routes,
)  # fmt: skip


MCP_PATH = "/mcp"  # where the tools of agents are, if they are there


class Mounted(Protocol):
    """Something with an address of its own beside the API (MCP), behind the same door. It asks the gate by itself."""

    def lifespan(self) -> AbstractAsyncContextManager[None]: ...
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


def create_app(
    control: Control,
    *,
    gate: Gate,
    hosts: Iterable[str] = (),
    body_max: int = BODY_MAX,
    source: str | None = None,
    ready: Callable[[], str | None] = lambda: None,
    threads: int = THREADS,
    secrets: Secrets | None = None,
    resources: Iterable[Routes] = RESOURCES,
    mounted: Mapping[str, Callable[[Served], Mounted]] | None = None,
    listen: Listen | None = None,
    figures: Callable[[], Figures] | None = None,
    root_path: str = "",
    defaults: SiteDefaults = NO_DEFAULTS,
) -> FastAPI:
    """`source` is where tasks start if whoever submits them names no directory; `hosts` are names of this server;
    `secrets` are those that webhooks are checked with; `mounted` is what else it serves, by path; `listen` calls back
    after this process has committed something, for streams; `figures` are those of /metrics; `root_path` is what
    stands before its paths at a proxy; `defaults` are for definitions that do not state them."""
    resources = tuple(resources)
    submitting = Submitting(control, source or str(Path.cwd()), defaults)
    served = Served(control, gate, submitting, ready, threads, secrets or Secrets({}), listen, figures)

    others = {path: make(served) for path, make in (mounted or {}).items()}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for other in others.values():
                await stack.enter_async_context(other.lifespan())
            yield
        served.close()

    app = FastAPI(
        title="Weft", version=__version__, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.served = served
    for resource in resources:
        app.include_router(resource.router)
    app.router.routes += [Route(path, other, include_in_schema=False) for path, other in others.items()]
    _explain_errors(app)
    described: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not described:
            described.update(describe(app, declared(resources), root_path))
        return described

    app.openapi = openapi  # type: ignore[method-assign]

    @app.get("/openapi.json", include_in_schema=False)
    async def description() -> Response:
        import msgspec

        return Response(msgspec.json.encode(app.openapi()), media_type="application/json")

    app.add_middleware(Door, hosts=list(hosts), body_max=body_max, root_path=root_path)
    return app


def declared(resources: Iterable[Routes] = RESOURCES) -> list[Declared]:
    """Every route with its role: what the table in the docs and the tests of roles are made from."""
    return [route for resource in resources for route in resource.declared]


def _explain_errors(app: FastAPI) -> None:
    async def any_error(request: Request, error: Exception) -> Response:
        trouble = trouble_of(error)
        return sign_in(request, trouble) or trouble.response()

    async def by_framework(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {404: "there is nothing here", 405: "this route does not take that method"}
        detail = words.get(error.status_code, str(error.detail))
        code = {404: "no_route", 405: "method"}.get(error.status_code, "http")
        fix = "/openapi.json has all routes" if error.status_code in words else None
        if request.url.path == MCP_PATH:
            fix = "the tools of agents are here where weft[mcp] is installed"
        return Trouble(error.status_code, code, detail, fix, headers=dict(error.headers or {})).response()

    async def bad_parameters(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return parameter_trouble(error.errors(), _described(request)).response()

    app.add_exception_handler(HTTPException, by_framework)
    app.add_exception_handler(RequestValidationError, bad_parameters)
    for kind in _KNOWN:
        app.add_exception_handler(kind, any_error)
    app.add_exception_handler(Exception, any_error)


def _described(request: Request) -> dict[str, str]:
    """What each parameter of the route is, by its name."""
    dependant = getattr(request.scope.get("route"), "dependant", None)
    if dependant is None:
        return {}
    described = {}
    for one in (dependant, *dependant.dependencies):
        for field in (*one.path_params, *one.query_params, *one.header_params):
            if field.field_info.description:
                described[field.alias] = field.field_info.description
    return described


def _known() -> tuple[type[Exception], ...]:
    from weft.authoring.errors import DefinitionErrors
    from weft.control.records import Ambiguous, NotFound
    from weft.core.commands import Refused
    from weft.store.protocol import StoreError

    return Trouble, DefinitionErrors, NotFound, Ambiguous, Refused, StoreError


_KNOWN = _known()
