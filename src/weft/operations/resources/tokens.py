"""Tokens of the API: 256 random bits after an id. The store keeps the SHA-256 of them, and the token is shown once.

A hash without salt or stretching is enough here: there is nothing to guess in 256 random bits.
"""

import hashlib
import hmac
import re
import secrets
from typing import Annotated

import msgspec
from msgspec import Meta

from weft.core import commands as c
from weft.core.placement.worker_binding import WorkerBinding, is_node_name, read_binding
from weft.core.rows import ApiRole, TokenRow
from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource
from weft.operations.errors import REFUSABLE, Ambiguous, NotFound
from weft.operations.parameters import Limit, TokenCursor, TokenId, moment_in, page_of
from weft.operations.replies import NewToken, TokenInfo

resource = Resource("tokens")

PREFIX = "weft"
LABEL_MAX = 100
BOUND_MAX = 100  # labels, or workflows, of a worker's token
LABEL_PATTERN = rf"^[^\x00-\x1f\x7f]{{1,{LABEL_MAX}}}$"
EXPIRES_MAX_MS = 10 * 366 * 86_400_000
TOKEN_MAX = 256  # characters; what is longer is nobody's


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class TokenList(msgspec.Struct, kw_only=True):
    tokens: list[TokenInfo]
    next: str | None


class ListTokensRequest(Request):
    cursor: TokenCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/tokens", role="admin")
def list_tokens(access: StoreAccess, request: ListTokensRequest) -> TokenList:
    """List tokens, revoked and expired ones too. What they are is not known: only hashes are kept."""
    after = moment_in(request.cursor)
    shown, last = page_of(_all(access), lambda token: (token.created_at, token.id), after, request.limit)
    return TokenList(tokens=shown, next=None if last is None else f"k{last.created_at}-{last.id}")


class CreateTokenRequest(Request):
    """`expires_ms` counts from now; null: it never expires. `labels` and `workflows` are for the role worker: the
    labels that its nodes have (null: each says its own), and the workflows that they may run tasks of (names, or
    beginnings of names with a * after them; none: all). The names of its nodes begin with `label`."""

    role: ApiRole
    label: Annotated[str, Meta(min_length=1, max_length=LABEL_MAX, pattern=LABEL_PATTERN)]
    expires_ms: Annotated[int, Meta(ge=1, le=EXPIRES_MAX_MS)] | None
    labels: Annotated[dict[str, str], Meta(max_length=BOUND_MAX)] | None = None
    workflows: (
        Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=BOUND_MAX)] | None
    ) = None


@resource.operation(
    "POST", "/v1/tokens", role="admin", errors=("conflict", "invalid", "command_used", "observer"), status=201,
    example={"role": "viewer", "label": "dashboard", "expires_ms": 7_776_000_000},
)  # fmt: skip
def create_token(access: StoreAccess, request: CreateTokenRequest) -> NewToken:
    """Create a token. This reply is the only place where it is ever shown."""
    if re.fullmatch(LABEL_PATTERN, request.label) is None:
        raise c.Refused("invalid", f"a label has 1 to {LABEL_MAX} characters, none of them a control character")
    id = secrets.token_hex(4)
    token = f"{PREFIX}_{id}_{secrets.token_hex(32)}"
    binding = _binding(request)
    command = c.CreateToken(id, hashed(token), request.label, request.role, request.expires_ms, binding)
    reply = access.commit(command)
    return NewToken(
        id=id, token=token, label=request.label, role=request.role, created_at=reply.data["created_at"],
        expires_at=reply.data["expires_at"],
    )  # fmt: skip


def _binding(request: CreateTokenRequest) -> str | None:
    if request.role != "worker":
        if request.labels is not None or request.workflows:
            raise c.Refused("invalid", "labels and workflows are for tokens with the role worker")
        return None
    if not is_node_name(request.label):
        raise c.Refused("invalid", "the names of a worker's nodes begin with its label: letters, digits, - _ and .")
    found = WorkerBinding(request.labels, tuple(request.workflows or ()))
    return msgspec.json.encode(found).decode()


class TokenRevoked(msgspec.Struct, kw_only=True):
    id: str
    revoked_at: int
    existing: bool


class RevokeTokenRequest(Request):
    id: TokenId


@resource.operation("POST", "/v1/tokens/{id}/revoke", role="admin", errors=REFUSABLE)
def revoke_token(access: StoreAccess, request: RevokeTokenRequest) -> TokenRevoked:
    """Revoke a token, for good. Servers believe in it for two more seconds at the most."""
    reply = access.commit(c.RevokeToken(token_of(_all(access), request.id).id))
    return TokenRevoked(id=reply.data["id"], revoked_at=reply.data["revoked_at"], existing=reply.existing)


def _all(access: StoreAccess) -> list[TokenInfo]:
    now = access.now()
    return [_info(TokenRow(*row), now) for row in access.read("tokens_all", None)]


def token_of(found: list[TokenInfo], ref: str) -> TokenInfo:
    """By its id, a unique beginning of it, or its label."""
    known = [token for token in found if token.label == ref or (ref and token.id.startswith(ref))]
    exact = [token for token in known if token.id == ref] or known
    live = [token for token in exact if token.state != "revoked"] or exact
    if not live:
        raise NotFound(f"there is no token {ref}")
    if len(live) > 1:
        raise Ambiguous(f"{ref} could be any of {', '.join(token.id for token in live)}")
    return live[0]


def holder(access: StoreAccess, token: str) -> TokenInfo | None:
    """Whose token this is, if it can be used now."""
    parts = token.split("_", 2)
    if len(token) > TOKEN_MAX or len(parts) != 3 or parts[0] != PREFIX or not parts[1].isalnum():
        return None
    for row in access.read("tokens_all", parts[1]):
        found = TokenRow(*row)
        if hmac.compare_digest(found.hash, hashed(token)):
            info = _info(found, access.now())
            return info if info.state == "valid" else None
    return None


def _info(row: TokenRow, now: int) -> TokenInfo:
    state = "valid"
    if row.revoked_at is not None:
        state = "revoked"
    elif row.expires_at is not None and row.expires_at <= now:
        state = "expired"
    bound = read_binding(row.binding)
    return TokenInfo(
        id=row.id, label=row.label, role=row.role, state=state, created_at=row.created_at, expires_at=row.expires_at,
        revoked_at=row.revoked_at, labels=bound.labels, workflows=list(bound.workflows),
    )  # fmt: skip
