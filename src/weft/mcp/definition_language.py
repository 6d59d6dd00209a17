"""The definition language for those who write definitions by program: tables of keys, and the outline of its JSON
Schema. Both are made from the table of fields that the checker uses; docs/reference/definitions.md has the same
tables.
"""

from typing import Any, Final

from weft.core.definition.child_workflows import WorkflowReference
from weft.core.definition.field_types.collections import Field, Json, ListOf, MapOf, OneOf, Record
from weft.core.definition.field_types.notify_fields import DEADLINE, NotifyAddress, NotifyType, target_record
from weft.core.definition.field_types.remote_fields import RemoteType, Workdir
from weft.core.definition.field_types.retry_fields import RETRY_RECORD, FailuresType, MemoryFactor, OnLost
from weft.core.definition.field_types.scalars import (
    Boolean,
    Duration,
    Enum,
    Milliseconds,
    Number,
    Pattern,
    Size,
    Text,
)
from weft.core.definition.field_types.service_fields import (
    BUDGET,
    HTTP,
    PRICES,
    Address,
    ServiceType,
    Statuses,
)
from weft.core.definition.field_types.task_fields import CACHE_RECORD, PYTHON_RECORD, WAIT_RECORD
from weft.core.definition.fields import (
    AGENT,
    CLOUD_RUN,
    CONSTRAINTS,
    CONTAINER,
    DEFAULTS,
    INPUT_RECORD,
    KUBERNETES,
    PREFERS,
    REQUIRES,
    SECRET_NAME,
    TASK,
)
from weft.core.definition.long_form import LONG_TASK, RETRY_POLICY, SPEC
from weft.core.definition.read import WORKFLOW
from weft.core.definition.triggers import AFTER_RECORD, TRIGGER_RECORD, WEBHOOK_RECORD


def _inner(record: Record, key: str) -> Record:
    type_ = record.by_name[key].type
    assert isinstance(type_, Record)
    return type_


TABLES: Final[dict[str, Record]] = {
    "workflow": WORKFLOW, "input": INPUT_RECORD, "trigger": TRIGGER_RECORD, "webhook": WEBHOOK_RECORD,
    "after": AFTER_RECORD, "deadline": DEADLINE, "notify": target_record(SECRET_NAME),
    "defaults": DEFAULTS, "task": TASK, "python": PYTHON_RECORD, "retry": RETRY_RECORD,
    "container": CONTAINER, "kubernetes": KUBERNETES, "http": HTTP, "expect": _inner(HTTP, "expect"),
    "poll": _inner(HTTP, "poll"), "cloud run": CLOUD_RUN, "overrides": _inner(CLOUD_RUN, "overrides"),
    "agent": AGENT, "budget": BUDGET, "prices": PRICES.record, "wait": WAIT_RECORD, "cache": CACHE_RECORD,
    "requires": REQUIRES, "prefers": PREFERS, "long form": LONG_TASK, "spec": SPEC, "retryPolicy": RETRY_POLICY,
    "constraints": CONSTRAINTS,
}  # fmt: skip
#: Shapes that are more than one of the general ones.
_OWN: Final = {
    "triggers": "a list of triggers",
    "tasks": "tasks by name, or a list", "inputs": "inputs by name", "needs": "task name(s)",
    "dependsOn": "task name(s)", "retry": "a number, or `max`, `backoff` …", "wait": "mapping (wait)",
    "cache": "true or false, or mapping (cache)", "python": "a function, or mapping (python)",
    "map": "a list, or one ${{ … }}", "matrix": "axes with lists of values",
    "tolerate": "a number, or a share like `5%`", "allow": "`signal` \\| `submit` \\| `read_all`, or a list",
    "for": "duration, or ${{ … }}", "until": "ISO time, or ${{ … }}",
}  # fmt: skip


def table(record: Record) -> str:
    lines = ["| key | value | meaning |", "| --- | --- | --- |"]
    for field in record.fields:
        if not field.later and not field.hidden:
            lines.append(f"| `{field.name}` | {_OWN.get(field.name) or shape_text(field.type)} | {field.doc} |")
    return "\n".join(lines)


def shape_text(shape: Any) -> str:
    match shape:
        case Boolean():
            return "true or false"
        case Enum():
            return " \\| ".join(f"`{option}`" for option in shape.options)
        case Duration():
            return "duration"
        case Milliseconds():
            return "milliseconds"
        case Number():
            return f"{'whole number' if shape.whole else 'number'}, {shape.low:,g} to {shape.high:,.0f}"
        case Size():
            return "size"
        case Text() | Pattern() | MapOf():
            return str(shape.expected)
        case ListOf():
            return "text or list of texts" if shape.single else str(shape.expected)
        case OneOf():
            return ", or ".join(shape_text(one) for one in shape.types)
        case Record():
            return f"mapping ({shape.what})"
        case Json():
            return "any value"
        case Address() | NotifyAddress():
            return "a URL"
        case Statuses():
            return "a status, or a list"
        case ServiceType():
            mapping = f"mapping ({shape.record.what})"
            return mapping if shape.single is None else f"mapping ({shape.record.what}), or its {shape.single}"
        case RemoteType():
            return f"mapping ({shape.record.what})"
        case FailuresType():
            return "a failure, or a list"
        case MemoryFactor():
            return "a factor like `x2`"
        case OnLost():
            return "true, false or `adopt`"
        case Workdir():
            return "an absolute directory"
        case NotifyType():
            return "a target, or a list of them"
        case WorkflowReference():
            return "a name, a file or a flow"
    raise AssertionError(f"no words for {shape}")


def outline_schema() -> dict[str, Any]:
    """The JSON Schema of definitions, cut to the keys of workflows and short tasks and the plain types among them. It
    refuses nothing that the checker accepts: other forms (the long form, keys below these) are left open."""
    task = {"properties": _plain_properties(TASK)}  # of a mapping; a command alone is a task, too
    tasks = {"type": ["object", "array"], "additionalProperties": task}
    return {"type": "object", "properties": {**_plain_properties(WORKFLOW), "tasks": tasks}, "required": ["tasks"]}


_PLAIN: Final = ("string", "boolean", "integer", "object")


def _plain_properties(record: Record) -> dict[str, Any]:
    return {field.name: _plain(field) for field in record.fields if not field.later and not field.hidden}


def _plain(field: Field) -> dict[str, Any]:
    schema = field.type.schema()
    if "enum" in schema:
        return {"enum": schema["enum"]}
    return {"type": schema["type"]} if schema.get("type") in _PLAIN and not field.null else {}
