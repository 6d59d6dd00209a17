"""Errors of a definition, each with file, line, column, the line itself and a fix, formatted for people."""

import unicodedata
from typing import Any, NamedTuple

import msgspec

_WINDOW = 100  # characters shown of a line: a whole file may be one line


class TextPosition(NamedTuple):
    """Line and column, counted from 1, in characters. `length` is how much the carets underline."""

    line: int
    column: int
    length: int = 1


class SyntaxFault(msgspec.Struct, frozen=True):
    """An error of the text itself, whatever it means."""

    position: TextPosition
    message: str
    fix: str | None = None


class UnreadableText(Exception):
    """The text cannot be parsed any further."""

    def __init__(self, *faults: SyntaxFault) -> None:
        super().__init__(faults[0].message)
        self.faults = faults


class LocatedError(msgspec.Struct, frozen=True):
    """`line` is None where there is no text to point at: a missing file, a value created in Python."""

    file: str
    line: int | None
    column: int | None
    message: str
    fix: str | None = None
    path: str | None = None
    source: str | None = None
    caret: str | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"
        out = [f"{where}: {self.message}"]
        if self.path and self.line is None:
            out[0] += f" (at {self.path})"
        if self.source is not None:
            number = "" if self.line is None else f"{self.line} "
            out += [f"  {number}| {self.source}", f"  {' ' * len(number)}| {self.caret}"]
        if self.fix:
            out.append(f"  fix: {self.fix}")
        return "\n".join(printable(line) for line in out)


class DefinitionErrors(Exception):
    """All errors of one definition. The message has the place of each, its line and a fix."""

    __module__ = "weft"
    errors: list[LocatedError]  # each with file, line, column, message, fix and path
    more: int  # how many are left out of the list

    def __init__(self, errors: list[LocatedError], more: int = 0) -> None:
        super().__init__(errors[0].message if errors else "the definition has errors")
        self.errors = errors
        self.more = more

    def __str__(self) -> str:
        shown = "\n".join(str(error) for error in self.errors)
        return f"{shown}\n… and {self.more:,} more" if self.more else shown

    def as_json(self) -> dict[str, Any]:
        """Return the errors as `weft validate --json` prints them."""
        return {"errors": msgspec.to_builtins(self.errors), "more": self.more}


def located(
    file: str, lines: list[str], position: TextPosition, message: str, fix: str | None, path: str | None
) -> LocatedError:
    line = lines[position.line - 1] if position.line <= len(lines) else ""
    if not line.strip():
        return LocatedError(file, position.line, position.column, message, fix, path)
    source, caret = excerpt(line, position.column - 1, position.length)
    return LocatedError(file, position.line, position.column, message, fix, path, source, caret)


def excerpt(line: str, at: int, length: int) -> tuple[str, str]:
    """The part of a line around a column, safe to print, and the carets that go below it."""
    start = max(0, at - _WINDOW * 2 // 3) if len(line) > _WINDOW else 0
    end = min(len(line), start + _WINDOW)
    before = ("…" if start else "") + printable(line[start:at])
    marked = printable(line[at : min(end, at + max(1, length))])
    after = printable(line[at + max(1, length) : end]) + ("…" if end < len(line) else "")
    return (before + marked + after).rstrip(), " " * _width(before) + "^" * max(1, _width(marked))


def printable(text: str) -> str:
    """Without control characters: a definition may contain escape sequences, which must not reach a terminal."""
    return "".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in text)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
