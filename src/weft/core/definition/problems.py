"""The problems of a definition, collected while it is read: each with its path in the value, and a fix if known."""

from collections.abc import Collection
from typing import Any, Final, Literal

import msgspec

from weft.core.definition.field_types.value_names import INTEGER_MAX as INTEGER_MAX
from weft.core.definition.field_types.value_names import describe as describe
from weft.core.definition.field_types.value_names import quoted as quoted
from weft.core.definition.suggest import did_you_mean, nearest

At = Literal["key", "value"]
Path = tuple[str | int, ...]

INVALID: Final[Any] = object()  # what `read` of a field type returns for a value that it cannot use
PROBLEMS_MAX: Final = 1000  # more would not help anybody to repair a file of 100,000 tasks
SUGGESTIONS_MAX: Final = 50  # each is a search; without a bound a file of misspelled keys takes minutes
NO_EXPRESSION: Final = (
    "an expression (${{ … }}) is not allowed here",
    (
        "expressions work in if, run, argv, python, env, env_file, cwd, with, container, kubernetes, http, "
        "cloud_run, agent, spec, map, matrix, label, wait, artifacts, cache and output"
    ),
)


class TextOffset(msgspec.Struct, frozen=True):
    """A position within a text: `column` counts characters from 1, line breaks included."""

    text: str
    column: int


class ValueProblem(msgspec.Struct, frozen=True):
    """A problem at one path of a value. `at`: whether the key or its value is wrong; `offset`: where in a text that
    holds expressions."""

    path: Path
    message: str
    fix: str | None = None
    at: At = "value"
    offset: TextOffset | None = None


class ProblemCollector:
    """Collects problems while a value is read; `path` is the path of the value that is being read."""

    __slots__ = ("has_files", "more", "path", "problems")

    def __init__(self) -> None:
        self.path: list[str | int] = []
        self.problems: list[ValueProblem] = []
        self.has_files = False  # a task gets files of others
        self.more = 0  # problems beyond PROBLEMS_MAX, which are only counted

    def problem(self, message: str, fix: str | None = None, at: At = "value") -> Any:
        self.problem_at(tuple(self.path), message, fix, at)
        return INVALID

    def nearest(self, word: str, known: Collection[str]) -> str | None:
        """The known word that the author may have meant; None after SUGGESTIONS_MAX problems."""
        return nearest(word, known) if len(self.problems) < SUGGESTIONS_MAX else None

    def did_you_mean(self, word: str, known: Collection[str]) -> str | None:
        return did_you_mean(word, known) if len(self.problems) < SUGGESTIONS_MAX else None

    def misspelled(self, value: dict[Any, Any], known: Collection[str], expected: Collection[str]) -> bool:
        """Whether an unknown key of the mapping is probably one of the expected keys, misspelled: that problem has
        been reported already."""
        return any(self.nearest(key, expected) for key in value if isinstance(key, str) and key not in known)

    def problem_at(
        self, path: Path, message: str, fix: str | None = None, at: At = "value", offset: TextOffset | None = None
    ) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(ValueProblem(path, message, fix, at, offset))
        else:
            self.more += 1


def has_expression(text: str) -> bool:
    """Whether the text has a ${{ that is not escaped as $${{."""
    return "${{" in text and "${{" in text.replace("$${{", "")


def encodes(text: str) -> bool:
    """False for a text with half a surrogate pair, which no store can keep."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def mismatch(collector: ProblemCollector, expected: str, value: Any, fix: str | None = None) -> Any:
    if value is None and fix is None:
        fix = "give it a value, or remove the key"
    return collector.problem(f"expected {expected}, found {describe(value)}", fix)
