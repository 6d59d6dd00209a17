"""Tokens of the API: 256 random bits after an id. The store keeps the SHA-256 of them, and the token is shown once.

A hash without salt or stretching is enough here: there is nothing to guess in 256 random bits.
"""

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING

from weft.control.records import Ambiguous, NewToken, NotFound, TokenInfo
from weft.core import commands as c
from weft.core.rows import ApiRole, TokenRow

if TYPE_CHECKING:
    from weft.control.local import LocalControl

PREFIX = "weft"
LABEL_MAX = 100
_LABEL = re.compile(rf"[^\x00-\x1f\x7f]{{1,{LABEL_MAX}}}")
TOKEN_MAX = 256  # characters; what is longer is nobody's


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def tokens(control: "LocalControl") -> list[TokenInfo]:
    now = control.now()
    return [_info(TokenRow(*row), now) for row in control._read("tokens_all", None)]


def create(control: "LocalControl", label: str, role: ApiRole, expires_ms: int | None) -> NewToken:
    if _LABEL.fullmatch(label) is None:
        raise c.Refused("invalid", f"a label has 1 to {LABEL_MAX} characters, none of them a control character")
    id = secrets.token_hex(4)
    token = f"{PREFIX}_{id}_{secrets.token_hex(32)}"
    reply = control._commit(c.CreateToken(id, hashed(token), label, role, expires_ms))
    return NewToken(
        id=id, token=token, label=label, role=role, created_at=reply.data["created_at"],
        expires_at=reply.data["expires_at"],
    )  # fmt: skip


def revoke(control: "LocalControl", ref: str) -> c.Reply:
    return control._commit(c.RevokeToken(token_of(tokens(control), ref).id))


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


def holder(control: "LocalControl", token: str) -> TokenInfo | None:
    """Whose token this is, if it can be used now."""
    parts = token.split("_", 2)
    if len(token) > TOKEN_MAX or len(parts) != 3 or parts[0] != PREFIX or not parts[1].isalnum():
        return None
    for row in control._read("tokens_all", parts[1]):
        found = TokenRow(*row)
        if hmac.compare_digest(found.hash, hashed(token)):
            info = _info(found, control.now())
            return info if info.state == "valid" else None
    return None


def _info(row: TokenRow, now: int) -> TokenInfo:
    state = "valid"
    if row.revoked_at is not None:
        state = "revoked"
    elif row.expires_at is not None and row.expires_at <= now:
        state = "expired"
    return TokenInfo(
        id=row.id, label=row.label, role=row.role, state=state, created_at=row.created_at, expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )  # fmt: skip
