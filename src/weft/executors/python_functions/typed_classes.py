"""Converts JSON values to objects of classes: enums, dates, bytes, paths, dataclasses, models and others.

Classes of libraries are recognised by attributes and names, and the libraries are not imported: a runner must start
in hundredths of a second.
"""

import enum
import os
import sys
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

from weft.executors.python_functions.annotations import TEXT_FORMATS, class_hints
from weft.executors.python_functions.typed_values import (
    SCALARS,
    TEXT,
    Converter,
    TypeMismatch,
    constructed,
    convert_member,
    converter_for,
    dict_converter,
    first_line,
    fixed_tuple,
    list_converter,
    one_of,
    with_article,
)

_NUMPY = {"bool": bool, "bool_": bool, "integer": int, "floating": float, "str_": str, "datetime64": str}


def class_converter(cls: type) -> Converter:
    name = (cls.__module__, cls.__qualname__)
    if issubclass(cls, enum.Enum):
        return _enum(cls)
    if name in TEXT_FORMATS:
        return _text_format(cls, TEXT_FORMATS[name])
    if cls in (bytes, bytearray):
        return constructed(cls, Converter("", _to_bytes), "bytes as base64 text")
    if hasattr(cls, "__struct_fields__"):
        return _msgspec(cls)
    if hasattr(cls, "model_validate_json"):
        return _pydantic(cls)
    if hasattr(cls, "__dataclass_fields__") or hasattr(cls, "__attrs_attrs__"):
        return _fields(cls)
    if typing.is_typeddict(cls):
        return _typed_dict(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        hints = class_hints(cls)
        members = [(f".{field}", converter_for(hints.get(field, Any))) for field in cls._fields]
        return fixed_tuple(lambda values: cls(*values), members)
    if issubclass(cls, os.PathLike):
        if cls is os.PathLike:
            from pathlib import Path

            return constructed(Path, TEXT, "text for a path")
        return constructed(cls, TEXT, "text for a path")
    return _other_class(cls)


def _enum(cls: type[enum.Enum]) -> Converter:
    if issubclass(cls, enum.Flag):
        return constructed(cls, SCALARS[int])
    return one_of([(member.value, member) for member in cls.__members__.values()])


def _text_format(cls: type, name: str) -> Converter:
    from weft.core.definition.field_types.text_formats import FORMATS

    parse, expected = FORMATS[name]

    def convert(value: Any) -> Any:
        if name == "decimal" and type(value) in (int, float):
            value = repr(value)
        if type(value) is str:
            try:
                parsed = parse(value)
                return cls(parsed) if type(parsed) is str else parsed
            except ValueError:
                pass
        raise TypeMismatch(expected, value)

    return Converter(expected, convert)


def _to_bytes(value: Any) -> bytes:
    from base64 import b64decode

    try:
        return b64decode(TEXT.convert(value), validate=True)
    except ValueError:
        raise TypeMismatch("bytes as base64 text", value) from None


def _other_class(cls: type) -> Converter:
    numpy = next((_NUMPY[k.__name__] for k in cls.__mro__ if k.__module__ == "numpy" and k.__name__ in _NUMPY), None)
    if numpy is not None:
        return constructed(cls, SCALARS[numpy])
    for scalar in (str, bool, int, float):
        if issubclass(cls, scalar):
            return constructed(cls, SCALARS[scalar])
    if issubclass(cls, (list, dict, set, frozenset, tuple)):
        return constructed(cls, dict_converter(()) if issubclass(cls, dict) else list_converter(()))
    expected = with_article(cls)

    def convert(value: Any) -> Any:
        try:
            if isinstance(value, cls):
                return value
        except TypeError:  # a protocol that only type checkers can check
            return value
        raise TypeMismatch(
            expected, value, "which no JSON value can become: pass what it is made from, such as a path"
        )

    return Converter(expected, convert)


# Classes with fields


def _msgspec(cls: type) -> Converter:
    import msgspec

    expected = with_article(cls)

    def convert_unknown(field_type: type, value: Any) -> Any:
        converter = converter_for(field_type)
        return value if converter is None else converter.convert(value)

    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, cls, dec_hook=convert_unknown)
        except (msgspec.ValidationError, TypeError) as error:
            raise TypeMismatch(expected, value, f"which says: {first_line(error)}") from None

    return Converter(expected, convert)


