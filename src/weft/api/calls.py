"""One HTTP request to one operation: reading it, and carrying it out."""

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from weft.api.access.auth import Caller
from weft.api.app_state import AppState
from weft.api.responses import reply
from weft.api.validation import body_error, parameter_error
from weft.client.verbs import Connection
from weft.core.definition.suggest import nearest
from weft.operations.declare import JSON, Operation, Request, parameters_of
from weft.operations.errors import ApiError

Q = TypeVar("Q", bound=Request)
COMMAND_HEADER: Final = "Weft-Command"
COMMAND_PATTERN: Final = r"^[0-9a-z-]{8,64}$"
COMMAND_DESCRIPTION: Final = "An id of your own for this request: sent again with the same id, it is applied once"
SHOWN_MAX: Final = 64  # characters of what was sent
_COMMAND_ID = re.compile(COMMAND_PATTERN)


class OperationCall:
    def __init__(
        self,
        operation: Operation[Any, Any],
        state: AppState,
        http: HttpRequest,
        path: dict[str, str],
        caller: Caller | None,
    ) -> None:
        self.operation = operation
        self.path = path
        self.state = state
        self.http = http
        self.body = b""
        self.caller = caller
        self.actor = None if caller is None else caller.name
        self.scope = None if caller is None else caller.scope
        self.command_id = command_id_of(http) if operation.writes and not operation.any_body else None
        self._texts = {**path, **_query(operation, http), **header_values(operation, http)}

    @property
    def connection(self) -> Connection:
        """On behalf of the caller."""
        return self.state.connection.for_request(self.command_id, self.actor, self.scope)

    async def receive(self) -> None:
        """The body, where the operation takes one."""
        if self.operation.body_type is None:
            return
        self.body = await self.http.body()
        kind = self.http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self.body and kind != JSON and not kind.endswith("+json"):
            raise ApiError("media_type", "the body must be JSON", "send the header Content-Type: application/json")

    def request(self, of: type[Q]) -> Q:
        """The decoded and validated request. A large body takes a while: not on the event loop."""
        found = self.parameters()
        if self.operation.body_type is not None:
            body = decoded(self.body, self.operation.body_type)
            found |= {name: getattr(body, name) for name in body.__struct_fields__}
        return of(**found)

    def parameters(self) -> dict[str, Any]:
        """Those of path, query and headers."""
        operation = self.operation
        values = parameters_of(operation, self._texts)
        try:
            found = msgspec.convert(values, operation.parameters_type)
        except msgspec.ValidationError as error:
            raise parameter_error(error, operation, self._texts) from None
        return {name: getattr(found, name) for name in found.__struct_fields__}


Handler = Callable[[OperationCall], Awaitable[Response]]


async def carried_out(call: OperationCall) -> Response:
    """Any operation of the table, in a thread: decoding, the store's work, encoding."""
    operation = call.operation

    def work() -> Response:
        value = call.connection.call(operation, call.request(operation.request))
        status = operation.statuses[0]
        run = getattr(value, "run", None) if status == 201 else None
        return reply(value, status, None if run is None else {"Location": f"/v1/runs/{run}"})

    return await call.state.off_loop(work)


def decoded(data: bytes, of: Any) -> Any:
    try:
        return msgspec.json.decode(data or b"{}", type=of)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
            raise body_error(error, of) from None
        return _with_whole_numbers(data, of)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError("json", f"the body is not JSON: {error}") from None


def _with_whole_numbers(data: bytes, of: Any) -> Any:
    """To JSON, 3.0 is a whole number; to msgspec it is none."""
    try:
        return msgspec.convert(_whole(msgspec.json.decode(data)), of)
    except msgspec.ValidationError as error:
        raise body_error(error, of) from None


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list) else value


def command_id_of(http: HttpRequest) -> str | None:
    found = http.headers.get(COMMAND_HEADER)
    if found is not None and _COMMAND_ID.fullmatch(found) is None:
        detail = f"{COMMAND_HEADER}: {found[:SHOWN_MAX]!r} does not match {COMMAND_PATTERN}"
        raise ApiError("parameters", detail, f"{COMMAND_HEADER} is: {COMMAND_DESCRIPTION}")
    return found


def _query(operation: Operation[Any, Any], http: HttpRequest) -> dict[str, Any]:
    """A filter with a misspelt name must not pass for none."""
    if not http.scope["query_string"]:
        return {}
    known = {field.name: field for field in operation.fields if field.location == "query"}
    found: dict[str, Any] = {}
    for name, value in http.query_params.multi_items():
        field = known.get(name)
        if field is None:
            meant = nearest(name, list(known))
            fix = f"did you mean {meant!r}?" if meant else f"it takes {', '.join(known) or 'none'}"
            raise ApiError("query", f"this route takes no {name[:SHOWN_MAX]!r} in its query", fix)
        if field.repeated:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise ApiError("query", f"{name} is given twice", "leave one of them out")
        else:
            found[name] = value
    return found


def header_values(operation: Operation[Any, Any], http: HttpRequest) -> dict[str, str]:
    return {
        field.name: http.headers[field.wire_name]
        for field in operation.fields
        if field.location == "header" and field.wire_name in http.headers
    }


#: Handlers of operations that are written by hand, by name.
HANDLERS: Final[dict[str, Handler]] = {}


def handles(
    *operations: Operation[Any, Any],
) -> Callable[[Callable[[OperationCall], Any]], Callable[[OperationCall], Any]]:
    """Declares the handler of these operations. A plain function runs in a thread; an `async def` runs on the event
    loop and must not touch the store there but through `call.state`."""

    def declare(handler: Callable[[OperationCall], Any]) -> Callable[[OperationCall], Any]:
        async def in_thread(call: OperationCall) -> Response:
            found: Response = await call.state.off_loop(lambda: handler(call))
            return found

        for operation in operations:
            HANDLERS[operation.name] = handler if inspect.iscoroutinefunction(handler) else in_thread
        return handler

    return declare
