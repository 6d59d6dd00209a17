"""The printed JSON Schema against the checker: what one takes the other takes.

The validator below knows just the words that our schema uses and fails on any other.
"""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.definitions.test_read import definitions
from weft.authoring import json_text, yaml_text
from weft.cli.definition_views import schema as print_schema
from weft.core.definition.fields import TASK
from weft.core.definition.json_schema import definition_schema
from weft.core.definition.read import WORKFLOW, read

ROOT = Path(__file__).parents[2]
SCHEMA = definition_schema()
TYPES: dict[str, Any] = {
    "string": str, "boolean": bool, "object": dict, "array": (list, tuple), "null": type(None),
    "number": (int, float), "integer": int,
}  # fmt: skip


def is_type(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def valid(schema: dict[str, Any], value: Any) -> bool:
    return all(WORDS[word](rule, value, schema) for word, rule in schema.items())


WORDS: dict[str, Any] = {
    "$schema": lambda rule, value, all_: True,
    "title": lambda rule, value, all_: True,
    "description": lambda rule, value, all_: True,
    "$defs": lambda rule, value, all_: True,
    "$ref": lambda rule, value, all_: valid(SCHEMA["$defs"][rule.removeprefix("#/$defs/")], value),
    "anyOf": lambda rule, value, all_: any(valid(one, value) for one in rule),
    "oneOf": lambda rule, value, all_: sum(valid(one, value) for one in rule) == 1,
    "allOf": lambda rule, value, all_: all(valid(one, value) for one in rule),
    "not": lambda rule, value, all_: not valid(rule, value),
    "enum": lambda rule, value, all_: value in rule,
    "type": lambda rule, value, all_: any(is_type(n, value) for n in (rule if isinstance(rule, list) else [rule])),
    "pattern": lambda rule, value, all_: not isinstance(value, str) or re.search(rule, value) is not None,
    "minLength": lambda rule, value, all_: not isinstance(value, str) or len(value) >= rule,
    "maxLength": lambda rule, value, all_: not isinstance(value, str) or len(value) <= rule,
    "minimum": lambda rule, value, all_: not is_type("number", value) or value >= rule,
    "maximum": lambda rule, value, all_: not is_type("number", value) or value <= rule,
    "items": lambda rule, value, all_: not is_type("array", value) or all(valid(rule, v) for v in value),
    "minItems": lambda rule, value, all_: not is_type("array", value) or len(value) >= rule,
    "minProperties": lambda rule, value, all_: not isinstance(value, dict) or len(value) >= rule,
    "required": lambda rule, value, all_: not isinstance(value, dict) or all(key in value for key in rule),
    "propertyNames": lambda rule, value, all_: not isinstance(value, dict) or all(valid(rule, key) for key in value),
    "properties": lambda rule, value, all_: (
        not isinstance(value, dict) or all(valid(rule[k], v) for k, v in value.items() if k in rule)
    ),
    "additionalProperties": lambda rule, value, all_: (
        not isinstance(value, dict)
        or all(rule is not False and valid(rule, v) for k, v in value.items() if k not in all_.get("properties", {}))
    ),
}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(definitions())
def test_what_the_checker_takes_the_schema_takes(value: Any) -> None:
    assert valid(SCHEMA, value)
    assert valid(SCHEMA, read(value, "w").document)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.yaml")) + sorted((ROOT / "examples").glob("*.json")), ids=str
)
def test_examples(path: Path) -> None:
    reader: Any = json_text if path.suffix == ".json" else yaml_text
    assert valid(SCHEMA, reader.build(path.read_text())[0])


@pytest.mark.parametrize(
    "value",
    [
        {}, [], "x", {"tasks": {}}, {"task": {"a": "x"}}, {"tasks": {"a b": "x"}}, {"tasks": {"a": {}}},
        {"tasks": {"a": {"run": "x", "argv": ["x"]}}}, {"tasks": {"a": {"run": "x", "rum": "x"}}},
        {"tasks": {"a": {"run": 3}}},
        {"tasks": {"a": {"argv": []}}}, {"tasks": {"a": {"run": "x", "priority": 11}}},
        {"tasks": {"a": {"run": "x", "timeout": "soon"}}},
        {"tasks": {"a": "x"}, "on_failure": "stop"}, {"tasks": {"a": "x"}, "max_parallel": -1},
        {"tasks": {"a": {"python": "m"}}}, {"tasks": {"a": {"python": "m:f", "with": [1]}}},
        {"tasks": {"a": {"run": "x", "map": "plain"}}}, {"tasks": {"a": {"run": "x", "map": 3}}},
        {"tasks": {"a": {"run": "x", "map": [1], "batch": 0}}},
        {"tasks": {"a": {"run": "x", "map": [1], "tolerate": "101%"}}},
        {"tasks": {"a": {"wait": "go"}}}, {"tasks": {"a": {"wait": {}}}},
        {"tasks": {"a": {"wait": {"for": "1s", "signal": "x"}}}},
        {"tasks": {"a": {"wait": {"signal": "9"}}}}, {"tasks": {"a": {"wait": {"until": "soon"}}}},
        {"tasks": {"a": {"wait": {"for": "1s"}, "run": "x"}}},
        {"tasks": {"a": {"container": "alpine"}}}, {"tasks": {"a": {"container": None}}},
        {"tasks": {"a": {"container": {"image": "a"}, "kubernetes": {"image": "a"}}}},
        {"tasks": {"a": {"container": {"image": "a", "command": "x"}}}},
        {"tasks": {"a": {"kubernetes": False, "run": "x"}}},
        {"tasks": {"a": {"run": "x", "retry": {"max": 1, "on": ["never"]}}}},
        {"tasks": {"a": {"run": "x", "retry": {"max": 1, "on": [0]}}}},
        {"tasks": {"a": {"run": "x", "retry": {"max": 1, "memory": 2}}}},
        {"tasks": {"a": {"run": "x", "requires": {"cpus": 0}}}},
        {"tasks": {"a": {"type": "container", "spec": {"image": "a", "namespace": "n"}}}},
        {"tasks": {"a": {"type": "shell", "spec": {"image": "a", "command": "x"}}}},
        {"tasks": {"a": {"type": "shell"}}}, {"tasks": [{"type": "shell", "spec": {"command": "x"}}]},
        {"tasks": {"a": ""}},
        {"tasks": {"a": "x"}, "inputs": {"day": "date"}}, {"tasks": {"__proto__": "x"}},
        {"tasks": {"a": {"run": "x", "env": {"A": 1.5}}}},
        {"tasks": {"a": {"run": "x", "env": {"WEFT_TASK": "x"}}}}, {"tasks": {"a": {"run": "x",
        "retry": {"jitter": 2}}}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_what_the_checker_refuses_the_schema_refuses(value: Any) -> None:
    assert read(value).problems
    assert not valid(SCHEMA, value)


def test_every_key_is_described() -> None:
    for record in (WORKFLOW, TASK):
        for field in record.fields:
            assert field.doc.endswith("."), field.name
    task = SCHEMA["$defs"]["shortTask"]["properties"]
    assert [field.name for field in TASK.fields if not field.later] == list(task)


def test_it_is_printed_as_json() -> None:
    out = io.StringIO()
    assert print_schema(out) == 0
    assert json.loads(out.getvalue()) == json.loads(json.dumps(SCHEMA))
