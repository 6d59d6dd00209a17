"""The OpenAPI 3.1 document, made from the table of operations. Schemas come from the types of their fields."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from weft import __version__
from weft.api.calls import COMMAND_DESCRIPTION, COMMAND_HEADER, COMMAND_PATTERN
from weft.api.responses import PROBLEM_MEDIA_TYPE
from weft.operations import examples
from weft.operations.declare import JSON, Operation, RequestField
from weft.operations.errors import ERRORS, ApiError, Problem

REF: Final = "#/components/schemas/{name}"
ABOUT: Final = """Weft runs graphs of tasks, durably and in parallel.

Times are milliseconds of the store's clock. Lists are pages: `next` is the `cursor` of the following one. Errors are
problem+json with a `code` for machines, a `detail` for people, and a `fix` where one is known."""
RETRY_AFTER: Final = ("Retry-After", "Seconds until it is worth another try")
HEADERS: Final = {401: ("WWW-Authenticate", "Always `Bearer`"), 429: RETRY_AFTER, 503: RETRY_AFTER}
RESPONSE_HEADERS: Final = {
    "get_task_output": ("Weft-Offset", "Weft-Next", "Weft-Size", "Weft-Ended", "Weft-Attempt"),
    "get_task_file": ("ETag", "Accept-Ranges", "Weft-Artifact"),
    "get_task_artifact": ("ETag", "Accept-Ranges", "Weft-Artifact"),
}
COMMAND_PARAMETER: Final = {
    "name": COMMAND_HEADER, "in": "header", "required": False, "description": COMMAND_DESCRIPTION,
    "schema": {"type": "string", "pattern": COMMAND_PATTERN},
}  # fmt: skip


def describe(operations: Iterable[Operation[Any, Any]], root_path: str = "") -> dict[str, Any]:
    operations = list(operations)
    types: list[Any] = [Problem]
    for operation in operations:
        types += [kind for kind in (operation.reply, operation.body_type) if kind is not None]
        types.append(operation.parameters_type)
    unique = list({str(kind): kind for kind in types}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template=REF)
    by_type = dict(zip([str(kind) for kind in unique], schemas, strict=True))
    paths: dict[str, Any] = {}
    for operation in operations:
        described = _operation(operation, by_type, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    for operation in operations:
        components.pop(operation.parameters_type.__name__, None)
    out: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Weft", "version": __version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    if root_path:
        out["servers"] = [{"url": root_path}]
    return out


def _operation(operation: Operation[Any, Any], by_type: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    properties = components[operation.parameters_type.__name__].get("properties", {})
    parameters = [_parameter(field, properties[field.name]) for field in operation.fields if field.location != "body"]
    if operation.writes and not operation.any_body:
        parameters.append(COMMAND_PARAMETER)
    described: dict[str, Any] = {
        "tags": [operation.tag],
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "x-weft-role": operation.role,
        "responses": _responses(operation, by_type),
    }
    if parameters:
        described["parameters"] = parameters
    if operation.role != "anyone":
        described["security"] = [{"token": []}]
    if operation.body_type is not None or operation.any_body:
        content: dict[str, Any] = {"schema": {} if operation.any_body else by_type[str(operation.body_type)]}
        if operation.example is not None:
            content["example"] = operation.example
        described["requestBody"] = {
            "required": any(field.location == "body" and field.required for field in operation.fields),
            "content": {JSON: content},
        }
    return described


def _parameter(field: RequestField, schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is left out, never null."""
    schema = dict(schema)
    options = schema.pop("anyOf", None)
    if options is not None:
        schema = {**next(one for one in options if one != {"type": "null"}), **schema}
    if schema.get("default", "") is None:
        del schema["default"]
    schema.pop("description", None)
    described: dict[str, Any] = {
        "name": field.wire_name,
        "in": field.location,
        "required": field.location == "path" or field.required,
        "schema": schema,
    }
    if field.description is not None:
        described["description"] = field.description
    return described


def _responses(operation: Operation[Any, Any], by_type: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in operation.statuses:
        answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        found[str(status)] = answer
        if status == 204:
            continue
        if operation.reply is not None:
            schema, example = by_type[str(operation.reply)], examples.of_reply(operation.reply)
            answer["content"] = {operation.media: {"schema": schema, "example": example}}
        else:
            content: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
            if operation.media in examples.TEXTS:
                content["example"] = examples.TEXTS[operation.media]
            answer["content"] = {operation.media: content}
        names = RESPONSE_HEADERS.get(operation.name, ())
        if names:
            answer["headers"] = {name: {"schema": {"type": "string"}} for name in names}
        if status == 201 or (operation.name.startswith("submit_") and operation.name != "submit_runs"):
            answer["headers"] = {"Location": {"description": "The run", "schema": {"type": "string"}}}
    for status, codes in operation.error_statuses.items():
        content = {
            "schema": by_type[str(Problem)],
            "examples": {code: {"value": _example(code)} for code in codes},
        }
        answer = {"description": _description(status, codes), "content": {PROBLEM_MEDIA_TYPE: content}}
        if status in HEADERS:
            name, description = HEADERS[status]
            answer["headers"] = {name: {"description": description, "schema": {"type": "string"}}}
        found[str(status)] = answer
    return found


def _description(status: int, codes: list[str]) -> str:
    return f"{HTTPStatus(status).phrase}: {', '.join(f'`{code}`' for code in codes)}"


def _example(code: str) -> Any:
    kind = ERRORS[code]
    return msgspec.to_builtins(ApiError(code, kind.example, kind.fix).problem)
