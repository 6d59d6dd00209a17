"""Cron and interval times: tables around clock changes, a dumb twin, windows that neither share nor miss a moment."""

import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.triggers.cron import Cron
from weft.triggers.interval import Every
from weft.triggers.protocol import BadTrigger, due


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def shown(cron: Cron, since: int, count: int) -> list[str]:
    return [
        datetime.fromtimestamp(at / 1000, cron.zone).strftime("%d %H:%M%z") for at in islice(cron.after(since), count)
    ]


#: Berlin: 29 March 2026, 02:00 → 03:00; 25 October 2026, 03:00 → 02:00.
CLOCK_CHANGES = [
    ("30 2 * * *", "2026-03-28T12:00", ["29 03:00+0200", "30 02:30+0200"]),  # skipped: once, at the gap's end
    ("0,30 2 * * *", "2026-03-28T12:00", ["29 03:00+0200", "30 02:00+0200"]),  # both skipped: still once
    ("30 2 * * *", "2026-10-24T12:00", ["25 02:30+0200", "26 02:30+0100"]),  # repeated: the first time
    ("*/30 * * * *", "2026-03-29T01:10", ["29 01:30+0100", "29 03:00+0200", "29 03:30+0200"]),
    ("*/30 * * * *", "2026-10-25T01:40", ["25 02:00+0200", "25 02:30+0200", "25 02:00+0100", "25 02:30+0100"]),
    ("15 */2 * * *", "2026-03-29T00:20", ["29 04:15+0200", "29 06:15+0200"]),  # `*` hours go by real time
    ("0 3 * * *", "2026-03-28T12:00", ["29 03:00+0200", "30 03:00+0200"]),
    ("@daily", "2026-10-24T12:00", ["25 00:00+0200", "26 00:00+0100"]),
]


@pytest.mark.parametrize(("expression", "since", "expected"), CLOCK_CHANGES)
def test_clock_changes(expression: str, since: str, expected: list[str]) -> None:
    assert shown(Cron(expression, "Europe/Berlin"), ms(since, "Europe/Berlin"), len(expected)) == expected


def test_a_half_hour_change_and_a_skipped_day() -> None:
    howe = Cron("15 2 * * *", "Australia/Lord_Howe")  # 4 October 2026: 02:00 → 02:30
    assert shown(howe, ms("2026-10-03T12:00", "Australia/Lord_Howe"), 2) == ["04 02:30+1100", "05 02:15+1100"]
    apia = Cron("0 12 * * *", "Pacific/Apia")  # 30 December 2011 was left out
    assert shown(apia, ms("2011-12-29T00:00", "Pacific/Apia"), 3) == [
        "29 12:00-1000",
        "31 00:00+1400",
        "31 12:00+1400",
    ]


def test_rare_days() -> None:
    leap = Cron("0 0 29 2 *")
    assert [datetime.fromtimestamp(at / 1000, UTC).year for at in islice(leap.after(ms("2026-01-01")), 3)] == [
        2028, 2032, 2036,
    ]  # fmt: skip
    assert due(leap, ms("2096-03-01"), ms("2104-02-28")) == []  # 2100 has none


def matches(field: str, value: int, low: int, high: int) -> bool:
    """A dumb reading of one field: *, */n, a, a-b, a-b/n, lists."""
    for part in field.split(","):
        body, _, stride = part.partition("/")
        start, _, end = body.partition("-")
        first = low if body == "*" else int(start)
        last = high if body == "*" or (stride and not end) else int(end or start)
        if first <= value <= last and (value - first) % int(stride or 1) == 0:
            return True
    return False


def dumb_due(expression: str, since: datetime, until: datetime) -> list[datetime]:
    minute, hour, day, month, weekday = expression.split(" ")
    at = since.replace(second=0, microsecond=0) + timedelta(minutes=1)
    out = []
    while at <= until:
        by_day = matches(day, at.day, 1, 31)
        by_weekday = matches(weekday, at.isoweekday() % 7, 0, 6)
        either = by_day and by_weekday if day.startswith("*") or weekday.startswith("*") else by_day or by_weekday
        if (
            matches(minute, at.minute, 0, 59)
            and matches(hour, at.hour, 0, 23)
            and matches(month, at.month, 1, 12)
            and either
        ):
            out.append(at)
        at += timedelta(minutes=1)
    return out


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    strides = st.tuples(st.one_of(st.just("*"), ranges), st.integers(1, high)).map(lambda p: f"{p[0]}/{p[1]}")
    lists = st.lists(number, min_size=1, max_size=4, unique=True).map(lambda ns: ",".join(map(str, ns)))
    return st.one_of(st.just("*"), number.map(str), ranges, strides, lists)


