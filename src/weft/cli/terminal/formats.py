"""How durations, times, sizes and counts are written for people."""

import time
from datetime import datetime


def duration(ms: int | float | None) -> str:
    """0.4 s, 12.3 s, 4m 05s, 2h 03m, 3d 04h."""
    if ms is None:
        return ""
    seconds = max(0.0, ms / 1000)
    if seconds < 0.0995:
        return f"{round(seconds * 1000)} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3600:02}h"


def clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000).strftime("%H:%M:%S")


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
