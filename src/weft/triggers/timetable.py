"""From a trigger's definition to its times: which are due, when the next one is, and what they are called."""

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from weft.core.workflow import TriggerDef
from weft.triggers.interval import Every
from weft.triggers.protocol import Timetable, due

if TYPE_CHECKING:  # with the zone database it takes 6 ms to import, and most nodes have no cron triggers
    from weft.triggers.cron import Cron


def timetable_of(definition: TriggerDef) -> Timetable:
    """Raises BadTrigger: the zone database of this machine may lack what another one's had."""
    if definition.kind == "cron":
        assert definition.cron is not None
        return _cron(definition.cron, definition.timezone)
    assert definition.every_ms is not None
    return Every(definition.every_ms)


@lru_cache(maxsize=256)
def _cron(expression: str, zone: str) -> "Cron":
    from weft.triggers.cron import Cron

    return Cron(expression, zone)


def fire_at(trigger: str, definition: TriggerDef, moment_ms: int) -> int:
    """A fire time with its jitter, which is the same whoever asks: a new leader must not fire anew, or not at all."""
    if not definition.jitter_ms:
        return moment_ms
    digest = hashlib.sha256(f"{trigger}:{moment_ms}".encode()).digest()
    return moment_ms + int.from_bytes(digest[:8]) % (definition.jitter_ms + 1)


def due_times(
    trigger: str, definition: TriggerDef, since_ms: int, now_ms: int, limit: int = 1000
) -> tuple[list[int], int | None]:
    """(fire times after `since` whose moment has come, when to look next). In their order: one that its jitter holds
    back holds back those after it."""
    timetable = timetable_of(definition)
    found: list[int] = []
    for moment_ms in due(timetable, since_ms, now_ms, limit):
        if fire_at(trigger, definition, moment_ms) > now_ms:
            break
        found.append(moment_ms)
    following = next(timetable.after(found[-1] if found else since_ms), None)
    return found, None if following is None else fire_at(trigger, definition, following)


def times_between(
    definition: TriggerDef, first_ms: int, last_ms: int, limit: int, *, reverse: bool = False
) -> list[int]:
    """The first fire times of a range, both ends included; or the last ones, the latest first."""
    timetable = timetable_of(definition)
    if reverse:
        return due(timetable, first_ms - 1, last_ms, limit)[::-1]
    times = takewhile(lambda moment_ms: moment_ms <= last_ms, timetable.after(first_ms - 1))
    return list(islice(times, limit))


def upcoming(trigger: str, definition: TriggerDef, after_ms: int, count: int) -> list[tuple[int, int]]:
    """(fire time, when it is fired) of the next ones."""
    out: list[tuple[int, int]] = []
    for moment_ms in timetable_of(definition).after(after_ms):
        if len(out) == count:
            break
        out.append((moment_ms, fire_at(trigger, definition, moment_ms)))
    return out


def local_text(definition: TriggerDef, moment_ms: int) -> str:
    """What `trigger.time` is: ISO, local to the trigger's zone."""
    moment = datetime.fromtimestamp(moment_ms // 1000, UTC).replace(microsecond=moment_ms % 1000 * 1000)
    if definition.kind == "cron":
        from weft.triggers.cron import zone_of

        moment = moment.astimezone(zone_of(definition.timezone))
    return moment.isoformat(timespec="milliseconds" if moment_ms % 1000 else "seconds")
