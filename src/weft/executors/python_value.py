"""What a function returned, as JSON; or a sentence that says why not and what to return instead."""

from typing import Any

_DEPTH_MAX = 100
_SCALARS = (str, int, bool, type(None))
_PLAIN = "return a dict, a list, a text, a number, a truth value or None"


class WrongValue(TypeError):
    """JSON cannot hold it."""


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
    import json  # takes milliseconds, which a runner that returns nothing can do without

    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise WrongValue(f"{what} with half a surrogate pair in it, which UTF-8 cannot hold") from None
    except ValueError as error:  # an integer of more digits than Python is willing to write
        raise WrongValue(f"{what} that cannot be written: {error}") from None


def size_text(size: int) -> str:
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def plain_value(value: Any, what: str) -> Any:
    """The value in JSON's own types, tuples as lists. `what` begins the sentence of a refusal."""
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
    if isinstance(value, int):  # of an enumeration, say
        return int.__add__(value, 0)
    if isinstance(value, str):
        return str.__str__(value)
    raise WrongValue(f"{_subject(what, whole, path)} {_a(value)}, which JSON cannot hold: {_advice(value)}")


def _key(key: Any, what: str, whole: Any, path: str) -> str:
    if type(key) is str:
        return key
    if isinstance(key, str):
        return str.__str__(key)
    where = f" in {path}" if path else ""
    raise WrongValue(f"{what} {_a(whole)} with the key {key!r}{where}, and keys in JSON are texts: use str({key!r})")


def _subject(what: str, whole: Any, path: str) -> str:
    return f"{what} {_a(whole)} whose {path[:200]} is" if path else what


def _a(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def _advice(value: Any) -> str:
    """Told by what it offers, so that nothing need be imported to know it."""
    for attribute, advice in (
        ("__dataclass_fields__", "return dataclasses.asdict(…) of it"),
        ("__struct_fields__", "return msgspec.to_builtins(…) of it"),
        ("model_dump", "return its .model_dump(mode='json')"),
        ("isoformat", "return its .isoformat()"),
        ("__fspath__", "return str(…) of it"),
        ("tolist", "return its .tolist()"),
        ("as_tuple", "return str(…) or float(…) of it"),
        ("__await__", "await it first"),
    ):
        if hasattr(value, attribute):
            return advice
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "decode it, or write a file and return its path"
    if isinstance(value, (set, frozenset)):
        return "return sorted(…) of it"
    if hasattr(value, "__iter__"):
        return "return list(…) of it"
    return _PLAIN
