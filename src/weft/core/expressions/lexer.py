"""Source text to tokens.

Every character that JavaScript knows and this language does not gets an error of its own that says what to
write instead: the people who meet these errors are in the middle of writing a workflow.
"""

import re
from typing import Final

from weft.core.expressions.errors import ExpressionError
from weft.core.expressions.utf16 import WHITESPACE, combine_pairs
from weft.core.patterns import lazy

#: (kind, text or value, offset from 0); the kinds are name, number, string, op and end.
Token = tuple[str, object, int]

OPERATORS: Final = "=== !== == != < <= > >= && || ! ?: ?? ?. + - * / %"

_SPACE = "[" + WHITESPACE + "]+"
_TOKEN = lazy(
    rf"(?P<space>{_SPACE})"
    r"|(?P<name>[^\W\d][\w$]*|\$[\w$]*)"
    r"|(?P<number>0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<bad>=>|\*\*|\+\+|--|<<|>>|//|/\*|\.\.\.|[-+*/%]=|=(?!=)|&(?!&)|\|(?!\|)|[`{};^~@\#\\])"
    r"|(?P<op>===|!==|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?![0-9])|[-+*/%<>!?:.,()\[\]])"
    r"|(?P<string>'[^'\\\n\r]*(?:\\(?:\r\n|[\s\S])[^'\\\n\r]*)*'"
    r'|"[^"\\\n\r]*(?:\\(?:\r\n|[\s\S])[^"\\\n\r]*)*")'
)

#: What stands there -> (what is wrong, what to do).
_UNSUPPORTED: Final[dict[str, tuple[str, str]]] = {
    "=": ("'=' is assignment, and nothing can be assigned", "did you mean === ?"),
    "=>": ("functions are not supported", "did you mean >= ?"),
    "**": ("the operator '**' is not supported", "multiply with *"),
    "++": ("the operator '++' is not supported", "write + 1"),
    "--": ("the operator '--' is not supported", "write - 1, or put a space between two minus signs"),
    "<<": ("the operator '<<' is not supported", f"the operators are {OPERATORS}"),
    ">>": ("the operator '>>' is not supported", f"the operators are {OPERATORS}"),
    "//": ("comments are not supported in expressions", "use a comment of the YAML file"),
    "/*": ("comments are not supported in expressions", "use a comment of the YAML file"),
    "...": ("the operator '...' is not supported", "write the elements out"),
    "&": ("the operator '&' is not supported", "did you mean && ?"),
    "|": ("the operator '|' is not supported", "did you mean || ?"),
    "^": ("the operator '^' is not supported", f"the operators are {OPERATORS}"),
    "~": ("the operator '~' is not supported", "did you mean ! ?"),
    "`": ("template literals (backticks) are not supported", "use '…' or \"…\" and join with +"),
    "{": ("object literals are not supported", "use members of inputs, tasks or context"),
    "}": ("'}' has no meaning here", "remove it"),
    ";": ("';' has no meaning here: this is one expression, not a program", "remove it"),
    "@": ("'@' has no meaning here", "remove it"),
    "#": ("'#' has no meaning here", "remove it"),
    "\\": ("'\\' has no meaning outside a string", "remove it"),
}

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE = lazy(
    r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|[\s\S]))",
)


def tokens_of(source: str, origin: int) -> list[Token]:
    """All tokens and an end mark. `origin` is where the source starts in the text that people see."""
    found: list[Token] = []
    at = 0
    end = len(source)
    match_at = _TOKEN.match
    while at < end:
        match = match_at(source, at)
        if match is None:
            raise _unreadable(source, at, origin)
        kind = match.lastgroup
        text = match.group()
        if kind == "name":
            # \w also takes digits such as '²', which no identifier may hold
            if not text.isascii() and not text.replace("$", "_").isidentifier():
                raise ExpressionError(f"{text!r} is not a name", origin + at + 1, "use ['…'] for such a key")
            found.append(("name", text, at))
        elif kind == "op":
            found.append(("op", text, at))
        elif kind == "string":
            found.append(("string", _string_value(text, at, origin), at))
        elif kind == "number":
            found.append(("number", _number_value(text, source, match.end(), at, origin), at))
        elif kind == "bad":
            what, fix = _UNSUPPORTED.get(text) or _UNSUPPORTED["="]
            raise ExpressionError(what, origin + at + 1, fix)
        at = match.end()
    found.append(("end", "", end))
    return found


def _unreadable(source: str, at: int, origin: int) -> ExpressionError:
    char = source[at]
    if char in "'\"":
        fix = f"close it with {char}; a line break inside is written \\n"
        return ExpressionError("this string has no end", origin + at + 1, fix)
    return ExpressionError(f"{char!r} has no meaning here", origin + at + 1, "remove it")


def _number_value(text: str, source: str, end: int, at: int, origin: int) -> int | float:
    # JavaScript forbids a name or digit right after a number: 3px, 010, 1n, 1_000
    follower = source[end : end + 1]
    if follower and (follower.isalnum() or follower in "_$\\"):
        raise ExpressionError(
            f"{text + follower!r} is not a number",
            origin + at + 1,
            "write a plain decimal number such as 10 or 0.5",
        )
    if len(text) > 1 and text[1] in "xXoObB":
        return _as_double(int(text, 0))
    if text.isdigit():
        return _as_double(int(text)) if len(text) <= 400 else float("inf")
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= 2**53 else value


def _as_double(value: int) -> int | float:
    if value <= 2**53:
        return value
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _string_value(text: str, at: int, origin: int) -> str:
    body = text[1:-1]
    if "\\" not in body:
        return body

    def plain(match: re.Match[str]) -> str:
        braced, four, two, char = match.groups()
        column = origin + at + 1 + match.start() + 1
        digits = braced or four or two
        if digits:
            code = int(digits, 16)
            if code > 0x10FFFF:
                raise ExpressionError(f"\\u{{{digits}}} is not a character", column, "the last one is \\u{10ffff}")
            return chr(code)
        if char in "ux":
            raise ExpressionError(f"\\{char} needs hexadecimal digits", column, "write \\xHH, \\uHHHH or \\u{H…}")
        if char in "\r\n\u2028\u2029" or char == "\r\n":
            return ""
        if char == "0" and not body[match.end() : match.end() + 1].isdecimal():
            return "\0"
        if char in "0123456789":
            raise ExpressionError(f"\\{char} is not an escape", column, "write \\xHH or \\uHHHH")
        return _ESCAPES.get(char, char)

    return combine_pairs(_ESCAPE.sub(plain, body))
