"""Converts Python values to JSON, or raises an error that says why that is impossible and what to return instead.

Dates, enums, dataclasses, models, paths and sets have a JSON form, which typed_values converts back by an annotation.
No library is imported for that: a value of a library's type exists only if its module is loaded.
"""

import enum
import os
import sys
from typing import Any, Final

_DEPTH_MAX = 100
_SCALARS = (str, int, bool, type(None))
_PLAIN = "a dict, a list, a text, a number, a truth value, None, a date, an enum, a dataclass or a model"
#: Libraries whose tables are too large for JSON more often than not.
_TABLES: Final = ("pandas", "polars", "pyarrow", "dask", "pyspark")
#: What `json_form` returns for a value that has none.
NO_FORM: Final[Any] = object()


class WrongValue(TypeError):
    """The value has no JSON form."""


def encode_value(value: Any, bytes_max: int, what: str = "returned") -> bytes:
    """The JSON of a function's return value."""
    if value is None:
        return b"null"
    data = json_bytes(plain_value(value, what), f"{what} a value")
    if len(data) > bytes_max:
        raise WrongValue(
            f"output of {len(data):,} bytes is over the limit of {size_text(bytes_max)};"
            " write a file and return its path"
        )
    return data


def json_bytes(value: Any, what: str) -> bytes:
    import json  # takes milliseconds, which a runner whose functions return nothing saves

    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise WrongValue(f"{what} with half a surrogate pair in it, which UTF-8 cannot hold") from None
    except ValueError as error:  # an integer with more digits than Python's limit for text
        raise WrongValue(f"{what} that cannot be written: {error}") from None


def size_text(size: int) -> str:
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def plain_value(value: Any, what: str) -> Any:
    """The value in JSON's own types. `what` is the first word of the error message."""
    return _plain(value, what, value, "", 0)


def _plain(value: Any, what: str, whole: Any, path: str, depth: int) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if depth > _DEPTH_MAX:
        raise WrongValue(f"{what} {_a(whole)} that is nested deeper than {_DEPTH_MAX} levels, or contains itself")
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise WrongValue(f"{_subject(what, whole, path)} {value}, which JSON cannot hold: return None or a text")
        return float.__add__(value, 0.0)
    if isinstance(value, (list, tuple)):
        return [_plain(item, what, whole, f"{path}[{at}]", depth + 1) for at, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            _key(key, what, whole, path): _plain(item, what, whole, f"{path}[{key!r}]", depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, int):  # of an enum, for example
        return int.__add__(value, 0)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (set, frozenset)):
        return ordered([_plain(item, what, whole, f"{path}{{…}}", depth + 1) for item in value])
    form = json_form(value)
    if form is not NO_FORM:
        return _plain(form, what, whole, path, depth + 1)
    raise WrongValue(f"{_subject(what, whole, path)} {_a(value)}, which JSON cannot hold: {advice(value)}")


def _key(key: Any, what: str, whole: Any, path: str) -> str:
    if type(key) is str:
        return key
    form = key if isinstance(key, str) else json_form(key)
    if isinstance(form, str):
        return str.__str__(form)
    where = f" in {path}" if path else ""
    raise WrongValue(f"{what} {_a(whole)} with the key {key!r}{where}, and keys in JSON are texts: use str({key!r})")


def _subject(what: str, whole: Any, path: str) -> str:
    return f"{what} {_a(whole)} whose {path[:200]} is" if path else what


def _a(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def ordered(items: list[Any]) -> list[Any]:
    """The elements of a set in a fixed order: the set's own differs from process to process."""
    try:
        return sorted(items)
    except TypeError:
        import json

        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def json_form(value: Any) -> Any:
    """The JSON form of the value: texts, numbers, lists and dicts, which may hold further values to convert; NO_FORM
    if it has none. The caller handles JSON's own types and sets."""
    kind = type(value)
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(kind, "__struct_fields__"):
        import msgspec

        try:
            return msgspec.to_builtins(value, order="deterministic", enc_hook=_required_form)
        except (TypeError, ValueError) as error:
            raise WrongValue(f"{_a(value)} has no JSON form: {error}") from None
    if hasattr(kind, "model_validate_json"):  # pydantic
        return value.model_dump(mode="json", by_alias=True)
    if hasattr(kind, "__dataclass_fields__"):
        import dataclasses

        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(kind, "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in kind.__attrs_attrs__}
    if isinstance(value, (bytes, bytearray)):
        from base64 import b64encode

        return b64encode(value).decode()
    if hasattr(kind, "__fspath__"):
        path = os.fspath(value)
        return path if isinstance(path, str) else NO_FORM
    form = _time_form(value)
    return form if form is not NO_FORM else _number_form(value)


def _required_form(value: Any) -> Any:
    form = json_form(value)
    if form is NO_FORM:
        raise TypeError(f"it holds {_a(value)}: {advice(value)}")
    return form


def _time_form(value: Any) -> Any:
    datetime = sys.modules.get("datetime")
    if datetime is None:
        return NO_FORM
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat() if value == value else NO_FORM  # not pandas' NaT, which is unequal to itself
    if isinstance(value, datetime.timedelta):
        from weft.core.definition.field_types.text_formats import write_duration

        return write_duration(value) if value == value else NO_FORM
    return NO_FORM


_NUMPY: Final = {"bool": bool, "bool_": bool, "integer": int, "floating": float, "datetime64": str}


def _number_form(value: Any) -> Any:
    """Of a Decimal, a UUID, or a scalar of numpy."""
    for kind in type(value).__mro__:
        name = kind.__name__
        if kind.__module__ == "numpy" and name in _NUMPY:
            return _NUMPY[name](value)
        if (kind.__module__, name) == ("uuid", "UUID"):
            return str(value)
        if (kind.__module__, name) == ("decimal", "Decimal"):
            return str(value) if value.is_finite() else NO_FORM
    return NO_FORM


def advice(value: Any, verb: str = "return") -> str:
    """What to return or pass instead of a value that has no JSON form."""
    kind = type(value)
    if kind.__module__.partition(".")[0] in _TABLES:
        return (
            f"write it to a file (.to_parquet(path), .write_parquet(path)) and {verb} the path;"
            f" {verb} a small one as rows (.to_dict('records'), .to_dicts())"
        )
    if isinstance(value, memoryview):
        return f"{verb} bytes(…) of it, or write a file and {verb} its path"
    if hasattr(kind, "__await__"):
        return "await it first"
    if hasattr(kind, "tolist"):
        return f"{verb} its .tolist()"
    if hasattr(kind, "__iter__"):
        return f"{verb} list(…) of it"
    return f"{verb} {_PLAIN}"
