"""Errors of flows: definitions written in Python."""

import linecache

from weft.authoring.code_positions import CodePosition, display_path
from weft.authoring.errors import DefinitionErrors, LocatedError, excerpt


class FlowError(DefinitionErrors):
    """A flow cannot become a definition: the line of Python that is wrong, and what to write instead."""

    def __init__(self, message: str, fix: str | None, position: CodePosition) -> None:
        super().__init__([in_code(position, message, fix)])


class FlowErrors(FlowError):
    """All errors of the definition to which a flow was traced."""

    def __init__(self, errors: list[LocatedError], more: int = 0) -> None:
        DefinitionErrors.__init__(self, errors, more)


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
