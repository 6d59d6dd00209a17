"""Cron times in a time zone.

A local time that a clock change skips fires once, at the gap's end; one that it repeats fires the first time; where
the hour is `*` or `*/n`, real time counts. cronsim works exactly so (Debian's rules), in 500 lines without
dependencies; croniter, the better known one, has no rule for skipped times.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from weft.triggers.protocol import BadTrigger

LENGTH_MAX: Final = 256
NICKNAMES: Final = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip
_FIELDS: Final = ("minute", "hour", "day-of-month", "month", "day-of-week")
_ONE: Final = re.compile(r"(?<![^,\s])(\w+)-\1/\d+(?![^,\s])")  # 5-5/2 is 5; cronsim takes it for 5/2
_YEARS_MAX: Final = 9000  # datetime ends with the year 9999


class Cron:
    """Five fields, in a zone of the IANA database. Raises BadTrigger for anything else."""

    def __init__(self, expression: str, zone: str = "UTC") -> None:
        self.expression = _normal(expression)
        self.zone = zone_of(zone)
        self._simulate(datetime(2026, 1, 1, tzinfo=UTC))

    def after(self, moment_ms: int) -> Iterator[int]:
        start = datetime.fromtimestamp(moment_ms / 1000, UTC)
        if start.year >= _YEARS_MAX:
            return
        last = moment_ms
        for moment in self._simulate(start.astimezone(self.zone)):
            at = int(moment.timestamp()) * 1000
            if at > last:
                last = at
                yield at

    def _simulate(self, start: datetime) -> CronSim:
        try:
            return CronSim(self.expression, start)
        except CronSimError as error:
            raise BadTrigger(f"{self.expression!r} is no cron expression: {error}", _hint(str(error))) from None


def _normal(expression: str) -> str:
    text = " ".join(expression.split())
    if text.lower() in NICKNAMES:
        return NICKNAMES[text.lower()]
    if len(text) > LENGTH_MAX:
        raise BadTrigger(f"a cron expression has at most {LENGTH_MAX} characters")
    if not text.isascii():
        raise BadTrigger(f"{text!r} is no cron expression", "use digits, names of months and days, and * / , - L #")
    if text.startswith("@"):
        raise BadTrigger(f"{text!r} is no cron expression", f"known are {', '.join(sorted(NICKNAMES))}")
    count = len(text.split(" ")) if text else 0
    if count != len(_FIELDS):
        why = "seconds and years are not supported" if count > len(_FIELDS) else "write * where anything will do"
        raise BadTrigger(
            f"a cron expression has five fields ({' '.join(_FIELDS)}), this one has {count}",
            f"for example 0 2 * * * (02:00 every day); {why}",
        )
    return _ONE.sub(r"\1", text)


_RANGES: Final = {
    "minute": "0–59", "hour": "0–23", "day-of-month": "1–31, or L for the last; it must exist in one of the months",
    "month": "1–12 or JAN–DEC", "day-of-week": "0–7 (0 and 7 are Sunday) or SUN–SAT",
}  # fmt: skip


def _hint(message: str) -> str | None:
    found = re.search("|".join(_FIELDS), message)
    return f"the {found[0]} is {_RANGES[found[0]]}" if found else None


def zone_of(name: str) -> ZoneInfo:
    """A zone by name. Only names of the database: a path would be read from wherever it points."""
    if name not in available_timezones():
        lowered = {zone.lower(): zone for zone in available_timezones()}
        known = lowered.get(name.lower().replace(" ", "_"))
        raise BadTrigger(
            f"there is no time zone {name[:64]!r}", f"write {known}" if known else "for example Europe/Berlin or UTC"
        )
    return ZoneInfo(name)
