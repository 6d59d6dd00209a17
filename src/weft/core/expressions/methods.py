"""The methods of strings and arrays: one table, keyed by exact type and name.

Nothing here ever looks an attribute up by a name that came from an expression.
"""

from collections.abc import Callable
from math import isinf
from typing import Any, Final

from weft.core.expressions import utf16
from weft.core.expressions.values import (
    SLOW_CHARS_PER_STEP,
    UNDEFINED,
    Work,
    check_size,
    joined,
    same_value_zero,
    strictly_equal,
    to_number,
    to_text,
)

Arguments = list[Any]
Method = Callable[[Any, Arguments, Work], Any]

#: Name -> fewest and most arguments. More or fewer is refused when the expression is parsed: JavaScript would
#: ignore the surplus and search for the text "undefined", which nobody means.
ARITY: Final[dict[str, tuple[int, int]]] = {
    "includes": (1, 2),
    "startsWith": (1, 2),
    "endsWith": (1, 2),
    "indexOf": (1, 2),
    "trim": (0, 0),
    "toLowerCase": (0, 0),
    "toUpperCase": (0, 0),
    "split": (0, 2),
    "join": (0, 1),
    "slice": (0, 2),
}


def _whole(value: Any, work: Work) -> float:
    """JavaScript's ToIntegerOrInfinity; kept a float, which holds the infinities."""
    value = to_number(value, work)
    if value != value:
        return 0.0
    return value if isinf(value) else float(int(value))


def _clamped(arguments: Arguments, at: int, default: int, size: int, work: Work) -> int:
    """A position from 0 to size; what is out of range is moved to the nearest end."""
    if len(arguments) <= at or arguments[at] is UNDEFINED:
        return default
    return int(min(max(_whole(arguments[at], work), 0), size))


def _from_end(arguments: Arguments, at: int, default: int, size: int, work: Work) -> int:
    """The same, a negative position counting from the end."""
    if len(arguments) <= at or arguments[at] is UNDEFINED:
        return default
    position = _whole(arguments[at], work)
    return int(max(size + position, 0) if position < 0 else min(position, size))


def _searched(text: str, arguments: Arguments, work: Work) -> tuple[str, str]:
    """The text and what is looked for in it, in code units."""
    work.spend_on(text)
    wanted = to_text(arguments[0], work)
    work.spend_on(wanted)
    return utf16.units(text), utf16.units(wanted)


def _text_includes(text: str, arguments: Arguments, work: Work) -> bool:
    where, wanted = _searched(text, arguments, work)
    if len(arguments) == 1:
        return wanted in where
    return where.find(wanted, _clamped(arguments, 1, 0, len(where), work)) >= 0


def _text_index_of(text: str, arguments: Arguments, work: Work) -> int:
    where, wanted = _searched(text, arguments, work)
    return where.find(wanted, _clamped(arguments, 1, 0, len(where), work))


def _text_starts_with(text: str, arguments: Arguments, work: Work) -> bool:
    where, wanted = _searched(text, arguments, work)
    return where.startswith(wanted, _clamped(arguments, 1, 0, len(where), work))


def _text_ends_with(text: str, arguments: Arguments, work: Work) -> bool:
    where, wanted = _searched(text, arguments, work)
    return where.endswith(wanted, 0, _clamped(arguments, 1, len(where), len(where), work))


def _text_trim(text: str, arguments: Arguments, work: Work) -> str:
    work.spend_on(text)
    return text.strip(utf16.TRIMMED)


def _text_lower(text: str, arguments: Arguments, work: Work) -> str:
    work.spend_on(text, SLOW_CHARS_PER_STEP)
    lower = text.lower()
    check_size(len(lower))
    return lower


def _text_upper(text: str, arguments: Arguments, work: Work) -> str:
    work.spend_on(text, SLOW_CHARS_PER_STEP)
    upper = text.upper()
    check_size(len(upper))
    return upper


def _text_slice(text: str, arguments: Arguments, work: Work) -> str:
    work.spend_on(text)
    where = utf16.units(text)
    start = _from_end(arguments, 0, 0, len(where), work)
    end = _from_end(arguments, 1, len(where), len(where), work)
    return utf16.from_units(where[start:end])


def _text_split(text: str, arguments: Arguments, work: Work) -> list[str]:
    limit = 2**32 - 1
    if len(arguments) > 1 and arguments[1] is not UNDEFINED:
        whole = _whole(arguments[1], work)
        limit = 0 if isinf(whole) else int(whole) % 2**32
    separator = UNDEFINED if not arguments or arguments[0] is UNDEFINED else to_text(arguments[0], work)
    if limit == 0:
        return []
    if separator is UNDEFINED:
        return [text]
    work.spend_on(text)
    where, wanted = utf16.units(text), utf16.units(str(separator))
    # counted before the parts are made: a split must not fill the memory first and fail then
    count = where.count(wanted) + 1 if wanted else len(where)
    work.spend(min(count, limit))
    if wanted:
        # the last part of a limited split holds the rest, which JavaScript drops
        parts = where.split(wanted, limit) if count > limit else where.split(wanted)
    else:
        parts = list(where[:limit])
    parts = parts[:limit]
    if text.isascii():
        return parts
    work.loose = work.loose or where is not text  # a cut may have gone through a surrogate pair
    return [utf16.from_units(part) for part in parts]


def _array_includes(items: list[Any], arguments: Arguments, work: Work) -> bool:
    start = _from_end(arguments, 1, 0, len(items), work)
    work.spend(len(items) - start)
    wanted = arguments[0]
    return any(same_value_zero(items[at], wanted) for at in range(start, len(items)))


def _array_index_of(items: list[Any], arguments: Arguments, work: Work) -> int:
    start = _from_end(arguments, 1, 0, len(items), work)
    work.spend(len(items) - start)
    wanted = arguments[0]
    for at in range(start, len(items)):
        if strictly_equal(items[at], wanted):
            return at
    return -1


def _array_join(items: list[Any], arguments: Arguments, work: Work) -> str:
    given = arguments[0] if arguments else UNDEFINED
    return joined(items, "," if given is UNDEFINED else to_text(given, work), work)


def _array_slice(items: list[Any], arguments: Arguments, work: Work) -> list[Any]:
    start = _from_end(arguments, 0, 0, len(items), work)
    end = _from_end(arguments, 1, len(items), len(items), work)
    work.spend(max(0, end - start))
    return items[start:end]


METHODS: Final[dict[type, dict[str, Method]]] = {
    str: {
        "includes": _text_includes,
        "startsWith": _text_starts_with,
        "endsWith": _text_ends_with,
        "indexOf": _text_index_of,
        "trim": _text_trim,
        "toLowerCase": _text_lower,
        "toUpperCase": _text_upper,
        "split": _text_split,
        "slice": _text_slice,
    },
    list: {
        "includes": _array_includes,
        "indexOf": _array_index_of,
        "join": _array_join,
        "slice": _array_slice,
    },
}
