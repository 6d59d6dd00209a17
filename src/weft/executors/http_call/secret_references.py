"""`$NAME` and `${NAME}` in the texts of a definition stand for secrets that its task lists.

Only what the definition itself says is replaced: a value that an expression puts into such a text may come from
anywhere, and a `$NAME` in it must not become a secret. So references are marked before expressions are resolved, with
a word that no value can know, and the executor replaces the marks.
"""

import re
import secrets
from collections.abc import Callable, Collection, Mapping
from typing import Any

_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_SENT = ("url", "headers", "json", "body")
_WORD = secrets.token_hex(16)  # of this process: marks never leave it
_MARK = re.compile(f"\x02{_WORD}:([A-Za-z0-9_]+)\x03")


def marked(value: Any, names: Collection[str]) -> Any:
    """A JSON value in whose texts references to these secrets are marks. Keys stay as they are."""

    def mark(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return f"\x02{_WORD}:{name}\x03" if name in names else match[0]

    return _mapped(value, lambda text: _REFERENCE.sub(mark, text) if "$" in text else text)


def marked_request(spec: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The spec of a task with marks in what is sent: nowhere else is a secret put in."""
    out = {key: marked(value, names) if key in _SENT else value for key, value in spec.items()}
    if "url" in spec.get("poll", {}):
        out["poll"] = {**spec["poll"], "url": marked(spec["poll"]["url"], names)}
    return out


def unmarked(value: Any) -> Any:
    """The same with the names of secrets again: for what must not depend on the process, such as a cache's key."""
    return _mapped(value, lambda text: _MARK.sub(r"${\1}", text))


def revealed(text: str, values: Mapping[str, str], encode: Callable[[str], str] = str) -> str:
    """A text with the secrets in the place of their marks, each as `encode` writes it."""
    return _MARK.sub(lambda match: encode(values[match[1]]), text)


def holds_secret(value: Any) -> bool:
    return bool(unmarked(value) != value)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value
