"""What goes wrong, as problem+json: the same words as on the command line, a code for machines, and the fix."""

import logging
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from weft.authoring.errors import DefinitionErrors
from weft.control.records import Ambiguous, LeaderInfo, NotFound, Observing
from weft.core.commands import Refused
from weft.core.definition.problems import ValueProblem
from weft.store.protocol import CommandUsed, StoreBusy, StoreError, StoreFull

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
LOG = logging.getLogger("weft.api")


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An error (RFC 9457). `code` names its kind for good; `errors` are mistakes of a definition or of inputs, each
    with its place; `leader` is whom to ask instead."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    fix: str | None = None
    errors: list[dict[str, Any]] | None = None
    more: int = 0  # mistakes beyond those listed
    leader: LeaderInfo | None = None


class Trouble(Exception):
    """A request that cannot be served, said where it is found out."""

    def __init__(
        self,
        status: int,
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
        self.problem = Problem(
            type=f"urn:weft:problem:{code}", title=HTTPStatus(status).phrase, status=status, code=code,
            detail=detail, fix=fix, errors=errors, more=more, leader=leader,
        )  # fmt: skip
        self.headers = headers or {}
        if status == 503:
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_S))

    def response(self) -> Response:
        body = msgspec.json.encode(self.problem)
        return Response(body, self.problem.status, media_type=MEDIA_TYPE, headers=self.headers)


def store_silent() -> Trouble:
    """For those who have shown no token: where the store is and why it is silent is not theirs to know."""
    return Trouble(503, "store_busy", "the store does not answer", "try again in a moment")


def bad_inputs(problems: "list[ValueProblem] | tuple[ValueProblem, ...]") -> Trouble:
    errors = [
        {"path": ".".join(str(part) for part in problem.path), "message": problem.message, "fix": problem.fix}
        for problem in problems
    ]
    return Trouble(422, "inputs", "; ".join(problem.message for problem in problems[:5]), errors=errors)


def trouble_of(error: Exception) -> Trouble:
    """Any error of a handler in words for whoever asked. What nobody expected says nothing of our insides."""
    if isinstance(error, Trouble):
        return error
    if isinstance(error, DefinitionErrors):
        errors = [msgspec.to_builtins(one) for one in error.errors]
        return Trouble(422, "definition", str(error), errors=errors, more=error.more)
    if isinstance(error, NotFound):
        return Trouble(404, "not_found", str(error))
    if isinstance(error, Ambiguous):
        return Trouble(409, "ambiguous", str(error))
    if isinstance(error, Observing):
        fix = f"ask {error.leader.url}" if error.leader.url else "ask another node of the cluster"
        return Trouble(503, "observer", error.message, fix, leader=error.leader)
    if isinstance(error, Refused):
        status = {"not_found": 404, "invalid": 422}.get(error.code, 409)
        return Trouble(status, error.code, error.message)
    if isinstance(error, CommandUsed):
        return Trouble(409, "command_used", str(error), "a new id for every new request")
    if isinstance(error, StoreFull):
        return Trouble(503, "store_full", str(error), "free some space; the server goes on by itself then")
    if isinstance(error, StoreBusy):
        return Trouble(503, "store_busy", str(error), "try again in a moment")
    if isinstance(error, StoreError):
        return Trouble(503, "store_unusable", str(error), "see to the store; the server goes on by itself then")
    LOG.error("a request failed in a way nobody expected", exc_info=error)
    return Trouble(500, "bug", "something went wrong that nobody expected; the server's log says more")
