"""Inputs: how they are declared, and how the values of a run are checked against the declarations."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from weft.core.definition.field_types.collections import Json, MapOf
from weft.core.definition.field_types.scalars import Enum
from weft.core.definition.field_types.text_formats import FORMATS
from weft.core.definition.fields import INPUT_NAME, INPUT_RECORD, INPUT_TYPES
from weft.core.definition.inferred_needs import has_template
from weft.core.definition.problems import (
    INTEGER_MAX,
    INVALID,
    ProblemCollector,
    ValueProblem,
    describe,
    mismatch,
    quoted,
)
from weft.core.workflow import InputDef

_TYPE_NAMES = {
    "string": "text", "integer": "a whole number", "number": "a number",
    "boolean": "true or false", "array": "a list", "object": "a mapping",
}  # fmt: skip


class InputError(ValueError):
    """The inputs of a run do not match their declarations."""


class InputType(msgspec.Struct, frozen=True):
    """A declaration; a type alone declares a required input of that type."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, str):
            kind = Enum(INPUT_TYPES).read(collector, value)
            return INVALID if kind is INVALID else {"type": kind}
        if not isinstance(value, dict):
            return mismatch(collector, "an input: a type, or a mapping with type and default", value)
        before = len(collector.problems)
        out = INPUT_RECORD.read(collector, value)
        if len(collector.problems) > before:
            return INVALID
        if "type" not in out:
            out = {"type": "string" if "format" in out else _type_of(out.get("default")), **out}
        _check_declaration(collector, out)
        return out

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"enum": list(INPUT_TYPES)}, INPUT_RECORD.schema()]}


INPUTS = MapOf(INPUT_NAME, InputType(), "a mapping of input names to their types")


def _check_declaration(collector: ProblemCollector, declared: dict[str, Any]) -> None:
    kind, enum, default = declared["type"], declared.get("enum"), declared.get("default")
    form = declared.get("format")
    if form is not None and kind != "string":
        collector.problem_at(
            (*collector.path, "format"),
            f"`format` applies only to texts, and the type of the input is {kind}",
            "use type: string",
            "key",
        )
        return
    for at, option in enumerate(enum or ()):
        if not _fits(kind, option, form):
            collector.problem_at(
                (*collector.path, "enum", at), f"expected {_expected(kind, form)}, found {describe(option)}"
            )
    if default is not None and not _fits(kind, default, form):
        collector.problem_at(
            (*collector.path, "default"), f"expected {_expected(kind, form)}, found {describe(default)}"
        )
    elif default is not None and enum and default not in enum:
        collector.problem_at((*collector.path, "default"), f"the default must be one of {_options(enum)}")
    if "default" in declared and declared.get("required"):
        collector.problem_at(
            (*collector.path, "required"), "an input with a default is not required", "remove one of them", "key"
        )


def define_inputs(declared: Mapping[str, Any]) -> dict[str, InputDef]:
    """The inputs that a canonical document declares."""
    out = {}
    for name, body in declared.items():
        enum = body.get("enum")
        out[name] = InputDef(
            type=body["type"],
            required=body.get("required", "default" not in body),
            default=body.get("default"),
            enum=None if enum is None else tuple(enum),
            description=body.get("description"),
            format=body.get("format"),
        )
    return out


def parse_input(declared: InputDef, text: str) -> Any:
    """The value of `--input name=text`: strings verbatim, everything else as JSON of the declared type."""
    if declared.type == "string":
        return text
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        value = INVALID
    if value is INVALID or not _fits(declared.type, value):
        example = {"array": " written as JSON, e.g. [1, 2]", "object": ' written as JSON, e.g. {"a": 1}'}
        raise InputError(
            f"expected {_TYPE_NAMES[declared.type]}{example.get(declared.type, '')}, found {quoted(text)}"
        )
    return value


def resolve_inputs(
    declared: Mapping[str, InputDef], values: Mapping[str, Any]
) -> tuple[dict[str, Any], list[ValueProblem]]:
    """The values of all inputs, in the order of their declaration, and all problems."""
    collector = ProblemCollector()
    resolved: dict[str, Any] = {}
    for name in values:
        if name not in declared:
            fix = collector.did_you_mean(name, declared) or (
                f"known inputs: {', '.join(declared)}" if declared else "this workflow takes no inputs"
            )
            collector.problem_at((name,), f"there is no input {quoted(name)}", fix, "key")
    for name, definition in declared.items():
        if name in values:
            resolved[name] = values[name]
            collector.path = [name]
            check_input(collector, name, definition, values[name])
        elif definition.required:
            what = f": {definition.description}" if definition.description else ""
            collector.problem_at(
                (name,), f"the input '{name}' ({definition.type}) is missing{what}", f"set it: --input {name}=…"
            )
        else:
            resolved[name] = definition.default
    return resolved, collector.problems


def checked_inputs(declared: Mapping[str, InputDef], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all inputs. Raises InputError, with all problems."""
    resolved, problems = resolve_inputs(declared, values)
    if problems:
        raise InputError("\n".join(problem.message for problem in problems))
    return resolved


def wrong_inputs(declared: Mapping[str, InputDef], values: Mapping[str, Any]) -> list[ValueProblem]:
    """The problems of `with` that are known before a run; paths begin with the name of the input. An expression is
    checked when it has a value."""
    collector = ProblemCollector()
    for name, value in values.items():
        if name not in declared:
            fix = collector.did_you_mean(name, declared) or (
                f"its inputs are {', '.join(declared)}" if declared else "the workflow takes no inputs"
            )
            collector.problem_at((name,), f"the workflow has no input {quoted(name)}", fix, "key")
        elif not has_template(value):
            collector.path = [name]
            check_input(collector, name, declared[name], value)
    for name, definition in declared.items():
        if definition.required and name not in values:
            what = f"the workflow's input {quoted(name)} ({definition.type}) is missing"
            collector.problem_at((), what, f"add it to with: {{{name}: …}}", "key")
    return collector.problems


def check_input(collector: ProblemCollector, name: str, definition: InputDef, value: Any) -> None:
    if value is None and not definition.required and definition.default is None:
        return
    if not _fits(definition.type, value, definition.format):
        expected = _expected(definition.type, definition.format)
        collector.problem(f"the input '{name}' takes {expected}, found {describe(value)}")
    elif definition.enum is not None and value not in definition.enum:
        collector.problem(f"the input '{name}' must be one of {_options(definition.enum)}, found {describe(value)}")
    else:
        Json(f"the input '{name}'").read(collector, value)


def _options(enum: Any) -> str:
    shown = [json.dumps(option, ensure_ascii=False)[:60] for option in list(enum)[:20]]
    return ", ".join(shown) + (" …" if len(enum) > 20 else "")


def _expected(kind: str, form: str | None) -> str:
    return FORMATS[form][1] if form is not None else _TYPE_NAMES[kind]


def _fits(kind: str, value: Any, form: str | None = None) -> bool:
    if kind == "string":
        return isinstance(value, str) and (form is None or _reads(form, value))
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INTEGER_MAX
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, (list, tuple)) if kind == "array" else isinstance(value, dict)


def _reads(form: str, text: str) -> bool:
    try:
        FORMATS[form][0](text)
    except ValueError:
        return False
    return True


def _type_of(value: Any) -> str:
    if value is None:
        return "string"
    return next(kind for kind in ("boolean", "integer", "number", "string", "array", "object") if _fits(kind, value))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
