"""A trigger's times: what is due, with jitter; what they are called; long pauses cost little."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from weft.core.workflow import TriggerDef
from weft.triggers.interval import Every
from weft.triggers.protocol import due
from weft.triggers.timetable import due_times, fire_at, local_text, upcoming

YEAR_MS = 366 * 86_400_000


def trigger(**given: Any) -> TriggerDef:
    return TriggerDef(name="t", kind="every" if "every_ms" in given else "cron", overlap="skip", **given)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_what_is_due_and_what_comes_next() -> None:
    nightly = trigger(cron="0 2 * * *", timezone="Europe/Berlin")
    found, following = due_times("w/t", nightly, at("2026-03-27T12:00"), at("2026-03-30T12:00"))
    assert [local_text(nightly, one) for one in found] == [
        "2026-03-28T02:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"
    ]  # fmt: skip
    assert following == at("2026-03-31T00:00")


def test_windows_share_nothing_and_leave_nothing_out() -> None:
    ticking = trigger(every_ms=1000, jitter_ms=900)
    since, seen = 10_000, []
    for now in range(10_000, 40_000, 137):
        found, following = due_times("w/t", ticking, since, now)
        assert all(fire_at("w/t", ticking, one) <= now for one in found)
        assert following is not None
        assert following > now, "or it would have been due"
        seen += found
        since = found[-1] if found else since
    assert seen == list(range(11_000, seen[-1] + 1, 1000))


def test_jitter_is_the_same_for_all_and_differs_from_time_to_time() -> None:
    spread = trigger(every_ms=60_000, jitter_ms=30_000)
    delays = [fired - due_at for due_at, fired in upcoming("w/t", spread, 0, 200)]
    assert delays == [fired - due_at for due_at, fired in upcoming("w/t", spread, 0, 200)]
    assert all(0 <= delay <= 30_000 for delay in delays)
    assert len(set(delays)) > 150
    assert delays != [fired - due_at for due_at, fired in upcoming("other/t", spread, 0, 200)]


def test_a_long_pause_costs_no_more_than_the_last_thousand() -> None:
    class Counting(Every):
        asked = 0

        def after(self, moment_ms: int) -> Iterator[int]:
            for one in super().after(moment_ms):
                Counting.asked += 1
                yield one

    found = due(Counting(1000), 0, YEAR_MS)
    assert found == list(range(YEAR_MS - 999_000, YEAR_MS + 1, 1000))
    assert Counting.asked < 20_000
    sparse = due(Counting(YEAR_MS // 4), 0, YEAR_MS)
    assert len(sparse) == 4


def test_a_clock_that_was_set_back_fires_nothing_again() -> None:
    assert due_times("w/t", trigger(every_ms=1000), 50_000, 20_000) == ([], 51_000)


def test_milliseconds_are_told_where_there_are_some() -> None:
    assert local_text(trigger(every_ms=1500), 1500) == "1970-01-01T00:00:01.500+00:00"
