"""`${{ }}` in text and in whole values."""

from typing import Any

import pytest

from weft.core.expressions import (
    ExpressionError,
    parse_condition,
    parse_template,
    references_in,
    resolve_value,
    templates_in,
)

NAMES: dict[str, Any] = {"n": 1, "s": "a b", "l": [1, "é", None], "o": {"k": 0.5}, "none": None}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain }} {{ $x ${x}", "plain }} {{ $x ${x}"),
        ("", ""),
        ("${{ n }}", 1),
        ("${{l}}", [1, "é", None]),
        ("${{ none }}", None),
        (" ${{ n }}", " 1"),
        ("${{ n }}${{ n }}", "11"),
        ("s=${{ s }} l=${{ l }} o=${{ o }} none=${{ none }}", 's=a b l=[1,"é",null] o={"k":0.5} none=null'),
        ("$${{ n }}", "${{ n }}"),
        ("a $${{ n }} ${{ n }}", "a ${{ n }} 1"),
        ("$$${{ n }}", "$${{ n }}"),
        ("${{ '}}' }}", "}}"),
        ("${{ \"}}'\" + '\\'}}' }}!", "}}''}}!"),
        ("${{\n  n\n}}", 1),
        ("${{ n }} }}", "1 }}"),
    ],
)
def test_resolve(text: str, value: Any) -> None:
    result = parse_template(text).resolve(NAMES)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "column", "complaint"),
    [
        ("abc ${{ n", 5, "has no end"),
        ("${{ 'abc }}", 5, "string has no end"),
        ("ab ${{ n + }}", 12, "too early"),
        ("ab ${{ }}", 8, "no expression"),
        ("ab ${{ n = 1 }}", 10, "assignment"),
        ("x ${{ n }} ${{ ${{ n }} }}", 17, "object literals"),
    ],
)
def test_mistakes_show_their_column_in_the_whole_text(text: str, column: int, complaint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_template(text)
    assert complaint in caught.value.message
    assert caught.value.column == column


def test_mistakes_of_a_value_show_it_too() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_template("abc ${{ o.nope }}").resolve(NAMES)
    assert caught.value.column == 11
    assert "it has 'k'" in caught.value.message


def test_plain_and_references() -> None:
    assert parse_template("$${{ x }}").is_plain
    assert not parse_template("${{ n }}").is_plain
    assert [r.path for r in parse_template("${{ o.k }} ${{ n }} ${{ o.k }}").references] == [("n",), ("o", "k")]


@pytest.mark.parametrize("text", ["n === 1", " n === 1 ", "${{ n === 1 }}", "  ${{ n === 1 }}\n"])
def test_conditions_with_and_without_braces(text: str) -> None:
    assert parse_condition(text).truth(NAMES) is True


def test_columns_of_conditions() -> None:
    for text in ("  n = 1", "${{ n = 1 }}", " ${{ n = 1 }}"):
        with pytest.raises(ExpressionError) as caught:
            parse_condition(text)
        assert caught.value.column == text.index("=") + 1
    with pytest.raises(ExpressionError, match="string"):
        parse_condition("${{ n }} === 1")
    with pytest.raises(ExpressionError, match="no expression"):
        parse_condition("  ")


def test_structures() -> None:
    value: dict[str, Any] = {"a": ["${{ n }}", {"b": "x${{ s }}"}], "${{ n }}": 3, "c": None}
    assert resolve_value(value, NAMES) == {"a": [1, {"b": "xa b"}], "${{ n }}": 3, "c": None}
    assert value["a"][0] == "${{ n }}"
    assert [path for path, _ in templates_in(value)] == [("a", 0), ("a", 1, "b")]
    assert [r.path for r in references_in(value)] == [("n",), ("s",)]


def test_depth_and_size_are_bounded() -> None:
    deep: Any = "${{ n }}"
    for _ in range(64):
        deep = [deep]
    assert resolve_value(deep, NAMES)
    with pytest.raises(ExpressionError, match="deeper than 64"):
        resolve_value([deep], NAMES)
    with pytest.raises(ExpressionError, match="1 MiB"):
        parse_template("${{ s }}" * 3).resolve({"s": "x" * 500_000})
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(ExpressionError, match="JSON"):
        parse_template("x ${{ l }}").resolve({"l": nested})
    with pytest.raises(ExpressionError, match="JSON"):
        parse_template("x ${{ n }}").resolve({"n": 10**5000})
