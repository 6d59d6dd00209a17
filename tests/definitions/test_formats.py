"""Texts with a form of their own, as inputs have them: what is read, what is refused, and what comes back."""

from datetime import date, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import load_text
from weft.core.definition.field_types.text_formats import (
    FORMATS,
    read_date,
    read_datetime,
    read_duration,
    read_time,
    write_duration,
)
from weft.core.definition.inputs import InputError, checked_inputs


@given(st.dates(), st.datetimes(timezones=st.timezones() | st.none()), st.times(), st.timedeltas())
def test_what_python_writes_is_read_back(day: date, moment: datetime, clock: time, length: timedelta) -> None:
    assert read_date(day.isoformat()) == day
    assert read_datetime(moment.isoformat()).isoformat() == moment.isoformat()
    assert read_time(clock.isoformat()) == clock
    assert read_duration(write_duration(length)) == length


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("date", ["2026-01-31"], ["", "20260131", "2026-W01-4", "2026-02-30", "2026-01-31T00:00", "２０２６-01-31"]),
        ("date-time", ["2026-01-31T02:00", "2026-01-31 02:00:00.5Z"], ["2026-01-31", "2026-01-31T", "now"]),
        ("time", ["02:00", "02:00:00+01:00"], ["2", "25:00", "0200"]),
        ("duration", ["1h30m", "PT90M", "-P1DT0.5S", "P2W"], ["", "P", "PT", "90", "P1Y", "1 hour", "P999999999W"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000", "7"]),
        ("decimal", ["1", "-1.10", ".5", "1e3"], ["", "1,5", "NaN", "Infinity", "0x1"]),
    ],
)
def test_formats(form: str, good: list[str], bad: list[str]) -> None:
    inputs = load_text(f"inputs: {{x: {{format: {form}}}}}\ntasks: {{a: 'true'}}\n").workflow.inputs
    for text in good:
        assert checked_inputs(inputs, {"x": text}) == {"x": text}
    for value in [*bad, 3, None]:
        with pytest.raises(InputError, match="the input 'x' takes " + FORMATS[form][1]):
            checked_inputs(inputs, {"x": value})


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("{format: date, default: soon}", "expected a date such as 2026-01-31, found the text 'soon'"),
        ("{format: date, enum: ['2026-01-31', soon]}", "expected a date such as 2026-01-31, found the text 'soon'"),
        ("{type: integer, format: date}", "`format` applies only to texts, and the type of the input is integer"),
        ("{format: dat}", "expected one of date, date-time"),
    ],
)
def test_a_format_is_checked_in_its_declaration(declared: str, said: Any) -> None:
    with pytest.raises(DefinitionErrors, match=said):
        load_text(f"inputs: {{x: {declared}}}\ntasks: {{a: 'true'}}\n")
