"""Every so often, counted from a moment that never moves (by default 1970), so that a restart changes nothing."""

from collections.abc import Iterator
from typing import Final

from weft.triggers.protocol import BadTrigger

EVERY_MS_MIN: Final = 1000


class Every:
    def __init__(self, every_ms: int, from_ms: int = 0) -> None:
        if every_ms < EVERY_MS_MIN:
            raise BadTrigger(f"an interval is at least {EVERY_MS_MIN // 1000} s", "write every: 1s")
        self.every_ms = every_ms
        self.from_ms = from_ms

    def after(self, moment_ms: int) -> Iterator[int]:
        passed = (moment_ms - self.from_ms) // self.every_ms
        at = self.from_ms + max(0, passed + 1) * self.every_ms
        while True:
            yield at
            at += self.every_ms
