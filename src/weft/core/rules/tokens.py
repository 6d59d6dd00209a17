"""Tokens of the API: made once, revoked for good. Who made and who revoked one is in the cluster's events."""

from weft.core.commands import CreateToken, Refused, Reply, RevokeToken
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Token
from weft.core.rows import TokenRow


def create_token(draft: Draft, command: CreateToken) -> Rule:
    (rows,) = yield (Token(command.id),)
    if rows:
        raise Refused("conflict", f"there is a token {command.id} already")
    expires_at = None if command.expires_ms is None else draft.now + command.expires_ms
    draft.tokens.new = TokenRow(
        command.id, command.hash, command.label, command.role, draft.now, expires_at, binding=command.binding
    )
    data = {"id": command.id, "label": command.label, "role": command.role, "expires_at": expires_at}
    draft.cluster_event("token_created", None, data)
    return Reply(changed=1, data={"id": command.id, "created_at": draft.now, "expires_at": expires_at})


def revoke_token(draft: Draft, command: RevokeToken) -> Rule:
    (rows,) = yield (Token(command.id),)
    if not rows:
        raise Refused("not_found", f"there is no token {command.id}")
    token: TokenRow = rows[0]
    if token.revoked_at is not None:
        return Reply(existing=True, data={"id": token.id, "revoked_at": token.revoked_at})
    draft.tokens.revoked = token.id
    draft.cluster_event("token_revoked", None, {"id": token.id, "label": token.label})
    return Reply(changed=1, data={"id": token.id, "revoked_at": draft.now})
