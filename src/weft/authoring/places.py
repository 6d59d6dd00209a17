"""Finds the lines and columns of given paths in a second pass over a text, made only when there are errors.

Keeping the place of every value of a file with a million of them would cost more memory than the values.
"""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from weft.authoring.errors import Place
from weft.core.definition.problems import Path

Kind = Literal["scalar", "map", "list", "end"]


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
