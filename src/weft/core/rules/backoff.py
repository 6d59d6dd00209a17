"""How long a failed task waits before it is tried again."""

import hashlib

from weft.core.workflow import Retry


def delay_ms(retry: Retry, failures: int, task_id: int, attempt: int) -> int:
    """backoff × multiplier^(failures − 1), capped, then spread by the jitter share.

    The jitter is a hash of (task, attempt), not a random number: the same history gives the same delays.
    """
    exponent = min(failures - 1, 64)  # past that any multiplier above 1 is over every cap
    delay = min(retry.backoff_ms * retry.multiplier**exponent, retry.max_backoff_ms)
    if retry.jitter:
        digest = hashlib.blake2b(f"{task_id}.{attempt}".encode(), digest_size=8).digest()
        share = int.from_bytes(digest) / 2**64  # 0 … 1
        delay *= 1 + retry.jitter * (2 * share - 1)
    return int(delay)
