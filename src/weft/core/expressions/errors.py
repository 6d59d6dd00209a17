"""The one error of the expression language, and the caret that shows where it is."""

from collections.abc import Iterable

_CARET_WIDTH = 100
_NAMES_SHOWN = 12
_NAMES_COMPARED = 500


class ExpressionError(Exception):
    """What is wrong, where, and how to put it right.

    `column` counts characters from 1 over the whole text that was parsed, line breaks included; `place` and
    `caret` turn it into a line. It is None only until the evaluator has filled it in.
    """

    def __init__(self, message: str, column: int | None = None, fix: str | None = None) -> None:
        super().__init__(message, column, fix)
        self.message = message
        self.column = column
        self.fix = fix

    def __str__(self) -> str:
        at = "" if self.column is None else f" (column {self.column})"
        return f"{self.message}{at}" + (f"; {self.fix}" if self.fix else "")


def place(text: str, column: int) -> tuple[int, int]:
    """Line and column, both from 1, of a column that counts over the whole text."""
    before = text[: column - 1]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def caret(text: str, column: int) -> str:
    """The line that holds the column and, under it, a caret."""
    line_number, at = place(text, column)
    line = text.split("\n")[line_number - 1]
    start = max(0, at - 1 - _CARET_WIDTH // 2)
    shown = line[start : start + _CARET_WIDTH]
    indent = "".join("\t" if c == "\t" else " " for c in shown[: at - 1 - start])
    return f"{shown}\n{indent}^"


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant. Looks at a bounded number of short names only."""
    if len(name) > 64:
        return None
    candidates: list[str] = []
    for candidate in known:
        if len(candidate) <= 64:
            candidates.append(candidate)
        if len(candidates) == _NAMES_COMPARED:
            break
    folded = name.lower().replace("-", "_")
    for candidate in candidates:
        if candidate.lower().replace("-", "_") == folded:
            return candidate
    from difflib import get_close_matches  # only a mistake needs it

    close = get_close_matches(name, candidates, n=1, cutoff=0.6)
    return close[0] if close else None


def listed(names: Iterable[str]) -> str:
    """The first few names, quoted, for a message."""
    shown: list[str] = []
    for name in names:
        if len(shown) == _NAMES_SHOWN:
            shown.append("…")
            break
        shown.append(repr(name if len(name) <= 64 else name[:61] + "…"))
    return ", ".join(shown) if shown else "nothing"
