"""Converts JSON values to the annotated types of the parameters that get them: `day: date`, `config: Config`.

An annotation becomes a Converter once; converting a value either returns an object of that type or raises
TypeMismatch, which says where and why. Nothing is guessed: a text is not a number, a date is not a time. A value
without an annotation, or with one that exists only for type checkers, stays as it is in JSON.

This module has scalars, lists, mappings and unions; typed_classes has all other classes.
"""

import collections
import collections.abc
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

from weft.executors.python_functions.annotations import hints_of, is_union, plain_hint
from weft.executors.python_functions.load import Parameters, WrongArguments

_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Collection,
          collections.abc.Iterable)  # fmt: skip
_SETS = {set: set, frozenset: frozenset, collections.abc.Set: frozenset, collections.abc.MutableSet: set}
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_OPTIONS_SHOWN_MAX = 20
_CLASSES_MAX = 10_000


class TypeMismatch(ValueError):
    """A value that does not have the annotated type. `path` is where in the value, from the outside in."""

    def __init__(self, expected: str, value: Any, reason: str = "") -> None:
        from weft.core.definition.field_types.value_names import describe

        super().__init__()
        self.path = ""
        self.message = f"takes {expected}, " + (reason or f"found {describe(value)}")

    def under(self, member: str) -> "TypeMismatch":
        self.path = member + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path.lstrip('.')} {self.message}" if self.path else f"it {self.message}"


class Converter(NamedTuple):
    """`expected` names the type in messages; `convert` returns an object of it, or raises TypeMismatch."""

    expected: str
    convert: Callable[[Any], Any]


def convert_value(hint: Any, value: Any) -> Any:
    """A JSON value as the annotated type. Raises TypeMismatch."""
    converter = converter_for(hint)
    return value if converter is None else converter.convert(value)


def argument_converter(
    name: str, call: Any, parameters: Parameters
) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Converts a function's arguments, JSON values by name, to their annotated types. It raises WrongArguments."""
    converts: dict[str, Callable[[Any], Any]] = {}
    rest: Converter | None = None
    for parameter, hint in hints_of(call).items():
        converter = converter_for(Optional[hint] if parameter in parameters.default_none else hint)  # noqa: UP045 - of any hint
        if parameter == parameters.rest:
            rest = converter
        elif parameter in parameters.names and converter is not None:
            converts[parameter] = converter.convert
    if not converts and rest is None:
        return lambda arguments: arguments
    known = frozenset(parameters.names)

    def convert(arguments: Mapping[str, Any]) -> dict[str, Any]:
        out = dict(arguments)
        try:
            for argument in arguments:
                if argument in converts:
                    out[argument] = converts[argument](out[argument])
                elif rest is not None and argument not in known:
                    out[argument] = rest.convert(out[argument])
        except TypeMismatch as mismatch:
            mismatch.under(argument)
            raise WrongArguments(f"{name}(): the argument {mismatch}", mismatch) from None
        return out

    return convert


def converter_for(hint: Any) -> Converter | None:
    """None: any JSON value is accepted as it is."""
    if hint is None or hint is type(None):
        return _NONE
    hint = plain_hint(hint)
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return one_of([(option, option) for option in typing.get_args(hint)])
    if is_union(hint):
        return _union(typing.get_args(hint))
    cls = origin or hint
    if not isinstance(cls, type) or cls is object:
        return None
    return _class_converter(cls, typing.get_args(hint))


_CLASSES: dict[type, Converter] = {}


def _class_converter(cls: type, arguments: tuple[Any, ...]) -> Converter | None:
    if cls in SCALARS:
        return SCALARS[cls]
    if cls in _LISTS:
        return list_converter(() if all(map(_is_plain, arguments)) else arguments)
    if cls is tuple:
        return _tuple(arguments)
    if cls in _SETS:
        return constructed(_SETS[cls], list_converter(arguments), "a list")
    if cls in _DICTS:
        return dict_converter(arguments)
    converter = _CLASSES.get(cls)
    if converter is None:
        from weft.executors.python_functions.typed_classes import class_converter

        if len(_CLASSES) > _CLASSES_MAX:
            _CLASSES.clear()
        converter = _CLASSES[cls] = class_converter(cls)
    return converter


# Scalars


def _exact(cls: type, expected: str) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is cls:
            return value
        raise TypeMismatch(expected, value)

    return Converter(expected, convert)


