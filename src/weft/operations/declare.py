"""How an operation is declared.

    @resource.operation("POST", "/v1/runs/{run}/cancel", role="operator", errors=REFUSABLE)
    def cancel_run(access: StoreAccess, request: CancelRun) -> Changed:
        "Stop a run: …"

The request is a Struct. Fields named in the path travel there; fields marked with `header` travel in that header; the
others travel in the query of a GET and in the JSON body of any other method. The types of the fields are all there
is: the HTTP server validates with them, and the OpenAPI document and the schemas of tools are generated from them.

`resource.handwritten` declares an operation that HTTP servers carry out by themselves (streams, files, webhooks):
api/ has a handler for it under its name.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from weft.operations.access import StoreAccess
from weft.operations.errors import ERRORS

Q = TypeVar("Q", bound="Request")
R = TypeVar("R")
Role = Literal["anyone", "viewer", "operator", "admin", "worker"]
#: A worker's token opens its own operations and nothing else, and no other token opens those.
RANK: Final[dict[str, int]] = {"anyone": 0, "worker": 0, "viewer": 1, "operator": 2, "admin": 3}
Location = Literal["path", "query", "header", "body"]
JSON: Final = "application/json"
_IN_PATH = re.compile(r"\{([a-z_]+)\}")


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What an operation is asked for. A misspelt name is an error, not something left out."""


class NoArguments(Request):
    """Of an operation that takes none."""


class ToolHints(NamedTuple):
    """Hints of an MCP tool that is exactly this operation. `open_world`: it may reach beyond Weft."""

    name: str | None = None  # that of the operation if None
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


def header(name: str, **constraints: Any) -> msgspec.Meta:
    """Marks a field of a request that travels in this header."""
    return msgspec.Meta(extra={"header": name}, **constraints)


class RequestField(NamedTuple):
    """One field of a request, and where it travels over HTTP."""

    name: str
    type: Any
    location: Location
    wire_name: str
    required: bool
    default: Any
    description: str | None
    scalar: Literal["int", "bool", "text"]  # how a text of a path, query or header is read
    repeated: bool


