"""What is wrong with a request, for the people who sent it: which part of it, what was expected, and the fix.

msgspec tells that as one English sentence (`Object contains unknown field`), and in no other form: it is parsed here,
and told in our words with the names that the operation takes.
"""

import enum
import re
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from weft.core.definition.suggest import nearest
from weft.operations.declare import Operation
from weft.operations.errors import ApiError

SHOWN_MAX = 64  # characters of what was sent
WORDS = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "object": "an object",
    "array": "a list", "null": "null",
}  # fmt: skip
_AT = re.compile(r"(?:`key` in )?`\$\.?(?P<path>.*)`")
_NAMED = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>.*)`", re.DOTALL)
_PART = re.compile(r"[^.\[\]]+|\[[^\]]*\]")


class Mistake(NamedTuple):
    path: str
    message: str
    fix: str | None = None


def body_error(error: msgspec.ValidationError, of: Any, code: str = "body", prefix: str = "") -> ApiError:
    """Of a body that should have been an `of`. `prefix` goes before the detail."""
    mistake = _of_text(str(error), of)
    detail = f"{mistake.path}: {mistake.message}" if mistake.path else mistake.message
    return ApiError(code, f"{prefix}{detail}", mistake.fix, errors=[mistake._asdict()])


def parameter_error(
    error: msgspec.ValidationError, operation: Operation[Any, Any], texts: Mapping[str, Any]
) -> ApiError:
    """Of a path, a query or headers, where these texts stood."""
    mistake = _of_parameter(str(error), operation, texts)
    return ApiError("parameters", f"{mistake.path}: {mistake.message}", mistake.fix, errors=[mistake._asdict()])


def one_of(found: str, known: list[str]) -> tuple[str, str | None]:
    """(message, fix) for a word that is none of those known."""
    meant = nearest(found, known)
    return f"expected one of {', '.join(known)}, found {found[:SHOWN_MAX]!r}", meant and f"did you mean {meant!r}?"


def _of_text(text: str, of: Any) -> Mistake:
    what, _, place = text.partition(" - at ")
    at = _AT.fullmatch(place)
    path = "" if at is None else at["path"]
    if "`key` in" in place:
        path = f"a key of {path}"
    kind = _kind_at(of, path)
    named = _NAMED.fullmatch(what)
    if named is not None:
        name = named["name"][:SHOWN_MAX]
        known = _names_of(kind)
        if named["what"].startswith("missing"):
            return Mistake(path, f"{name!r} is missing", f"it takes {', '.join(known)}" if known else None)
        meant = nearest(name, known)
        fix = f"did you mean {meant!r}?" if meant else f"it takes {', '.join(known)}" if known else None
        return Mistake(path, f"there is no {name!r} here", fix)
    if what.startswith("Invalid enum value "):
        found = what.removeprefix("Invalid enum value ").strip("'")
        return Mistake(path, *one_of(found, _choices_of(kind)))
    return Mistake(path, _in_words(what))


def _in_words(what: str) -> str:
    """``Expected `int`, got `str` `` → expected a whole number, found text."""
    text = re.sub(
        r"`([a-z |]+)`", lambda m: " or ".join(WORDS.get(part, part) for part in m[1].split(" | ")), what, count=2
    )
    return text.replace("Expected", "expected", 1).replace(", got ", ", found ", 1)


def _kind_at(of: Any, path: str) -> Any:
    """The type of what stands at a path, as far as it is known."""
    for part in _PART.findall(path):
        of = _plain(of)
        if isinstance(of, type) and issubclass(of, msgspec.Struct):
            of = next((f.type for f in msgspec.structs.fields(of) if f.encode_name == part), None)
        elif part.startswith("[") and get_args(of):
            of = get_args(of)[-1]
        else:
            return None
    return _plain(of)


def _plain(of: Any) -> Any:
    """Without annotations, and without null beside it."""
    while get_origin(of) is Annotated:
        of = get_args(of)[0]
    if get_origin(of) in (Union, types.UnionType):
        parts = [part for part in get_args(of) if part is not types.NoneType]
        return _plain(parts[0]) if len(parts) == 1 else of
    return of


def _names_of(kind: Any) -> list[str]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [field.encode_name for field in msgspec.structs.fields(kind)]
    return []


def _choices_of(kind: Any) -> list[str]:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [str(member.value) for member in kind]
    return [str(choice) for choice in get_args(kind)] if get_origin(kind) is Literal else []


_LIMIT = re.compile(r"Expected `int` (?P<sign>[<>]=) (?P<bound>-?[0-9]+)")


def _of_parameter(text: str, operation: Operation[Any, Any], texts: Mapping[str, Any]) -> Mistake:
    what, _, place = text.partition(" - at ")
    at = _AT.fullmatch(place)
    named = _NAMED.fullmatch(what)
    name = named["name"] if named is not None else "" if at is None else at["path"].partition("[")[0]
    field = next((one for one in operation.fields if one.name == name), None)
    if field is None:
        return _of_text(text, operation.parameters_type)
    fix = None if field.description is None else f"{field.wire_name} is: {field.description}"
    if named is not None:
        return Mistake(field.wire_name, "it is missing", fix)
    if what.startswith("Invalid enum value "):
        found = what.removeprefix("Invalid enum value ").strip("'")
        kind = _kind_at(operation.parameters_type, "" if at is None else at["path"])
        return Mistake(field.wire_name, *one_of(found, _choices_of(kind)))
    value = texts.get(name, "")
    found = repr(str(value if isinstance(value, str) else ", ".join(value))[:SHOWN_MAX])
    limit = _LIMIT.fullmatch(what)
    if limit is not None:
        most = "at most" if limit["sign"] == "<=" else "at least"
        return Mistake(field.wire_name, f"expected {most} {limit['bound']}, found {found}", fix)
    if "matching regex" in what:
        pattern = what.partition("matching regex ")[2].strip("'")
        return Mistake(field.wire_name, f"{found} does not match {pattern}", fix)
    expected = _in_words(what).partition(", found")[0]
    return Mistake(field.wire_name, f"{expected}, found {found}", fix)
