"""What the simulation objects to. Each violation names the rule that was broken: tests of planted bugs ask for it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Violation(NamedTuple):
    rule: str
    text: str


class Violated(AssertionError):
    """`violations` were found together; what came of them later is not among them."""

    def __init__(self, violations: Sequence[Violation], text: str | None = None) -> None:
        super().__init__(text or "; ".join(f"{rule}: {text}" for rule, text in violations[:5]))
        self.violations = tuple(violations)


def found_by(check: Callable[..., list[str]], *rows: object) -> list[Violation]:
    """What a check of weft.core.invariants finds, under the name of that check."""
    return [Violation(check.__name__, text) for text in check(*rows)]


def require(holds: bool, rule: str, text: str) -> None:
    if not holds:
        raise Violated([Violation(rule, text)])
