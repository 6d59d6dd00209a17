"""Inputs: given values against declared ones."""

from typing import Any

import pytest

from weft.authoring.load import load_text
from weft.core.definition.inputs import InputError, parse_input, resolve_inputs
from weft.core.workflow import InputDef

DECLARED = load_text(
    """
inputs:
  day: string
  count: {type: integer, default: 3}
  rate: {type: number, default: 0.5}
  dry: {type: boolean, default: false}
  files: {type: array, default: []}
  opts: {type: object, required: false}
  level: {enum: [low, high], default: low, description: How much}
tasks: {a: x}
"""
).workflow.inputs


def messages(given: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(p.message, p.fix) for p in resolve_inputs(DECLARED, given)[1]]


def test_defaults_fill_in_what_is_not_given() -> None:
    values, problems = resolve_inputs(DECLARED, {"day": "2026-01-01", "count": 7})
    assert problems == []
    assert values == {
        "day": "2026-01-01", "count": 7, "rate": 0.5, "dry": False, "files": [], "opts": None, "level": "low",
    }  # fmt: skip
    assert list(values) == list(DECLARED)


def test_all_problems_at_once() -> None:
    assert messages({"coutn": 1, "rate": "fast", "count": 1.5, "dry": 1, "level": "middle"}) == [
        ("there is no input 'coutn'", "did you mean 'count'?"),
        ("the input 'day' (string) is missing", "set it: --input day=…"),
        ("the input 'count' takes a whole number, found the number 1.5", None),
        ("the input 'rate' takes a number, found the text 'fast'", None),
        ("the input 'dry' takes true or false, found the number 1", None),
        ("the input 'level' must be one of \"low\", \"high\", found the text 'middle'", None),
    ]


def test_values_without_a_json_form_are_refused() -> None:
    assert "cannot be stored" in messages({"day": "x", "rate": float("nan")})[0][0]
    assert "cannot be stored" in messages({"day": "x", "opts": {"a": object()}})[0][0]


def test_no_inputs_at_all() -> None:
    _, problems = resolve_inputs({}, {"x": 1})
    assert problems[0].fix == "this workflow takes no inputs"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "", ""), ("string", "3", "3"), ("string", '"x"', '"x"'), ("integer", "-3", -3),
        ("number", "1.5", 1.5),
        ("number", "2", 2), ("boolean", "true", True), ("array", "[1, 2]", [1, 2]), ("object",
        '{"a": null}', {"a": None}),
    ],
)  # fmt: skip
def test_texts_are_parsed_by_the_declared_type(kind: str, text: str, value: Any) -> None:
    assert parse_input(InputDef(kind, True), text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [("integer", "1.5"), ("integer", "x"), ("integer", "true"), ("number", "NaN"), ("boolean", "yes"),
     ("boolean", "1"),
     ("array", "a,b"), ("array", "{}"), ("object", "[]"), ("object", ""), ("array", "[" * 100_000),
     ("integer", "9" * 5000)],
)  # fmt: skip
def test_texts_of_another_type_are_refused(kind: str, text: str) -> None:
    with pytest.raises(InputError, match="expected"):
        parse_input(InputDef(kind, True), text)
