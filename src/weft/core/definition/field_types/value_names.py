"""Values as messages name them. Runners use this, so it imports nothing but the standard library."""

from typing import Any, Final

INTEGER_MAX: Final = 2**63 - 1


def quoted(text: str) -> str:
    """A text of a definition as messages quote it: short, on one line, without control characters."""
    cut = text if len(text) <= 60 else text[:57] + "…"
    return "'" + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut) + "'"


def describe(value: Any) -> str:
    """A value as messages name it: "the text 'abc'", "a list"."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {'true' if value else 'false'}"
    if isinstance(value, (int, float)):
        text = str(value) if not isinstance(value, int) or abs(value) <= INTEGER_MAX else "beyond 64 bits"
        return f"the number {text}"
    if isinstance(value, str):
        return f"the text {quoted(value)}" if value else "an empty text"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    return "a mapping" if isinstance(value, dict) else f"a Python {type(value).__name__}"
