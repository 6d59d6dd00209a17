"""What JavaScript does with values: conversions, equality and order, for JSON values and undefined only.

Numbers are doubles whatever Python type they came in. A result that is a whole number comes back as int, so
that `1 + 1` is 2 in JSON; -0, NaN and the infinities stay floats until the expression ends.
"""

import re
from math import copysign, fmod, inf, isinf, nan
from typing import Any, Final

from weft.core.expressions import utf16
from weft.core.expressions.errors import ExpressionError

STEPS: Final = 20_000
STRING_MAX: Final = 1 << 20
ARRAY_DEPTH_MAX: Final = 48

#: Characters handled per step; case mapping and number parsing are slower per character than copying.
CHARS_PER_STEP: Final = 256
SLOW_CHARS_PER_STEP: Final = 64

_SAFE = 2**53
_NUMERAL = re.compile(r"[+-]?(?:Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_RADIX_NUMERAL = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")


class Undefined:
    """The type of `undefined`: what a missing member is."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED: Final = Undefined()


class Elsewhere:
    """In the place of a value that this evaluation cannot have. Whoever asks for it gets an error that says why."""

    __slots__ = ("_fix", "_why")

    def __init__(self, why: str, fix: str) -> None:
        self._why = why
        self._fix = fix

    def refusal(self, column: int | None = None) -> ExpressionError:
        return ExpressionError(self._why, column, self._fix)


TYPE_NAMES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    Undefined: "undefined",
}


class Work:
    """One evaluation: the names it sees, the steps it has left, and what helps to explain its result."""

    __slots__ = ("at", "loose", "missing", "names", "steps")

    def __init__(self, names: Any) -> None:
        self.names = names
        self.steps = STEPS
        self.at = 1  # column of the operation under way
        self.missing: tuple[Any, Any] | None = None  # the last member that was not there: (node, its object)
        self.loose = False  # an array was made that may hold what JSON cannot

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise ExpressionError(
                f"this takes more than {STEPS:,} steps", fix="do this work in a task and use its output"
            )

    def spend_on(self, text: str, chars_per_step: int = CHARS_PER_STEP) -> None:
        if len(text) >= chars_per_step:
            self.spend(len(text) // chars_per_step)


def type_name(value: Any) -> str:
    """What to call a value in a message; anything but JSON is an error of its own."""
    name = TYPE_NAMES.get(type(value))
    if name is None:
        if type(value) is Elsewhere:
            raise value.refusal()
        raise ExpressionError("a name here holds something that is not a JSON value")
    return name


def check_size(text_length: int) -> None:
    if text_length > STRING_MAX:
        raise ExpressionError(
            "a string would grow over 1 MiB", fix="write large text to a file in a task and pass its path"
        )


def number(value: float) -> int | float:
    """A computed double, as int where that loses nothing (-0 would)."""
    if -_SAFE <= value <= _SAFE and value.is_integer() and (value != 0 or copysign(1, value) > 0):
        return int(value)
    return value


def double(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def truthy(value: Any) -> bool:
    """As `&&`, `||`, `!` and `?:` see it."""
    kind = type(value)
    if kind is bool:
        return bool(value)
    if kind is dict or kind is list:
        return True
    if value is None or kind is Undefined:
        return False
    if kind is float:
        return bool(value == value and value != 0)
    if kind is int or kind is str:
        return bool(value)
    type_name(value)
    return True


def to_number(value: Any, work: Work) -> float:
    kind = type(value)
    if kind is int or kind is float or kind is bool:
        return double(value)
    if value is None:
        return 0.0
    if kind is Undefined:
        return nan
    return _parsed(to_text(value, work), work)


def _parsed(text: str, work: Work) -> float:
    work.spend_on(text, SLOW_CHARS_PER_STEP)
    text = text.strip(utf16.TRIMMED)
    if not text:
        return 0.0
    if _NUMERAL.fullmatch(text):
        return float(text)
    if _RADIX_NUMERAL.fullmatch(text):
        return double(int(text, 0))
    return nan


def number_text(value: int | float) -> str:
    """The shortest digits that read back as the same double, laid out as JavaScript lays them out."""
    if type(value) is int and -_SAFE <= value <= _SAFE:
        return str(value)
    value = double(value)
    if value != value:
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)  # the value is 0.digits × 10^point
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = point - 1
    tail = "." + digits[1:] if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power > 0 else '-'}{abs(power)}"


def to_text(value: Any, work: Work) -> str:
    """As `+` and the methods turn a value into a string."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is int or kind is float:
        return number_text(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    if kind is Undefined:
        return "undefined"
    if kind is list:
        return joined(value, ",", work)
    type_name(value)
    return "[object Object]"


def joined(items: list[Any], separator: str, work: Work, depth: int = 1) -> str:
    """Array.join: null and undefined leave nothing, arrays within are joined with commas."""
    if depth > ARRAY_DEPTH_MAX:
        raise ExpressionError("arrays are nested too deeply to become a string")
    work.spend(len(items))
    size = len(separator) * max(0, len(items) - 1)
    check_size(size)
    parts: list[str] = []
    for item in items:
        if item is None or item is UNDEFINED:
            part = ""
        elif type(item) is list:
            part = joined(item, ",", work, depth + 1)
        else:
            part = to_text(item, work)
        size += len(part)
        check_size(size)
        parts.append(part)
    text = separator.join(parts)
    work.spend_on(text)
    return utf16.combine_pairs(text)


def to_primitive(value: Any, work: Work) -> Any:
    kind = type(value)
    return to_text(value, work) if kind is list or kind is dict else value


def strictly_equal(left: Any, right: Any) -> bool:
    """`===`. Arrays and objects are equal only to themselves."""
    kind, other = type(left), type(right)
    if kind is str or other is str:
        return kind is other and left == right
    if (kind is int or kind is float) and (other is int or other is float):
        return double(left) == double(right)
    if kind is bool and other is bool:
        return left == right  # type: ignore[no-any-return]
    type_name(left)
    type_name(right)
    return left is right


def same_value_zero(left: Any, right: Any) -> bool:
    """As Array.includes compares: NaN is found."""
    if type(left) is float and left != left:
        return type(right) is float and right != right
    return strictly_equal(left, right)


def loosely_equal(left: Any, right: Any, work: Work) -> bool:
    """`==`, with JavaScript's conversions."""
    if left is None or left is UNDEFINED:
        return right is None or right is UNDEFINED
    if right is None or right is UNDEFINED:
        return False
    kind, other = type(left), type(right)
    boxed, other_boxed = kind is list or kind is dict, other is list or other is dict
    if (boxed and other_boxed) or (kind is str and other is str):
        return strictly_equal(left, right)
    left, right = to_primitive(left, work), to_primitive(right, work)
    if type(left) is str and type(right) is str:
        return bool(left == right)
    return to_number(left, work) == to_number(right, work)


def compared(op: str, left: Any, right: Any, work: Work) -> bool:
    """`<`, `<=`, `>`, `>=`: two strings by code units, anything else as numbers."""
    left, right = to_primitive(left, work), to_primitive(right, work)
    if type(left) is str and type(right) is str:
        work.spend_on(left)
        work.spend_on(right)
        if op == "<":
            return utf16.less(left, right)
        if op == ">":
            return utf16.less(right, left)
        return not utf16.less(right, left) if op == "<=" else not utf16.less(left, right)
    a, b = to_number(left, work), to_number(right, work)
    if op == "<":
        return a < b
    if op == ">":
        return a > b
    return a <= b if op == "<=" else a >= b


def added(left: Any, right: Any, work: Work) -> Any:
    left, right = to_primitive(left, work), to_primitive(right, work)
    if type(left) is not str and type(right) is not str:
        return number(to_number(left, work) + to_number(right, work))
    a, b = to_text(left, work), to_text(right, work)
    check_size(len(a) + len(b))
    work.spend((len(a) + len(b)) // CHARS_PER_STEP)
    return utf16.concatenated(a, b)


def calculated(op: str, left: Any, right: Any, work: Work) -> int | float:
    """`-`, `*`, `/`, `%` on doubles, with the infinities and NaN where Python would raise."""
    a, b = to_number(left, work), to_number(right, work)
    if op == "-":
        return number(a - b)
    if op == "*":
        return number(a * b)
    if op == "%":
        if b == 0 or isinf(a) or a != a or b != b:
            return nan
        return number(fmod(a, b))
    if b != 0 or b != b:
        return number(a / b)
    if a == 0 or a != a:
        return nan
    # division by zero: the sign of the zero counts
    return copysign(inf, a) * copysign(1, b)
