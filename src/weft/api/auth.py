"""Who asks, and what they may. Every route says which role it needs; whoever asks has at most one.

viewer looks, operator starts and stops work, admin also changes what everybody works with. `anyone` needs nothing.
A `Gate` knows who a request comes from: this file has the two that need no store, token_gate.py that of servers.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import msgspec
from starlette.requests import Request

from weft.api.problems import Trouble, store_silent
from weft.core.rows import ApiRole
from weft.store.protocol import StoreError

Needed = Literal["anyone", "viewer", "operator", "admin"]
RANK: dict[str, int] = {"anyone": 0, "viewer": 1, "operator": 2, "admin": 3}


class Caller(msgspec.Struct, frozen=True):
    """`name` is what the history says of who did it; it is no secret."""

    name: str
    role: ApiRole


class Gate(Protocol):
    """Called on the event loop for every request: whatever takes time belongs into `await`."""

    async def caller(self, token: str | None, request: Request) -> Caller | None:
        """None: nobody with a role."""
        ...


class Open:
    """For what has no address (MCP over a pipe): whoever started the process is who asks."""

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


def requires(role: Needed) -> Callable[[Request], Awaitable[None]]:
    """What a route depends on. It leaves the caller in `request.state.caller`."""

    async def check(request: Request) -> None:
        if role == "anyone":
            return
        caller = await known_caller(request.app.state.served.gate, request)
        if RANK[caller.role] < RANK[role]:
            told = f"this needs the role {role}, and the token has {caller.role}"
            raise Trouble(403, "forbidden", told, "use a token with that role")

    return check


async def known_caller(gate: Gate, request: Request) -> Caller:
    """Whoever asks, whatever they may; also left in `request.state.caller`. Nobody is a Trouble."""
    token = bearer(request)
    try:
        caller = await gate.caller(token, request)
    except StoreError:
        raise store_silent() from None
    if caller is None:
        detail, fix = "a token is needed", "send the header Authorization: Bearer TOKEN"
        if token:
            detail = "this token is not known here, has expired, or was revoked"
            fix = "ask an admin for another: `weft token list`, `weft token create`"
        raise Trouble(401, "unauthorized", detail, fix, headers={"WWW-Authenticate": "Bearer"})
    request.state.caller = caller
    return caller
