"""OpenAPI 3.1, made from what the routes declare. Schemas come from the records themselves (msgspec), parameters from
FastAPI."""

from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from weft.api import examples
from weft.api.problems import MEDIA_TYPE, Problem
from weft.api.routes import JSON, Declared

REF = "#/components/schemas/{name}"
ABOUT = """Weft runs graphs of tasks, durably and in parallel.

Times are milliseconds of the store's clock. Lists are pages: `next` is the `cursor` of the following one. Errors are
problem+json with a `code` for machines, a `detail` for people, and a `fix` where one is known."""


HEADERS = {
    401: ("WWW-Authenticate", "Always `Bearer`"),
    429: ("Retry-After", "Seconds until it is worth another try"),
    503: ("Retry-After", "Seconds until it is worth another try"),
}


def describe(app: FastAPI, routes: list[Declared], root_path: str = "") -> dict[str, Any]:
    out = get_openapi(
        title="Weft", version=app.version, openapi_version="3.1.0", description=ABOUT, routes=app.routes,
        servers=[{"url": root_path}] if root_path else None,
    )  # fmt: skip
    types = [Problem, *(t for route in routes for t in (route.reply, route.body) if t is not None)]
    unique = list({str(t): t for t in types}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template=REF)
    by_type = dict(zip([str(t) for t in unique], schemas, strict=True))
    for route in routes:
        operation = out["paths"][route.path][route.method.lower()]
        operation["responses"] = _responses(route, by_type)
        operation["x-weft-role"] = route.role
        if route.role != "anyone":
            operation["security"] = [{"token": []}]
        if route.body is not None:
            content: dict[str, Any] = {"schema": by_type[str(route.body)]}
            if route.example is not None:
                content["example"] = route.example
            required = bool(_required(route.body))
            operation["requestBody"] = {"required": required, "content": {JSON: content}}
        if route.raw:
            anything: dict[str, Any] = {"schema": {}, "example": route.example}
            operation["requestBody"] = {"required": False, "content": {JSON: anything}}
    out["components"] = {
        "schemas": components,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    return out


def _responses(route: Declared, by_type: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in route.status:
        found[str(status)] = {"description": HTTPStatus(status).phrase}
        if status == 204:
            continue
        if route.reply is not None:
            schema, example = by_type[str(route.reply)], examples.of_reply(route.reply)
            found[str(status)]["content"] = {route.media: {"schema": schema, "example": example}}
        elif route.media != JSON:
            content: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
            if route.media in examples.TEXTS:
                content["example"] = examples.TEXTS[route.media]
            found[str(status)]["content"] = {route.media: content}
    for status in route.refused:
        content = {"schema": by_type[str(Problem)], "example": examples.refusal(status)}
        found[str(status)] = {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: content}}
        if status in HEADERS:
            name, told = HEADERS[status]
            found[str(status)]["headers"] = {name: {"description": told, "schema": {"type": "string"}}}
    return found


def _required(body: Any) -> tuple[str, ...]:
    if not (isinstance(body, type) and issubclass(body, msgspec.Struct)):
        return ("body",)
    return tuple(field.name for field in msgspec.structs.fields(body) if field.required)
