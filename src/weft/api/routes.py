"""How a route is declared: its role, what it takes and replies, how it may be refused; and how it is carried out.

    @routes("GET", "/v1/runs", role="viewer", reply=RunPage)
    def list_runs(control: Asking, limit: Limit = 50) -> RunPage: ...

Handlers are plain functions: they run in a bounded pool of threads, off the event loop, and so does the decoding and
encoding of JSON. An `async def` (a stream, a submission) runs on the loop, and must not touch the store there but
through `served`. `control: Asking` is the store's control on behalf of whoever asks; `body: Annotated[T, BODY]` is
the decoded body, `body: Annotated[Late[T], LATE]` one that is decoded when it is asked for; `served: Shared` is what
all routes share, `command_id: CommandId` the request's own id, `actor: Actor` who asks, `request: Request` the
request. All other parameters are FastAPI's (path, query, headers). A route without a role cannot be declared; the
table of routes and roles is `Routes.declared`.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar, get_args, get_origin

import msgspec
from fastapi import APIRouter, Depends, Header
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from weft.api.auth import Caller, Needed, requires
from weft.api.mistakes import body_trouble
from weft.api.problems import Trouble
from weft.api.served import Served
from weft.control.protocol import Control
from weft.core.definition.suggest import nearest

T = TypeVar("T")
BODY: Final = object()
LATE: Final = object()
ASKING: Final = object()
SHARED: Final = object()
COMMAND_ID: Final = object()
ACTOR: Final = object()
REQUEST: Final = object()
MARKERS = (BODY, LATE, ASKING, SHARED, COMMAND_ID, ACTOR)
Asking = Annotated[Control, ASKING]
Shared = Annotated[Served, SHARED]
CommandId = Annotated[str | None, COMMAND_ID]
Actor = Annotated[str | None, ACTOR]

JSON = "application/json"
_COMMAND_ID = Annotated[
    str | None,
    Header(
        alias="Weft-Command",
        pattern=r"^[0-9a-z-]{8,64}$",
        description="An id of your own for this request: said again with the same id, it is applied once",
    ),
]
#: What any route may answer besides its reply; those with a body or a role may say more.
ALWAYS = (403, 422, 503)


class Late(Generic[T]):
    """A body for a handler on the event loop, which has it decoded elsewhere."""

    def __init__(self, data: bytes, of: type[T]) -> None:
        self._data = data
        self._of = of

    @property
    def size(self) -> int:
        return len(self._data)

    def decoded(self) -> T:
        found: T = decoded(self._data, self._of)
        return found


class Declared(NamedTuple):
    """One route, as the description of the API and the table of roles know it."""

    method: str
    path: str
    role: Needed
    name: str
    reply: Any
    status: tuple[int, ...]
    refused: tuple[int, ...]
    body: Any
    media: str
    summary: str
    example: Any
    raw: bool = False


class Routes:
    """The routes of one resource."""

    def __init__(self, tag: str) -> None:
        self.router = APIRouter(tags=[tag])
        self.declared: list[Declared] = []

    def __call__(
        self,
        method: str,
        path: str,
        *,
        role: Needed,
        reply: Any = None,
        status: tuple[int, ...] = (200,),
        refused: tuple[int, ...] = (),
        media: str = JSON,
        example: Any = None,
        raw: bool = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """`status`: the first is what the handler's value is sent with; the others it sends by itself. `example` is
        one of a body; `raw`: the body may be anything, and the handler reads it by itself."""

        def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
            special, plain = _parameters(handler)
            body = next((of for kind, of in special.values() if kind in (BODY, LATE)), None)
            also = {*ALWAYS, *refused}
            also |= set() if role == "anyone" else {401, 429}
            also |= set() if body is None else {400, 413, 415}
            summary = (inspect.getdoc(handler) or "").split(". ")[0].split("\n\n")[0].split(".\n")[0].rstrip(".")
            summary = summary.replace("\n", " ")
            self.declared.append(
                Declared(
                    method, path, role, handler.__name__, reply, status, tuple(sorted(also)),
                    body, media, summary, example, raw,
                )
            )  # fmt: skip
            allowed = requires(role)
            endpoint = _endpoint(handler, special, plain, method != "GET", status[0])
            self.router.add_api_route(
                path, endpoint, methods=[method], dependencies=[Depends(allowed)], response_class=Response,
                response_model=None, operation_id=handler.__name__, summary=summary, status_code=status[0],
                description=inspect.getdoc(handler), name=handler.__name__,
                route_class_override=_short_way(allowed, endpoint),
            )  # fmt: skip
            return handler

        return declare


def _short_way(
    allowed: Callable[[Request], Awaitable[None]], endpoint: Callable[..., Awaitable[Response]]
) -> type[APIRoute]:
    """Most requests to a route that takes nothing but optional headers have none of them: then there is nothing for
    FastAPI to work out, which is a third of what such a request costs the server."""
    parameters = [one for one in inspect.signature(endpoint).parameters.values() if one.annotation is not Request]
    headers = [_header_of(one) for one in parameters]

    class ShortWay(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            long_way = super().get_route_handler()

            async def handle(request: Request) -> Response:
                given = request.headers
                if any(name in given for name in headers):
                    return await long_way(request)
                await allowed(request)
                return await endpoint(request)

            return long_way if None in headers else handle

    return ShortWay


def _header_of(parameter: inspect.Parameter) -> str | None:
    """The header that an optional parameter comes from; None if it is something else."""
    from fastapi.params import Header

    parts = get_args(parameter.annotation)
    found = next((part for part in parts if isinstance(part, Header)), None)
    return None if found is None or parameter.default is inspect.Parameter.empty else found.alias


def _parameters(handler: Callable[..., Any]) -> tuple[dict[str, tuple[Any, Any]], list[inspect.Parameter]]:
    """(those that are ours: name -> marker and type, those that are FastAPI's)."""
    special: dict[str, tuple[Any, Any]] = {}
    plain = []
    for parameter in inspect.signature(handler, eval_str=True).parameters.values():
        parts = get_args(parameter.annotation) if get_origin(parameter.annotation) is Annotated else ()
        marker = next((part for part in parts[1:] if any(part is one for one in MARKERS)), None)
        if parameter.annotation is Request:
            special[parameter.name] = (REQUEST, Request)
        elif marker is None:
            plain.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        else:
            special[parameter.name] = (marker, get_args(parts[0])[0] if marker is LATE else parts[0])
    return special, plain


def _endpoint(
    handler: Callable[..., Any],
    special: dict[str, tuple[Any, Any]],
    plain: list[inspect.Parameter],
    writes: bool,
    status: int,
) -> Callable[..., Any]:
    known = _query_names(plain)
    takes_body = any(kind in (BODY, LATE) for kind, _ in special.values())

    async def endpoint(request: Request, weft_command: str | None = None, **given: Any) -> Response:
        _refuse_unknown(request, known)
        data = await _body(request) if takes_body else b""
        served: Served = request.app.state.served
        caller: Caller | None = getattr(request.state, "caller", None)
        actor = None if caller is None else caller.name

        def filled() -> dict[str, Any]:
            ours: dict[Any, Callable[[Any], Any]] = {
                ASKING: lambda of: served.control.on_behalf(weft_command, actor), SHARED: lambda of: served,
                COMMAND_ID: lambda of: weft_command, ACTOR: lambda of: actor, REQUEST: lambda of: request,
                BODY: lambda of: decoded(data, of), LATE: lambda of: Late(data, of),
            }  # fmt: skip
            return given | {name: ours[kind](of) for name, (kind, of) in special.items()}

        if inspect.iscoroutinefunction(handler):
            return _response(await handler(**filled()), status)
        return await served.carry_out(lambda: _response(handler(**filled()), status))

    parameters = [inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request), *plain]
    if writes:
        parameters.append(
            inspect.Parameter("weft_command", inspect.Parameter.KEYWORD_ONLY, annotation=_COMMAND_ID, default=None)
        )
    endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return endpoint


