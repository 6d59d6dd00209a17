"""The JSON Schema (2020-12) of definitions, generated from the table of fields that the checker uses.

It describes what people may write: the short form, the long form and the bare list. Checks that depend on several
tasks (needs that exist, cycles) are beyond a schema: only the checker makes them.
"""

from typing import Any

from weft.core.definition.field_types.task_fields import TASK_NAME
from weft.core.definition.fields import COMMAND, REMOTE_KEYS, TASK, TASK_KINDS
from weft.core.definition.long_form import (
    LONG_TASK,
    PLUGIN_LONG_TASK,
    REMOTE_LONG_TASKS,
    REMOTE_TYPES,
    SERVICE_LONG_TASKS,
)
from weft.core.definition.read import WORKFLOW
from weft.core.definition.source_paths import NAME_KEYS

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def definition_schema() -> dict[str, Any]:
    short = _short_task()
    name = {"name": TASK_NAME.schema()}
    return {
        "$schema": SCHEMA_ID,
        "title": "A Weft workflow",
        "anyOf": [
            {**WORKFLOW.schema(), "required": ["tasks"]},
            {
                "type": "array",
                "description": "A chain: each task needs the one before it.",
                "items": {"anyOf": [COMMAND.schema(), _ref("namedShortTask"), _ref("longTask")]},
                "minItems": 1,
            },
        ],
        "$defs": {
            "task": {"anyOf": [COMMAND.schema(), _ref("shortTask"), _ref("longTask")]},
            "namedTask": {
                "anyOf": [
                    {"allOf": [_ref("namedShortTask"), {"required": ["name"]}]},
                    {"allOf": [_ref("longTask"), {"anyOf": [{"required": [key]} for key in NAME_KEYS]}]},
                ]
            },
            "shortTask": short,
            "namedShortTask": {**short, "properties": {**name, **short["properties"]}},
            "longTask": {"anyOf": _long_tasks()},
        },
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def _short_task() -> dict[str, Any]:
    """A short task has exactly one of the keys that say what it does; in a container it may have none."""
    known = [{"required": [kind]} for kind in TASK_KINDS if not TASK.by_name[kind].later]
    remote = [
        {"required": [key], "properties": {key: {"type": "object"}}, "not": {"anyOf": known}} for key in REMOTE_KEYS
    ]
    own = {"not": {"required": ["spec"]}}  # it is a plugin's
    kinds = [one if one == {"required": ["type"]} else {"allOf": [one, own]} for one in known]
    return {**TASK.schema(), "oneOf": [*kinds, *remote]}


def _long_tasks() -> list[dict[str, Any]]:
    """One schema for each kind of `spec`."""
    shell = LONG_TASK.schema()
    shell["properties"]["type"] = {**shell["properties"]["type"], "enum": ["shell"]}
    out = [{**shell, "required": ["spec"]}]
    for key, record in REMOTE_LONG_TASKS.items():
        schema = record.schema()
        types = [type_ for type_, short in REMOTE_TYPES.items() if short == key]
        schema["properties"]["type"] = {**schema["properties"]["type"], "enum": types}
        out.append({**schema, "required": ["spec", "type"]})
    for type_, record in SERVICE_LONG_TASKS.items():
        schema = record.schema()
        schema["properties"]["type"] = {**schema["properties"]["type"], "enum": [type_]}
        out.append({**schema, "required": ["spec", "type"]})
    return [*out, {**PLUGIN_LONG_TASK.schema(), "required": ["type"]}]
