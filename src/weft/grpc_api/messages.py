"""Messages to and from what operations take and give, by the names of their fields.

A field `x_json` holds the JSON of `x`. What a message leaves out is left out of the values: the operation has its own
defaults and says what is missing.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from weft.operations.errors import ApiError

_JSON = "_json"


def parsed(kind: Any, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ApiError("body", f"this is no {kind.DESCRIPTOR.full_name}: {error}", "weft.proto has it") from None


def values_of(message: Any) -> dict[str, Any]:
    """The fields that are set."""
    return {field.name.removesuffix(_JSON): _value(field, value) for field, value in message.ListFields()}


def _value(field: Any, value: Any) -> Any:
    if field.name.endswith(_JSON):
        return json_in(field.name, value)
    if not field.is_repeated:
        return value if field.message_type is None else values_of(value)
    if field.message_type is None:
        return list(value)
    return dict(value) if _is_map(field) else [values_of(one) for one in value]


def json_in(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiError("body", f"{name} is not JSON: {error}") from None


def object_in(name: str, text: str) -> dict[str, Any]:
    """An object, or nothing."""
    found = json_in(name, text) if text else {}
    if not isinstance(found, dict):
        raise ApiError("body", f"{name} must be a JSON object")
    return found


def message_of(kind: Any, value: Any) -> Any:
    """`value` has an attribute for each field."""
    given = {}
    for name, attribute, encode in _fields(kind):
        found = getattr(value, attribute)
        if found is not None:
            given[name] = found if encode is None else encode(found)
    return kind(**given)


@cache
def _fields(kind: Any) -> list[tuple[str, str, Callable[[Any], Any] | None]]:
    """(name, attribute, how its value is encoded). Asking descriptors each time took half of a list's cost."""
    return [(field.name, field.name.removesuffix(_JSON), _encoder(field)) for field in kind.DESCRIPTOR.fields]


def _encoder(field: Any) -> Callable[[Any], Any] | None:
    if field.name.endswith(_JSON):
        return lambda found: msgspec.json.encode(found).decode()
    if field.message_type is None or _is_map(field):
        return None
    inner = field.message_type._concrete_class
    if field.is_repeated:
        return lambda found: [message_of(inner, one) for one in found]
    return lambda found: message_of(inner, found)


def _is_map(field: Any) -> bool:
    return bool(field.message_type.GetOptions().map_entry)
