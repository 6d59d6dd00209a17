"""Reads the type annotations of functions and classes, as far as they exist at run time."""

import types
import typing
from typing import Any

_QUALIFIERS = ("Annotated", "Final", "ClassVar", "Required", "NotRequired", "ReadOnly")
_WRAPPERS_MAX = 100
#: Formats of JSON texts, by the module and name of the class that they are converted to.
TEXT_FORMATS = {
    ("datetime", "date"): "date",
    ("datetime", "datetime"): "date-time",
    ("datetime", "time"): "time",
    ("datetime", "timedelta"): "duration",
    ("uuid", "UUID"): "uuid",
    ("decimal", "Decimal"): "decimal",
}


def hints_of(call: Any) -> dict[str, Any]:
    """The annotations of a function that exist at run time; those under `if TYPE_CHECKING:` do not."""
    for _ in range(_WRAPPERS_MAX):
        inner = getattr(call, "__wrapped__", None) or getattr(call, "func", None)
        if inner is None or not callable(inner):
            break
        call = inner
    if not hasattr(call, "__annotations__"):
        call = type(call).__call__
    annotations = getattr(call, "__annotations__", None)
    if not annotations:
        return {}
    try:
        return typing.get_type_hints(call, include_extras=True)
    except Exception:
        return _resolvable_hints(annotations, getattr(call, "__globals__", {}))


def _resolvable_hints(annotations: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """One by one, without those that cannot be resolved."""
    hints: dict[str, Any] = {}
    for name, annotation in annotations.items():
        single = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= typing.get_type_hints(single, names, include_extras=True)
        except Exception:
            continue
    return hints


def class_hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:
        return {}


def is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def plain_hint(hint: Any) -> Any:
    """The type behind Annotated and other qualifiers, type aliases, and NewType."""
    for _ in range(_WRAPPERS_MAX):
        origin = typing.get_origin(hint)
        if getattr(origin, "__name__", getattr(origin, "_name", None)) in _QUALIFIERS or origin is typing.Annotated:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(origin or hint).__name__ == "TypeAliasType":
            hint = (origin or hint).__value__
        else:
            break
    return hint
