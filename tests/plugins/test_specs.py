"""Specs of plugins in definitions: the same positions and words as for Weft's own keys."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from tests.plugins.conftest import Install
from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import load_text, load_value
from weft.core.definition.problems import ProblemCollector
from weft.plugins.spec_schema import read_schema

SOURCE = """
    from typing import Annotated, Literal
    import msgspec
    from weft.plugins import AsyncExecutor

    class Size(msgspec.Struct):
        width: int

    class Spec(msgspec.Struct):
        to: str
        times: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
        tone: Literal["warm", "cold"] = "warm"
        loud: bool = False
        size: Size | None = None
        tags: list[str] = []
        limits: dict[str, float] = {}

    class Greeting(AsyncExecutor):
        schema = Spec
"""


@pytest.fixture(autouse=True)
def greeting(install: Install) -> None:
    install("weft-greeting-test", {"greeting": "weft_greeting_test:Greeting"}, SOURCE)


def errors_of(text: str) -> list[str]:
    with pytest.raises(DefinitionErrors) as raised:
        load_text(text, file="a.yaml")
    return [
        f"{e.line}:{e.column} {e.message}" + (f" ({e.fix})" if e.fix else "") for e in raised.value.errors
    ]  # fmt: skip


def test_each_problem_has_its_place_and_a_fix() -> None:
    text = """\
tasks:
  one:
    type: greeting
    spec:
      too: World
      times: 10
      tone: wram
      loud: "yes"
      size: {width: "3", height: 4}
      tags: [a, 1]
      limits: {cpu: much}
  two: {type: greeting}
"""
    assert errors_of(text) == [
        "5:7 unknown key 'too' (did you mean 'to'?)",
        "6:14 expected a whole number from 1 to 9, found the number 10",
        "7:13 expected one of cold, warm, found the text 'wram' (did you mean 'warm'?)",
        "8:13 expected true or false, found the text 'yes'",
        "9:21 expected a whole number, found the text '3' (remove the quotes)",
        "9:26 unknown key 'height' (known keys: width)",
        "10:17 expected text, found the number 1 (put it in quotes)",
        "11:21 expected a number, found the text 'much'",
        "12:3 'to' is missing (add to: …)",
    ]


def test_templates_pass_where_their_value_could_be_right() -> None:
    load_text(
        """\
inputs: {n: {type: integer, default: 3}}
tasks:
  one:
    type: greeting
    spec: {to: "you ${{ inputs.n }}", times: "${{ inputs.n }}", tags: "${{ [inputs.n] }}", tone: "${{ inputs.n }}"}
"""
    )
    text = 'tasks: {one: {type: greeting, spec: {to: a, times: "1${{ run.id }}"}}}'
    fix = "write ${{ … }} alone, with nothing around it: then it keeps the type of its value"
    message = "expected a whole number from 1 to 9, found the text '1${{ run.id }}'"
    assert errors_of(text) == [f"1:52 {message} ({fix})"]


def test_the_long_form_is_checked_too() -> None:
    text = """\
tasks:
  - key: one
    type: greeting
    dependsOn: []
    spec: {to: 3}
"""
    assert errors_of(text) == ["5:16 expected text, found the number 3 (put it in quotes)"]


def test_the_hash_does_not_depend_on_the_plugin(install: Install) -> None:
    value = {"tasks": {"one": {"type": "greeting", "spec": {"to": "a"}}}}
    other = {"tasks": {"one": {"type": "other_type", "spec": {"to": "a"}}}}
    assert load_value(value).document["tasks"]["one"] == value["tasks"]["one"]
    assert load_value(other).document["tasks"]["one"] == other["tasks"]["one"]


class Point(msgspec.Struct):
    kind: Literal["point"] = "point"
    at: Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)] = msgspec.field(default_factory=list)


OPEN = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "level": {"type": ["integer", "null"], "exclusiveMinimum": 0},
        "where": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/place"}]},
        "mode": {"const": "fast"},
    },
    "$defs": {"place": {"type": "object", "additionalProperties": {"type": "boolean"}}},
}


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        (OPEN, {"name": "abc", "more": 1, "level": None, "where": {"x": True}, "mode": "fast"}, []),
        (OPEN, {"name": "ABC"}, ["name: expected text that matches ^[a-z]+$, found the text 'ABC'"]),
        (OPEN, {"name": "abcdef"}, ["name: expected at most 5 characters, found 6"]),
        (OPEN, {"name": "a", "level": 0}, ["level: expected a whole number or null above 0, found the number 0"]),
        (OPEN, {"name": "a", "where": {"x": 1}}, ["where.x: expected true or false, found the number 1"]),
        (OPEN, {"name": "a", "where": 3}, ["where: expected text or a mapping, found the number 3"]),
        (OPEN, {"name": "a", "mode": "slow"}, ["mode: expected one of fast, found the text 'slow'"]),
        (OPEN, [], [": expected a mapping, found an empty list"]),
        (Point, {"at": [1]}, ["at: expected 2 to 2 items, found 1"]),
        (Point, {"at": [1, True]}, ["at.1: expected a number, found the boolean true"]),
        ({"enum": [1, "a"]}, True, [": expected one of 1, a, found the boolean true"]),
        ({}, object, []),
    ],
)
def test_schemas(schema: Any, value: Any, found: list[str]) -> None:
    collector = ProblemCollector()
    read_schema(schema).read(collector, value)
    assert [f"{'.'.join(map(str, p.path))}: {p.message}" for p in collector.problems] == found
