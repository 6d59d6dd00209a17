"""A column within a text, found in the file however the text was written there."""

import json
from types import ModuleType

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.authoring import json_text, yaml_text
from weft.authoring.source_positions import find_positions, position_in_text
from weft.core.definition.problems import TextOffset

TEXTS = st.lists(
    st.sampled_from(["tasks.a", " ", "\n", "'", '"', "\\", "é", "日", "😀", "#", ": ", "{", "}}", "\t", "x", "0"]),
    max_size=25,
).map("".join)


def pointed_at(file: str, reader: ModuleType, text: str, column: int) -> str | None:
    found = find_positions(reader.tokens(file), [("a", 0)])
    lines = reader.LINE_BREAK.split(file)
    place = position_in_text(lines, found[("a", 0)].value, TextOffset(text, column))
    return None if place is None else lines[place.line - 1][place.column - 1 :]


def check(file: str, reader: ModuleType, text: str) -> None:
    assert reader.build(file)[0] == {"a": [text]}
    for at, char in enumerate(text):
        if char.isspace():
            continue
        rest = pointed_at(file, reader, text, at + 1)
        assert rest is not None
        code = ord(char)
        hexed = (f"\\x{code:02X}", f"\\u{code:04X}", f"\\U{code:08X}", json.dumps(char).strip('"'))
        assert rest.startswith((char, "\\" + char, *hexed))


@settings(deadline=None, max_examples=150)
@given(TEXTS, st.booleans())
def test_json(text: str, ascii_only: bool) -> None:
    check(json.dumps({"a": [text]}, ensure_ascii=ascii_only, indent=2), json_text, text)


@settings(deadline=None, max_examples=300)
@given(TEXTS, st.sampled_from([None, "'", '"', "|", ">"]), st.integers(20, 90), st.booleans())
def test_yaml(text: str, style: str | None, width: int, unicode: bool) -> None:
    check(yaml.dump({"a": [text]}, default_style=style, width=width, allow_unicode=unicode), yaml_text, text)


@pytest.mark.parametrize(
    ("file", "rest"),
    [("a: [x +  ]", "  ]"), ('a: ["x +  "]', '  "]'), ("a:\n- |\n  x +\n", ""), ("a:\n- x +", "")],
)
def test_at_the_end_it_is_right_behind_the_text(file: str, rest: str) -> None:
    assert pointed_at(file, yaml_text, "x +", 4) == rest


def test_what_does_not_match_is_not_guessed_at() -> None:
    assert pointed_at("a: [other]", yaml_text, "x + y", 5) is None
