"""docs/reference/definitions.md against the table of fields: every key is there, with its shape and meaning, and its
examples load. After a change of the table run with WEFT_REWRITE=1 and read the difference.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from weft.authoring.load import load_text
from weft.core.definition.child_workflows import WorkflowReference
from weft.core.definition.field_types.collections import Json, ListOf, MapOf, OneOf, Record
from weft.core.definition.field_types.notify_fields import NotifyType
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
from weft.core.definition.field_types.task_fields import CACHE_RECORD, WAIT_RECORD
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
    TASK,
)
from weft.core.definition.inferred_needs import TEMPLATED
from weft.core.definition.long_form import LONG_TASK, RETRY_POLICY, SPEC
from weft.core.definition.problems import NO_EXPRESSION
from weft.core.definition.read import WORKFLOW
from weft.core.definition.triggers import AFTER_RECORD, TRIGGER_RECORD, WEBHOOK_RECORD


def _inner(record: Record, key: str) -> Record:
    type_ = record.by_name[key].type
    assert isinstance(type_, Record)
    return type_


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "definitions.md"
TABLES: dict[str, Record] = {
    "workflow": WORKFLOW, "input": INPUT_RECORD, "trigger": TRIGGER_RECORD, "webhook": WEBHOOK_RECORD,
    "after": AFTER_RECORD, "defaults": DEFAULTS, "task": TASK, "retry": RETRY_RECORD,
    "container": CONTAINER, "kubernetes": KUBERNETES, "http": HTTP, "expect": _inner(HTTP, "expect"),
    "poll": _inner(HTTP, "poll"), "cloud run": CLOUD_RUN, "overrides": _inner(CLOUD_RUN, "overrides"),
    "agent": AGENT, "budget": BUDGET, "prices": PRICES.record, "wait": WAIT_RECORD, "cache": CACHE_RECORD,
    "requires": REQUIRES, "prefers": PREFERS, "long form": LONG_TASK, "spec": SPEC, "retryPolicy": RETRY_POLICY,
    "constraints": CONSTRAINTS,
}  # fmt: skip
#: Shapes that are more than one of the general ones.
OWN = {
    "triggers": "a list of triggers",
    "tasks": "tasks by name, or a list", "inputs": "inputs by name", "needs": "task name(s)",
    "dependsOn": "task name(s)", "retry": "a number, or `max`, `backoff` …", "wait": "mapping (wait)",
    "cache": "true or false, or mapping (cache)",
    "map": "a list, or one ${{ … }}", "matrix": "axes with lists of values",
    "tolerate": "a number, or a share like `5%`",
    "for": "duration, or ${{ … }}", "until": "ISO time, or ${{ … }}",
}  # fmt: skip


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
        case Address():
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


def table(record: Record) -> str:
    lines = ["| key | value | meaning |", "| --- | --- | --- |"]
    for field in record.fields:
        if not field.later and not field.hidden:
            lines.append(f"| `{field.name}` | {OWN.get(field.name) or shape_text(field.type)} | {field.doc} |")
    return "\n".join(lines)


def rewritten(page: str) -> str:
    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}\n{table(TABLES[match[2]])}\n<!-- end -->"

    return re.sub(r"(<!-- keys of: ([\w ]+) -->)\n.*?<!-- end -->", fill, page, flags=re.S)


def test_the_tables_are_those_of_the_program() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("WEFT_REWRITE"):
        PAGE.write_text(rewritten(page), encoding="utf-8")
    assert rewritten(page) == page
    assert re.findall(r"<!-- keys of: ([\w ]+) -->", page) == list(TABLES)


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S))
def test_the_examples_load(text: str) -> None:
    load_text(text)


def test_the_places_of_expressions_are_those_of_the_program() -> None:
    page = PAGE.read_text(encoding="utf-8")
    places = sorted(re.findall(r"`(\w+)`", page.partition("Expressions work in ")[2].partition(".")[0]))
    assert places == sorted({*TEMPLATED, "if", "output"})
    assert (
        sorted(re.findall(r"\w+", NO_EXPRESSION[1].removeprefix("expressions work in ").replace(" and", ",")))
        == places
    )