def _pydantic(cls: Any) -> Converter:
    expected = with_article(cls)

    def convert(value: Any) -> Any:
        import json

        try:
            return cls.model_validate_json(json.dumps(value))
        except ValueError as error:
            first = error.errors()[0] if hasattr(error, "errors") else {"loc": (), "msg": first_line(error)}
            where = ".".join(str(part) for part in first["loc"])
            message = f"{where}: {first['msg']}" if where else first["msg"]
            raise TypeMismatch(expected, value, f"which says: {message}") from None

    return Converter(expected, convert)


class _Fields(NamedTuple):
    converters: dict[str, Converter | None]
    required: list[str]
    parameters: dict[str, str]  # field -> parameter of the constructor, of fields that it accepts


def _fields(cls: Any) -> Converter:
    """Of a dataclass or an attrs class. Its fields are read with the first value: they may refer to the class
    itself."""
    expected = with_article(cls)
    cached: list[_Fields] = []

    def convert(value: Any) -> Any:
        if not cached:
            cached.append(_fields_of(cls))
        (fields,) = cached
        _check_keys(expected, fields.converters, fields.required, value)
        members = {
            fields.parameters[name]: convert_member(fields.converters[name], f".{name}", item)
            for name, item in value.items()
            if name in fields.parameters
        }
        try:
            return cls(**members)
        except Exception as error:
            raise TypeMismatch(expected, value, f"which says: {first_line(error)}") from error

    return Converter(expected, convert)


def _fields_of(cls: Any) -> _Fields:
    hints = class_hints(cls)
    if hasattr(cls, "__attrs_attrs__"):
        nothing = sys.modules["attr"].NOTHING
        all_fields = [(f.name, f.alias, f.init, f.default is nothing) for f in cls.__attrs_attrs__]
    else:
        from dataclasses import MISSING, fields

        all_fields = [
            (f.name, f.name, f.init, f.default is MISSING and f.default_factory is MISSING) for f in fields(cls)
        ]
    return _Fields(
        {name: converter_for(hints.get(name, Any)) for name, _, _, _ in all_fields},
        [name for name, _, init, required in all_fields if init and required],
        {name: parameter for name, parameter, init, _ in all_fields if init},
    )


def _typed_dict(cls: Any) -> Converter:
    """Keys that it does not declare are kept: a TypedDict declares the least that a mapping has."""
    cached: list[dict[str, Converter | None]] = []

    def convert(value: Any) -> Any:
        if not cached:
            cached.append({name: converter_for(hint) for name, hint in class_hints(cls).items()})
        _check_keys("a mapping", None, sorted(cls.__required_keys__), value)
        return {name: convert_member(cached[0].get(name), f"[{name!r}]", item) for name, item in value.items()}

    return Converter("a mapping", convert)


def _check_keys(expected: str, known: Mapping[str, Any] | None, required: list[str], value: Any) -> None:
    if not isinstance(value, dict):
        raise TypeMismatch(expected, value)
    unknown = next((name for name in value if known is not None and name not in known), None)
    if unknown is not None and known is not None:
        from weft.core.definition.suggest import nearest

        suggestion = nearest(unknown, list(known))
        fix = f"did you mean {suggestion}?" if suggestion else f"it has {', '.join(known)}"
        raise TypeMismatch(expected, value, f"which has no {unknown}: {fix}")
    missing = [name for name in required if name not in value]
    if missing:
        raise TypeMismatch(expected, value, f"and found none for {', '.join(missing)}")
