"""What a node and the store must agree on while a session lives: how healthy it is, what it holds, and how long an
attempt may last."""

from collections.abc import Iterable

from weft.core.workflow import TaskDef

OVERDUE_MS = 30_000  # past timeout and grace: its node should have ended it long ago

#: By age of the last renewal. `dead` and `left` are also states that a session ends in; `drained` is `left` after a
#: drain.
HEALTH = ("healthy", "stale", "draining", "drained", "dead", "left")


def health(state: str, lease_left_ms: int | None, ttl_ms: int, *, drained: bool = False) -> str:
    """By the store's clock: stale when more than half of the lease is gone, dead when all of it is."""
    if state in ("dead", "left"):
        return "drained" if drained and state == "left" else state
    if lease_left_ms is None or lease_left_ms <= 0:
        return "dead"
    if lease_left_ms * 2 < ttl_ms:
        return "stale"
    return "draining" if state == "draining" else "healthy"


def digest(held: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """(how many, checksum) of (task, attempt), in any order. The statement `held_digest` computes the same."""
    count = checksum = 0
    for task_id, attempt in held:
        count += 1
        checksum += (task_id % 1_000_003) * (attempt % 1009 + 1)
    return count, checksum


def agree(said: tuple[int, int, int], stored: tuple[int, int, int] | None) -> bool:
    """What a node said of its attempts after an exchange, and what the store has. If it has exchanged since, there is
    nothing to compare."""
    return stored is None or said[0] != stored[0] or said == stored


def attempt_limit_ms(definition: TaskDef) -> int | None:
    """From its start, how long an attempt may be running in the store; None: as long as it likes."""
    if definition.timeout_ms is None:
        return None
    return definition.timeout_ms + definition.grace_ms + OVERDUE_MS
