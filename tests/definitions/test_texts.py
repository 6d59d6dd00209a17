"""YAML and JSON texts: what scalars mean, what is refused, and that places are right."""

import json
from pathlib import Path
from typing import Any

import pytest

from weft.authoring import json_text, yaml_text
from weft.authoring.errors import DefinitionErrors, excerpt
from weft.authoring.load import load_file, load_text, workflow_name
from weft.authoring.source_positions import find_positions


def value_of(text: str) -> Any:
    value, faults = yaml_text.build(text)
    assert faults == []
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("False", False), ("TRUE", True), ("yes", "yes"), ("no", "no"), ("on", "on"),
        ("off", "off"),
        ("null", None), ("~", None), ("Null", None), ("nil", "nil"), ("y", "y"),
        ("0", 0), ("-7", -7), ("+7", 7), ("0o17", 15), ("0x1F", 31), ("1_000", "1_000"), ("0b11", "0b11"),
        ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("-2.5E-1", -0.25), ("1.2.3", "1.2.3"),
        ("9223372036854775807", 2**63 - 1), ("2026-01-01", "2026-01-01"), ("2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z"),
        ("12:30:45", "12:30:45"), ("=", "="), ("'true'", "true"), ('"1"', "1"), ("|\n  1\n", "1\n"),
        (">-\n  a\n  b\n", "a b"),
        ("-", [None]), ("+", "+"), (".", "."), ("-x", "-x"), ("1 2", "1 2"),
    ],
)  # fmt: skip
def test_scalars_of_yaml_1_2(text: str, value: Any) -> None:
    got = value_of(text)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    "text", [".inf", "-.INF", ".nan", "1e999", "9223372036854775808", "007", "-00", "0x" + "f" * 40, "9" * 10_000]
)
def test_numbers_that_are_refused(text: str) -> None:
    _, faults = yaml_text.build(text)
    assert len(faults) == 1


def test_keys_are_always_text() -> None:
    assert value_of("{1: a, true: b, null: c, 1.5: d}") == {"1": "a", "true": "b", "null": "c", "1.5": "d"}


def test_nested_values() -> None:
    assert value_of("a:\n- b: [1, {c: d}]\n-\n  - x\n- []\ne: {}\n") == {
        "a": [{"b": [1, {"c": "d"}]}, ["x"], []],
        "e": {},
    }


@pytest.mark.parametrize("reader", [yaml_text, json_text])
def test_every_place_is_found(reader: Any) -> None:
    text = '{"a": [1, "two",\n  {"b": "é", "c": [[]]}],\n "d": "x"}'
    lines = text.split("\n")
    paths: list[Any] = [
        (),
        ("a",),
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("a", 2, "b"),
        ("a", 2, "c"),
        ("a", 2, "c", 0),
        ("d",),
    ]
    places = find_positions(reader.tokens(text), paths)

    def shown(path: Any, key: bool) -> str:
        place = places[path].key if key else places[path].value
        return lines[place.line - 1][place.column - 1 :][: place.length]

    assert [shown(path, key=False) for path in paths] == ["{", "[", "1", '"two"', "{", '"é"', "[", "[", '"x"']
    assert [shown(path, key=True) for path in paths[1::4]] == ['"a"', '"b"']
    assert shown(("d",), key=True) == '"d"'
    assert find_positions(reader.tokens(text), [("nothing", "here")]).keys() == {()}


@pytest.mark.parametrize("breaks", ["\n", "\r\n", "\r", "\u2028", "\x85"])
def test_line_numbers_with_any_line_break(breaks: str) -> None:
    with pytest.raises(DefinitionErrors) as caught:
        load_text(breaks.join(["tasks:", "  a: make", "  b: {rum: make}"]))
    error = caught.value.errors[0]
    assert (error.line, error.column) == (3, 7)
    assert error.source == "  b: {rum: make}"


