"""Durations and sizes as people write them ("1h30m", "512MB"), and back.

Both directions live here so that a canonical document shows the same text whatever way the author wrote it.
Parsing fails with `NotReadable`, whose `fix` is a text that would have been right, where one can be guessed.
"""

import math
import re
from typing import Final

MS_MAX: Final = 3650 * 86_400_000  # ten years: beyond it somebody mistook the unit
BYTES_MAX: Final = 1 << 60

_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_WORDS: Final = {
    "d": ("d", "day", "days"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "msec", "msecs", "millisecond", "milliseconds"),
}
_UNIT_OF_WORD: Final = {word: unit for unit, words in _WORDS.items() for word in words}
_PART: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(ms|s|m|h|d) ?", re.ASCII)
_LOOSE_PART: Final = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]+)\s*,?", re.ASCII)

_UNITS_BYTES: Final = {
    "TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10,
    "TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3, "B": 1,
}  # fmt: skip
_SIZE: Final = re.compile(r"(\d{1,19}(?:\.\d{1,9})?) ?([A-Za-z]*)", re.ASCII)
_LOOSE_SIZES: Final = {unit.lower(): unit for unit in _UNITS_BYTES} | {
    "k": "KiB", "m": "MiB", "g": "GiB", "t": "TiB", "ki": "KiB", "mi": "MiB", "gi": "GiB", "ti": "TiB",
}  # fmt: skip


class NotReadable(ValueError):
    """A text that is no duration or size. `fix` is what the author may have meant."""

    def __init__(self, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.fix = fix


def parse_duration_ms(value: str | int | float) -> int:
    """A plain number counts seconds. Whole milliseconds come out; a part of one is refused, not rounded off."""
    if not isinstance(value, str):
        return _bounded_ms(value * 1000 if math.isfinite(value) else math.inf)
    total, at, last_unit_ms = 0.0, 0, MS_MAX
    text = value.strip()
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or _UNITS_MS[part[2]] >= last_unit_ms:
            raise NotReadable("not a duration", _duration_guess(text))
        last_unit_ms = _UNITS_MS[part[2]]
        total += float(part[1]) * last_unit_ms
        at = part.end()
    if not text:
        raise NotReadable("not a duration")
    return _bounded_ms(total)


def _bounded_ms(ms: float) -> int:
    if ms < 0:
        raise NotReadable("a duration can't be negative")
    if ms > MS_MAX:
        raise NotReadable("a duration can't be longer than ten years (3650d)")
    whole = round(ms)
    if abs(whole - ms) > 1e-6 * max(1.0, ms):
        raise NotReadable("a duration is a whole number of milliseconds")
    return whole


def _duration_guess(text: str) -> str | None:
    """'90 minutes' and '1 h, 5 min' are clear enough to say what to write instead."""
    total, at = 0.0, 0
    if len(text) > 40:
        return None
    while at < len(text):
        part = _LOOSE_PART.match(text, at)
        unit = _UNIT_OF_WORD.get(part[2].lower()) if part else None
        if part is None or unit is None:
            break
        total += float(part[1]) * _UNITS_MS[unit]
        at = part.end()
    if at == 0 and text.replace(".", "", 1).isdecimal() and text.isascii():
        return f"write {text}s for seconds, or {text}m for minutes"
    if at < len(text) or total > MS_MAX:
        return None
    return f"write {format_duration(round(total))}"


def format_duration(ms: int) -> str:
    """The canonical text: whole units, largest first, e.g. 5,400,000 -> '1h30m'."""
    if ms == 0:
        return "0s"
    parts = []
    for unit, unit_ms in _UNITS_MS.items():
        count, ms = divmod(ms, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def parse_size_bytes(value: str | int | float) -> int:
    """A plain number counts bytes. KiB, MiB, … are powers of 1024; kB, MB, … powers of 1000."""
    if isinstance(value, float):
        if not value.is_integer():
            raise NotReadable("a size is a whole number of bytes")
        value = int(value)
    if isinstance(value, int):
        return _bounded_bytes(value)
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise NotReadable("not a size")
    unit = match[2] or "B"
    if unit not in _UNITS_BYTES:
        meant = _LOOSE_SIZES.get(unit.lower())
        raise NotReadable("not a size", f"write {match[1]}{meant}" if meant else None)
    return _bounded_bytes(
        float(match[1]) * _UNITS_BYTES[unit] if "." in match[1] else int(match[1]) * _UNITS_BYTES[unit]
    )


def _bounded_bytes(size: float) -> int:
    if size < 0:
        raise NotReadable("a size can't be negative")
    if size > BYTES_MAX:
        raise NotReadable("a size can't be larger than 1024 PiB")
    return round(size)


def format_size(size: int) -> str:
    """The canonical text: the largest unit that divides it, binary before decimal."""
    for unit, unit_bytes in _UNITS_BYTES.items():
        if size and size % unit_bytes == 0:
            return f"{size // unit_bytes}{unit}"
    return f"{size}B"