def _response(value: Any, status: int) -> Response:
    return value if isinstance(value, Response) else reply(value, status)


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=JSON, headers=headers)


def decoded(data: bytes, of: Any) -> Any:
    try:
        return msgspec.json.decode(data or b"{}", type=of)
    except msgspec.ValidationError as error:
        raise body_trouble(error, of) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Trouble(400, "json", f"the body is no JSON: {error}") from None


async def _body(request: Request) -> bytes:
    data = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if data and kind != JSON and not kind.endswith("+json"):
        raise Trouble(415, "media_type", "the body must be JSON", "send the header Content-Type: application/json")
    return data


def _query_names(plain: Iterable[inspect.Parameter]) -> list[str]:
    """Also those of a bundle: `Annotated[Bundle, Depends()]`, a dataclass with a field for each."""
    from fastapi.params import Depends, Query

    names = []
    for parameter in plain:
        kind, *parts = get_args(parameter.annotation) or (None,)
        for part in parts:
            if isinstance(part, Query):
                names.append(part.alias or parameter.name)
            elif isinstance(part, Depends):
                names += _query_names(inspect.signature(kind, eval_str=True).parameters.values())
    return names


def _refuse_unknown(request: Request, known: list[str]) -> None:
    """A filter with a slip of the pen must not pass for none."""
    for name in request.query_params:
        if name not in known:
            meant = nearest(name, known)
            fix = f"did you mean {meant!r}?" if meant else f"it takes {', '.join(known) or 'none'}"
            raise Trouble(422, "query", f"this route takes no {name[:64]!r} in its query", fix)
