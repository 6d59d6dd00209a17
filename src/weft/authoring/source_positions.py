"""Lines and columns of values in a YAML or JSON text, looked up only when there are errors.

`find_positions` reads the text a second time for the paths that have problems: the positions of all values of a file
with a million of them would need more memory than the values.

`position_in_text` finds a column within a text value. In the file the text may be quoted, escaped, folded or
indented, which changes only spaces and escapes: so the characters other than spaces are counted in both.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

from weft.authoring.errors import TextPosition
from weft.core.definition.problems import Path, TextOffset

Kind = Literal["scalar", "map", "list", "end"]

_PAIR: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # how JSON writes one character
_DOUBLE: Final = re.compile(_PAIR + r"|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.|$)|.")
_SINGLE: Final = re.compile("''|.")
_ONE: Final = re.compile(".")
_ESCAPES: Final = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "a": "\a", "0": "\0",
    "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029", "": " ",
}  # fmt: skip
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_LONGEST: Final = 50_000  # characters scanned for one message


class TextToken(NamedTuple):
    """A token of a text, in reading order. A key is a scalar before its value."""

    kind: Kind
    value: Any
    line: int
    column: int
    length: int


class EntryPosition(NamedTuple):
    key: TextPosition
    value: TextPosition


class _Requested:
    """A tree of the requested paths, so that a token is compared only with its siblings."""

    __slots__ = ("below", "path")

    def __init__(self) -> None:
        self.below: dict[str | int, _Requested] = {}
        self.path: Path | None = None


def find_positions(tokens: Iterable[TextToken], paths: Iterable[Path]) -> dict[Path, EntryPosition]:
    """The positions of the paths that the text has. Of two equal keys the last one counts."""
    root = _tree(paths)
    out: dict[Path, EntryPosition] = {}
    # one entry per open container: (the requested paths in it, is it a mapping, the next index)
    stack: list[tuple[_Requested | None, bool, int]] = []
    key: tuple[str, TextPosition] | None = None
    for token in tokens:
        if token.kind == "end":
            stack.pop()
            key = None
            continue
        position = TextPosition(token.line, token.column, token.length)
        requested: _Requested | None = root
        key_position = position
        if stack:
            inside, is_map, index = stack[-1]
            if is_map and key is None:
                key = (token.value, position)
                continue
            if is_map and key is not None:
                requested, key_position = (inside.below.get(key[0]) if inside else None), key[1]
                key = None
            else:
                requested = inside.below.get(index) if inside else None
                stack[-1] = (inside, False, index + 1)
        if requested is not None and requested.path is not None:
            out[requested.path] = EntryPosition(key_position, position)
        if token.kind != "scalar":
            stack.append((requested, token.kind == "map", 0))
    return out


def nearest_position(positions: dict[Path, EntryPosition], path: Path) -> EntryPosition:
    """The position of a path, or of the nearest container: a missing key is shown where it should be."""
    while path and path not in positions:
        path = path[:-1]
    return positions.get(path) or EntryPosition(TextPosition(1, 1), TextPosition(1, 1))


def _tree(paths: Iterable[Path]) -> _Requested:
    root = _Requested()
    root.path = ()
    for path in paths:
        node = root
        for at, part in enumerate(path):
            node = node.below.setdefault(part, _Requested())
            node.path = path[: at + 1]
    return root


def position_in_text(lines: list[str], start: TextPosition, offset: TextOffset) -> TextPosition | None:
    """`start` is where the text begins in the file. None if the two do not match, or if the offset is too large."""
    before = offset.text[: offset.column - 1]
    expected = "".join(before.split())
    # At a space or at the end: the position after the last character.
    beyond = not offset.text[offset.column - 1 : offset.column].strip()
    if len(before) > _LONGEST:
        return None
    count = 0
    last = start
    for position, char in _characters(lines, start):
        if char.isspace():
            continue
        if count == len(expected):
            return last if beyond else position._replace(length=name_length(offset))
        if char != expected[count]:
            return None
        count += 1
        last = TextPosition(position.line, position.column + position.length)
    return last if beyond and count == len(expected) else None


def name_length(offset: TextOffset) -> int:
    """How many characters the carets underline: a whole name, or one character."""
    name = _NAME.match(offset.text, offset.column - 1)
    return len(name[0]) if name else 1


def _characters(lines: list[str], start: TextPosition) -> Iterator[tuple[TextPosition, str]]:
    """The characters of the text from `start` on, unescaped, each with its position and length in the file. It does
    not stop at the end of the text: the caller knows its length."""
    opening = lines[start.line - 1][start.column - 1 : start.column]
    pattern = {'"': _DOUBLE, "'": _SINGLE}.get(opening, _ONE)
    column = start.column - 1 + (opening in ('"', "'"))
    number = start.line
    if opening in ("|", ">"):
        number, column = number + 1, 0
    while number <= len(lines):
        for match in pattern.finditer(lines[number - 1], column):
            yield TextPosition(number, match.start() + 1, len(match[0])), _unescaped(match[0], pattern is _DOUBLE)
        number, column = number + 1, 0


def _unescaped(raw: str, escapes: bool) -> str:
    if not escapes or not raw.startswith("\\"):
        return raw[0]  # also of '', which is one quote
    if len(raw) == 12:
        return chr(0x10000 + ((int(raw[2:6], 16) & 0x3FF) << 10) + (int(raw[8:], 16) & 0x3FF))
    if len(raw) > 2:
        code = int(raw[2:], 16)
        return chr(code) if code <= 0x10FFFF else "\ufffd"
    return _ESCAPES.get(raw[1:], raw[1:])
