"""docs/reference/http.md and errors.md, made from the table of operations and the table of errors."""

from typing import Any

from weft.operations.declare import Operation
from weft.operations.errors import ERRORS
from weft.operations.table import OPERATIONS

_HEAD = """# HTTP API

<!-- Made by make docs from src/weft/operations. -->

What `weft serve` answers; [the guide](../guides/server.md) says how to use it. The same description for machines is
at `/openapi.json`, and for people at `/docs` of every server. Requests carry `Authorization: Bearer TOKEN`; a token
of the role named here, or of one above it, is needed. A write may carry an id of your own in `Weft-Command`
(8 to 64 of `0-9a-z-`): sent again with the same id, it is applied once. [Errors](errors.md) are the same everywhere.

"""

_ERRORS = """# Errors

<!-- Made by make docs from src/weft/operations/errors.py. -->

Errors of the HTTP API are problem documents (RFC 9457) with a `code` that names the kind for good, a `detail` for
people and a `fix` where one is known. Python clients raise the exception that a local store would have raised: the
one named here, `Refused` for other refusals, `StoreBusy` for a 503. Tools of MCP give the same codes.

| code | status | exception | for example |
| --- | --- | --- | --- |
"""


def http_reference() -> str:
    lines = ["| operation | role | |", "| --- | --- | --- |"]
    lines += [f"| [`{one.route}`](#{one.name}) | {one.role} | {one.summary} |" for one in OPERATIONS]
    return _HEAD + "\n".join(lines) + "\n\n" + "\n".join(_section(one) for one in OPERATIONS)


def _section(operation: Operation[Any, Any]) -> str:
    lines = [f"## {operation.name}", "", f"`{operation.route}`", "", operation.description, ""]
    if operation.fields:
        lines += ["| field | in | | |", "| --- | --- | --- | --- |"]
        lines += [
            f"| `{field.wire_name}` | {field.location} | {'needed' if field.required else ''} |"
            f" {(field.description or '').replace('|', '∣')} |"
            for field in operation.fields
        ]
        lines.append("")
    gives = "" if operation.reply is None else f" `{operation.reply.__name__}`"
    errors = ", ".join(f"`{code}`" for code in operation.errors)
    statuses = " or ".join(map(str, operation.statuses))
    return "\n".join([*lines, f"Replies {statuses} {operation.media}{gives}. Errors: {errors}.", ""])


def errors_reference() -> str:
    rows = [
        f"| `{code}` | {kind.status} | {f'`{kind.raised.__name__}`' if kind.raised else ''} | {kind.example} |"
        for code, kind in ERRORS.items()
    ]
    return _ERRORS + "\n".join(rows) + "\n"
