"""Signatures: the inputs that the parameters of a flow declare, and the arguments of a call by name."""

import collections.abc
import enum
import inspect
import os
import typing
from collections.abc import Callable, Mapping
from typing import Any

from weft.authoring.code_positions import definition_position, flow_error
from weft.executors.python_functions.annotations import TEXT_FORMATS, is_union, plain_hint
from weft.sdk.tracing import document_value

_TYPES: dict[Any, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", tuple: "array", dict: "object",
    set: "array", frozenset: "array", bytes: "string", bytearray: "string",
    collections.abc.Sequence: "array", collections.abc.Iterable: "array", collections.abc.Collection: "array",
    collections.abc.Set: "array", collections.abc.Mapping: "object",
}  # fmt: skip
_NUMPY = {"bool": "boolean", "bool_": "boolean", "integer": "integer", "floating": "number"}
_FIX = "use str, int, float, bool, list, dict, Literal[…], a date, an enum, a path, a dataclass or a model"
#: Attributes by which dataclasses, attrs classes, msgspec Structs and pydantic models are recognized.
_OBJECTS = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "model_validate_json")
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def flow_inputs(function: Callable[..., Any]) -> dict[str, dict[str, Any]]:
    """The inputs that the parameters of a flow declare."""
    position = definition_position(function)
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise flow_error(
            f"the annotations of {function.__name__} cannot be resolved: {error}",
            "import the names that they use",
            position,
        ) from None
    out = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in _VARIADIC:
            raise flow_error(
                f"an input of a flow needs a name, and {parameter} has none",
                "list the parameters one by one",
                position,
            )
        declared = _declared(function, name, hints.get(name, inspect.Parameter.empty), parameter.default)
        if parameter.default is not inspect.Parameter.empty:
            declared["default"] = document_value(None, parameter.default, f"the default of {name}", data=False)
        out[name] = declared
    return out


def _declared(function: Callable[..., Any], name: str, hint: Any, default: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if typing.get_origin(hint) is typing.Annotated:
        description = next((extra for extra in hint.__metadata__ if isinstance(extra, str)), None)
        if description is not None:
            out["description"] = description
        hint = hint.__origin__
    position = definition_position(function)
    if hint is inspect.Parameter.empty:
        if default is inspect.Parameter.empty or default is None:
            raise flow_error(
                f"the input {name!r} of {function.__name__} has no type", f"annotate it: {_FIX}", position
            )
        hint = type(default)
    optional, hint = _without_none(plain_hint(hint))
    if optional and default is inspect.Parameter.empty:
        raise flow_error(
            f"the input {name!r} may be None, so it needs a default", f"write {name}: … = None", position
        )
    declared = _type_of(hint)
    if declared is None:
        shown = getattr(hint, "__name__", str(hint))
        raise flow_error(f"the input {name!r} of {function.__name__} cannot be a {shown}", _FIX, position)
    if "enum" in declared:
        declared["enum"] = [document_value(None, one, f"a value of {name}", data=False) for one in declared["enum"]]
        declared["type"] = _TYPES.get(type(declared["enum"][0]), "string")
    return {**declared, **out}


def _type_of(hint: Any) -> dict[str, Any] | None:
    """The declaration of an input with this annotation; None if no JSON value can become such an object."""
    hint = plain_hint(hint)
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return {"type": "", "enum": [option for option in typing.get_args(hint) if option is not None]}
    if is_union(hint):
        parts = [_type_of(part) for part in typing.get_args(hint)]
        kinds = {part["type"] if part is not None and "enum" not in part else None for part in parts}
        if kinds == {"integer", "number"}:
            return {"type": "number"}
        return {"type": kinds.pop()} if len(kinds) == 1 and None not in kinds else None
    type_ = origin or hint
    if type_ in _TYPES:
        return {"type": _TYPES[type_]}
    return _class_type(type_) if isinstance(type_, type) else None


def _class_type(type_: type) -> dict[str, Any] | None:
    if issubclass(type_, enum.Enum):
        return {"type": "", "enum": [member.value for member in type_]}
    if (type_.__module__, type_.__qualname__) in TEXT_FORMATS:
        return {"type": "string", "format": TEXT_FORMATS[type_.__module__, type_.__qualname__]}
    if typing.is_typeddict(type_) or any(hasattr(type_, mark) for mark in _OBJECTS):
        return {"type": "object"}
    if issubclass(type_, os.PathLike):
        return {"type": "string"}
    for base in type_.__mro__:
        if base in _TYPES or (base.__module__ == "numpy" and base.__name__ in _NUMPY):
            return {"type": _TYPES.get(base) or _NUMPY[base.__name__]}
    return None


def _without_none(hint: Any) -> tuple[bool, Any]:
    """(True, X) for `X | None`."""
    if is_union(hint):
        rest = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(rest) < len(typing.get_args(hint)):
            return True, typing.Union[tuple(rest)]  # noqa: UP007 - the number of types varies
    if typing.get_origin(hint) is typing.Literal:
        return None in typing.get_args(hint), hint
    return False, hint


def named_arguments(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by parameter name, checked as Python does; defaults are not filled in."""
    name = function.__name__
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise flow_error(f"the parameters of {name} are not known", "write a def that calls it") from None
    try:
        bound = signature.bind(*arguments, **named)
    except TypeError as error:
        raise flow_error(f"{name}{signature}: {error}", "pass the arguments that it takes") from None
    out: dict[str, Any] = {}
    for parameter_name, value in bound.arguments.items():
        parameter = signature.parameters[parameter_name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            out.update(value)
        elif parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise flow_error(
                f"{name}{signature}: arguments of a task are passed by name, and {parameter} has none",
                "use a list, or a parameter with a name",
            )
        else:
            out[parameter_name] = value
    return out
