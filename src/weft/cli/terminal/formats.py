"""How durations, times, sizes and counts are written for people."""

import time
from datetime import datetime
from functools import lru_cache

from weft.core.definition.field_types.text_formats import rounded_duration


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
