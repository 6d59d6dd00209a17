"""One table of all errors: a code, its HTTP status, the exception that stands for it in Python.

A server turns an exception into a problem document (RFC 9457) with it, and a client turns that document back into the
exception that a local store would have raised, with the same message.
"""

import logging
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast

import msgspec

from weft.authoring.errors import DefinitionErrors, LocatedError
from weft.core.commands import Refused
from weft.core.definition.problems import ValueProblem
from weft.operations.replies import LeaderInfo
from weft.store.artifact_files import ArtifactError
from weft.store.protocol import CommandUsed, StoreBusy, StoreError, StoreFull, StoreUnusable

LOG = logging.getLogger("weft.api")
RETRY_AFTER_S: Final = 2


class NotFound(Exception):
    """No such run, task, node or other thing; exit code 3."""


class Ambiguous(Exception):
    """A prefix that several runs share, or a name that several nodes have; exit code 2."""


class Observing(Refused):
    """The node is an observer and changes nothing: the caller must ask another one. Code `observer`."""

    def __init__(self, leader: LeaderInfo) -> None:
        self.leader = leader
        where = f"the leader is {leader.node} at {leader.address}" if leader.session else "nobody leads right now"
        super().__init__("observer", f"this is an observer (role), which changes nothing: ask another node; {where}")


class Kind(NamedTuple):
    status: int
    example: str  # a detail, as it could be sent
    fix: str | None = None
    raised: type[Exception] | None = None  # for code without a server in between


ERRORS: Final[dict[str, Kind]] = {
    "json": Kind(400, "the body is not JSON: Input data was truncated"),
    "http": Kind(400, "Invalid HTTP request received."),
    "worker_message": Kind(400, "exchange: the message is cut off",
                           "install the same version of Weft for the server and its workers"),
    "delivery": Kind(400, "a signed delivery needs an id or a signed X-Weft-Timestamp"),
    "unauthorized": Kind(401, "a token is needed", "send the header Authorization: Bearer TOKEN"),
    "forbidden": Kind(403, "this needs the role operator, and the token has viewer", "use a token with that role"),
    "host": Kind(403, "this server does not go by the name 'example.net'",
                 "use its address or localhost, or start it with `--allow-host NAME`"),
    "origin": Kind(403, "pages of http://example.net may not use this server"),
    "read_only": Kind(403, "cancel_run changes something, and this server only reads",
                      "ask a person: it was started with --read-only"),
    "not_found": Kind(404, "there is no run zzzz", None, NotFound),
    "no_route": Kind(404, "there is nothing here", "/openapi.json has all routes"),
    "method": Kind(405, "this route does not take that method", "/openapi.json has all routes"),
    "slow": Kind(408, "a request's headers must arrive within 10 s"),
    "ambiguous": Kind(409, "k3 could be any of k3v9x2m8qa4t, k3w01rt5mz8d", None, Ambiguous),
    "conflict": Kind(409, "run k3v9x2m8qa4t is running: its output comes with its end"),
    "stale_term": Kind(409, "term 3 is over"),
    "command_used": Kind(409, "the command id 0a1b2c3d4e was used for another request",
                         "a new id for every new request", CommandUsed),
    "paused": Kind(409, "the trigger deploy/webhook is paused"),
    "artifact_elsewhere": Kind(409, "its artifact is on worker-2", "ask a server on that node's machine, or share"
                               " the directory", ArtifactError),
    "not_started": Kind(409, "load is queued: it has printed nothing yet", "wait with wait_s"),
    "too_large": Kind(413, "a request's body may have 33,554,432 bytes", "split it, or raise body_max"),
    "too_long": Kind(413, "the reply would have 600,000 bytes", "ask for less with `limit`"),
    "media_type": Kind(415, "the body must be JSON", "send the header Content-Type: application/json"),
    "range": Kind(416, "it has 120 bytes", "ask for a range within them"),
    "parameters": Kind(422, "limit: expected at most 1000, found '5000'", "limit is: At most so many lines"),
    "cursor": Kind(422, "this cursor is of another definition", "leave it out to begin anew"),
    "query": Kind(422, "this route takes no 'stat' in its query", "did you mean 'state'?"),
    "body": Kind(422, "priority: expected a whole number, found text"),
    "arguments": Kind(422, "cancel_run: 'run' is missing"),
    "inputs": Kind(422, "day: expected text, found a number"),
    "definition": Kind(422, "tasks.load.needs: there is no task 'extrct'", "did you mean 'extract'?"),
    "invalid": Kind(422, "data and reject exclude each other"),
    "condition": Kind(422, "if: trigger.body.ref is missing"),
    "task": Kind(422, "the run has 3 tasks", "say which in `task`"),
    "too_many_failures": Kind(429, "too many wrong tokens came from this address", "wait, then use a good one"),
    "rate_limited": Kind(429, "the trigger deploy/webhook may fire 10 times in 1 min"),
    "headers_too_large": Kind(431, "a request's address and headers may have 65,536 bytes"),
    "bug": Kind(500, "an unexpected error; the server's log has the details"),
    "store_busy": Kind(503, "the store does not answer", "try again in a moment", StoreBusy),
    "store_full": Kind(503, "there is no space left on the store's disk",
                       "free some space; the server goes on by itself then", StoreFull),
    "store_unusable": Kind(503, "the store cannot be used", "see to the store; the server goes on by itself then",
                           StoreUnusable),
    "observer": Kind(503, "this is an observer (role), which changes nothing: ask another node"),
    "overloaded": Kind(503, "1,000 requests wait already", "come back in a moment"),
    "not_ready": Kind(503, "the node has not registered yet"),
    "no_metrics": Kind(503, "this server has no store of its own", "ask the one that has"),
    "too_many_readers": Kind(503, "2,000 streams are read already", "end some of them"),
    "secret_missing": Kind(503, "this webhook cannot be checked: its secret is missing",
                           "give the server this secret"),
}  # fmt: skip

