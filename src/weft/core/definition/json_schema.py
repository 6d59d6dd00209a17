"""The JSON Schema (2020-12) of definitions, generated from the table of fields that the checker uses.

It describes what people may write: the short form, the long form and the bare list. Checks that depend on several
tasks (needs that exist, cycles) are beyond a schema: only the checker makes them.
"""

from typing import Any

from weft.core.definition.field_types.task_fields import TASK_NAME
from weft.core.definition.fields import COMMAND, TASK, TASK_KINDS
from weft.core.definition.long_form import LONG_TASK
from weft.core.definition.read import WORKFLOW
from weft.core.definition.source_paths import NAME_KEYS

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def definition_schema() -> dict[str, Any]:
    short = _short_task()
    long = {**LONG_TASK.schema(), "required": ["spec"]}
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
            "longTask": long,
        },
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def _short_task() -> dict[str, Any]:
    """A short task has exactly one of the keys that say what it does."""
    known = [kind for kind in TASK_KINDS if not TASK.by_name[kind].later]
    return {**TASK.schema(), "oneOf": [{"required": [kind]} for kind in known]}
