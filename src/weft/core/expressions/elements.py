"""The elements of a mapped task: the combinations of a matrix, the item of each element, and its label."""

from itertools import product
from math import prod
from typing import Any, Final

import msgspec

from weft.core.expressions.errors import ExpressionError
from weft.core.expressions.templates import resolve_value
from weft.core.workflow import TaskDef

#: The keys of a matrix that are no axes.
MATRIX_LISTS: Final = ("include", "exclude")
COMBINATIONS_MAX: Final = 100_000
LABEL_MAX: Final = 120  # characters


def array_of(names: dict[str, Any], definition: TaskDef) -> Any:
    """What a mapped task maps over; None for replicas, which count themselves."""
    if definition.map is None:
        return None
    value = resolve_value(definition.map, names)
    return combinations(value) if type(definition.map) is dict else value


def combinations(matrix: dict[str, Any]) -> list[dict[str, Any]]:
    """The product of the axes, in their order, the last one varying fastest, without what `exclude` matches. An entry
    of `include` adds its other keys to each of these that has its values of axes, and is a further combination if
    none has. Raises ExpressionError."""
    axes = {name: values for name, values in matrix.items() if name not in MATRIX_LISTS}
    for name, values in axes.items():
        if type(values) is not list:
            raise ExpressionError(f"the axis {name} must be an array")
    count = prod(len(values) for values in axes.values()) + len(matrix.get("include", ()))
    if count > COMBINATIONS_MAX:
        raise ExpressionError(f"{count:,} combinations are over the limit of {COMBINATIONS_MAX:,}")
    excluded = matrix.get("exclude", ())
    originals: list[dict[str, Any]] = []
    for values in product(*axes.values()) if axes else ():
        one = dict(zip(axes, values, strict=True))
        if not any(_matches(one, entry) for entry in excluded):
            originals.append(one)
    out = [dict(one) for one in originals]
    added: list[dict[str, Any]] = []
    for entry in matrix.get("include", ()):
        wanted = {name: value for name, value in entry.items() if name in axes}
        chosen = [at for at, one in enumerate(originals) if _matches(one, wanted)]
        for at in chosen:
            out[at].update(entry)
        if not chosen:
            added.append(dict(entry))
    return out + added


def _matches(combination: dict[str, Any], entry: dict[str, Any]) -> bool:
    return all(name in combination and same(combination[name], value) for name, value in entry.items())


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: to Python, true is 1."""
    return (type(left) is bool) == (type(right) is bool) and bool(left == right)


def with_item(names: dict[str, Any], definition: TaskDef, index: int, array: Any) -> dict[str, Any]:
    """The names of one element of a mapped task. With `batch`, its item is an array."""
    if array is None:
        return {**names, "index": index, "item": index}
    if definition.batch is None:
        return {**names, "index": index, "item": array[index]}
    return {**names, "index": index, "item": array[index * definition.batch : (index + 1) * definition.batch]}


def labels_of(names: dict[str, Any], definition: TaskDef, count: int, array: Any) -> list[str]:
    """What people call its elements, by index. Raises ExpressionError."""
    if definition.label is None:
        return [_line(", ".join(f"{key}={_text(value)}" for key, value in array[at].items())) for at in range(count)]
    return [
        _line(_text(resolve_value(definition.label, with_item(names, definition, at, array)))) for at in range(count)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _line(text: str) -> str:
    """One line of printable characters, not too long."""
    text = "".join(c if c.isprintable() else " " for c in text[: LABEL_MAX + 1])
    return text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"
