"""Which attempt a token belongs to, if that runs now."""

from typing import TYPE_CHECKING

from weft.core.placement.eligibility import decode_facts
from weft.node.attempts.run_tokens import KEY_FACT, parse, signed_with
from weft.operations.run_scope import RunScope

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess


def scope_of_token(access: "StoreAccess", token: str) -> RunScope | None:
    """None: it is nobody's, or its attempt has ended, lost its lease, or was followed by another one."""
    claimed = parse(token)
    if claimed is None:
        return None
    for run_no, run_id, workflow, pos, idx, facts, expires_at in access.read(
        "attempt_running", claimed.task_id, claimed.attempt
    ):
        if facts is None or expires_at is None or expires_at <= access.now():
            return None
        key = decode_facts(facts).get(KEY_FACT)
        if not isinstance(key, str) or not signed_with(key, claimed):
            return None
        definition = access.workflow(workflow).tasks[pos]
        return RunScope(run_no, run_id, workflow, definition.called(idx), definition.allow or ())
    return None
