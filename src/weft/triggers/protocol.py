"""What a kind of trigger that fires by time must offer."""

from collections.abc import Iterator
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
    found: list[int] = []
    for moment_ms in timetable.after(since_ms):
        if moment_ms > until_ms:
            break
        found.append(moment_ms)
        if len(found) > 2 * limit:
            del found[:-limit]
    return found[-limit:]
