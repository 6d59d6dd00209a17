"""The browser's page: its files as they stand in weft/ui, and two that are made here.

`/` is the shell, which names all the others by a version: the hash of all files. Under that address a file never
changes, so a browser keeps it for good, and a new version of Weft is a new address. `verbs.json` is the table of
operations, from which the page makes its requests, its forms, and what a role is offered.
"""

import gzip
import hashlib
from collections.abc import Iterable
from functools import cached_property
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from weft.operations.declare import JSON, Operation

POLICY: Final = (
    "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types weft"
)
FOREVER: Final = "public, max-age=31536000, immutable"
TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".json": JSON, ".svg": "image/svg+xml"}
VERBS: Final = "verbs.json"
LATER: Final = "editor/"  # modules that load when they are needed


class BrowserFile(NamedTuple):
    data: bytes
    packed: bytes
    media: str


class BrowserFiles:
    """Read once, when they are first asked for."""

    def __init__(self, operations: Iterable[Operation[Any, Any]]) -> None:
        self._operations = tuple(operations)

    def response(self, request: Request) -> Response | None:
        """None: this is no address of the page."""
        path: str = request.scope["path"]
        if path == "/":
            return _sent(self.shell, request, {})
        if not path.startswith("/ui/"):
            return None
        version, _, name = path.removeprefix("/ui/").partition("/")
        found = self.files.get(name) if version == self.version else None
        return None if found is None else _sent(found, request, {"Cache-Control": FOREVER})

    @cached_property
    def files(self) -> dict[str, BrowserFile]:
        found = {name: data for name, data in _walk(files("weft") / "ui", "") if name != "index.html"}
        found[VERBS] = msgspec.json.encode([_verb(one) for one in self._operations])
        return {name: _file(data, TYPES[name[name.rindex(".") :]]) for name, data in sorted(found.items())}

    @cached_property
    def version(self) -> str:
        hashed = hashlib.sha256()
        for name, file in self.files.items():
            hashed.update(f"{name}\0{len(file.data)}\0".encode() + file.data)
        return hashed.hexdigest()[:16]

    @cached_property
    def shell(self) -> BrowserFile:
        """Modules that load each other would take a round trip for each depth: all are named here instead, but for
        those that a person may never come to."""
        base = f"ui/{self.version}/"
        styles = [f'<link rel="stylesheet" href="{base}{escape(n)}">' for n in self.files if n.endswith(".css")]
        first = [name for name in self.files if name.endswith(".js") and not name.startswith(LATER)]
        modules = [f'<link rel="modulepreload" href="{base}{escape(name)}">' for name in first]
        text = (files("weft") / "ui" / "index.html").read_text(encoding="utf-8")
        text = text.replace("<!-- files -->", "\n".join(styles + modules)).replace("ui/VERSION/", base)
        return _file(text.encode(), "text/html")


def _walk(folder: Traversable, prefix: str) -> Iterable[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_bytes()


def _file(data: bytes, media: str) -> BrowserFile:
    return BrowserFile(data, gzip.compress(data, mtime=0), media)


def _sent(file: BrowserFile, request: Request, headers: dict[str, str]) -> Response:
    packed = "gzip" in request.headers.get("accept-encoding", "")
    headers = {**headers, "Vary": "Accept-Encoding", "Content-Security-Policy": POLICY}
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.packed if packed else file.data, media_type=file.media, headers=headers)


def _verb(operation: Operation[Any, Any]) -> dict[str, Any]:
    return {
        "name": operation.name, "tag": operation.tag, "method": operation.method, "path": operation.path,
        "role": operation.role, "summary": operation.summary,
        "fields": [
            {
                "name": field.name, "in": field.location, "wire": field.wire_name, "required": field.required,
                "many": field.repeated, "help": field.description or "",
                "default": None if field.required else msgspec.to_builtins(field.default), **_kind(field.type),
            }
            for field in operation.fields
        ],
    }  # fmt: skip


def _kind(of: Any) -> dict[str, Any]:
    """A field's type as JSON Schema names it; `json` is any value. Beside it, the choices where there are some."""
    schema = msgspec.json.schema(of)
    parts = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
    choices = [one for one in parts[0].get("enum", []) if one is not None]
    kind = parts[0].get("type", "string" if choices else "json") if len(parts) == 1 else "json"
    return {"kind": "json" if kind == "object" else kind, **({"choices": choices} if choices else {})}
