"""Here-documents: which word ends one, and where that word stands."""

import re

from weft.core.expressions.errors import ExpressionError
from weft.core.expressions.shell.words import ENV_FIX
from weft.core.expressions.templates import OPENING

_DELIMITER = re.compile(r"(?:[^ \t\n;&|()<>'\"\\$`]|\\.|'[^'\n]*'|\"[^\"\n$`\\]*\")+")


def delimiter_at(text: str, at: int, end: int) -> tuple[str, str]:
    """The word after `<<` as written, and as the line that ends the document will show it."""
    match = _DELIMITER.match(text, at, end)
    if match is None or text[match.end() : match.end() + 1] in ("$", "`", "'", '"', "\\"):
        raise ExpressionError("this here-document's delimiter cannot be read", at + 1, "use a plain word such as EOF")
    word = match.group()
    return word, re.sub(r"\\(.)|['\"]", r"\1", word)


def end_of_body(text: str, start: int, end: int, delimiter: str, quoted: bool, strips: bool) -> tuple[int, int]:
    """Where the body ends, and where the line of its delimiter does."""
    at = start
    while at < end:
        # an unquoted body joins lines at a backslash before it looks for the delimiter
        line_start, line, joined = at, "", False
        while True:
            found = text.find("\n", at, end)
            stop = end if found < 0 else found
            piece = text[at:stop]
            at = min(stop + 1, end)
            continues = not quoted and stop < end and (len(piece) - len(piece.rstrip("\\"))) % 2 == 1
            if not continues:
                line += piece
                break
            line += piece[:-1]
            joined = True
        if (line.lstrip("\t") if strips else line) != delimiter:
            continue
        if joined:
            raise ExpressionError(
                "a delimiter broken by a backslash is not read alike by all shells", line_start + 1, "join it"
            )
        return line_start, at
    raise ExpressionError(
        f"this here-document has no end: there is no line {delimiter!r}",
        start + 1,
        f"add a line {delimiter!r}",
    )


def quoted_body(text: str, start: int, end: int) -> str:
    """The body of a document whose delimiter is quoted: the shell expands nothing in it, so no value can be there."""
    body = text[start:end]
    at = body.find(OPENING)
    while at >= 0:
        if body[at - 1 : at] != "$":
            raise ExpressionError(
                "${{ }} cannot stand in a here-document whose delimiter is quoted",
                start + at + 1,
                "leave the quotes of the delimiter out, or " + ENV_FIX,
            )
        at = body.find(OPENING, at + 1)
    return body.replace("$" + OPENING, OPENING)
