"""`${{ … }}` in text.

One whole `${{ }}` keeps the type of its value. Inside other text strings stay as they are and everything else
becomes JSON. `$${{` is a literal `${{`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec

from weft.core.expressions.errors import ExpressionError
from weft.core.expressions.expression import Expression, parse
from weft.core.expressions.references import Reference
from weft.core.expressions.values import check_size

DEPTH_MAX: Final = 64
OPENING: Final = "${{"

_OPENING = re.compile(r"\$?\$\{\{")
#: What may stand before the closing braces: strings are skipped whole, since they may hold braces.
_STEP = re.compile(
    r"'[^'\\\n\r]*(?:\\[\s\S][^'\\\n\r]*)*'"
    r'|"[^"\\\n\r]*(?:\\[\s\S][^"\\\n\r]*)*"'
    r"|(?P<closing>\}\})|(?P<quote>['\"])|[^'\"}]+|\}"
)


class Template:
    """Text with expressions in it, parsed."""

    def __init__(self, text: str, parts: tuple[str | Expression, ...]) -> None:
        self.text = text
        self.parts = parts

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    @property
    def is_plain(self) -> bool:
        return not self.expressions

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(part for part in self.parts if isinstance(part, Expression))

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        return merged_references(self.expressions)

    def resolve(self, names: Mapping[str, Any]) -> Any:
        if len(self.parts) == 1 and isinstance(self.parts[0], Expression):
            return self.parts[0].evaluate(names)
        pieces: list[str] = []
        size = 0
        for part in self.parts:
            if isinstance(part, Expression):
                value = value_text(part.evaluate(names), part)
                size += len(value)
                try:
                    check_size(size)
                except ExpressionError as error:
                    error.column = part.node.column
                    raise
                pieces.append(value)
            else:
                pieces.append(part)
        return "".join(pieces)


def merged_references(expressions: tuple[Expression, ...]) -> tuple[Reference, ...]:
    """What several expressions read, each (path, dynamic) once, in a total order."""
    first: dict[tuple[tuple[str, ...], bool], Reference] = {}
    for expression in expressions:
        for reference in expression.references:
            first.setdefault((reference.path, reference.dynamic), reference)
    return tuple(sorted(first.values()))


def value_text(value: Any, expression: Expression) -> str:
    """A value inside text: a string as it is, anything else as JSON."""
    if type(value) is str:
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, TypeError, RecursionError, OverflowError, msgspec.MsgspecError):
        raise ExpressionError(
            "this value cannot be written as JSON",
            expression.node.column,
            "it holds a number or text JSON has no form for",
        ) from None


def end_of(text: str, start: int) -> int:
    """Where the `}}` of an expression that starts here stands."""
    at = start
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or match.lastgroup == "quote":
            break
        if match.lastgroup == "closing":
            return at
        at = match.end()
    if at < len(text):
        raise ExpressionError("this string has no end", at + 1, f"close it with {text[at]}")
    raise ExpressionError(
        "this ${{ has no end", start - len(OPENING) + 1, "close it with }}, or write $${{ for the text ${{"
    )


def expression_in(text: str, start: int) -> tuple[Expression, int]:
    """The expression that starts right after `${{`, and the offset after its `}}`."""
    end = end_of(text, start)
    return parse(text[start:end], start), end + 2


def parse_template(text: str) -> Template:
    if OPENING not in text:
        return Template(text, (text,))
    return _parse_template(text)


@lru_cache(maxsize=1024)
def _parse_template(text: str) -> Template:
    parts: list[str | Expression] = []
    plain: list[str] = []
    at = 0
    while True:
        match = _OPENING.search(text, at)
        if match is None:
            break
        plain.append(text[at : match.start()])
        if len(match.group()) > len(OPENING):
            plain.append(OPENING)
            at = match.end()
            continue
        if before := "".join(plain):
            parts.append(before)
        plain.clear()
        expression, at = expression_in(text, match.end())
        parts.append(expression)
    plain.append(text[at:])
    if after := "".join(plain):
        parts.append(after)
    return Template(text, tuple(parts))


def parse_condition(text: str) -> Expression:
    """`if`: an expression, with or without `${{ }}` around the whole of it."""
    stripped = text.strip()
    lead = len(text) - len(text.lstrip())
    if not stripped.startswith(OPENING):
        return parse(stripped, lead)
    expression, end = expression_in(text, lead + len(OPENING))
    if text[end:].strip():
        raise ExpressionError(
            "text after the }} would make this condition a string",
            end + 1,
            "put the whole condition inside ${{ … }}",
        )
    return expression


def resolve_value(value: Any, names: Mapping[str, Any], depth: int = 0) -> Any:
    """A JSON value with every template in it resolved. Keys are never templates."""
    kind = type(value)
    if kind is str:
        return parse_template(value).resolve(names) if OPENING in value else value
    if kind is not dict and kind is not list:
        return value
    if depth >= DEPTH_MAX:
        raise ExpressionError(f"this value is nested deeper than {DEPTH_MAX}", 1, "flatten it")
    if kind is dict:
        return {key: resolve_value(item, names, depth + 1) for key, item in value.items()}
    return [resolve_value(item, names, depth + 1) for item in value]


def templates_in(value: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text with a template in it and the path to it, in the order of the document."""
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while pending:
        path, item = pending.pop()
        if type(item) is str:
            if OPENING in item:
                yield path, item
        elif type(item) is dict:
            pending.extend(((*path, key), inner) for key, inner in reversed(item.items()))
        elif type(item) is list:
            pending.extend(((*path, at), item[at]) for at in range(len(item) - 1, -1, -1))


def references_in(value: Any) -> tuple[Reference, ...]:
    """What all the templates of a value read."""
    found: list[Expression] = []
    for _, text in templates_in(value):
        found.extend(parse_template(text).expressions)
    return merged_references(tuple(found))
