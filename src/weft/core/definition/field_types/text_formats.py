"""Texts with a format of their own: durations and sizes ("1h30m", "512MB"), dates, times, UUIDs, decimal numbers.

Durations and sizes are parsed and formatted here, so that a canonical document shows the same text whatever way the
author wrote it. Parsing fails with `NotReadable`, whose `fix` is a text that would have been right, where one can be
guessed. `format` of an input names one of `FORMATS`.
"""

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from weft.core.patterns import lazy

MS_MAX: Final = 3650 * 86_400_000  # ten years: a longer duration is a mistaken unit
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
_PART: Final = lazy(r"(\d{1,99}(?:\.\d{1,9})?)(ms|s|m|h|d) ?", re.ASCII)
_LOOSE_PART: Final = lazy(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]+)\s*,?", re.ASCII)

_UNITS_BYTES: Final = {
    "TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10,
    "TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3, "B": 1,
}  # fmt: skip
_SIZE: Final = lazy(r"(\d{1,19}(?:\.\d{1,9})?) ?([A-Za-z]*)", re.ASCII)
_LOOSE_SIZES: Final = {unit.lower(): unit for unit in _UNITS_BYTES} | {
    "k": "KiB", "m": "MiB", "g": "GiB", "t": "TiB", "ki": "KiB", "mi": "MiB", "gi": "GiB", "ti": "TiB",
}  # fmt: skip

_UUID: Final = lazy(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_DECIMAL: Final = lazy(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_DATE: Final = lazy(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = lazy(r"\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}(:\d{2})?)?", re.ASCII)
_DURATION: Final = lazy(
    r"([+-])?P(?:(\d{1,9})W)?(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,15})(\.\d{1,6})?S)?)?",
    re.ASCII,
)


class NotReadable(ValueError):
    """The text is not a duration or a size. `fix` is what the author may have meant."""

    def __init__(self, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.fix = fix


def parse_duration_ms(value: str | int | float) -> int:
    """A plain number is in seconds. The result is whole milliseconds; a fraction of one is refused, not rounded."""
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
        raise NotReadable("a duration cannot be negative")
    if ms > MS_MAX:
        raise NotReadable("a duration cannot be longer than ten years (3650d)")
    whole = round(ms)
    if abs(whole - ms) > 1e-6 * max(1.0, ms):
        raise NotReadable("a duration must be a whole number of milliseconds")
    return whole


def _duration_guess(text: str) -> str | None:
    """What to write instead of a text such as '90 minutes' or '1 h, 5 min'; None if its meaning is not clear."""
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


def rounded_duration(ms: int | float) -> str:
    """For people, two units at the most: 0.4 s, 12.3 s, 4m 05s, 2h 03m, 3d 04h."""
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


def parse_size_bytes(value: str | int | float) -> int:
    """A plain number is in bytes. KiB, MiB, … are powers of 1024; kB, MB, … powers of 1000."""
    if isinstance(value, float):
        if not value.is_integer():
            raise NotReadable("a size must be a whole number of bytes")
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
        raise NotReadable("a size cannot be negative")
    if size > BYTES_MAX:
        raise NotReadable("a size cannot be larger than 1024 PiB")
    return round(size)


def format_size(size: int) -> str:
    """The canonical text: the largest unit that divides it, binary before decimal."""
    for unit, unit_bytes in _UNITS_BYTES.items():
        if size and size % unit_bytes == 0:
            return f"{size // unit_bytes}{unit}"
    return f"{size}B"


def read_date(text: str) -> date:
    """Python also accepts 20260101 and 2026-W01-4; one format is enough, and cannot be a number by mistake."""
    return date.fromisoformat(_matched(_DATE, text))


def read_datetime(text: str) -> datetime:
    """Date and time. A date alone is refused: it would silently be midnight."""
    day, time_of_day = text[:10], text[11:]
    if text[10:11] not in ("T", "t", " "):
        raise ValueError("the time of day is missing")
    return datetime.fromisoformat(f"{_matched(_DATE, day)}T{_matched(_TIME, time_of_day)}")


def read_time(text: str) -> time:
    return time.fromisoformat(_matched(_TIME, text))


def read_duration(text: str) -> timedelta:
    """ISO 8601, as `write_duration` formats it, or 1h30m as in a definition."""
    parts = _DURATION.fullmatch(text)
    if parts is None or not any(parts.groups()[1:]):
        return timedelta(milliseconds=parse_duration_ms(text))
    sign, weeks, days, hours, minutes, seconds, fraction = parts.groups()
    try:
        length = timedelta(
            weeks=int(weeks or 0), days=int(days or 0), hours=int(hours or 0), minutes=int(minutes or 0),
            seconds=int(seconds or 0), microseconds=int((fraction or ".")[1:].ljust(6, "0")),
        )  # fmt: skip
    except OverflowError as error:
        raise ValueError(str(error)) from None
    return -length if sign == "-" else length


def write_duration(length: timedelta) -> str:
    sign, length = ("-", -length) if length < timedelta(0) else ("", length)
    fraction = f".{length.microseconds:06d}" if length.microseconds else ""
    days = f"{length.days}D" if length.days else ""
    return f"{sign}P{days}T{length.seconds}{fraction}S"


def _text_like(pattern: re.Pattern[str]) -> Callable[[str], str]:
    return lambda text: _matched(pattern, text)


def _matched(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError("it has another format")
    return text


#: By name: the function that parses it (ValueError if it cannot), and how messages name it.
FORMATS: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    "date": (read_date, "a date such as 2026-01-31"),
    "date-time": (read_datetime, "a date and time such as 2026-01-31T02:00:00Z"),
    "time": (read_time, "a time such as 02:00:00"),
    "duration": (read_duration, "a duration such as 1h30m or PT90M"),
    "uuid": (_text_like(_UUID), "a UUID such as 123e4567-e89b-12d3-a456-426614174000"),
    "decimal": (_text_like(_DECIMAL), "a decimal number such as 1.10"),
}
