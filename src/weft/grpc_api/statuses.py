"""Errors as gRPC statuses: the code from the table of errors, the detail and the fix as the message, and the whole
problem in the trailer `weft-problem-bin`, as JSON."""

from typing import Any, Final

import grpc
import msgspec

from weft.operations.errors import ERRORS, ApiError, Problem

PROBLEM_TRAILER: Final = "weft-problem-bin"
#: Clients take 8 KiB of metadata unless they say otherwise.
PROBLEM_MAX: Final = 4096
MESSAGE_MAX: Final = 1024  # characters; others than ASCII take up to nine bytes each on the wire
_BY_STATUS: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    405: grpc.StatusCode.UNIMPLEMENTED,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    415: grpc.StatusCode.INVALID_ARGUMENT,
    416: grpc.StatusCode.OUT_OF_RANGE,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    431: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}
#: Where gRPC has a finer word than HTTP.
_BY_CODE: Final = {
    "command_used": grpc.StatusCode.ALREADY_EXISTS,
    "stale_term": grpc.StatusCode.ABORTED,
    "too_many_readers": grpc.StatusCode.RESOURCE_EXHAUSTED,
}


def status_of(code: str) -> Any:
    return _BY_CODE.get(code) or _BY_STATUS[ERRORS[code].status]


async def refuse(context: Any, error: ApiError) -> None:
    """Ends the call with this error. It does not return: gRPC raises an exception of its own."""
    problem = error.problem
    trailers: list[tuple[str, str | bytes]] = [(PROBLEM_TRAILER, encoded(problem))]
    if "Retry-After" in error.headers:
        trailers.append(("retry-after", error.headers["Retry-After"]))
    await context.abort(status_of(problem.code), message_of_problem(problem), tuple(trailers))


def message_of_problem(problem: Problem) -> str:
    text = f"{problem.detail}; {problem.fix}" if problem.fix else problem.detail
    text = " ".join(text.split())
    return text if len(text) <= MESSAGE_MAX else f"{text[: MESSAGE_MAX - 1]}…"


def encoded(problem: Problem) -> bytes:
    """With as many of its mistakes as fit; `more` counts the others."""
    short = msgspec.structs.replace(problem, detail=problem.detail[:MESSAGE_MAX])
    data = msgspec.json.encode(short)
    while len(data) > PROBLEM_MAX and short.errors:
        kept = len(short.errors) // 2
        short = msgspec.structs.replace(
            short, errors=short.errors[:kept] or None, more=short.more + len(short.errors) - kept
        )
        data = msgspec.json.encode(short)
    return data
