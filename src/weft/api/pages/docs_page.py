"""API docs at /docs: one page, made from the table of operations, without scripts. It works offline."""

import re
from collections.abc import Iterable
from html import escape
from typing import Any

from starlette.responses import Response

from weft.api.pages.plain_page import POLICY, STYLE
from weft.operations.declare import Operation


def response(operations: Iterable[Operation[Any, Any]]) -> Response:
    return Response(page(operations), media_type="text/html", headers={"Content-Security-Policy": POLICY})


def page(operations: Iterable[Operation[Any, Any]]) -> str:
    by_tag: dict[str, list[Operation[Any, Any]]] = {}
    for operation in operations:
        by_tag.setdefault(operation.tag, []).append(operation)
    index = " · ".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in by_tag)
    parts = "".join(
        f'<h2 id="{escape(tag)}">{escape(tag)}</h2>' + "".join(map(_operation, group))
        for tag, group in by_tag.items()
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Weft API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{STYLE}</style></head><body>
<h1>Weft API</h1>
<p>Send <code>Authorization: Bearer TOKEN</code> with every request. Times are milliseconds of the store's clock.
Lists are pages: <code>next</code> is the <code>cursor</code> of the following one. Errors are problem+json with a
<code>code</code>. A write may carry an id of your own in <code>Weft-Command</code>: sent again with the same id, it
is applied once. The whole description is at <a href="openapi.json">/openapi.json</a>.</p>
<p>{index}</p>
{parts}
</body></html>
"""


def _operation(operation: Operation[Any, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(field.wire_name)}</code></td><td>{field.location}</td>"
        f"<td>{'needed' if field.required else 'optional'}</td><td>{_text(field.description or '')}</td></tr>"
        for field in operation.fields
    )
    table = f'<div class="wide"><table><tbody>{rows}</tbody></table></div>' if rows else ""
    errors = ", ".join(f"{status} {' '.join(codes)}" for status, codes in operation.error_statuses.items())
    needs = "" if operation.role == "anyone" else f", role {operation.role}"
    return (
        f'<h3 id="{operation.name}"><code>{operation.method} {escape(operation.path)}</code></h3>'
        f"<p>{_text(operation.description)}</p>{table}"
        f'<p class="soft">{"/".join(map(str, operation.statuses))} {escape(operation.media)}{needs};'
        f" errors: {errors}</p>"
    )


def _text(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
