"""Replies and errors as HTTP responses."""

from typing import Any, Final

import msgspec
from starlette.responses import Response

from weft.operations.declare import JSON
from weft.operations.errors import ApiError

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=JSON, headers=headers)


def problem(error: ApiError) -> Response:
    body = msgspec.json.encode(error.problem)
    return Response(body, error.problem.status, media_type=PROBLEM_MEDIA_TYPE, headers=error.headers)
