"""Positions in the author's Python files, and errors reported there.

Heavy modules are imported only when there is an error: every runner process imports this with the author's module.
"""

import os
import sys
from types import CodeType, FrameType
from typing import Any, NamedTuple

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class CodePosition(NamedTuple):
    """A position in a Python file; lines and columns count from 1. Line 0 is the file as a whole."""

    file: str
    line: int
    column: int | None = None
    length: int = 1


def caller_position(*, exactly: bool = True) -> CodePosition:
    """The innermost line of code that is not Weft's own. Its column costs a walk over the code of the whole function,
    so it is computed for errors only, not for every task of a large flow."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    if frame is None:
        return CodePosition("<unknown>", 0)
    return frame_position(frame) if exactly else CodePosition(frame.f_code.co_filename, frame.f_lineno)


def frame_position(frame: FrameType) -> CodePosition:
    file, line = frame.f_code.co_filename, frame.f_lineno
    positions = list(frame.f_code.co_positions())
    first, last, start, end = positions[frame.f_lasti // 2] if frame.f_lasti >= 0 else (None, None, None, None)
    if first != line or start is None or end is None:
        return CodePosition(file, line)
    before = _source(frame.f_code.co_filename, line).encode()[:start].decode(errors="replace")
    return CodePosition(file, line, len(before) + 1, max(1, end - start) if last == first else 1)


def called_by(function: Any) -> tuple[str, CodePosition, CodePosition] | None:
    """If the innermost line that is not Weft's own is in another function, which this one called: the name of that
    function, the position of the call, and the innermost position."""
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
        return None  # a comprehension, or a function defined inside this one
    return called.f_code.co_name, frame_position(frame), frame_position(inner)


def definition_position(function: Any) -> CodePosition:
    """The position of the definition of a function."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return caller_position()
    return CodePosition(code.co_filename, code.co_firstlineno)


def raise_position(error: BaseException, function: Any) -> CodePosition:
    """The line of this function at which an exception was raised, by it or by what it called."""
    code = getattr(function, "__code__", None)
    traceback, position = error.__traceback__, None
    while traceback is not None:
        if traceback.tb_frame.f_code is code:
            position = CodePosition(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return position or definition_position(function)


def display_path(file: str) -> str:
    """The path as people would type it: relative if the file is below the current directory."""
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):
        return file
    return relative if os.path.isabs(file) and not relative.startswith("..") else file


def _source(file: str, line: int) -> str:
    import linecache

    return linecache.getline(file, line).rstrip("\n")


def flow_error(message: str, fix: str | None = None, position: CodePosition | None = None) -> Exception:
    """A FlowError to raise, at the author's line."""
    from weft.authoring.flow_errors import FlowError, in_code

    return FlowError([in_code(position or caller_position(), message, fix)])
