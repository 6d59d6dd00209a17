"""What the attempts of a node have spent, and how much of that the store does not know yet."""

from weft.core.commands import Report
from weft.executors.protocol import Usage

SAY_EVERY_S = 2.0  # what attempts spend meanwhile is sent together


class UsageKeeper:
    def __init__(self) -> None:
        self._totals: dict[tuple[int, int], tuple[int, int]] = {}  # by task and attempt
        self._said: dict[tuple[int, int], tuple[int, int]] = {}  # in exchanges
        self._last = float("-inf")
        self.known = False  # some attempt has spent something

    def note(self, task_id: int, attempt: int, usage: Usage) -> None:
        """An attempt has spent so much in all. A number that falls is a mistake of its executor, and not believed."""
        self.known = True
        usd, tokens = self._totals.get((task_id, attempt), (0, 0))
        self._totals[(task_id, attempt)] = max(usd, usage.usd or 0), max(tokens, usage.tokens or 0)

    def due(self, now: float) -> bool:
        """There is something to say, and some time has passed."""
        return bool(self._totals) and now - self._last >= SAY_EVERY_S and self._totals != self._said

    def take(self, now: float) -> list[tuple[int, int, int, int]]:
        """(task, attempt, usd, tokens): what the next exchange says, once. If its reply is lost, it is sent again
        under the same number, and the store counts it once."""
        if not self._totals:
            return []
        self._last = now
        return [(*key, *new) for key in list(self._totals) if any(new := self._unsaid(key))]

    def _unsaid(self, key: tuple[int, int]) -> tuple[int, int]:
        total, said = self._totals.get(key, (0, 0)), self._said.get(key, (0, 0))
        self._said[key] = total
        return total[0] - said[0], total[1] - said[1]

    def complete(self, report: Report) -> None:
        """The attempt is over: its report says the rest."""
        key = (report.task_id, report.attempt)
        if key in self._totals:
            rest = self._unsaid(key)
            report.usage = rest if any(rest) else None
            del self._totals[key], self._said[key]

    def forget(self) -> None:
        """The session is over."""
        self._totals.clear()
        self._said.clear()