class Operation(Generic[Q, R]):
    def __init__(
        self,
        *,
        name: str,
        tag: str,
        description: str,
        method: str,
        path: str,
        role: Role,
        request: type[Q],
        reply: Any,
        run: Callable[[StoreAccess, Q], R] | None,
        statuses: tuple[int, ...],
        errors: tuple[str, ...],
        media: str,
        example: Any,
        tool: ToolHints | None,
        body: Any = None,
        any_body: bool = False,
    ) -> None:
        self.name = name
        self.tag = tag
        self.description = description
        self.method = method
        self.path = path
        self.role: Role = role
        self.request = request
        self.reply = reply
        self.run = run
        self.statuses = statuses  # the first is that of the reply; a handler sends the others by itself
        self.media = media
        self.example = example  # of a request's body
        self.tool = tool
        self.any_body = any_body  # of any form: the handler reads it by itself
        self.writes = method != "GET"
        self._body = body
        self._own_errors = errors

    # Made when they are asked for: of all operations they took a tenth of the time that `weft run` needs to start.

    @cached_property
    def fields(self) -> tuple[RequestField, ...]:
        return _fields(self.request, self.names_in_path, self.writes)

    @cached_property
    def names_in_path(self) -> list[str]:
        return _IN_PATH.findall(self.path)

    @cached_property
    def body_type(self) -> Any:
        in_body = [field for field in self.fields if field.location == "body"]
        return _struct(self.request.__name__, self.request, in_body) if in_body else self._body

    @cached_property
    def parameters_type(self) -> type[msgspec.Struct]:
        elsewhere = [field for field in self.fields if field.location != "body"]
        return _struct(f"{self.request.__name__}Parameters", self.request, elsewhere)

    @cached_property
    def errors(self) -> tuple[str, ...]:
        return _errors(self.role, self._own_errors, self.body_type is not None, self.fields)

    @property
    def route(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def summary(self) -> str:
        first = self.description.split("\n\n")[0].replace("\n", " ")
        return re.split(r"\.(?:\s|$)", first)[0].rstrip(".")

    @property
    def error_statuses(self) -> dict[int, list[str]]:
        """The codes of its errors by HTTP status."""
        found: dict[int, list[str]] = {}
        for code in self.errors:
            found.setdefault(ERRORS[code].status, []).append(code)
        return dict(sorted(found.items()))

    def split(self, request: Q) -> tuple[dict[str, str], list[tuple[str, Any]], dict[str, str], dict[str, Any]]:
        """(path, query, headers, body) of a request; what has its default is left out."""
        path: dict[str, str] = {}
        query: list[tuple[str, Any]] = []
        headers: dict[str, str] = {}
        body: dict[str, Any] = {}
        for field in self.fields:
            value = getattr(request, field.name)
            if field.location == "path":
                path[field.name] = str(value)
            elif not field.required and value == field.default:
                continue
            elif field.location == "body":
                body[field.name] = value
            elif field.location == "header":
                headers[field.wire_name] = str(value)
            else:
                query += [(field.name, one) for one in (value if field.repeated else [value])]
        return path, query, headers, body


class Resource:
    """The operations of one resource, in the order of their declaration."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.operations: list[Operation[Any, Any]] = []

    def operation(
        self,
        method: str,
        path: str,
        *,
        role: Role,
        errors: tuple[str, ...] = (),
        status: int = 200,
        example: Any = None,
        tool: ToolHints | None = None,
    ) -> Callable[[Callable[[StoreAccess, Q], R]], Operation[Q, R]]:
        def declare(run: Callable[[StoreAccess, Q], R]) -> Operation[Q, R]:
            hints = get_type_hints(run)
            made: Operation[Q, R] = Operation(
                name=run.__name__, tag=self.tag, description=inspect.getdoc(run) or "", method=method, path=path,
                role=role, request=hints["request"], reply=hints["return"], run=run, statuses=(status,),
                errors=errors, media=JSON, example=example, tool=tool,
            )  # fmt: skip
            self.operations.append(made)
            return made

        return declare

    def handwritten(
        self,
        name: str,
        method: str,
        path: str,
        description: str,
        *,
        role: Role,
        request: type[Q],
        reply: Any = None,
        statuses: tuple[int, ...] = (200,),
        errors: tuple[str, ...] = (),
        media: str = JSON,
        example: Any = None,
        body: Any = None,
        any_body: bool = False,
    ) -> Operation[Q, Any]:
        """`body` is the type of one that is not made of fields of the request; `any_body`: it may be anything."""
        made: Operation[Q, Any] = Operation(
            name=name, tag=self.tag, description=inspect.cleandoc(description), method=method, path=path, role=role,
            request=request, reply=reply, run=None, statuses=statuses, errors=errors, media=media, example=example,
            tool=None, body=body, any_body=any_body,
        )  # fmt: skip
        self.operations.append(made)
        return made


def _errors(role: Role, own: tuple[str, ...], has_body: bool, fields: tuple[RequestField, ...]) -> tuple[str, ...]:
    """Its own, and what any operation of its form may be refused with."""
    general = ["host", "origin", "overloaded", "store_busy", "store_full", "store_unusable", "query"]
    if role != "anyone":
        general += ["unauthorized", "forbidden", "too_many_failures"]
    if any(field.location != "body" for field in fields):
        general.append("parameters")
    if has_body:
        general += ["json", "media_type", "too_large", "body"]
    unknown = [code for code in (*own, *general) if code not in ERRORS]
    assert not unknown, f"errors without an entry in the table: {unknown}"
    return tuple(dict.fromkeys((*own, *general)))


def _fields(request: type[Request], in_path: list[str], writes: bool) -> tuple[RequestField, ...]:
    hints = get_type_hints(request, include_extras=True)
    fields = []
    for info in msgspec.structs.fields(request):
        kind = hints[info.name]
        metas = list(_metas(kind))
        in_header = next((m.extra["header"] for m in metas if m.extra and "header" in m.extra), None)
        location: Location = "body" if writes else "query"
        if info.name in in_path:
            location = "path"
        elif in_header is not None:
            location = "header"
        default = info.default
        if default is msgspec.NODEFAULT and info.default_factory is not msgspec.NODEFAULT:
            default = info.default_factory()
        fields.append(
            RequestField(
                info.name, kind, location, in_header or info.name, info.required, default,
                next((m.description for m in metas if m.description), None), _scalar(kind), _is_list(kind),
            )
        )  # fmt: skip
    missing = set(in_path) - {field.name for field in fields}
    assert not missing, f"{request.__name__} has no field for {sorted(missing)} of its path"
    return tuple(fields)


def _struct(name: str, request: type[Request], fields: list[RequestField]) -> type[msgspec.Struct]:
    """A Struct of some of a request's fields."""
    described: list[Any] = []
    for field in fields:
        info = next(one for one in msgspec.structs.fields(request) if one.name == field.name)
        if info.required:
            described.append((field.name, field.type))
        elif info.default_factory is not msgspec.NODEFAULT:
            described.append((field.name, field.type, msgspec.field(default_factory=info.default_factory)))
        else:
            described.append((field.name, field.type, info.default))
    return msgspec.defstruct(name, described, kw_only=True, forbid_unknown_fields=True, namespace=_doc(request))


def _doc(request: type[Request]) -> dict[str, Any]:
    own = request.__doc__
    return {"__doc__": own} if own and own != Request.__doc__ else {}


def _metas(kind: Any) -> list[msgspec.Meta]:
    """All annotations of a type, the outermost first."""
    found = [one for one in getattr(kind, "__metadata__", ()) if isinstance(one, msgspec.Meta)]
    for part in get_args(kind):
        if not isinstance(part, msgspec.Meta):
            found += _metas(part)
    return found


def _plain(kind: Any) -> Any:
    """Without annotations, and without null beside it."""
    while hasattr(kind, "__metadata__"):
        kind = get_args(kind)[0]
    if get_origin(kind) is not None and type(None) in get_args(kind):
        parts = [part for part in get_args(kind) if part is not type(None)]
        return _plain(parts[0]) if len(parts) == 1 else kind
    return kind


def _is_list(kind: Any) -> bool:
    return get_origin(_plain(kind)) is list


def _scalar(kind: Any) -> Literal["int", "bool", "text"]:
    plain = _plain(kind)
    if get_origin(plain) is list:
        plain = _plain(get_args(plain)[0])
    if plain is bool:
        return "bool"
    return "int" if plain is int else "text"


def parameters_of(operation: Operation[Any, Any], texts: Mapping[str, Any]) -> dict[str, Any]:
    """Texts of a path, a query and headers as values of the fields' types, as far as they can be read as such: what
    cannot stays a text, and validation says so."""
    out: dict[str, Any] = {}
    for field in operation.fields:
        if field.name in texts:
            value = texts[field.name]
            out[field.name] = [_read(field, one) for one in value] if field.repeated else _read(field, value)
    return out


_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,20})")


def _read(field: RequestField, text: str) -> Any:
    if field.scalar == "int" and _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if field.scalar == "bool" and text in ("true", "false"):
        return text == "true"
    return text
