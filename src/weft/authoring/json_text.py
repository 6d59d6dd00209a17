"""JSON text to plain values. The fast parser of the standard library reads valid files; only after an error a scanner
of our own reads the text again, to find its position.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from weft.authoring.errors import SyntaxFault, TextPosition, UnreadableText
from weft.authoring.source_positions import TextToken
from weft.core.definition.field_types.collections import DEPTH_MAX
from weft.core.definition.problems import quoted

LINE_BREAK: Final = re.compile("\r?\n")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_ATOM: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null", re.ASCII)
_WORD: Final = re.compile(r"[^\s,:{}\[\]]{1,40}")


class _Doubtful(Exception):
    """The fast parser found something that the scanner has to explain."""


def build(text: str) -> tuple[Any, list[SyntaxFault]]:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant), []
    except (ValueError, RecursionError, _Doubtful):
        faults = _explain(text)
        if not faults:
            raise UnreadableText(SyntaxFault(TextPosition(1, 1), "not JSON")) from None
        raise UnreadableText(*faults) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise _Doubtful
    return out


def _no_constant(name: str) -> Any:
    raise _Doubtful(name)


def _explain(text: str) -> list[SyntaxFault]:
    """Syntax errors, too deep nesting and duplicate keys."""
    faults: list[SyntaxFault] = []
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
                    position = TextPosition(token.line, token.column, token.length)
                    faults.append(
                        SyntaxFault(
                            position,
                            f"the key {quoted(token.value)} is used twice in this mapping",
                            "remove one of them",
                        )
                    )
                keys[token.value] = None
            elif token.kind == "scalar":
                key_next = bool(stack) and stack[-1] is not None
            else:
                if len(stack) >= DEPTH_MAX:
                    position = TextPosition(token.line, token.column)
                    return [*faults, SyntaxFault(position, f"nested more than {DEPTH_MAX} levels deep")]
                stack.append({} if token.kind == "map" else None)
                key_next = token.kind == "map"
    except UnreadableText as error:
        return [*faults, *error.faults]
    return faults


def tokens(text: str) -> Iterator[TextToken]:
    """The tokens of the text, with positions; ends at the first syntax error."""
    try:
        yield from scan(text)
    except UnreadableText:
        return


def scan(text: str) -> Iterator[TextToken]:
    """An iterative scanner. `expect` is what may come next: a value, a key, a comma, a colon, or nothing (done)."""
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
        position = TextPosition(line, at - line_start + 1)
        if at >= len(text):
            if expect == "done":
                return
            raise UnreadableText(_end_fault(text, position, stack))
        sign = text[at]
        if expect == "done":
            raise UnreadableText(
                SyntaxFault(position, "not JSON: there is more text after the end of the value", "remove it")
            )
        if sign in "}]" and _may_close(stack, sign, expect):
            stack.pop()
            yield TextToken("end", None, line, position.column, 1)
            at += 1
            expect = "comma" if stack else "done"
        elif expect in ("comma", "colon"):
            if sign != {"comma": ",", "colon": ":"}[expect]:
                message = f"not JSON: expected a {expect}, found {_near(text, at)}"
                raise UnreadableText(SyntaxFault(position, message, f"add a {expect}"))
            at += 1
            expect = "key" if expect == "comma" and stack[-1] == "{" else "value"
        elif sign in "{[" and expect in ("value", "first value"):
            stack.append(sign)
            yield TextToken("map" if sign == "{" else "list", None, line, position.column, 1)
            at += 1
            expect = "first key" if sign == "{" else "first value"
        else:
            end = _scalar_end(text, at, position, "key" in expect)
            value = json.loads(text[at:end]) if "key" in expect else None
            yield TextToken("scalar", value, line, position.column, end - at)
            at = end
            expect = "colon" if "key" in expect else ("comma" if stack else "done")


def _may_close(stack: list[str], sign: str, expect: str) -> bool:
    if not stack or {"{": "}", "[": "]"}[stack[-1]] != sign:
        return False
    return expect in ("comma", "first key", "first value")


def _scalar_end(text: str, at: int, position: TextPosition, key: bool) -> int:
    match = _STRING.match(text, at) if text[at] == '"' else None
    if match is None and not key and text[at] != '"':
        match = _ATOM.match(text, at)
        if match is not None and _WORD.match(text, match.end()):
            match = None
    if match is not None:
        return match.end()
    raise UnreadableText(_scalar_fault(text, at, position, key))


def _scalar_fault(text: str, at: int, position: TextPosition, key: bool) -> SyntaxFault:
    sign = text[at]
    if sign == '"':
        return SyntaxFault(
            position, "not JSON: the string is not closed, or contains a raw control character or an invalid escape"
        )
    if sign in "}]":
        return SyntaxFault(
            position, f"not JSON: '{sign}' follows a comma, or closes nothing", "remove the comma before it"
        )
    if sign == "'":
        return SyntaxFault(position, "not JSON: strings need double quotes", 'write "…"')
    if text.startswith(("//", "/*", "#"), at):
        return SyntaxFault(position, "not JSON: JSON has no comments", "remove it, or use YAML")
    word = _WORD.match(text, at)
    length = len(word[0]) if word else 1
    what = "a key in double quotes" if key else "a value"
    return SyntaxFault(position._replace(length=length), f"not JSON: expected {what}, found {_near(text, at)}")


def _near(text: str, at: int) -> str:
    word = _WORD.match(text, at)
    return quoted(word[0] if word else text[at])


def _end_fault(text: str, position: TextPosition, stack: list[str]) -> SyntaxFault:
    if not stack:
        return SyntaxFault(TextPosition(1, 1), "the file is empty", "add tasks, or a list of commands")
    close = {"{": "}", "[": "]"}[stack[-1]]
    return SyntaxFault(position, f"not JSON: the file ends before '{close}'", f"add '{close}'")