#: What the rules may answer to a command about something that is named in the path.
FINDABLE: Final = ("not_found", "ambiguous")
REFUSABLE: Final = (*FINDABLE, "conflict", "invalid", "command_used", "observer")


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An error (RFC 9457). `code` names its kind for good; `errors` are mistakes of a definition or of inputs, each
    with its place; `leader` is the node to ask instead."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    fix: str | None = None
    errors: list[dict[str, Any]] | None = None
    more: int = 0  # mistakes beyond those listed
    leader: LeaderInfo | None = None


class ApiError(Exception):
    """A request that cannot be served, raised where that is found out. The status comes from the table."""

    def __init__(
        self,
        code: str,
        detail: str,
        fix: str | None = None,
        *,
        errors: list[dict[str, Any]] | None = None,
        more: int = 0,
        leader: LeaderInfo | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        status = ERRORS[code].status
        self.problem = Problem(
            type=f"urn:weft:problem:{code}", title=HTTPStatus(status).phrase, status=status, code=code,
            detail=detail, fix=fix, errors=errors, more=more, leader=leader,
        )  # fmt: skip
        self.headers = headers or {}
        if status == 503:
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_S))


def store_silent() -> ApiError:
    """For callers that have shown no token: where the store is and why it is silent is not for them to know."""
    return ApiError("store_busy", "the store does not answer", "try again in a moment")


def bad_inputs(problems: "list[ValueProblem] | tuple[ValueProblem, ...]") -> ApiError:
    errors = [
        {"path": ".".join(str(part) for part in problem.path), "message": problem.message, "fix": problem.fix}
        for problem in problems
    ]
    return ApiError("inputs", "; ".join(problem.message for problem in problems[:5]), errors=errors)


def api_error_of(error: Exception) -> ApiError:
    """Any error of an operation. An unexpected one tells the caller nothing of our insides."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, DefinitionErrors):
        errors = [msgspec.to_builtins(one) for one in error.errors]
        return ApiError("definition", str(error), errors=errors, more=error.more)
    if isinstance(error, Observing):
        fix = f"ask {error.leader.url}" if error.leader.url else "ask another node of the cluster"
        return ApiError("observer", error.message, fix, leader=error.leader)
    if isinstance(error, Refused):
        return ApiError(error.code, error.message)
    for code, kind in ERRORS.items():
        if kind.raised is not None and type(error) is kind.raised:
            return ApiError(code, str(error), kind.fix)
    if isinstance(error, StoreError):
        code = "store_busy" if isinstance(error, StoreBusy) else "store_unusable"
        return ApiError(code, str(error), ERRORS[code].fix)
    LOG.error("a request failed with an unexpected error", exc_info=error)
    return ApiError("bug", "an unexpected error; the server's log has the details")


class ServerSilent(StoreBusy):
    """Nothing answers at the server's address, or not in time."""

    def __init__(self, url: str, reason: Exception) -> None:
        words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        super().__init__(f"the server {url} does not answer: {words}")


class ServerFailed(StoreError):
    """The server answered, but not as it should."""


def error_of_problem(problem: Problem) -> Exception:
    """The exception that a problem document stands for."""
    code, detail = problem.code, problem.detail
    if code == "definition" and problem.errors:
        return DefinitionErrors(msgspec.convert(problem.errors, list[LocatedError]), problem.more)
    if code == "observer" and problem.leader is not None:
        return Observing(problem.leader)
    raised = ERRORS[code].raised if code in ERRORS else None
    if raised is not None:
        return raised(detail)
    if problem.status == 503:
        return StoreBusy(detail)
    if problem.status >= 500:
        return ServerFailed(f"the server failed: {detail}")
    if code == "unauthorized":
        return Refused(
            cast(Any, code),
            f"the server says: {detail}; put one that it knows into WEFT_TOKEN"
            " (its owner's is in the file that its log names when it starts, mostly .weft/token)",
        )
    if code not in ("conflict", "invalid", "stale_term") and problem.fix:
        detail += f"\n  fix: {problem.fix}"
    return Refused(cast(Any, code), detail)
