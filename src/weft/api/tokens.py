"""Tokens: make one, list them, revoke one. All of it is an admin's."""

from typing import Annotated

import msgspec
from fastapi import Path

from weft.api import replies as r
from weft.api.paging import Cursor, Limit, page_of
from weft.api.routes import BODY, Asking, Routes
from weft.control.records import NewToken
from weft.control.tokens import LABEL_MAX
from weft.core.rows import ApiRole

routes = Routes("tokens")
TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{4,16}$", description="A token's id, or a unique beginning of it")]
EXPIRES_MAX_MS = 10 * 366 * 86_400_000


class TokenBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`expires_ms` counts from now; null: it never expires."""

    role: ApiRole
    label: Annotated[str, msgspec.Meta(min_length=1, max_length=LABEL_MAX, pattern=r"^[^\x00-\x1f\x7f]*$")]
    expires_ms: Annotated[int, msgspec.Meta(ge=1, le=EXPIRES_MAX_MS)] | None


@routes("GET", "/v1/tokens", role="admin", reply=r.TokenList)
def list_tokens(control: Asking, cursor_: Cursor = None, limit: Limit = 100) -> r.TokenList:
    """List tokens, revoked and expired ones too. What they are is not known: only hashes are kept."""
    tokens, more = page_of(control.tokens(), "tokens", lambda one: (one.created_at, one.id), cursor_, limit, int, str)
    return r.TokenList(tokens=tokens, next=more)


@routes(
    "POST", "/v1/tokens", role="admin", reply=NewToken, status=(201,), refused=(409,),
    example={"role": "viewer", "label": "dashboard", "expires_ms": 7_776_000_000},
)  # fmt: skip
def create_token(control: Asking, body: Annotated[TokenBody, BODY]) -> NewToken:
    """Make a token. This reply is the only place where it is ever shown."""
    return control.create_token(body.label, body.role, body.expires_ms)


@routes("POST", "/v1/tokens/{token}/revoke", role="admin", reply=r.TokenRevoked, refused=(404, 409))
def revoke_token(control: Asking, token: TokenId) -> r.TokenRevoked:
    """Revoke a token, for good. Servers believe in it for two more seconds at the most."""
    done = control.revoke_token(token)
    return r.TokenRevoked(id=done.data["id"], revoked_at=done.data["revoked_at"], existing=done.existing)
