"""Who asks, and what they may do. Every operation says which role it needs; a caller has at most one.

viewer reads, operator starts and stops work, admin also changes what everybody works with. `anyone` needs nothing.
A `Gate` knows who a request comes from: this file has the two that need no store, token_gate.py that of servers.
"""

import hmac
from typing import Any, Protocol

import msgspec
from starlette.requests import Request

from weft.core.rows import ApiRole
from weft.node.workers.checks import WorkerToken
from weft.operations.declare import RANK, Operation
from weft.operations.errors import ApiError, store_silent
from weft.operations.run_scope import RunScope, need_of
from weft.store.protocol import StoreError


class Caller(msgspec.Struct, frozen=True):
    """`name` is what the history says of who did it; it is no secret. With a `scope` the role says nothing: the scope
    is all that it may do."""

    name: str
    role: ApiRole
    scope: RunScope | None = None
    worker: WorkerToken | None = None  # of a worker's token


class Gate(Protocol):
    """Called on the event loop for every request: whatever takes time belongs into `await`."""

    async def caller(self, token: str | None, request: Request) -> Caller | None:
        """None: not a caller with a role."""
        ...


class Open:
    """For what has no address (MCP over a pipe): the caller is the user who started the process."""

    async def caller(self, token: str | None, request: Request) -> Caller | None:
        return Caller("local", "admin")


class OneToken:
    """One token, for everything."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def caller(self, token: str | None, request: Request) -> Caller | None:
        if token is None or not hmac.compare_digest(token.encode(), self._token):
            return None
        return Caller("WEFT_TOKEN", "admin")


def bearer(request: Request) -> str | None:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


async def allowed_caller(
    gate: Gate, operation: Operation[Any, Any], request: Request, token: str | None = None
) -> Caller | None:
    """The caller, if it may call this; None where anyone may call. `token` is used where no header has one."""
    role = operation.role
    if role == "anyone":
        return None
    caller = await known_caller(gate, request, token)
    if caller.scope is not None:
        caller.scope.check(need_of(operation))
    elif RANK[caller.role] < RANK[role] or (caller.role == "worker") != (role == "worker"):
        detail = f"this needs the role {role}, and the token has {caller.role}"
        raise ApiError("forbidden", detail, "use a token with that role")
    return caller


async def known_caller(gate: Gate, request: Request, token: str | None = None) -> Caller:
    """Who asks, whatever they may do; also left in `request.state.caller`. An unknown caller is an ApiError."""
    token = bearer(request) or token
    try:
        caller = await gate.caller(token, request)
    except StoreError:
        raise store_silent() from None
    if caller is None:
        detail, fix = "a token is needed", "send the header Authorization: Bearer TOKEN"
        if token:
            detail = "this token is not known here, has expired, or was revoked"
            fix = "ask an admin for another: `weft token list`, `weft token create`"
        raise ApiError("unauthorized", detail, fix, headers={"WWW-Authenticate": "Bearer"})
    request.state.caller = caller
    return caller
