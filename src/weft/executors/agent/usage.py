"""What an agent has spent: tokens as its program counts them, dollars where it or the definition has prices."""

from typing import Any, Final

import msgspec

_TOKENS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
#: Which price of the definition is for which tokens; without one for caches, that for input holds.
_PRICES: Final = {
    "input_tokens": "input", "output_tokens": "output", "cache_creation_input_tokens": "cache_write",
    "cache_read_input_tokens": "cache_read",
}  # fmt: skip
MILLION: Final = 1_000_000


def price_micros(usage: dict[str, int], prices: dict[str, float]) -> int:
    """Millionths of a dollar. Prices are dollars for a million tokens, so each is millionths for one token."""
    total = 0.0
    for name, price in _PRICES.items():
        total += usage.get(name, 0) * prices.get(price, prices["input"])
    return round(total)


def counts(usage: Any) -> dict[str, int]:
    """The counts of a message's `usage`, whatever else is in it."""
    if not isinstance(usage, dict):
        return {}
    found = {name: usage.get(name) for name in _TOKENS}
    return {name: value for name, value in found.items() if type(value) is int and value >= 0}


class UsageTally:
    """Adds up what messages say. Neither number falls, whatever later messages say."""

    def __init__(self, prices: dict[str, float] | None = None) -> None:
        self._prices = prices
        self._by_message: dict[str, dict[str, int]] = {}
        self._unnamed = 0
        self._final: dict[str, int] = {}
        self._final_usd: int | None = None
        self.usd: int | None = None  # millionths
        self.tokens = 0

    def message(self, id: Any, usage: Any) -> None:
        """Of one answer of the model. claude prints a message once for each part of it, with the same id."""
        found = counts(usage)
        if not found:
            return
        if not isinstance(id, str) or not id:
            self._unnamed += 1
            id = f" {self._unnamed}"
        known = self._by_message.setdefault(id, found)
        for name, count in found.items():
            known[name] = max(known.get(name, 0), count)
        self._update()

    def result(self, message: dict[str, Any]) -> None:
        """The sums of the whole conversation, `modelUsage` with what its own agents took."""
        self._final = counts(message.get("usage"))
        by_model = message.get("modelUsage")
        if isinstance(by_model, dict) and by_model:
            totals = dict.fromkeys(_TOKENS, 0)
            for one in by_model.values():
                for name, key in zip(_TOKENS, _MODEL_KEYS, strict=True):
                    value = one.get(key) if isinstance(one, dict) else None
                    totals[name] += value if type(value) is int and value > 0 else 0
            if sum(totals.values()) > sum(self._final.values()):
                self._final = totals
        usd: Any = message.get("total_cost_usd")
        if type(usd) in (int, float) and 0 <= usd < MILLION * MILLION:
            self._final_usd = round(usd * MILLION)
        self._update()

    @property
    def by_kind(self) -> dict[str, int]:
        live: dict[str, int] = {}
        for one in self._by_message.values():
            for name, count in one.items():
                live[name] = live.get(name, 0) + count
        return self._final if sum(self._final.values()) >= sum(live.values()) else live

    def described(self) -> dict[str, Any]:
        """As the result shows it."""
        out: dict[str, Any] = dict(self.by_kind)
        if self.usd is not None:
            out["usd"] = self.usd / MILLION
        return out

    def _update(self) -> None:
        by_kind = self.by_kind
        self.tokens = max(self.tokens, sum(by_kind.values()))
        usd = self._final_usd
        if usd is None and self._prices is not None:
            usd = price_micros(by_kind, self._prices)
        if usd is not None:
            self.usd = max(self.usd or 0, usd)


_MODEL_KEYS: Final = ("inputTokens", "outputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")


class SpendingLimit(msgspec.Struct, frozen=True):
    usd: int | None = None
    tokens: int | None = None

    def exceeded(self, tally: UsageTally) -> str | None:
        """What is over, as the error says it."""
        if self.usd is not None and tally.usd is not None and tally.usd > self.usd:
            return f"it spent ${tally.usd / MILLION:.6g} of the ${self.usd / MILLION:.6g} that it may"
        if self.tokens is not None and tally.tokens > self.tokens:
            return f"it spent {tally.tokens:,} of the {self.tokens:,} tokens that it may"
        return None
