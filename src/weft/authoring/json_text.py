"""JSON text to plain values. The fast parser of the standard library reads good files; only when something is wrong
does a scanner of our own go over the text again and say where.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from weft.authoring.errors import Fault, Place, Unreadable
from weft.authoring.source_positions import Token
from weft.core.definition.container_types import DEPTH_MAX
from weft.core.definition.problems import quoted

LINE_BREAK: Final = re.compile("\r?\n")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_ATOM: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null", re.ASCII)
_WORD: Final = re.compile(r"[^\s,:{}\[\]]{1,40}")


class _Doubtful(Exception):
    """The fast parser met something that the slow one shall explain."""


def build(text: str) -> tuple[Any, list[Fault]]:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant), []
    except (ValueError, RecursionError, _Doubtful):
        faults = _explain(text)
        if not faults:
            raise Unreadable(Fault(Place(1, 1), "not JSON")) from None
        raise Unreadable(*faults) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise _Doubtful
    return out


def _no_constant(name: str) -> Any:
    raise _Doubtful(name)


def _explain(text: str) -> list[Fault]:
    """Syntax errors, nesting and duplicate keys: what makes a text unreadable as JSON."""
    faults: list[Fault] = []
    stack: list[dict[str, None] | None] = []  # the keys of each open mapping; None for a list
    key_next = False
    try:
        for token in scan(text):
            if token.kind == "end":
                stack.pop()
                key_next = bool(stack) and stack[-1] is not None
            elif key_next:
                key_next = False
                keys = stack[-1]
                assert keys is not None
                if token.value in keys:
                    place = Place(token.line, token.column, token.length)
                    faults.append(Fault(place, f"the key {quoted(token.value)} stands here twice", "remove one"))
                keys[token.value] = None
            elif token.kind == "scalar":
                key_next = bool(stack) and stack[-1] is not None
            else:
                if len(stack) >= DEPTH_MAX:
                    place = Place(token.line, token.column)
                    return [*faults, Fault(place, f"nested more than {DEPTH_MAX} deep")]
                stack.append({} if token.kind == "map" else None)
                key_next = token.kind == "map"
    except Unreadable as error:
        return [*faults, *error.faults]
    return faults


def tokens(text: str) -> Iterator[Token]:
    """The text again, with places; ends where the text stops being JSON."""
    try:
        yield from scan(text)
    except Unreadable:
        return


def scan(text: str) -> Iterator[Token]:
    """An iterative scanner. `expect` says what may come next: v(alue), k(ey), a comma or an end."""
    at, line, line_start = 0, 1, 0
    stack: list[str] = []
    expect = "value"
    while True:
        blank = _SPACE.match(text, at)
        assert blank is not None
        newlines = text.count("\n", at, blank.end())
        at = blank.end()
        if newlines:
            line += newlines
            line_start = text.rfind("\n", 0, at) + 1
        place = Place(line, at - line_start + 1)
        if at >= len(text):
            if expect == "done":
                return
            raise Unreadable(_end_fault(text, place, stack))
        sign = text[at]
        if expect == "done":
            raise Unreadable(Fault(place, "the file goes on after the end of its value", "remove the rest"))
        if sign in "}]" and _may_close(stack, sign, expect):
            stack.pop()
            yield Token("end", None, line, place.column, 1)
            at += 1
            expect = "comma" if stack else "done"
        elif expect == "comma":
            if sign != ",":
                raise Unreadable(Fault(place, f"not JSON: expected a comma, found {_near(text, at)}", "add a comma"))
            at += 1
            expect = "key" if stack[-1] == "{" else "value"
        elif expect == "colon":
            if sign != ":":
                raise Unreadable(Fault(place, f"not JSON: expected a colon, found {_near(text, at)}", "add a colon"))
            at += 1
            expect = "value"
        elif sign in "{[" and expect in ("value", "first value"):
            stack.append(sign)
            yield Token("map" if sign == "{" else "list", None, line, place.column, 1)
            at += 1
            expect = "first key" if sign == "{" else "first value"
        else:
            end = _scalar_end(text, at, place, "key" in expect)
            value = json.loads(text[at:end]) if "key" in expect else None
            yield Token("scalar", value, line, place.column, end - at)
            at = end
            expect = "colon" if "key" in expect else ("comma" if stack else "done")


def _may_close(stack: list[str], sign: str, expect: str) -> bool:
    if not stack or {"{": "}", "[": "]"}[stack[-1]] != sign:
        return False
    return expect in ("comma", "first key", "first value")


def _scalar_end(text: str, at: int, place: Place, key: bool) -> int:
    match = _STRING.match(text, at) if text[at] == '"' else None
    if match is None and not key and text[at] != '"':
        match = _ATOM.match(text, at)
        if match is not None and _WORD.match(text, match.end()):
            match = None
    if match is not None:
        return match.end()
    raise Unreadable(_scalar_fault(text, at, place, key))


def _scalar_fault(text: str, at: int, place: Place, key: bool) -> Fault:
    sign = text[at]
    if sign == '"':
        return Fault(place, "not JSON: the text has no end, or holds a raw control character or a wrong escape")
    if sign in "}]":
        return Fault(
            place, f"not JSON: '{sign}' stands after a comma, or closes nothing", "remove the comma before it"
        )
    if sign == "'":
        return Fault(place, "not JSON: text stands in double quotes", 'write "…"')
    if text.startswith(("//", "/*", "#"), at):
        return Fault(place, "not JSON: there are no comments in JSON", "remove it, or use YAML")
    word = _WORD.match(text, at)
    length = len(word[0]) if word else 1
    what = "a key in double quotes" if key else "a value"
    return Fault(place._replace(length=length), f"not JSON: expected {what}, found {_near(text, at)}")


def _near(text: str, at: int) -> str:
    word = _WORD.match(text, at)
    return quoted(word[0] if word else text[at])


def _end_fault(text: str, place: Place, stack: list[str]) -> Fault:
    if not stack:
        return Fault(Place(1, 1), "the file is empty", "add tasks, or a list of commands")
    close = {"{": "}", "[": "]"}[stack[-1]]
    return Fault(place, f"not JSON: the file ends too early; a '{close}' is missing", f"add '{close}'")
