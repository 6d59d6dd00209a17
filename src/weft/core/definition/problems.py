"""What is wrong with a definition, collected while it is read: every problem with its place, and a fix if known."""

from collections.abc import Collection
from typing import Any, Final, Literal

import msgspec

from weft.core.definition.suggest import did_you_mean, nearest

At = Literal["key", "value"]
Path = tuple[str | int, ...]

BAD: Final[Any] = object()  # what a reader gives back for a value it could not use
PROBLEMS_MAX: Final = 1000  # a broken file of 100,000 tasks needs no more to be understood
SUGGESTIONS_MAX: Final = 50  # a search for each of them, so that a file of nothing but slips costs no minutes
INTEGER_MAX: Final = 2**63 - 1
NO_EXPRESSION: Final = (
    "an expression (${{ … }}) can't stand here",
    "expressions work in if, run, argv, env, cwd, with, map, wait, cache and output",
)


class Spot(msgspec.Struct, frozen=True):
    """A place within a text: `column` counts its characters from 1, line breaks included."""

    text: str
    column: int


class Problem(msgspec.Struct, frozen=True):
    """What is wrong at one place of a value. `at` says whether the key or its value is to blame, `spot` where in a
    value that is an expression."""

    path: Path
    message: str
    fix: str | None = None
    at: At = "value"
    spot: Spot | None = None


class Reader:
    """Collects problems while a value is read; `path` is where reading stands."""

    __slots__ = ("more", "path", "problems")

    def __init__(self) -> None:
        self.path: list[str | int] = []
        self.problems: list[Problem] = []
        self.more = 0  # problems beyond PROBLEMS_MAX, counted only

    def problem(self, message: str, fix: str | None = None, at: At = "value") -> Any:
        self.problem_at(tuple(self.path), message, fix, at)
        return BAD

    def nearest(self, word: str, known: Collection[str]) -> str | None:
        """The known word that this one may have meant, while few enough have been searched for."""
        return nearest(word, known) if len(self.problems) < SUGGESTIONS_MAX else None

    def did_you_mean(self, word: str, known: Collection[str]) -> str | None:
        return did_you_mean(word, known) if len(self.problems) < SUGGESTIONS_MAX else None

    def slip(self, written: dict[Any, Any], known: Collection[str], meant: Collection[str]) -> bool:
        """Whether one of the wanted keys is there with a slip of the pen, which has been told already."""
        return any(self.nearest(key, meant) for key in written if isinstance(key, str) and key not in known)

    def problem_at(
        self, path: Path, message: str, fix: str | None = None, at: At = "value", spot: Spot | None = None
    ) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(path, message, fix, at, spot))
        else:
            self.more += 1


def has_expression(text: str) -> bool:
    """Whether ${{ stands in it otherwise than as $${{, which is plain text."""
    return "${{" in text and "${{" in text.replace("$${{", "")


def encodes(text: str) -> bool:
    """False of a text with half a surrogate pair, which no store can keep."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def quoted(text: str) -> str:
    """A text from a definition made fit for a message: short, on one line, without control characters."""
    cut = text if len(text) <= 60 else text[:57] + "…"
    return "'" + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut) + "'"


def found(value: Any) -> str:
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


def mismatch(reader: Reader, expected: str, value: Any, fix: str | None = None) -> Any:
    if value is None and fix is None:
        fix = "give it a value, or remove the key"
    return reader.problem(f"expected {expected}, found {found(value)}", fix)
