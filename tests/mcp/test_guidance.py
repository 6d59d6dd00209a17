"""What clients read besides calling tools: the definition language, prompts; and what all of it costs a model."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from mcp import MCPError

from tests.mcp.conftest import MODES, Agents, Calls
from weft.authoring.load import load_text
from weft.core.definition.json_schema import definition_schema
from weft.mcp.definition_language import TABLES, outline_schema
from weft.mcp.guidance import BY_URI, PROMPTS, SCHEMA
from weft.mcp.server import TOOLS, described

DOCS = Path(__file__).parents[2] / "docs"
LISTED_BYTES_MAX = 68_500  # of 45 tools
EXAMPLES = [
    text
    for page in (DOCS / "reference/definitions.md", *sorted((DOCS / "guides").glob("*.md")))
    for text in re.findall(r"```yaml\n(.*?)```", page.read_text(), flags=re.S)
    if "tasks:" in text
]


@pytest.mark.parametrize("mode", MODES)
def test_the_definition_language_can_be_read(idle: Agents, mode: str) -> None:
    async def talk(calls: Calls) -> None:
        listed = (await calls.client.list_resources()).resources
        assert [one.uri for one in listed] == ["weft://definitions", SCHEMA]
        text = (await calls.client.read_resource("weft://definitions")).contents[0].text  # type: ignore[union-attr]
        assert "| `max_parallel` |" in text
        for uri in re.findall(r"weft://[a-zA-Z/-]+", text):
            assert (await calls.client.read_resource(uri)).contents, uri
        schema = (await calls.client.read_resource(SCHEMA)).contents[0].text  # type: ignore[union-attr]
        assert json.loads(schema) == json.loads(json.dumps(definition_schema()))
        (template,) = (await calls.client.list_resource_templates()).resource_templates
        assert "agent" in (template.description or "")
        with pytest.raises(MCPError, match="did you mean weft://definitions/agent"):
            await calls.client.read_resource("weft://definitions/agents")

    idle.tell(talk, mode=mode)


def test_every_mapping_has_a_resource_and_the_examples_load() -> None:
    assert {f"weft://definitions/{name.replace(' ', '-')}" for name in TABLES} < set(BY_URI)
    examples = re.findall(r"```yaml\n(.*?)```", BY_URI["weft://definitions"].text(), flags=re.S)
    assert len(examples) == 2
    for text in examples:
        load_text(text)


def test_prompts_name_tools_that_exist(idle: Agents) -> None:
    names = {tool.name for tool in TOOLS}

    async def talk(calls: Calls) -> None:
        listed = (await calls.client.list_prompts()).prompts
        assert [one.name for one in listed] == [one.name for one in PROMPTS]
        for prompt in PROMPTS:
            given = dict.fromkeys(prompt.arguments, "a {brace} and\x07 a bell")
            found = await calls.client.get_prompt(prompt.name, given)
            text = found.messages[0].content.text  # type: ignore[union-attr]
            assert "a {brace} and  a bell" in text
            called = re.findall(r"\b(?:[a-z]+_)+[a-z]+\b", text)
            assert called
            assert {word for word in called if word not in ("wait_s", "catch_up")} <= names
            for uri in re.findall(r"weft://[a-z/]*[a-z]", text):
                assert uri in BY_URI
        with pytest.raises(MCPError, match="repair_run takes run"):
            await calls.client.get_prompt("repair_run", {})
        with pytest.raises(MCPError, match="there is no prompt 'nothing'"):
            await calls.client.get_prompt("nothing", {})

    idle.tell(talk)


def test_the_list_of_tools_stays_small() -> None:
    """A model is sent all of it in each conversation."""
    listed = [described(tool).model_dump_json(by_alias=True, exclude_none=True) for tool in TOOLS]
    assert sum(map(len, listed)) < LISTED_BYTES_MAX
    for tool in TOOLS:
        assert len(tool.description) < 400, tool.name


def test_the_outline_refuses_nothing_that_loads() -> None:
    """It stands in tools/list: a client may check arguments with it before it sends them."""
    outline = jsonschema_rs.validator_for(outline_schema())
    tried = 0
    for text in EXAMPLES:
        try:
            load_text(text)
        except Exception:
            continue  # a part of a definition
        outline.validate(yaml.safe_load(text))
        tried += 1
    for more in ({"tasks": {"a": True}}, {"tasks": [{"name": "a", "run": "true"}]}, {"tasks": {"a": {"run": ["a"]}}}):
        _accepted_alike(outline, more)
    assert tried > 30


def _accepted_alike(outline: Any, definition: dict[str, Any]) -> None:
    if jsonschema_rs.is_valid(definition_schema(), definition):
        outline.validate(definition)


def test_the_outline_is_part_of_the_tools() -> None:
    for name in ("submit_workflow", "validate_workflow"):
        tool = next(described(one) for one in TOOLS if one.name == name)
        forms = tool.input_schema["properties"]["definition"]["anyOf"]
        assert any("tasks" in form.get("properties", {}) for form in forms), name
