"""Texts with a form of their own: dates, times, durations, UUIDs, decimal numbers. `format` of an input names one."""

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from weft.core.definition.durations import parse_duration_ms

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}(:\d{2})?)?", re.ASCII)
_DURATION: Final = re.compile(
    r"([+-])?P(?:(\d{1,9})W)?(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,15})(\.\d{1,6})?S)?)?",
    re.ASCII,
)


def read_date(text: str) -> date:
    """Python also takes 20260101 and 2026-W01-4 for dates; one form is enough, and cannot be a number by mistake."""
    return date.fromisoformat(_matched(_DATE, text))


def read_datetime(text: str) -> datetime:
    """Date and time: a date alone would be midnight without anybody having said so."""
    day, time_of_day = text[:10], text[11:]
    if text[10:11] not in ("T", "t", " "):
        raise ValueError("it has no time of day")
    return datetime.fromisoformat(f"{_matched(_DATE, day)}T{_matched(_TIME, time_of_day)}")


def read_time(text: str) -> time:
    return time.fromisoformat(_matched(_TIME, text))


def read_duration(text: str) -> timedelta:
    """ISO 8601, as `write_duration` writes it, or 1h30m as in a definition."""
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
        raise ValueError("it has another form")
    return text


#: By name: what it reads a text to (ValueError if it can't), and how a message calls it.
FORMATS: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    "date": (read_date, "a date such as 2026-01-31"),
    "date-time": (read_datetime, "a date and time such as 2026-01-31T02:00:00Z"),
    "time": (read_time, "a time such as 02:00:00"),
    "duration": (read_duration, "a duration such as 1h30m or PT90M"),
    "uuid": (_text_like(_UUID), "a UUID such as 123e4567-e89b-12d3-a456-426614174000"),
    "decimal": (_text_like(_DECIMAL), "a decimal number such as 1.10"),
}
