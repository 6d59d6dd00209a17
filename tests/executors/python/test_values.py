"""What JSON can hold, and what is said of the rest."""

import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.executors.python_functions.json_values import WrongValue, encode_value, plain_value

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Color(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: Any


class Struct(msgspec.Struct):
    x: Any


@given(JSON)
def test_json_comes_back_as_it_went(value: Any) -> None:
    assert msgspec.json.decode(encode_value(value, 1 << 30)) == value


def test_what_is_nearly_json_becomes_it() -> None:
    pair = collections.namedtuple("pair", "a b")
    value = plain_value({"t": (1, (2,)), "p": pair(1, 2), "c": Color.RED, "l": Level.HIGH, Color.RED: 1}, "returned")
    assert value == {"t": [1, [2]], "p": [1, 2], "c": "red", "l": 3, "red": 1}
    assert [type(v) for v in value.values()] == [list, list, str, int, int]
    assert [type(k) for k in value] == [str] * 5
    assert type(plain_value(collections.OrderedDict(a=1), "")) is dict
    date = datetime.date(2026, 1, 31)
    whole = [
        Point(date),
        Struct({"b", "a"}),
        pathlib.Path("x"),
        decimal.Decimal("1.10"),
        b"x",
        {3, 2},
        {"b", 1},
        {date: 1},
    ]
    assert plain_value(whole, "") == [
        {"x": "2026-01-31"}, {"x": ["a", "b"]}, "x", "1.10", "eA==", [2, 3], ["b", 1], {"2026-01-31": 1},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [1, {object}]}, "returned a dict whose ['a'][1]{…} is a type, which JSON cannot hold"),
        (Point(object()), "returned a Point whose ['x'] is an object, which JSON cannot hold"),
        (Struct(object()), "a Struct has no JSON form: it holds an object: return a dict"),
        (decimal.Decimal("nan"), "returned a Decimal, which JSON cannot hold"),
        (memoryview(b""), "return bytes(…) of it, or write a file and return its path"),
        ((n for n in ""), "returned a generator, which JSON cannot hold: return list(…) of it"),
        (object(), "returned an object, which JSON cannot hold: return a dict"),
        (float("nan"), "returned nan, which JSON cannot hold: return None or a text"),
        ([float("-inf")], "returned a list whose [0] is -inf, which JSON cannot hold"),
        ({1: 2}, "returned a dict with the key 1, and keys in JSON are texts: use str(1)"),
        ({"a": {None: 2}}, "returned a dict with the key None in ['a']"),
        (["\ud800"], "half a surrogate pair"),
        ([10**5000], "that cannot be written"),
        ("x" * 100, "output of 102 bytes is over the limit of 100 bytes; write a file and return its path"),
    ],
)
def test_the_rest_is_refused_with_a_way_out(value: Any, said: str) -> None:
    with pytest.raises(WrongValue) as refused:
        encode_value(value, 100)
    assert said in str(refused.value)


def test_what_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(WrongValue, match="nested deeper than 100 levels, or contains itself"):
        encode_value(loop, 1 << 20)
