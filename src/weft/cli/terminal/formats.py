"""How durations, times, sizes and counts are written for people."""

import time
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from weft.core.definition.field_types.text_formats import rounded_duration
from weft.core.placement.budgets import in_words
from weft.core.workflow import MICROS

if TYPE_CHECKING:
    from weft.operations.replies import BudgetInfo


def duration(ms: int | float | None) -> str:
    return "" if ms is None else rounded_duration(ms)


def clock(ms: int) -> str:
    return _clock_s(ms // 1000)


@lru_cache(16)
def _clock_s(seconds: int) -> str:
    return datetime.fromtimestamp(seconds).strftime("%H:%M:%S")


def clock_now() -> str:
    return clock(int(time.time() * 1000))


def moment(ms: int | None) -> str:
    return "" if ms is None else datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


def ago(ms: int) -> str:
    return f"{duration(ms)} ago" if ms >= 1000 else "now"


def size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def state_word(state: str) -> str:
    return state.replace("_", " ")


def spent_text(usd: float, tokens: int) -> str:
    parts = [in_words("usd", round(usd * MICROS))] if usd or not tokens else []
    return ", ".join([*parts, *([in_words("tokens", tokens)] if tokens else [])])


def budget_text(budget: "BudgetInfo") -> str:
    """`$1.50 of $5, 1,200 tokens; $2 reserved`: what was spent, in each unit that has a limit or was spent."""
    parts = []
    for unit, limit, spent in (
        ("usd", budget.usd, budget.usd_spent), ("tokens", budget.tokens, budget.tokens_spent),
    ):  # fmt: skip
        factor = MICROS if unit == "usd" else 1
        if limit is not None:
            parts.append(f"{in_words(unit, round(spent * factor))} of {in_words(unit, round(limit * factor))}")
        elif spent or (unit == "usd" and budget.tokens is None and not budget.tokens_spent):
            parts.append(in_words(unit, round(spent * factor)))
    held = spent_text(budget.usd_reserved, budget.tokens_reserved)
    reserved = budget.usd_reserved or budget.tokens_reserved
    return ", ".join(parts) + (f"; {held} reserved" if reserved else "")