def _to_int(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON has one type of numbers
        return int(value)
    raise TypeMismatch("a whole number", value)


def _to_float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    raise TypeMismatch("a number", value)


_NONE = _exact(type(None), "nothing")
TEXT = _exact(str, "text")
SCALARS: dict[type, Converter] = {
    str: TEXT,
    bool: _exact(bool, "true or false"),
    int: Converter("a whole number", _to_int),
    float: Converter("a number", _to_float),
}


def one_of(options: list[tuple[Any, Any]]) -> Converter:
    """Of an enum or a Literal: pairs of a value and the object that it is converted to. True is not 1 here."""
    from weft.executors.python_functions.json_values import NO_FORM, json_form

    forms = [(value if type(value) in SCALARS else json_form(value), member) for value, member in options]
    forms = [(form, member) for form, member in forms if form is not NO_FORM]
    shown = ", ".join(repr(form) for form, _ in forms[:_OPTIONS_SHOWN_MAX])
    expected = f"one of {shown}" + (" …" if len(forms) > _OPTIONS_SHOWN_MAX else "")

    def convert(value: Any) -> Any:
        for form, member in forms:
            if form == value and type(form) is type(value):
                return member
        raise TypeMismatch(expected, value)

    return Converter(expected, convert)


def constructed(cls: Callable[[Any], Any], inner: Converter, expected: str = "") -> Converter:
    """A class that is constructed from a JSON value of another type."""
    expected = expected or f"{inner.expected} for {with_article(cls)}"

    def convert(value: Any) -> Any:
        try:
            return cls(inner.convert(value))
        except TypeMismatch as mismatch:
            raise TypeMismatch(expected, value) if not mismatch.path else mismatch from None
        except Exception as error:
            raise TypeMismatch(expected, value, f"which says: {first_line(error)}") from error

    return Converter(expected, convert)


# Lists, tuples, mappings


def _is_plain(hint: Any) -> bool:
    """True if no part of the value has to be converted: it is passed as it is. The elements of such lists and
    mappings are not checked: annotations are often a little too narrow there, and large values would take long."""
    hint = plain_hint(hint)
    if is_union(hint) or typing.get_origin(hint) is list:
        return all(_is_plain(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is dict:
        key, value = typing.get_args(hint)
        return plain_hint(key) is str and _is_plain(value)
    return hint in SCALARS or hint in (None, type(None), Any, object, list, dict)


def list_converter(arguments: tuple[Any, ...]) -> Converter:
    element = converter_for(arguments[0]) if arguments else None
    expected = f"a list of {element.expected}" if element else "a list"

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise TypeMismatch(expected, value)
        if element is None:
            return value
        out: list[Any] = []
        try:
            for item in value:
                out.append(element.convert(item))
        except TypeMismatch as mismatch:
            raise mismatch.under(f"[{len(out)}]") from None
        return out

    return Converter(expected, convert)


def _tuple(arguments: tuple[Any, ...]) -> Converter:
    if not arguments or arguments[-1] is Ellipsis:
        return constructed(tuple, list_converter(arguments[:1]), "a list")
    return fixed_tuple(tuple, [(f"[{at}]", converter_for(hint)) for at, hint in enumerate(arguments)])


def fixed_tuple(cls: Callable[[list[Any]], Any], members: list[tuple[str, Converter | None]]) -> Converter:
    """A tuple with a converter for each of its members, which have a name for messages."""
    expected = f"a list of {len(members)}"

    def convert(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(members):
            reason = f"found {len(value)}" if isinstance(value, list) else ""
            raise TypeMismatch(expected, value, reason)
        pairs = zip(members, value, strict=True)
        return cls([convert_member(converter, name, item) for (name, converter), item in pairs])

    return Converter(expected, convert)


def convert_member(converter: Converter | None, name: str, value: Any) -> Any:
    try:
        return value if converter is None else converter.convert(value)
    except TypeMismatch as mismatch:
        raise mismatch.under(name) from None


def dict_converter(arguments: tuple[Any, ...]) -> Converter:
    key_hint, value_hint = arguments if len(arguments) == 2 else (str, None)
    keys = _key_converter(key_hint)
    values = None if not arguments or (keys is None and _is_plain(value_hint)) else converter_for(value_hint)

    def convert(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise TypeMismatch("a mapping", value)
        if keys is None and values is None:
            return value
        return {
            convert_member(keys, f"[{key!r}]", key): convert_member(values, f"[{key!r}]", item)
            for key, item in value.items()
        }

    return Converter("a mapping", convert)


def _key_converter(hint: Any) -> Converter | None:
    """Keys in JSON are texts: a number is parsed from its text."""
    if hint is str:
        return None
    converter = converter_for(hint)
    if plain_hint(hint) not in (int, float) or converter is None:
        return converter

    def convert(value: Any) -> Any:
        try:
            return plain_hint(hint)(value)
        except ValueError:
            raise TypeMismatch(converter.expected, value) from None

    return Converter(converter.expected, convert)


def _union(parts: tuple[Any, ...]) -> Converter | None:
    """The first part, from left to right, that can convert the value; but a number of exactly one part's type
    stays."""
    pairs = [(plain_hint(part), converter_for(part)) for part in parts]
    if any(converter is None for _, converter in pairs):
        return None
    known = [(part, converter) for part, converter in pairs if converter is not None]
    exact = {part: converter.convert for part, converter in known if part in (int, float, bool, type(None), None)}
    expected = " or ".join(dict.fromkeys(converter.expected for _, converter in known))

    def convert(value: Any) -> Any:
        if type(value) in exact:
            return value
        deepest: TypeMismatch | None = None
        for _, converter in known:
            try:
                return converter.convert(value)
            except TypeMismatch as mismatch:
                if len(mismatch.path) > len(deepest.path if deepest else ""):
                    deepest = mismatch
        if deepest is not None and len(known) - len(exact) == 1:
            raise deepest
        raise TypeMismatch(expected, value)

    return Converter(expected, convert)


# Texts for messages


def with_article(cls: Any) -> str:
    name = getattr(cls, "__name__", str(cls))
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def first_line(error: BaseException) -> str:
    return " ".join(str(error).split("\n", 1)[0].split())[:300] or type(error).__name__
