"""What a kind of trigger that fires by time must offer."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Protocol


class BadTrigger(ValueError):
    """A trigger that cannot be read; the text says what is wrong, `fix` what to write instead."""

    def __init__(self, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class Timetable(Protocol):
    """A set of moments, the same for everybody who asks."""

    def after(self, moment_ms: int) -> Iterator[int]:
        """Fire times after that moment, ascending; ends where there are no more."""
        ...


def due(timetable: Timetable, since_ms: int, until_ms: int, limit: int = 1000) -> list[int]:
    """Fire times in (since, until], at most the last `limit` of them: after a long pause the newest count.

    Half-open, so that neighbouring windows never share a fire time and never leave one out.
    """
    window_ms = 60_000
    while True:  # ever further back, so that years of minutes cost no more than the last thousand
        start_ms = max(since_ms, until_ms - window_ms)
        found = list(takewhile(lambda moment_ms: moment_ms <= until_ms, timetable.after(start_ms)))
        if start_ms == since_ms or len(found) >= limit:
            return found[-limit:]
        window_ms *= 4
