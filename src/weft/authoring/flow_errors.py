"""Errors of flows: definitions written in Python."""

import linecache

from weft.authoring.code_positions import CodePosition, display_path
from weft.authoring.errors import DefinitionErrors, LocatedError, excerpt


class FlowError(DefinitionErrors):
    """A flow cannot become a definition: the lines of Python that are wrong, and what to write instead."""

    __module__ = "weft"


def in_code(position: CodePosition, message: str, fix: str | None, path: str | None = None) -> LocatedError:
    file = display_path(position.file)
    if position.line == 0:
        return LocatedError(file, None, None, message, fix, path)
    line = linecache.getline(position.file, position.line).rstrip("\n")
    column = position.column or len(line) - len(line.lstrip()) + 1
    if not line.strip():
        return LocatedError(file, position.line, column, message, fix, path)
    length = position.length if position.column else len(line.strip())
    source, caret = excerpt(line, column - 1, length)
    return LocatedError(file, position.line, column, message, fix, path, source, caret)
