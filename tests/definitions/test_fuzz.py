"""Whatever comes in, only a workflow or DefinitionErrors comes out, in bounded time and with printable words."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import Loaded, load_text, load_value
from weft.cli.terminal.graph_text import draw

calm = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])


def outcome(load: Callable[[], Loaded]) -> Loaded | DefinitionErrors:
    try:
        return load()
    except DefinitionErrors as errors:
        return errors


def check(load: Callable[[], Loaded]) -> None:
    got = outcome(load)
    if isinstance(got, DefinitionErrors):
        assert got.errors
        assert all(c.isprintable() or c == "\n" for c in str(got))
        json.dumps(got.as_json())
    else:
        assert load_value(got.document).document == got.document
        assert all(len(line) <= 40 for line in draw(got.workflow, 40))


WORDS = st.sampled_from(
    ["tasks", "run", "needs", "a", "b", "env", ":", ": ", "\n", "\n  ", "\n    ", "- ", "{", "}", "[", "]",
     ",", '"', "'",
     "|", ">", "&x ", "*x", "!!str ", "%", "@", "`", "#", "\t", "~", "3", "1.5", "true", "? ", "---\n",
     "...\n", "\\u0041", "\\ud800",
     "null", "<<", "${{ tasks.a.state }}", "$${{", "${{", "}}", "tasks.b.exitCode", "index", "output", "python",
     "timeout", "10m", "name", "if", "condition", "spec",
     "type", "dependsOn",
     "\r", "\x85", "\u2028", "\ufeff", "\x00", "\x1b[31m", "é", "日", "😀"]
)  # fmt: skip


@calm
@given(st.lists(WORDS, max_size=40).map("".join), st.sampled_from(["yaml", "json"]))
def test_made_of_pieces(text: str, format: Any) -> None:
    check(lambda: load_text(text, "w", format))


@calm
@given(st.text(max_size=60), st.sampled_from(["yaml", "json"]))
def test_any_text(text: str, format: Any) -> None:
    check(lambda: load_text(text, "w", format))


KEYS = st.sampled_from(
    ["tasks", "run", "argv", "needs", "env", "retry", "max", "timeout", "inputs", "type", "spec", "command",
     "args", "dependsOn", "key",
     "id", "name", "default", "enum", "defaults", "requires", "memory", "labels", "when", "if", "replicas",
     "a", "b", "shell", "chain",
     "python", "with", "output", "env", "cwd", "${{ tasks.b.output }}", "${{ inputs.a }}", "tasks.a.state",
     "long_form", "condition", "constraints", "context", "triggers", "on_failure", "x\0", "\ud800", ""]
)  # fmt: skip
JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        KEYS,
        st.just("always"),
        st.binary(max_size=2),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(KEYS, st.integers(0, 3), st.none()), inner, max_size=5),
        st.tuples(inner),
    ),
    max_leaves=25,
)


@calm
@given(JUNK, st.booleans())
def test_any_python_value(value: Any, as_tasks: bool) -> None:
    check(lambda: load_value({"tasks": {"a": value, "b": {"run": "x", "needs": value}}} if as_tasks else value))


@calm
@given(JUNK)
def test_any_json_value(value: Any) -> None:
    try:
        text = json.dumps({"tasks": {"a": value}, "inputs": value, "context": value})
    except TypeError:
        return
    check(lambda: load_text(text, "w", "json"))


BOMBS = {
    "deep flow list": "[" * 1_000_000,
    "deep flow map": "{a: " * 300_000,
    "deep block": "".join(" " * at + "a:\n" for at in range(2000)),
    "deep indicators": "- " * 300_000 + "x",
    "aliases": "a: &a [x]\n" + "".join(f"b{i}: [*a, *a, *a]\n" for i in range(50_000)),
    "one scalar": "tasks: {a: " + "x" * 10_000_000 + "}",
    "one quoted scalar": 'tasks: {a: "' + "x " * 5_000_000 + '"}',
    "one block scalar": "tasks:\n  a: |\n" + "    x\n" * 1_000_000,
    "one plain scalar of many lines": "tasks:\n  a: x\n" + "    x\n" * 500_000,
    "digits": "timeout: " + "9" * 5_000_000,
    "one long key": "tasks: {'" + "k" * 5_000_000 + "': x}",
    "many duplicates": "a: 1\n" * 100_000,
    "question marks": "? " * 100_000,
    "quotes": '"' * 1_000_000,
    "openings": "tasks: {a: '" + "${{" * 100_000 + "'}",
    "references": "tasks: {a: {run: x, if: '" + "tasks.a.state " * 50_000 + "'}}",
    "many expressions": "inputs: {x: string}\ntasks: {a: '" + "${{ inputs.x }} " * 20_000 + "'}",
    "many wrong names": "tasks: {a: '" + "${{ inputs.x }} " * 20_000 + "'}",
    "wrong names": "tasks:\n" + "".join(f"  t{i}: {{run: x, if: tasks.u{i}.state === 1}}\n" for i in range(20_000)),
    "all wrong": "tasks:\n" + "".join(f"  t{i}: {{rum: x, needs: [u{i}], timeout: soon}}\n" for i in range(20_000)),
    "one wrong line": "tasks: {" + ", ".join(f"t{i}: {{rum: x}}" for i in range(20_000)) + "}",
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("format", ["yaml", "json"])
def test_bombs(name: str, format: Any) -> None:
    began = time.process_time()
    got = outcome(lambda: load_text(BOMBS[name], "w", format))
    assert isinstance(got, Loaded) or len(str(got)) < 100_000
    assert time.process_time() - began < 10  # a hang is what is looked for; the slowest takes about a second