EXPRESSIONS = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).map(" ".join)
MOMENTS = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, MOMENTS)
def test_like_a_dumb_twin(expression: str, since: datetime) -> None:
    until = since + timedelta(days=3)
    found = due(Cron(expression), int(since.timestamp() * 1000), int(until.timestamp() * 1000), 10_000)
    assert [datetime.fromtimestamp(at / 1000, UTC) for at in found] == dumb_due(expression, since, until)


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS, st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]), st.data())
def test_windows_share_nothing_and_miss_nothing(expression: str, zone: str, data: st.DataObject) -> None:
    """However often, and whenever, somebody looks: the fire times are the same, each in exactly one window."""
    cron = Cron(expression, zone)
    start, end = ms("2026-10-24"), ms("2026-10-27")
    cuts = sorted(data.draw(st.lists(st.integers(start, end), max_size=8)))
    edges = [start, *cuts, end]
    pieces = [at for low, high in pairwise(edges) for at in due(cron, low, high, 10_000)]
    assert pieces == due(cron, start, end, 10_000)


def test_every() -> None:
    assert due(Every(60_000), 0, 180_000) == [60_000, 120_000, 180_000]
    assert due(Every(60_000, from_ms=500), 60_500, 180_500) == [120_500, 180_500]
    assert due(Every(60_000, from_ms=10_000_000), 0, 10_060_000) == [10_000_000, 10_060_000]


def test_after_a_long_pause_the_newest_count() -> None:
    assert due(Every(1000), 0, 10_000_000, limit=3) == [9_998_000, 9_999_000, 10_000_000]


BAD = [
    ("", "five fields"), ("* * * *", "has 4"), ("0 0 2 * * *", "seconds and years"), ("61 * * * *", "0–59"),
    ("0 24 * * *", "0–23"), ("0 0 32 * *", "1–31"), ("0 0 30 2 *", "exist in one of the months"),
    ("0 0 * 13 *", "JAN"), ("0 0 * * 8", "SUN"), ("@noon", "@daily"), ("a b c d e", "0–59"), ("٠ * * * *", "digits"),
    ("*/0 * * * *", "0–59"), ("5-1 * * * *", "0–59"), ("1," * 40_000 + "1 * * * *", "256"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "says"), BAD, ids=[text[:16] for text, _ in BAD])
def test_bad_expressions_say_what_is_wrong(expression: str, says: str) -> None:
    with pytest.raises(BadTrigger) as raised:
        Cron(expression)
    assert says in f"{raised.value.message} {raised.value.fix}"


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "europe/berlin", "", "x" * 10_000]
)
def test_bad_zones(zone: str) -> None:
    with pytest.raises(BadTrigger, match="time zone") as raised:
        Cron("* * * * *", zone)
    assert len(raised.value.message) < 200
    if zone == "europe/berlin":
        assert raised.value.fix == "write Europe/Berlin"


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), st.text("0123456789*/,-#LW ", max_size=64), st.binary(max_size=64).map(repr)))
def test_any_text_is_read_or_refused(text: str) -> None:
    began = time.perf_counter()
    try:
        cron = Cron(text)
    except BadTrigger:
        return
    list(islice(cron.after(ms("2026-01-01")), 2))
    assert time.perf_counter() - began < 2.0


def test_64_kib_take_neither_time_nor_memory() -> None:
    tracemalloc.start()
    try:
        began = time.process_time()
        for text in ("1," * 32_768, "* " * 32_768, "1-" * 32_768, "/" * 65_536):
            with pytest.raises(BadTrigger):
                Cron(text)
        assert time.process_time() - began < 0.2
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()
