"""A flow becomes the document that YAML would make, and calls outside a flow stay plain calls."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk import pipelines as p
from weft import FlowError, shell, task, wait
from weft.authoring.load import load_text

NIGHTLY = """
name: nightly
description: Loads one day.
inputs: {day: string}
output: ${{ tasks.load.output }}
tasks:
  extract:
    python: tests.sdk.pipelines:extract
    with: {day: "${{ inputs.day }}"}
    timeout: 10m
    retry: {max: 3, backoff: 2s}
  transform:
    map: ${{ tasks.extract.output }}
    python: tests.sdk.pipelines:transform
    with: {path: "${{ item }}"}
  load:
    python: tests.sdk.pipelines:load
    with: {paths: "${{ tasks.transform.output }}"}
"""


def tasks_of(flow: Any) -> dict[str, Any]:
    tasks: dict[str, Any] = flow.definition()["tasks"]
    return tasks


def test_it_is_the_document_that_yaml_makes() -> None:
    loaded = load_text(NIGHTLY)
    assert p.nightly.definition() == loaded.document
    assert p.nightly.load().workflow.hash == loaded.workflow.hash


def test_a_flow_is_traced_once_and_its_definition_cannot_be_spoilt(monkeypatch: pytest.MonkeyPatch) -> None:
    p.nightly.definition()["tasks"].clear()
    monkeypatch.setattr(p.nightly, "_function", None)
    assert list(tasks_of(p.nightly)) == ["extract", "transform", "load"]


def test_outside_a_flow_everything_is_a_plain_call() -> None:
    assert p.extract("d") == ["d-a", "d-b"]
    assert p.transform.options(retries=9)("a", suffix="b") == "ab"
    assert p.transform.map(["a", "b"], suffix="!") == ["a!", "b!"]
    assert p.load.options(batch=2).map([["a"], ["b"], ["c"]]) == [2, 1]
    assert p.nightly("d") == 2
    assert asyncio.run(p.fetch("u")) == "got u"


def test_a_task_looks_like_its_function() -> None:
    assert p.extract.__name__ == "extract"
    assert p.extract.__doc__ == "Not part of the definition."
    assert inspect.signature(p.extract) == inspect.signature(p.extract.__wrapped__)
    assert repr(p.extract) == "<task tests.sdk.pipelines:extract>"
    assert repr(p.nightly) == "<flow tests.sdk.pipelines:nightly>"


def test_annotations_and_defaults_become_inputs() -> None:
    document = p.many_inputs.definition()
    assert document["inputs"] == {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number", "default": 1},
        "flag": {"type": "boolean", "default": False},
        "names": {"type": "array", "default": ["a"]},
        "more": {"type": "array", "default": [1, 2]},
        "table": {"type": "object", "default": {}},
        "place": {"type": "object", "default": {"lat": 1.5}},
        "size": {"type": "string", "default": "s", "enum": ["s", "m"]},
        "level": {"type": "integer", "default": 2, "enum": [1, 2, 3]},
        "maybe": {"type": "string", "default": None},
        "shown": {"type": "string", "default": "x", "description": "what it is for"},
        "untyped": {"type": "integer", "default": 7},
    }
    del document["inputs"], document["tasks"]
    assert document == {
        "name": "many-inputs", "on_failure": "continue", "max_parallel": 4, "timeout": "1h", "env": {"A": "1"},
    }  # fmt: skip


def test_repeated_calls_have_names_of_their_own() -> None:
    document = p.repeated.definition()
    tasks = document["tasks"]
    assert list(tasks) == ["extract", "extract_2", "extract_3", "last", "extract_4"]
    assert [task["retry"]["max"] for task in tasks.values()] == [0, 1, 2, 3, 3]
    assert tasks["extract_2"]["with"] == {"day": "${{ inputs.days[1] }}"}
    assert document["output"] == {
        "all": ["${{ tasks.extract.output }}", "${{ tasks.extract_2.output }}", "${{ tasks.extract_3.output }}"],
        "first": "${{ tasks.extract.output[0] }}",
        "last": "${{ tasks.last.output }}",
        "again": "${{ tasks.extract_4.output }}",
        "fixed": [1, None, "$${{ text }}"],
    }


def test_options_become_keys() -> None:
    tasks = tasks_of(p.options)
    place = "tests.sdk.pipelines"
    assert tasks["transform"] == {
        "python": f"{place}:transform", "with": {"path": "x"}, "needs": ["extract"],
        "if": "tasks.extract.output.length > 0", "priority": 7,
    }  # fmt: skip
    assert tasks["third"] == {
        "python": f"{place}:transform", "with": {"path": "y"}, "needs": ["extract"],
        "if": "${{ tasks.transform.output.ok }}", "env": {"DAY": "${{ inputs.day }}"}, "cwd": "sub",
    }  # fmt: skip
    assert tasks["tidy-up"] == {
        "python": f"{place}:clean", "with": {"deep": True}, "needs": ["extract", "transform"],
        "when": "always", "allow_failure": True,
    }  # fmt: skip
    assert tasks["say"] == {"run": "echo ${{ inputs.day }}", "when": "none_failed", "shell": "bash"}
    assert tasks["convert"] == {
        "argv": ["./bin/convert.sh", "${{ inputs.day }}", "--all", "${{ tasks.extract.output[0] }}"],
        "retry": {"max": 1},
    }  # fmt: skip


def test_engines_and_retries() -> None:
    tasks = tasks_of(p.engines)
    assert tasks["transform"]["container"] == {"image": "python:3.14", "env": {"DAY": "${{ inputs.day }}"}}
    assert tasks["transform"]["retry"] == {
        "max": 2, "on": ["tests.sdk.pipelines.Refused", "TimeoutError", 75, "lost"], "not_on": ["ValueError"],
    }  # fmt: skip
    assert tasks["make"] == {"run": "make all", "container": None}
    assert tasks["train"] == {
        "argv": ["train", "${{ inputs.day }}"],
        "kubernetes": {"image": "trainer:2", "env": {"DAY": "${{ inputs.day }}"}},
    }


def test_members_of_symbols() -> None:
    document = p.members.definition()
    assert document["tasks"]["anything"]["with"] == {"a": 1, "not a name": "${{ inputs.name }}"}
    assert document["output"] == {
        "deep": "${{ tasks.anything.output.rows[0]['a-b'].c }}",
        "slice": "${{ tasks.anything.output.rows.slice(1, 3) }}",
        "tail": "${{ tasks.anything.output.rows.slice(-2) }}",
        "computed": "${{ tasks.anything.output.rows[inputs.index] }}",
        "quote": "${{ tasks.anything.output['it\\'s'] }}",
    }


def test_map_takes_symbols_and_lists() -> None:
    tasks = tasks_of(p.mapped)
    assert tasks["transform"]["map"] == "${{ inputs.files }}"
    assert tasks["transform"]["with"] == {"path": "${{ item }}", "suffix": ".x"}
    assert (tasks["transform"]["max_parallel"], tasks["transform"]["tolerate"]) == (2, "5%")
    assert tasks["transform_2"]["map"] == ["${{ tasks.transform.output[0] }}", "b", "$${{ c }}"]
    assert tasks["transform_2"]["with"] == {"path": "${{ item }}", "suffix": "!"}
    assert tasks["transform_3"]["map"] == "${{ tasks.transform_2.output }}"


def test_waits() -> None:
    document = p.approved.definition()
    tasks = document["tasks"]
    assert tasks["approve"] == {"wait": {"signal": "approve", "timeout": "1d", "default": {"by": "nobody"}}}
    assert tasks["pause"] == {"wait": {"for": "10m"}, "needs": ["approve"]}
    assert tasks["moment"] == {"wait": {"until": "${{ inputs.day }}"}}
    assert document["output"] == "${{ tasks.approve.output.by }}"


def test_the_definitions_directory_is_where_modules_are_imported_from() -> None:
    source = p.nightly.load().source_path
    assert source is not None
    assert source.name == "tests"


def test_shell_and_wait_need_a_flow() -> None:
    calls: list[Callable[[], object]] = [lambda: shell("true"), lambda: wait("x")]
    for call in calls:
        with pytest.raises(FlowError, match="only inside a flow"):
            call()


def test_what_no_other_process_could_find_is_refused() -> None:
    def nested() -> None: ...

    class Holder:
        def method(self) -> None: ...

    refused: list[tuple[Any, str]] = [
        (nested, "nested is defined inside another function"),
        (lambda: None, "a lambda cannot be a task"),
        (Holder().method, "inside another function"),
        (p.extract, "is already a task"),
        (7, "not for a int"),
    ]
    for function, said in refused:
        with pytest.raises(FlowError, match=said):
            task(function)


def test_unknown_options_are_refused_with_what_was_meant() -> None:
    with pytest.raises(FlowError, match=r"did you mean timeout=\?"):
        p.extract.options(timout=3)  # type: ignore[call-arg]
    with pytest.raises(FlowError, match="@task has no option 'colour'"):
        task(colour="red")  # type: ignore[call-overload]


def test_an_interpreter_of_its_own() -> None:
    tasks = tasks_of(p.interpreters)
    assert tasks["transform"]["python"] == {"call": "tests.sdk.pipelines:transform", "venv": "envs/other"}
    assert tasks["again"]["python"] == {"call": "tests.sdk.pipelines:transform", "interpreter": "/usr/bin/python3"}
    with pytest.raises(FlowError, match=r"venv= does not apply: shell\(\) calls no Python function"):
        p.command_with_venv.definition()


def test_files_of_tasks() -> None:
    tasks = tasks_of(p.files)
    assert tasks["make"]["artifacts"] == ["dist"]
    assert (tasks["transform"]["files"], tasks["transform"]["needs"]) == (["make"], ["make"])
