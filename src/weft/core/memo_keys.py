"""Under which key a memo is found again.

Keys of effects are JSON, to be read by people, and cannot run into each other whatever is in their parts. Keys of
cached results are hashes: a command's whole environment would be too long to keep.
"""

import hashlib
from typing import Any

import msgspec


def once_key(run_id: str, task: str, key: str) -> str:
    """The same for all attempts and generations of a task; an element of a mapped one has its own."""
    return msgspec.json.encode(["once", run_id, task, key]).decode()


def named_key(workflow: str, task: str, key: Any) -> str:
    """Of `cache: {key: …}`: what the author says, within the task of that name."""
    return _hashed(["named", workflow, task, key])


def content_key(
    kind: str, spec: dict[str, Any], env: dict[str, str], directory: str | None, index: int, source: str | None
) -> str:
    """Of `cache: true`: all that an attempt is made of, templates resolved. `source` is the function's."""
    return _hashed(["content", kind, spec, env, directory, index, source])


def _hashed(parts: list[Any]) -> str:
    text = msgspec.json.encode(parts, order="deterministic")
    return f"cache:{hashlib.sha256(text).hexdigest()}"