def test_json_with_all_escapes() -> None:
    text = r'{"tasks": {"a": "\u00e9\ud83d\ude00\n\t\"\\\/\b\f\r"}}'
    assert load_text(text, "w", "json").document["tasks"]["a"]["run"] == 'é😀\n\t"\\/\b\f\r'


@pytest.mark.parametrize("text", [
    "", " ", "{", "[", "[1,]", "[1 2]", '{"a"}', '{"a": }', '{"a": 1,}', "{a: 1}", "[01]", "[1.]", "[.5]",
    "[+1]",
    "[tru]", "[truex]", "nul", '"abc', '"\x01"', r'"\x"', r'"\u12"', "[1] 2", "]", "}", "[}", "{]",
    '{"a":1 "b":2}', "#x", "'a'",
    "[NaN]", "[Infinity]", "[-Infinity]", "[1e5x]", '{"a": [1, 2}', '{"a": 1, "a": 2}', "/*x*/1", "\ufeff{}",
])  # fmt: skip
def test_what_is_not_json_is_explained(text: str) -> None:
    with pytest.raises(DefinitionErrors) as caught:
        load_text(text, "w", "json")
    assert caught.value.errors
    assert "not JSON" in str(caught.value) or "twice" in str(caught.value) or "file" in str(caught.value)
    assert caught.value.errors[0].message != "not JSON"


@pytest.mark.parametrize(
    "text", ["0", "-1.5e3", '"x"', "[]", "{}", '[{"a": [null, true]}, ""]', " [1 , 2 ] ", '{"a":{"b":[]}}']
)
def test_the_slow_scanner_agrees_with_the_fast_one(text: str) -> None:
    json.loads(text)
    assert sum(1 for _ in json_text.scan(text)) > 0


def test_an_excerpt_of_a_long_line_keeps_the_column_in_sight() -> None:
    line = "x" * 5000 + "HERE" + "y" * 5000
    source, caret = excerpt(line, 5000, 4)
    assert len(source) < 110
    assert source[caret.index("^") :][:4] == "HERE"
    assert caret.count("^") == 4
    assert excerpt("ab", 10, 3)[1].strip() == "^"


def test_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    def message(path: Path, **options: Any) -> str:
        with pytest.raises(DefinitionErrors) as caught:
            load_file(path, **options)
        return str(caught.value)

    assert message(tmp_path / "none.yaml") == f"{tmp_path}/none.yaml: there is no such file"
    assert "directory" in message(tmp_path)
    assert "not a file name" in message(Path("a\0b"))
    big = tmp_path / "big.yaml"
    big.write_text("tasks: {a: " + "x" * 100 + "}")
    assert "larger than 50 bytes" in message(big, bytes_max=50)
    assert load_file(big).workflow.name == "big"
    utf16 = tmp_path / "u.yaml"
    utf16.write_text("tasks: {a: x}", encoding="utf-16")
    assert "UTF-16" in message(utf16)
    bom = tmp_path / "with BOM!.yaml"
    bom.write_text("tasks: {a: x}", encoding="utf-8-sig")
    loaded = load_file(bom)
    assert loaded.workflow.name == "with-BOM"
    assert loaded.source_path == bom


def test_names_made_from_file_names() -> None:
    assert workflow_name("nightly") == "nightly"
    assert workflow_name("my flow (1)") == "my-flow-1"
    assert workflow_name("日本") == "workflow"
    assert load_text("tasks: {a: x}", workflow_name("-.-")).workflow.name == "workflow"


def test_errors_as_json() -> None:
    with pytest.raises(DefinitionErrors) as caught:
        load_text("tasks: {a: {rum: x}}", file="f.yaml")
    assert caught.value.as_json() == {
        "errors": [
            {
                "file": "f.yaml", "line": 1, "column": 13, "message": "unknown key 'rum' in a task",
                "fix": "did you mean 'run'?", "path": "tasks.a.rum", "source": "tasks: {a: {rum: x}}",
                "caret": " " * 12 + "^^^",
            }
        ],
        "more": 0,
    }  # fmt: skip
