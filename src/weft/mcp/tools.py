"""How a tool is declared, and what it is handed when it is called.

    @tools(role="viewer")
    def list_runs(context: RequestContext, request: ListRuns) -> RunPage: ...

Its name, its description (the docstring), and the schemas of what it takes and gives all come from the function. A
plain function runs off the event loop, in the threads that the API shares; an `async def` waits for something and
must reach the store through `context.read`. A viewer's tools change nothing, and all others may. A tool that is
exactly one operation is not written here: it comes from the operation's own declaration (`tool_of`).
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from weft.api.app_state import AppState
from weft.client.verbs import Connection
from weft.operations.declare import Operation, Role
from weft.operations.run_scope import ScopeNeed, need_of

T = TypeVar("T")
Progress = Callable[[float, str], Awaitable[None]]
REF = "#/$defs/{name}"
PAUSE_S, PAUSE_MAX_S = 0.02, 0.5


class RequestContext:
    """One call: the control on behalf of the caller, and how to wait for something."""

    def __init__(self, state: AppState, connection: Connection, progress: Progress) -> None:
        self.state = state
        self.connection = connection
        self.progress = progress  # goes nowhere if the client did not ask for it

    async def read(self, work: Callable[[], T]) -> T:
        return await self.state.off_loop(work)

    async def until(self, wait_s: float, work: Callable[[], T], done: Callable[[T], bool]) -> T:
        """Reads until it is done, the time is over, or the server is about to stop; what it saw last."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        pause = PAUSE_S
        while True:
            found = await self.read(work)
            left = until - loop.time()
            if done(found) or left <= 0 or not await self.pause(min(pause, left)):
                return found
            pause = min(pause * 1.5, PAUSE_MAX_S)

    async def pause(self, seconds: float) -> bool:
        """False: the server is about to stop, and nothing should wait any longer."""
        try:
            await asyncio.wait_for(self.state.stopping.wait(), seconds)
        except TimeoutError:
            return True
        return False


class Tool(NamedTuple):
    """`role` is who may call it, as with the API's routes. `open_world`: it may reach beyond Weft. `scope` is what
    the token of an attempt must be allowed; None: it is not there for those."""

    name: str
    role: Role
    destructive: bool
    idempotent: bool
    open_world: bool
    description: str
    takes: type[msgspec.Struct]
    gives: type[msgspec.Struct]
    handler: Callable[[RequestContext, Any], Any]
    scope: ScopeNeed | None = None

    @property
    def reads_only(self) -> bool:
        return self.role == "viewer"

    @property
    def waits(self) -> bool:
        return inspect.iscoroutinefunction(self.handler)


class Tools:
    """The tools of one group."""

    def __init__(self) -> None:
        self.declared: list[Tool] = []

    def __call__(
        self,
        *,
        role: Role,
        destructive: bool = False,
        idempotent: bool = False,
        open_world: bool = False,
        scope: ScopeNeed | None = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
            hints = get_type_hints(handler)
            self.declared.append(
                Tool(
                    handler.__name__, role, destructive, idempotent or role == "viewer", open_world,
                    " ".join((inspect.getdoc(handler) or "").split()), hints["request"], hints["return"], handler,
                    scope or ("read_all" if role == "viewer" else None),
                )
            )  # fmt: skip
            return handler

        return declare


def tool_of(operation: Operation[Any, Any]) -> Tool:
    """A tool that is exactly this operation."""
    hints = operation.tool
    assert hints is not None

    def handler(context: RequestContext, request: Any) -> Any:
        return context.connection.call(operation, request)

    return Tool(
        hints.name or operation.name, operation.role, hints.destructive, hints.idempotent, hints.open_world,
        " ".join(operation.description.split()), operation.request, operation.reply, handler,
        need_of(operation),
    )  # fmt: skip


def schema_of(type_: type[msgspec.Struct]) -> dict[str, Any]:
    """Of an object, which it says at its root: clients ask for that."""
    (_,), parts = msgspec.json.schema_components([type_], ref_template=REF)
    parts = {name: _without_null(part) for name, part in parts.items()}
    for part in parts.values():
        part.pop("title", None)
    root: dict[str, Any] = parts.pop(type_.__name__)
    root.pop("description", None)  # the tool's own says it
    return {**root, "$defs": parts} if parts else root


def _without_null(schema: Any) -> Any:
    """What may be left out need not be null: shorter, and what every client understands. Tools take null all the
    same, and do not give it there: a field without a value is left out."""
    if isinstance(schema, list):
        return [_without_null(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    always = schema.get("required", ())  # a field that is always there may be null
    out = {
        name: {key: one if key in always else _without_null(one) for key, one in value.items()}
        if name == "properties"
        else _without_null(value)
        for name, value in schema.items()
    }
    if "anyOf" in out and {"type": "null"} in out["anyOf"]:
        rest = [one for one in out["anyOf"] if one != {"type": "null"}]
        del out["anyOf"]
        out = {**rest[0], **out} if len(rest) == 1 else {**out, "anyOf": rest}
    if out.get("default", "") is None:
        del out["default"]
    return out
