"""Keys of other tools: what is proposed for them can be written, word for word."""

import re
from typing import Any

import pytest
import yaml

from weft.core.definition.field_types.collections import Record
from weft.core.definition.field_types.foreign_keys import FOREIGN_KEYS, foreign_fix
from weft.core.definition.field_types.retry_fields import RETRY_RECORD
from weft.core.definition.fields import DEFAULTS, INPUT_RECORD, TASK
from weft.core.definition.read import WORKFLOW, read
from weft.core.definition.triggers import TRIGGER_RECORD

RECORDS: dict[str, Record] = {
    record.what: record for record in (TASK, WORKFLOW, DEFAULTS, RETRY_RECORD, INPUT_RECORD, TRIGGER_RECORD)
}
LINES = [(record, word) for record, words in FOREIGN_KEYS.items() for word in words]


def test_every_record_of_the_table_is_one() -> None:
    assert set(FOREIGN_KEYS) == set(RECORDS)


def test_a_line_names_a_key_that_the_record_has() -> None:
    for record, word in LINES:
        known = RECORDS[record].by_name
        key = FOREIGN_KEYS[record][word].key
        if key and key not in known:
            assert record in ("the workflow", "defaults"), f"{word}: {record} has no {key}"  # options of tasks only
        visible = {name for name, field in known.items() if not field.hidden}
        assert word not in {name.replace("_", "") for name in visible}, f"{word}: {record} has this key itself"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("depends_on", ["a"], {"needs": ["a"]}),
        ("dependencies", {"a": {"condition": "started"}}, {"needs": ["a"]}),
        ("retry_count", 3, {"retry": 3}),
        ("timeout-minutes", 90, {"timeout": "90m"}),
        ("timeout_sec", 0.5, {"timeout": "0.5s"}),
        ("continue_on_error", True, {"allow_failure": True}),
        ("workdir", "a: b # c", {"cwd": "a: b # c"}),
        ("image", "registry:5000/a:1", {"container": {"image": "registry:5000/a:1"}}),
        ("pool", "license", {"pools": "license"}),
    ],
)
def test_the_proposed_text_is_yaml_that_is_accepted(key: str, value: Any, expected: dict[str, Any]) -> None:
    tasks = {"a": "true", "b": {"run": "true", key: value}}
    problems = read({"tasks": tasks}).problems
    assert [problem.path for problem in problems] == [("tasks", "b", key)]
    proposed = re.fullmatch(r"in Weft this is `(.*)`", problems[0].fix or "")
    assert proposed is not None, problems[0].fix
    assert yaml.safe_load(proposed[1]) == expected
    assert read({"tasks": {"a": "true", "b": {"run": "true", **yaml.safe_load(proposed[1])}}}).problems == ()


@pytest.mark.parametrize("value", [None, {}, [[1]], "x" * 1000, {"a": object()}, float("nan"), [None], "a\nb"])
def test_no_value_breaks_a_line(value: Any) -> None:
    for record, word in LINES:
        fix = foreign_fix(record, RECORDS[record].by_name, word, value)
        assert fix is None or (len(fix) < 300 and "\n" not in fix), (record, word)
