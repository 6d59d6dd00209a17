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

from weft.executors.python_value import WrongValue, encode_value, plain_value

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
    x: int


class Struct(msgspec.Struct):
    x: int


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


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Point(1), "returned a Point, which JSON cannot hold: return dataclasses.asdict(…) of it"),
        (Struct(1), "returned a Struct, which JSON cannot hold: return msgspec.to_builtins(…) of it"),
        (datetime.date(2026, 1, 1), "returned a date, which JSON cannot hold: return its .isoformat()"),
        ({"a": [1, {2}]}, "returned a dict whose ['a'][1] is a set, which JSON cannot hold: return sorted(…) of it"),
        (b"x", "returned a bytes, which JSON cannot hold: decode it"),
        (pathlib.Path("x"), "return str(…) of it"),
        (decimal.Decimal(1), "returned a Decimal, which JSON cannot hold: return str(…) or float(…)"),
        ((n for n in []), "returned a generator, which JSON cannot hold: return list(…) of it"),
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
