"""What a node has counted since its process began: sent with what it measures of its machine, shown at /metrics.

Counted once per exchange where that is possible. What needs a look at each attempt (how long it waited, how long it
took) costs about half a microsecond: two searches in a dozen numbers.
"""

from bisect import bisect_left
from typing import Any

from weft.core.commands import Exchange, ExchangeReply, Report

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG_SECONDS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
SIZES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)


class Histogram:
    """How many were at most so large, for each bound, and the sum of all."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def snapshot(self) -> dict[str, Any]:
        return {"counts": list(self.counts), "sum": round(self.sum, 6)}


#: Histograms by their name in the snapshot, with their bounds: whoever shows them has to know those.
HISTOGRAMS: dict[str, tuple[float, ...]] = {
    "exchange_seconds": SECONDS, "exchange_reports": SIZES, "start_latency_seconds": SECONDS,
    "attempt_seconds": LONG_SECONDS,
}  # fmt: skip


class Meter:
    def __init__(self) -> None:
        self.claims = 0
        self.contended = 0  # exchanges that another writer made wait, or begin anew
        self.retries = 0
        self.outcomes: dict[str, int] = {}
        self.agent_tokens = 0
        self.agent_usd = 0  # millionths
        self.histograms = {name: Histogram(bounds) for name, bounds in HISTOGRAMS.items()}
        self._latency = self.histograms["start_latency_seconds"]

    def exchanged(self, command: Exchange, reply: ExchangeReply, seconds: float) -> None:
        self.histograms["exchange_seconds"].add(seconds)
        self.histograms["exchange_reports"].add(len(command.reports))
        self.claims += len(reply.claims)
        self.retries += reply.retries
        if command.reports:
            self._count(command.reports)

    def _count(self, reports: list[Report]) -> None:
        """The loop that every attempt passes: `add` written out."""
        lasted = self.histograms["attempt_seconds"]
        bounds, counts, succeeded, total = lasted.bounds, lasted.counts, 0, 0.0
        for report in reports:
            if report.outcome == "succeeded":
                succeeded += 1
            else:
                self.outcomes[report.outcome] = self.outcomes.get(report.outcome, 0) + 1
            if report.started_ago_ms is not None:
                seconds = (report.started_ago_ms - report.ended_ago_ms) / 1000
                counts[bisect_left(bounds, seconds)] += 1
                total += seconds
        lasted.sum += total
        if succeeded:
            self.outcomes["succeeded"] = self.outcomes.get("succeeded", 0) + succeeded

    def started(self, waited_ms: int, held_s: float) -> None:
        """`waited_ms` in the queue until it was claimed, then so long here."""
        seconds, latency = waited_ms / 1000 + held_s, self._latency
        latency.counts[bisect_left(latency.bounds, seconds)] += 1
        latency.sum += seconds

    def spent(self, usd: int | None, tokens: int | None) -> None:
        """What an attempt of an agent has cost, when it ends."""
        self.agent_usd += usd or 0
        self.agent_tokens += tokens or 0

    def snapshot(self) -> dict[str, Any]:
        return {
            "agent_tokens": self.agent_tokens, "agent_usd": self.agent_usd / 1_000_000,
            "claims": self.claims, "contended": self.contended, "retries": self.retries, "outcomes": self.outcomes,
            **{name: histogram.snapshot() for name, histogram in self.histograms.items()},
        }  # fmt: skip
