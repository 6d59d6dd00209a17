"""Inputs: how they are declared, and how the values given to a run are checked against the declarations."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.core.definition.container_types import Json, MapOf
from weft.core.definition.fields import INPUT_NAME, INPUT_RECORD, INPUT_TYPES
from weft.core.definition.inferred_needs import has_template
from weft.core.definition.problems import BAD, INTEGER_MAX, Problem, Reader, found, mismatch, quoted
from weft.core.definition.scalar_types import Choice
from weft.core.definition.text_formats import FORMATS
from weft.core.workflow import InputDef

_ARTICLES = {
    "string": "text", "integer": "a whole number", "number": "a number",
    "boolean": "true or false", "array": "a list", "object": "a mapping",
}  # fmt: skip


class InputError(ValueError):
    """A value that is not of the input's type."""


@dataclass(frozen=True, slots=True)
class InputShape:
    """A declaration; a type alone stands for a required input of that type."""

    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, str):
            kind = Choice(INPUT_TYPES).read(reader, value)
            return BAD if kind is BAD else {"type": kind}
        if not isinstance(value, dict):
            return mismatch(reader, "an input: a type, or a mapping with type and default", value)
        before = len(reader.problems)
        out = INPUT_RECORD.read(reader, value)
        if len(reader.problems) > before:
            return BAD
        if "type" not in out:
            out = {"type": "string" if "format" in out else _type_of(out.get("default")), **out}
        _check_declaration(reader, out)
        return out

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"enum": list(INPUT_TYPES)}, INPUT_RECORD.schema()]}


INPUTS = MapOf(INPUT_NAME, InputShape(), "a mapping of input names to their types")


def _check_declaration(reader: Reader, declared: dict[str, Any]) -> None:
    kind, enum, default = declared["type"], declared.get("enum"), declared.get("default")
    form = declared.get("format")
    if form is not None and kind != "string":
        reader.problem_at(
            (*reader.path, "format"), f"a format is for texts, and its type is {kind}", "use type: string", "key"
        )
        return
    for at, option in enumerate(enum or ()):
        if not _fits(kind, option, form):
            reader.problem_at((*reader.path, "enum", at), f"expected {_wanted(kind, form)}, found {found(option)}")
    if default is not None and not _fits(kind, default, form):
        reader.problem_at((*reader.path, "default"), f"expected {_wanted(kind, form)}, found {found(default)}")
    elif default is not None and enum and default not in enum:
        reader.problem_at((*reader.path, "default"), f"the default must be one of {_options(enum)}")
    if "default" in declared and declared.get("required"):
        reader.problem_at(
            (*reader.path, "required"), "an input with a default is not required", "remove one of them", "key"
        )


def define_inputs(declared: Mapping[str, Any]) -> dict[str, InputDef]:
    """From the canonical document."""
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
    """The value that `--input name=text` means: strings verbatim, everything else as JSON of the right type."""
    if declared.type == "string":
        return text
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        value = BAD
    if value is BAD or not _fits(declared.type, value):
        example = {"array": " written as JSON, e.g. [1, 2]", "object": ' written as JSON, e.g. {"a": 1}'}
        raise InputError(f"expected {_ARTICLES[declared.type]}{example.get(declared.type, '')}, found {quoted(text)}")
    return value


def resolve_inputs(
    declared: Mapping[str, InputDef], given: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Problem]]:
    """The values of all inputs, in the order of their declaration, and everything that is wrong."""
    reader = Reader()
    values: dict[str, Any] = {}
    for name in given:
        if name not in declared:
            fix = reader.did_you_mean(name, declared) or (
                f"known inputs: {', '.join(declared)}" if declared else "this workflow takes no inputs"
            )
            reader.problem_at((name,), f"there is no input {quoted(name)}", fix, "key")
    for name, definition in declared.items():
        if name in given:
            values[name] = given[name]
            reader.path = [name]
            check_input(reader, name, definition, given[name])
        elif definition.required:
            what = f": {definition.description}" if definition.description else ""
            reader.problem_at(
                (name,), f"the input '{name}' ({definition.type}) is missing{what}", f"give it: --input {name}=…"
            )
        else:
            values[name] = definition.default
    return values, reader.problems


def checked_inputs(declared: Mapping[str, InputDef], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all inputs; InputError says everything that is wrong."""
    values, problems = resolve_inputs(declared, given)
    if problems:
        raise InputError("\n".join(problem.message for problem in problems))
    return values


def wrong_inputs(declared: Mapping[str, InputDef], given: Mapping[str, Any]) -> list[Problem]:
    """What can be said about `with` before a run: paths begin with the input's name. What is an expression is
    checked when it has a value."""
    reader = Reader()
    for name, value in given.items():
        if name not in declared:
            fix = reader.did_you_mean(name, declared) or (
                f"it takes {', '.join(declared)}" if declared else "it takes no inputs"
            )
            reader.problem_at((name,), f"the workflow has no input {quoted(name)}", fix, "key")
        elif not has_template(value):
            reader.path = [name]
            check_input(reader, name, declared[name], value)
    for name, definition in declared.items():
        if definition.required and name not in given:
            what = f"the workflow's input {quoted(name)} ({definition.type}) is missing"
            reader.problem_at((), what, f"add it to with: {{{name}: …}}", "key")
    return reader.problems


def check_input(reader: Reader, name: str, definition: InputDef, value: Any) -> None:
    if value is None and not definition.required and definition.default is None:
        return
    if not _fits(definition.type, value, definition.format):
        wanted = _wanted(definition.type, definition.format)
        reader.problem(f"the input '{name}' takes {wanted}, found {found(value)}")
    elif definition.enum is not None and value not in definition.enum:
        reader.problem(f"the input '{name}' must be one of {_options(definition.enum)}, found {found(value)}")
    else:
        Json(f"the input '{name}'").read(reader, value)


def _options(enum: Any) -> str:
    shown = [json.dumps(option, ensure_ascii=False)[:60] for option in list(enum)[:20]]
    return ", ".join(shown) + (" …" if len(enum) > 20 else "")


def _wanted(kind: str, form: str | None) -> str:
    return FORMATS[form][1] if form is not None else _ARTICLES[kind]


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
