"""One call of a method: who calls, what is asked, and how it is answered.

To the server all methods are streams of messages, which is the same on the wire: so the token is looked at before a
message is received, and a stranger cannot make the server hold a large one.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

import grpc
import msgspec
from starlette.requests import Request as HttpRequest

from weft.api.access.auth import Caller, allowed_caller, bearer, known_caller
from weft.api.app_state import AppState
from weft.api.calls import command_id_of, header_values
from weft.api.streams.topic_reader import Followed, TopicReader
from weft.api.validation import body_error
from weft.client.verbs import Connection
from weft.grpc_api.messages import message_of, parsed, values_of
from weft.grpc_api.statuses import refuse
from weft.operations.declare import Operation
from weft.operations.errors import ApiError, api_error_of

ENDS = {
    "stopping": ("not_ready", "the server is about to stop", "go on at another one from where the stream ended"),
    "gone": ("not_found", "the run was removed", None),
    "unauthorized": ("unauthorized", "this token has expired, or was revoked", "use another one"),
    "error": ("bug", "an unexpected error; the server's log has the details", None),
}


class RpcCall:
    """`http` is the call as the gate and the table of operations see requests: its metadata are the headers."""

    def __init__(self, state: AppState, http: HttpRequest, takes: Any, gives: Any) -> None:
        self.state = state
        self.http = http
        self.takes = takes
        self.gives = gives
        self.data = b""
        self.caller: Caller | None = None
        self.command_id: str | None = None

    @property
    def actor(self) -> str | None:
        return None if self.caller is None else self.caller.name

    @property
    def connection(self) -> Connection:
        """On behalf of the caller."""
        scope = None if self.caller is None else self.caller.scope
        return self.state.connection.for_request(self.command_id, self.actor, scope)

    async def admit(self, operation: Operation[Any, Any]) -> None:
        """The caller may call this operation, or an error."""
        self.caller = await allowed_caller(self.state.gate, operation, self.http, bearer(self.http))
        self.command_id = command_id_of(self.http) if operation.writes else None

    async def identify(self) -> None:
        """The caller is known, or an error: what it may do is found out later."""
        await known_caller(self.state.gate, self.http, bearer(self.http))

    def message(self) -> Any:
        return parsed(self.takes, self.data)

    def headers(self, operation: Operation[Any, Any]) -> dict[str, str]:
        """Fields of the operation that travel in headers, from the metadata."""
        return header_values(operation, self.http)

    def request(self, operation: Operation[Any, Any], values: dict[str, Any] | None = None) -> Any:
        """The request of an operation, validated. A large one takes a while: not on the event loop."""
        given = values_of(self.message()) if values is None else values
        return converted({**given, **self.headers(operation)}, operation.request)


def converted(values: dict[str, Any], of: Any) -> Any:
    try:
        return msgspec.convert(values, of)
    except msgspec.ValidationError as error:
        raise body_error(error, of) from None


Unary = Callable[[RpcCall], Awaitable[bytes]]
Stream = Callable[[RpcCall], Awaitable[Followed]]


class Method(NamedTuple):
    """The operation that says who may call a method, and what does it. `operation` None: the message names it."""

    operation: Operation[Any, Any] | None
    unary: Unary | None = None
    stream: Stream | None = None


def handler_of(state: AppState, app: Any, descriptor: Any, method: Method) -> Any:
    """As gRPC wants it. `app` is what requests know as their application."""
    takes, gives = descriptor.input_type._concrete_class, descriptor.output_type._concrete_class

    async def begin(messages: AsyncIterator[bytes], context: Any) -> RpcCall:
        call = RpcCall(state, _as_http(context, app), takes, gives)
        if method.operation is None:
            await call.identify()
        else:
            await call.admit(method.operation)
        async for data in messages:
            call.data = data
            return call
        raise ApiError("body", "the call has no message")

    async def unary(messages: AsyncIterator[bytes], context: Any) -> bytes:
        try:
            assert method.unary is not None
            return await method.unary(await begin(messages, context))
        except grpc.aio.BaseError:  # the call itself is over: its client has gone, or gRPC has refused its message
            raise
        except Exception as error:
            found = api_error_of(error)
        await refuse(context, found)
        return b""

    async def stream(messages: AsyncIterator[bytes], context: Any) -> None:
        try:
            assert method.stream is not None
            call = await begin(messages, context)
            reader = TopicReader(state, call.http, await method.stream(call))
            await _send(reader, context)
            if reader.ended in (None, "finished"):
                return
            found = ApiError(*ENDS[str(reader.ended)])
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            found = api_error_of(error)
        await refuse(context, found)

    if method.stream is not None:
        return grpc.stream_stream_rpc_method_handler(stream)
    return grpc.stream_unary_rpc_method_handler(unary)


async def _send(reader: TopicReader, context: Any) -> None:
    """A write waits until the connection has room for it. A client that goes away ends it by a cancel."""
    heard = False
    async with contextlib.aclosing(reader.portions()) as portions:
        async for portion in portions:
            if not heard:
                heard = True
                await context.send_initial_metadata(())  # so that the reader knows that it is heard
            for piece in portion:
                await context.write(piece.data)


def _as_http(context: Any, app: Any) -> HttpRequest:
    headers = [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in context.invocation_metadata()
        if isinstance(value, str)
    ]
    return HttpRequest({"type": "http", "headers": headers, "client": (peer_host(context.peer()), 0), "app": app})


def peer_host(peer: str) -> str:
    """`ipv4:127.0.0.1:40000`, `ipv6:%5B::1%5D:40000` → the address alone."""
    address = unquote(peer).partition(":")[2]
    return address.rpartition(":")[0].strip("[]")


async def carried_out(call: RpcCall, operation: Operation[Any, Any]) -> bytes:
    """Any operation of the table, in a thread: parsing, the store's work, encoding."""

    def work() -> bytes:
        value = call.connection.call(operation, call.request(operation))
        return bytes(message_of(call.gives, value).SerializeToString())

    return await call.state.off_loop(work)
