"""Durations, sizes and 'did you mean'."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.definition.field_types.text_formats import (
    BYTES_MAX,
    MS_MAX,
    NotReadable,
    format_duration,
    format_size,
    parse_duration_ms,
    parse_size_bytes,
)
from weft.core.definition.suggest import nearest


@pytest.mark.parametrize(
    ("text", "ms"),
    [("10m", 600_000), ("1h30m", 5_400_000), ("500ms", 500), ("2s", 2000), (90, 90_000), (0.5, 500),
     ("1.5h", 5_400_000),
     ("1h 5m", 3_900_000), ("2d", 172_800_000), (0, 0), ("0s", 0), (" 5s ", 5000), ("1m30s250ms", 90_250)],
)  # fmt: skip
def test_durations(text: str | float, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "fix"),
    [("10 minutes", "write 10m"), ("1 hour, 5 min", "write 1h5m"), ("30",
     "write 30s for seconds, or 30m for minutes"),
     ("5x", None), ("", None), ("m", None), ("5m1h", "write 1h5m"), ("1m1m", "write 2m"), ("-5s", None),
     ("0.0001s", None),
     ("99999d", None), (-1, None), (float("nan"), None), (float("inf"), None), (1e300, None), ("٣s", None),
     ("9" * 5000 + "s", None)],
)  # fmt: skip
def test_what_is_no_duration(text: str | float, fix: str | None) -> None:
    with pytest.raises(NotReadable) as caught:
        parse_duration_ms(text)
    assert caught.value.fix == fix


@settings(deadline=None)
@given(st.integers(0, MS_MAX))
def test_durations_there_and_back(ms: int) -> None:
    assert parse_duration_ms(format_duration(ms)) == ms


@settings(deadline=None)
@given(st.integers(0, BYTES_MAX))
def test_sizes_there_and_back(size: int) -> None:
    assert parse_size_bytes(format_size(size)) == size


def test_sizes() -> None:
    assert parse_size_bytes("1GiB") == 1 << 30
    assert parse_size_bytes("512 MB") == 512_000_000
    assert parse_size_bytes("1.5KiB") == 1536
    assert parse_size_bytes(100) == parse_size_bytes("100") == parse_size_bytes("100B") == 100
    for text, fix in [("1gb", "write 1GB"), ("2G", "write 2GiB"), ("x", None), ("1 gig", None)]:
        with pytest.raises(NotReadable) as caught:
            parse_size_bytes(text)
        assert caught.value.fix == fix
    for wrong in (-1, 2**70, 0.5):
        with pytest.raises(NotReadable):
            parse_size_bytes(wrong)


def test_nearest() -> None:
    known = {"build": 1, "test": 2, "max_parallel": 3, "deploy-all": 4}
    assert nearest("biuld", known) == "build"
    assert nearest("tets", known) == "test"
    assert nearest("maxParallel", known) == "max_parallel"
    assert nearest("deplyall", known) == "deploy-all"
    assert nearest("mxx_parallol", known) == "max_parallel"
    assert nearest("bxixd", known) is None
    assert nearest("zebra", known) is None
    assert nearest("", known) is None
    many = {f"task-{i}": None for i in range(100_000)}
    assert nearest("taks-77", many) == "task-77"
    assert nearest("nothing-like-it", many) is None
