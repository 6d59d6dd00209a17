"""What is exported loads to exactly the definition it was made from."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sdk import pipelines
from weft import Flow
from weft.authoring.load import load_text, load_value
from weft.authoring.yaml_export import yaml_of

FLOWS = [
    value
    for name, value in vars(pipelines).items()
    if isinstance(value, Flow) and name != "command_with_venv"  # which is refused
]
AWKWARD = [
    "", " ", "yes", "no", "on", "null", "~", "1", "01", "1e5", "0o17", "0x1F", "1_000", ".5", "-.inf", ".nan", "=",
    "-", "- a", "a: b", "a #b", "#", "&a", "*a", "!a", "%a", "@a", "`a", "{a", "[a]", "? a", "|", ">", "'", '"', "\\",
    "a\\n", "2026-01-01", "12:30:45", "<<", "...", "---", "\ttab", "trail ", "a\n", "a\nb", "a\n\n b\n", "a \nb",
    "\n", "\n a", "é", "\u2028x", "x\x85y", "\ufeff", "😀", "a\r\nb", "${{ inputs.x }}", "true", "TRUE", "0",
    "+1", "1.", "nan",
]  # fmt: skip


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.__name__)
def test_the_round_trip_of_every_flow_is_exact(flow: Flow[Any, Any]) -> None:
    document = flow.definition()
    loaded = load_text(yaml_of(document))
    assert loaded.document == document
    assert list(loaded.document["tasks"]) == list(document["tasks"])
    assert loaded.workflow.hash == flow.load().workflow.hash


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_texts_survive(text: str) -> None:
    _round_trip({text: text, "a": [text]}, text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.text() | st.sampled_from(AWKWARD)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.text(min_size=1), VALUES, max_size=4), st.text(min_size=1))
@settings(max_examples=300, deadline=None)
def test_any_value_survives(arguments: dict[str, Any], command: str) -> None:
    _round_trip(arguments, command)


def _round_trip(arguments: dict[str, Any], command: str) -> None:
    value = {
        "name": "w",
        "tasks": {"a": {"python": "m:f", "with": arguments}, "b": {"run": command, "env": {"X": command}}},
    }
    try:
        document = load_value(value).document
    except Exception:
        return  # what is no definition needs no export
    again = load_text(yaml_of(document)).document
    assert again == document
    assert repr(again) == repr(document), "1 and 1.0 are equal, but not the same"
