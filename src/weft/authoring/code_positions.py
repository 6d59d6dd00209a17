"""Where in the author's Python something was written, and how a mistake there is told.

Nothing heavy is imported until there is a mistake: every runner process imports this with the author's module.
"""

import os
import sys
from types import CodeType, FrameType
from typing import Any, NamedTuple

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class CodePlace(NamedTuple):
    """A call in somebody's file; lines and columns count from 1. Line 0 is the file as a whole."""

    file: str
    line: int
    column: int | None = None
    length: int = 1


def caller(*, exactly: bool = True) -> CodePlace:
    """The innermost line of code that is not Weft's own. Its column costs a walk over the whole function's code, so
    it is looked up for what is told at once, and not for every task of a large flow."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    if frame is None:
        return CodePlace("<unknown>", 0)
    return at_frame(frame) if exactly else CodePlace(frame.f_code.co_filename, frame.f_lineno)


def at_frame(frame: FrameType) -> CodePlace:
    file, line = frame.f_code.co_filename, frame.f_lineno
    positions = list(frame.f_code.co_positions())
    first, last, start, end = positions[frame.f_lasti // 2] if frame.f_lasti >= 0 else (None, None, None, None)
    if first != line or start is None or end is None:
        return CodePlace(file, line)
    before = _source(frame.f_code.co_filename, line).encode()[:start].decode(errors="replace")
    return CodePlace(file, line, len(before) + 1, max(1, end - start) if last == first else 1)


def called_by(function: Any) -> tuple[str, CodePlace, CodePlace] | None:
    """If the innermost line that is not Weft's own is in another function, which this one called: the name of what it
    called, the line of that call, and the innermost line."""
    code = getattr(function, "__code__", None)
    frame: FrameType | None = sys._getframe(1)
    inner = called = None
    while frame is not None and frame.f_code is not code:
        if not frame.f_code.co_filename.startswith(_OWN):
            inner, called = inner or frame, frame
        frame = frame.f_back
    if frame is None or inner is None or called is None:
        return None
    if called.f_code.co_qualname.startswith(frame.f_code.co_qualname + ".<locals>."):
        return None  # a comprehension, or a function of its own within
    return called.f_code.co_name, at_frame(frame), at_frame(inner)


def definition_of(function: Any) -> CodePlace:
    """Where a function is defined."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return caller()
    return CodePlace(code.co_filename, code.co_firstlineno)


def raised_in(error: BaseException, function: Any) -> CodePlace:
    """The line of this function in which an exception was raised, by it or below it."""
    code = getattr(function, "__code__", None)
    traceback, found = error.__traceback__, None
    while traceback is not None:
        if traceback.tb_frame.f_code is code:
            found = CodePlace(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found or definition_of(function)


def shown_path(file: str) -> str:
    """As people would type it: relative where that is shorter."""
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):
        return file
    return relative if os.path.isabs(file) and not relative.startswith("..") else file


def _source(file: str, line: int) -> str:
    import linecache

    return linecache.getline(file, line).rstrip("\n")


def flow_error(message: str, fix: str | None = None, place: CodePlace | None = None) -> Exception:
    """A FlowError to be raised, for the author's line."""
    from weft.authoring.flow_errors import FlowError

    return FlowError(message, fix, place or caller())
