"""Lines and columns of values in a YAML or JSON text, looked up only when there are errors.

`find_places` reads the text a second time for the paths that have problems: keeping the place of every value of a
file with a million of them would cost more memory than the values.

`place_of` goes on to a column within a text value. In its file such a text stands quoted, escaped, folded or
indented. All of these change blanks and escapes only, so the characters that are not blank are counted in both.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

from weft.authoring.errors import Place
from weft.core.definition.problems import Path, Spot

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
_LONGEST: Final = 50_000  # characters walked over for one message


class Token(NamedTuple):
    """One thing of a text in reading order. Keys come as scalars before their values."""

    kind: Kind
    value: Any
    line: int
    column: int
    length: int


class Found(NamedTuple):
    key: Place
    value: Place


class _Wanted:
    """A tree of the paths looked for, so that a token is compared with its siblings only."""

    __slots__ = ("below", "path")

    def __init__(self) -> None:
        self.below: dict[str | int, _Wanted] = {}
        self.path: Path | None = None


def find_places(tokens: Iterable[Token], paths: Iterable[Path]) -> dict[Path, Found]:
    """Paths that the text does not have are left out of the answer. Of two equal keys the last one counts."""
    root = _tree(paths)
    out: dict[Path, Found] = {}
    # one entry per open container: (what is wanted inside, is it a mapping, the next index)
    stack: list[tuple[_Wanted | None, bool, int]] = []
    key: tuple[str, Place] | None = None
    for token in tokens:
        if token.kind == "end":
            stack.pop()
            key = None
            continue
        place = Place(token.line, token.column, token.length)
        wanted: _Wanted | None = root
        key_place = place
        if stack:
            inside, is_map, index = stack[-1]
            if is_map and key is None:
                key = (token.value, place)
                continue
            if is_map and key is not None:
                wanted, key_place = (inside.below.get(key[0]) if inside else None), key[1]
                key = None
            else:
                wanted = inside.below.get(index) if inside else None
                stack[-1] = (inside, False, index + 1)
        if wanted is not None and wanted.path is not None:
            out[wanted.path] = Found(key_place, place)
        if token.kind != "scalar":
            stack.append((wanted, token.kind == "map", 0))
    return out


def nearest_found(found: dict[Path, Found], path: Path) -> Found:
    """The place of a path, or of the nearest thing around it: a missing key is shown where it should be."""
    while path and path not in found:
        path = path[:-1]
    return found.get(path) or Found(Place(1, 1), Place(1, 1))


def _tree(paths: Iterable[Path]) -> _Wanted:
    root = _Wanted()
    root.path = ()
    for path in paths:
        node = root
        for at, part in enumerate(path):
            node = node.below.setdefault(part, _Wanted())
            node.path = path[: at + 1]
    return root


def place_of(lines: list[str], start: Place, spot: Spot) -> Place | None:
    """`start` is where the text begins in the file. None if the two can't be matched, or it is too far in."""
    before = spot.text[: spot.column - 1]
    wanted = "".join(before.split())
    beyond = not spot.text[
        spot.column - 1 : spot.column
    ].strip()  # at a blank, or at the end: just behind what is there
    if len(before) > _LONGEST:
        return None
    count = 0
    last = start
    for place, char in _characters(lines, start):
        if char.isspace():
            continue
        if count == len(wanted):
            return last if beyond else place._replace(length=name_length(spot))
        if char != wanted[count]:
            return None
        count += 1
        last = Place(place.line, place.column + place.length)
    return last if beyond and count == len(wanted) else None


def name_length(spot: Spot) -> int:
    """How much of the text the caret shall underline: a whole name, or one character."""
    name = _NAME.match(spot.text, spot.column - 1)
    return len(name[0]) if name else 1


def _characters(lines: list[str], start: Place) -> Iterator[tuple[Place, str]]:
    """What the file's characters mean from there on, with the place and length of each. It goes on beyond the
    text's end: whoever asks knows how much there is to come."""
    opening = lines[start.line - 1][start.column - 1 : start.column]
    pattern = {'"': _DOUBLE, "'": _SINGLE}.get(opening, _ONE)
    column = start.column - 1 + (opening in ('"', "'"))
    number = start.line
    if opening in ("|", ">"):
        number, column = number + 1, 0
    while number <= len(lines):
        for match in pattern.finditer(lines[number - 1], column):
            yield Place(number, match.start() + 1, len(match[0])), _meaning(match[0], pattern is _DOUBLE)
        number, column = number + 1, 0


def _meaning(written: str, escapes: bool) -> str:
    if not escapes or not written.startswith("\\"):
        return written[0]  # of '' too
    if len(written) == 12:
        return chr(0x10000 + ((int(written[2:6], 16) & 0x3FF) << 10) + (int(written[8:], 16) & 0x3FF))
    if len(written) > 2:
        code = int(written[2:], 16)
        return chr(code) if code <= 0x10FFFF else "\ufffd"
    return _ESCAPES.get(written[1:], written[1:])
