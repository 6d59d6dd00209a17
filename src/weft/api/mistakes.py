"""What is wrong with a request, in words for whoever wrote it: which part of it, what was expected, and the fix.

The libraries that check use words of their own (`Object contains unknown field`, `String should match pattern`): here
these are turned into ours, with the names that the route takes.
"""

import enum
import re
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from weft.api.problems import Trouble
from weft.core.definition.suggest import nearest

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


def body_trouble(error: msgspec.ValidationError, of: Any, code: str = "body", whose: str = "") -> Trouble:
    """Of a body that should have been an `of`. `whose` goes before what is told."""
    mistake = _of_body(str(error), of)
    told = f"{mistake.path}: {mistake.message}" if mistake.path else mistake.message
    return Trouble(422, code, f"{whose}{told}", mistake.fix, errors=[mistake._asdict()])


def parameter_trouble(errors: Iterable[Mapping[str, Any]], described: Mapping[str, str]) -> Trouble:
    """Of parameters, by FastAPI's account; `described` says what each of them is."""
    mistakes = [_of_parameter(one, described) for one in errors]
    told = "; ".join(f"{one.path}: {one.message}" for one in mistakes[:5])
    fixes = [one.fix for one in mistakes if one.fix is not None]
    return Trouble(
        422, "parameters", told, fixes[0] if fixes else None, errors=[one._asdict() for one in mistakes]
    )  # fmt: skip


def one_of(found: str, known: list[str]) -> tuple[str, str | None]:
    """(message, fix) for a word that is none of those known."""
    meant = nearest(found, known)
    return f"expected one of {', '.join(known)}, found {found[:SHOWN_MAX]!r}", meant and f"did you mean {meant!r}?"


def _of_body(text: str, of: Any) -> Mistake:
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
    told = re.sub(
        r"`([a-z |]+)`", lambda m: " or ".join(WORDS.get(part, part) for part in m[1].split(" | ")), what, count=2
    )
    return told.replace("Expected", "expected", 1).replace(", got ", ", found ", 1)


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


def _of_parameter(error: Mapping[str, Any], described: Mapping[str, str]) -> Mistake:
    name = str(error["loc"][1]) if len(error["loc"]) > 1 else ""
    found = repr(str(error.get("input"))[:SHOWN_MAX])
    context = error.get("ctx", {})
    about = described.get(name)
    fix = None if about is None else f"{name} is: {about}"
    kind = str(error["type"])
    if kind == "missing":
        return Mistake(name, "it is missing", fix)
    if kind in ("literal_error", "enum"):
        return Mistake(name, *one_of(str(error.get("input")), re.findall(r"'([^']*)'", str(context["expected"]))))
    words = {
        "string_pattern_mismatch": f"{found} does not match {context.get('pattern')}",
        "int_parsing": f"expected a whole number, found {found}",
        "int_from_float": f"expected a whole number, found {found}",
        "bool_parsing": f"expected true or false, found {found}",
        "greater_than_equal": f"expected at least {context.get('ge')}, found {found}",
        "less_than_equal": f"expected at most {context.get('le')}, found {found}",
    }
    return Mistake(name, words.get(kind, str(error["msg"])), fix)
