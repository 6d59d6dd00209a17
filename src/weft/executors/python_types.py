"""JSON values as Python objects, by the annotation of the parameter that gets them: `day: date`, `config: Config`.

An annotation becomes a Kind once; reading a value with it either gives an object of that type or raises Misfit, which
says where and why. Nothing is guessed: a text is no number, a date is no time. What has no annotation, or one that
only type checkers can see, is handed over as JSON has it.

Libraries are told by names of theirs, and not imported: a runner is there in hundredths of a second.
"""

import collections
import collections.abc
import enum
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

from weft.executors.python_load import Parameters, WrongArguments

_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Collection,
          collections.abc.Iterable)  # fmt: skip
_SETS = {set: set, frozenset: frozenset, collections.abc.Set: frozenset, collections.abc.MutableSet: set}
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_QUALIFIERS = ("Annotated", "Final", "ClassVar", "Required", "NotRequired", "ReadOnly")
#: Formats of texts, by the module and name of the class that they are read to.
FORMS = {
    ("datetime", "date"): "date",
    ("datetime", "datetime"): "date-time",
    ("datetime", "time"): "time",
    ("datetime", "timedelta"): "duration",
    ("uuid", "UUID"): "uuid",
    ("decimal", "Decimal"): "decimal",
}
_NUMPY = {"bool": bool, "bool_": bool, "integer": int, "floating": float, "str_": str, "datetime64": str}


class Misfit(ValueError):
    """A value that is not of the annotated type. `path` is where in the value, from the outside in."""

    def __init__(self, expected: str, value: Any, reason: str = "") -> None:
        from weft.core.definition.problems import describe as found

        super().__init__()
        self.path = ""
        self.says = f"takes {expected}, " + (reason or f"found {found(value)}")

    def under(self, member: str) -> "Misfit":
        self.path = member + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path.lstrip('.')} {self.says}" if self.path else f"it {self.says}"


class Kind(NamedTuple):
    """How a message calls the type, and how a JSON value becomes an object of it."""

    expected: str
    read: Callable[[Any], Any]


def hints_of(call: Any) -> dict[str, Any]:
    """The annotations of a function that exist when it runs; those under `if TYPE_CHECKING:` do not."""
    for _ in range(100):
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
        out: dict[str, Any] = {}
        for name, annotation in annotations.items():
            alone = types.SimpleNamespace(__annotations__={name: annotation})
            try:
                out |= typing.get_type_hints(alone, getattr(call, "__globals__", {}), include_extras=True)
            except Exception:
                continue
        return out


def argument_reader(name: str, call: Any, parameters: Parameters) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """For a function's arguments, JSON values by name: what its annotations say. It raises WrongArguments."""
    reads: dict[str, Callable[[Any], Any]] = {}
    rest: Kind | None = None
    for parameter, hint in hints_of(call).items():
        kind = kind_of(Optional[hint] if parameter in parameters.none else hint)  # noqa: UP045 - of any hint
        if parameter == parameters.rest:
            rest = kind
        elif parameter in parameters.names and kind is not None:
            reads[parameter] = kind.read
    if not reads and rest is None:
        return lambda arguments: arguments
    known = frozenset(parameters.names)

    def read(arguments: Mapping[str, Any]) -> dict[str, Any]:
        out = dict(arguments)
        try:
            for argument in arguments:
                if argument in reads:
                    out[argument] = reads[argument](out[argument])
                elif rest is not None and argument not in known:
                    out[argument] = rest.read(out[argument])
        except Misfit as misfit:
            misfit.under(argument)
            raise WrongArguments(f"{name}(): the argument {misfit}", misfit) from None
        return out

    return read


def kind_of(hint: Any) -> Kind | None:
    """None: whatever JSON holds will do."""
    if hint is None or hint is type(None):
        return _NONE
    hint = plain_hint(hint)
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return _one_of([(option, option) for option in typing.get_args(hint)])
    if is_union(hint):
        return _union(typing.get_args(hint))
    made = origin or hint
    if not isinstance(made, type) or made is object:
        return None
    return _of_class(made, typing.get_args(hint))


def is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def plain_hint(hint: Any) -> Any:
    """Without Annotated and its like, names for types, and NewType."""
    for _ in range(100):
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


# Scalars


def _exact(kind: type, expected: str) -> Kind:
    def read(value: Any) -> Any:
        if type(value) is kind:
            return value
        raise Misfit(expected, value)

    return Kind(expected, read)


