"""Names of remote attempts: `weft-<run>-<task>-<attempt>`, or a hash of it where an engine allows less."""

import hashlib
import re

_NOT_ALLOWED = re.compile("[^a-z0-9-]+")


def readable_name(run_id: str, task: str, attempt: int) -> str:
    return f"weft-{run_id}-{task}-{attempt}"


def attempt_name(run_id: str, task: str, attempt: int, most: int = 63) -> str:
    """Lower-case letters, digits and hyphens, at most `most` of them; the readable form where it is one already. The
    hash is over the readable form: names that were made alike by this stay different."""
    readable = readable_name(run_id, task, attempt)
    if len(readable) <= most and not _NOT_ALLOWED.search(readable) and not readable.endswith("-"):
        return readable
    digest = hashlib.sha256(readable.encode()).hexdigest()[:16]
    end = f"-{digest}-{attempt}"
    start = _NOT_ALLOWED.sub("-", f"weft-{run_id}-{task}".lower())[: most - len(end)].rstrip("-")
    return start + end
