"""The error that everything wrong with a flow ends in."""

import linecache

from weft.authoring.code_positions import CodePlace, shown_path
from weft.authoring.errors import DefinitionErrors, LocatedError, excerpt


class FlowError(DefinitionErrors):
    """A flow that cannot become a definition: which line of Python is wrong, and what to write instead."""

    def __init__(self, message: str, fix: str | None, place: CodePlace) -> None:
        super().__init__([in_code(place, message, fix)])


class FlowErrors(FlowError):
    """All that is wrong with the definition which a flow was traced to."""

    def __init__(self, errors: list[LocatedError], more: int = 0) -> None:
        DefinitionErrors.__init__(self, errors, more)


def in_code(place: CodePlace, message: str, fix: str | None, path: str | None = None) -> LocatedError:
    file = shown_path(place.file)
    if place.line == 0:
        return LocatedError(file, None, None, message, fix, path)
    line = linecache.getline(place.file, place.line).rstrip("\n")
    column = place.column or len(line) - len(line.lstrip()) + 1
    if not line.strip():
        return LocatedError(file, place.line, column, message, fix, path)
    length = place.length if place.column else len(line.strip())
    source, caret = excerpt(line, column - 1, length)
    return LocatedError(file, place.line, column, message, fix, path, source, caret)