def _read_int(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON has one kind of numbers
        return int(value)
    raise Misfit("a whole number", value)


def _read_float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    raise Misfit("a number", value)


_NONE = _exact(type(None), "nothing")
_TEXT = _exact(str, "text")
_SCALARS: dict[type, Kind] = {
    str: _TEXT,
    bool: _exact(bool, "true or false"),
    int: Kind("a whole number", _read_int),
    float: Kind("a number", _read_float),
}


def _one_of(options: list[tuple[Any, Any]]) -> Kind:
    """Enums and Literal: JSON values, and what each stands for. True is not 1 here."""
    from weft.executors.python_value import NO_FORM, json_form

    forms = [(form if type(form) in _SCALARS else json_form(form), meant) for form, meant in options]
    forms = [(form, meant) for form, meant in forms if form is not NO_FORM]
    expected = "one of " + ", ".join(repr(form) for form, _ in forms[:20]) + (" …" if len(forms) > 20 else "")

    def read(value: Any) -> Any:
        for form, meant in forms:
            if form == value and type(form) is type(value):
                return meant
        raise Misfit(expected, value)

    return Kind(expected, read)


def _enum(made: type[enum.Enum]) -> Kind:
    if issubclass(made, enum.Flag):
        return _built(made, _SCALARS[int])
    return _one_of([(member.value, member) for member in made.__members__.values()])


def _built(made: Callable[[Any], Any], kind: Kind, expected: str = "") -> Kind:
    """A class that is made from a JSON value of some other type."""
    expected = expected or f"{kind.expected} for {_a(made)}"

    def read(value: Any) -> Any:
        try:
            return made(kind.read(value))
        except Misfit as misfit:
            raise Misfit(expected, value) if not misfit.path else misfit from None
        except Exception as error:
            raise Misfit(expected, value, f"which says: {_line(error)}") from error

    return Kind(expected, read)


def _form(made: type, name: str) -> Kind:
    from weft.core.definition.text_formats import FORMATS

    parse, expected = FORMATS[name]

    def read(value: Any) -> Any:
        if name == "decimal" and type(value) in (int, float):
            value = repr(value)
        if type(value) is str:
            try:
                found = parse(value)
                return made(found) if type(found) is str else found
            except ValueError:
                pass
        raise Misfit(expected, value)

    return Kind(expected, read)


def _read_bytes(value: Any) -> bytes:
    from base64 import b64decode

    try:
        return b64decode(_TEXT.read(value), validate=True)
    except ValueError:
        raise Misfit("bytes as base64 text", value) from None


# Lists, sets, tuples, dicts


def _items(kind: Kind | None) -> Callable[[Any], list[Any]]:
    expected = f"a list of {kind.expected}" if kind else "a list"

    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Misfit(expected, value)
        if kind is None:
            return value
        out: list[Any] = []
        try:
            for item in value:
                out.append(kind.read(item))
        except Misfit as misfit:
            raise misfit.under(f"[{len(out)}]") from None
        return out

    return read


def _is_plain(hint: Any) -> bool:
    """Nothing in it has to become an object: JSON values are handed over as they are. What is in lists and mappings
    of such is not looked at: annotations are often a little too narrow there, and large values would take long."""
    hint = plain_hint(hint)
    if is_union(hint) or typing.get_origin(hint) is list:
        return all(_is_plain(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is dict:
        key, value = typing.get_args(hint)
        return plain_hint(key) is str and _is_plain(value)
    return hint in _SCALARS or hint in (None, type(None), Any, object, list, dict)


def _list(arguments: tuple[Any, ...]) -> Kind:
    kind = kind_of(arguments[0]) if arguments else None
    return Kind(f"a list of {kind.expected}" if kind else "a list", _items(kind))


def _tuple(arguments: tuple[Any, ...]) -> Kind:
    if not arguments or arguments[-1] is Ellipsis:
        return _built(tuple, _list(arguments[:1]), "a list")
    return _row(tuple, [(f"[{at}]", kind_of(hint)) for at, hint in enumerate(arguments)])


def _row(made: Callable[[list[Any]], Any], members: list[tuple[str, Kind | None]]) -> Kind:
    expected = f"a list of {len(members)}"

    def read(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(members):
            reason = f"found {len(value)}" if isinstance(value, list) else ""
            raise Misfit(expected, value, reason)
        return made([read_member(kind, name, item) for (name, kind), item in zip(members, value, strict=True)])

    return Kind(expected, read)


def read_member(kind: Kind | None, name: str, value: Any) -> Any:
    try:
        return value if kind is None else kind.read(value)
    except Misfit as misfit:
        raise misfit.under(name) from None


def _dict(arguments: tuple[Any, ...]) -> Kind:
    key_hint, value_hint = arguments if len(arguments) == 2 else (str, None)
    keys = _key_kind(key_hint)
    values = None if not arguments or (keys is None and _is_plain(value_hint)) else kind_of(value_hint)

    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise Misfit("a mapping", value)
        if keys is None and values is None:
            return value
        return {
            read_member(keys, f"[{key!r}]", key): read_member(values, f"[{key!r}]", item)
            for key, item in value.items()
        }

    return Kind("a mapping", read)


def _key_kind(hint: Any) -> Kind | None:
    """Keys in JSON are texts: a number is read from one."""
    if hint is str:
        return None
    kind = kind_of(hint)
    if plain_hint(hint) not in (int, float) or kind is None:
        return kind

    def read(value: Any) -> Any:
        try:
            return plain_hint(hint)(value)
        except ValueError:
            raise Misfit(kind.expected, value) from None

    return Kind(kind.expected, read)


def _union(parts: tuple[Any, ...]) -> Kind | None:
    """From left to right, the first that can read it; a number goes to the type that is exactly its own first."""
    kinds = [(plain_hint(part), kind_of(part)) for part in parts]
    if any(kind is None for _, kind in kinds):
        return None
    known = [(part, kind) for part, kind in kinds if kind is not None]
    exact = {part: kind.read for part, kind in known if part in (int, float, bool, type(None), None)}
    expected = " or ".join(dict.fromkeys(kind.expected for _, kind in known))

    def read(value: Any) -> Any:
        if type(value) in exact:
            return value
        deepest: Misfit | None = None
        for _, kind in known:
            try:
                return kind.read(value)
            except Misfit as misfit:
                if len(misfit.path) > len(deepest.path if deepest else ""):
                    deepest = misfit
        if deepest is not None and len(known) - len(exact) == 1:
            raise deepest
        raise Misfit(expected, value)

    return Kind(expected, read)


# Classes

_CLASSES: dict[type, Kind] = {}


def _of_class(made: type, arguments: tuple[Any, ...]) -> Kind | None:
    if made in _SCALARS:
        return _SCALARS[made]
    if made in _LISTS:
        return _list(() if all(map(_is_plain, arguments)) else arguments)
    if made is tuple:
        return _tuple(arguments)
    if made in _SETS:
        return _built(_SETS[made], _list(arguments), "a list")
    if made in _DICTS:
        return _dict(arguments)
    known = _CLASSES.get(made)
    if known is None:
        if len(_CLASSES) > 10_000:
            _CLASSES.clear()
        known = _CLASSES[made] = _class_kind(made)
    return known


def _class_kind(made: type) -> Kind:
    name = (made.__module__, made.__qualname__)
    if issubclass(made, enum.Enum):
        return _enum(made)
    if name in FORMS:
        return _form(made, FORMS[name])
    if made in (bytes, bytearray):
        return _built(made, Kind("", _read_bytes), "bytes as base64 text")
    if hasattr(made, "__struct_fields__"):
        return _msgspec(made)
    if hasattr(made, "model_validate_json"):
        return _pydantic(made)
    if hasattr(made, "__dataclass_fields__") or hasattr(made, "__attrs_attrs__"):
        return _fields(made)
    if typing.is_typeddict(made):
        return _typed_dict(made)
    if issubclass(made, tuple) and hasattr(made, "_fields"):
        hints = _class_hints(made)
        members = [(f".{field}", kind_of(hints.get(field, Any))) for field in made._fields]
        return _row(lambda values: made(*values), members)
    if issubclass(made, os.PathLike):
        if made is os.PathLike:
            from pathlib import Path

            return _built(Path, _TEXT, "text for a path")
        return _built(made, _TEXT, "text for a path")
    return _other_class(made)


def _other_class(made: type) -> Kind:
    numpy = next((_NUMPY[k.__name__] for k in made.__mro__ if k.__module__ == "numpy" and k.__name__ in _NUMPY), None)
    if numpy is not None:
        return _built(made, _SCALARS[numpy])
    for base in (str, bool, int, float):
        if issubclass(made, base):
            return _built(made, _SCALARS[base])
    if issubclass(made, (list, dict, set, frozenset, tuple)):
        return _built(made, _dict(()) if issubclass(made, dict) else _list(()))
    expected = _a(made)

    def read(value: Any) -> Any:
        try:
            if isinstance(value, made):
                return value
        except TypeError:  # a protocol that only type checkers can check
            return value
        raise Misfit(expected, value, "which no JSON value can become: pass what it is made from, such as a path")

    return Kind(expected, read)


def _msgspec(made: type) -> Kind:
    import msgspec

    expected = _a(made)

    def hook(kind: type, value: Any) -> Any:
        reader = kind_of(kind)
        return value if reader is None else reader.read(value)

    def read(value: Any) -> Any:
        try:
            return msgspec.convert(value, made, dec_hook=hook)
        except (msgspec.ValidationError, TypeError) as error:
            raise Misfit(expected, value, f"which says: {_line(error)}") from None

    return Kind(expected, read)


def _pydantic(made: Any) -> Kind:
    expected = _a(made)

    def read(value: Any) -> Any:
        import json

        try:
            return made.model_validate_json(json.dumps(value))
        except ValueError as error:
            first = error.errors()[0] if hasattr(error, "errors") else {"loc": (), "msg": _line(error)}
            where = ".".join(str(part) for part in first["loc"])
            said = f"{where}: {first['msg']}" if where else first["msg"]
            raise Misfit(expected, value, f"which says: {said}") from None

    return Kind(expected, read)


class _Fields(NamedTuple):
    kinds: dict[str, Kind | None]
    needed: list[str]
    names: dict[str, str]  # of the constructor's parameters; what it does not take is left out


def _fields(made: Any) -> Kind:
    """Of a dataclass or an attrs class. Its fields are looked at when the first value comes: they may name itself."""
    expected = _a(made)
    known: list[_Fields] = []

    def read(value: Any) -> Any:
        if not known:
            known.append(_fields_of(made))
        (fields,) = known
        _check_keys(expected, fields.kinds, fields.needed, value)
        members = {
            fields.names[name]: read_member(fields.kinds[name], f".{name}", item)
            for name, item in value.items()
            if name in fields.names
        }
        try:
            return made(**members)
        except Exception as error:
            raise Misfit(expected, value, f"which says: {_line(error)}") from error

    return Kind(expected, read)


def _fields_of(made: Any) -> _Fields:
    hints = _class_hints(made)
    if hasattr(made, "__attrs_attrs__"):
        nothing = sys.modules["attr"].NOTHING
        all_fields = [(f.name, f.alias, f.init, f.default is nothing) for f in made.__attrs_attrs__]
    else:
        from dataclasses import MISSING, fields

        all_fields = [
            (f.name, f.name, f.init, f.default is MISSING and f.default_factory is MISSING) for f in fields(made)
        ]
    return _Fields(
        {name: kind_of(hints.get(name, Any)) for name, _, _, _ in all_fields},
        [name for name, _, init, needed in all_fields if init and needed],
        {name: parameter for name, parameter, init, _ in all_fields if init},
    )


def _typed_dict(made: Any) -> Kind:
    """Keys that it does not name are kept: a TypedDict says what is there at least."""
    known: list[dict[str, Kind | None]] = []

    def read(value: Any) -> Any:
        if not known:
            known.append({name: kind_of(hint) for name, hint in _class_hints(made).items()})
        _check_keys("a mapping", None, sorted(made.__required_keys__), value)
        return {name: read_member(known[0].get(name), f"[{name!r}]", item) for name, item in value.items()}

    return Kind("a mapping", read)


def _check_keys(expected: str, known: Mapping[str, Any] | None, needed: list[str], value: Any) -> None:
    if not isinstance(value, dict):
        raise Misfit(expected, value)
    unknown = next((name for name in value if known is not None and name not in known), None)
    if unknown is not None and known is not None:
        from weft.core.definition.suggest import nearest

        meant = nearest(unknown, list(known))
        fix = f"did you mean {meant}?" if meant else f"it has {', '.join(known)}"
        raise Misfit(expected, value, f"which has no {unknown}: {fix}")
    missing = [name for name in needed if name not in value]
    if missing:
        raise Misfit(expected, value, f"and found none for {', '.join(missing)}")


def read_as(hint: Any, value: Any) -> Any:
    """A JSON value as what an annotation says. Raises Misfit."""
    kind = kind_of(hint)
    return value if kind is None else kind.read(value)


def _class_hints(made: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(made, include_extras=True)
    except Exception:
        return {}


def _a(made: Any) -> str:
    name = getattr(made, "__name__", str(made))
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split("\n", 1)[0].split())[:300] or type(error).__name__
