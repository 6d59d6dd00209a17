"""Reads a definition: a plain value from YAML, JSON or Python becomes the canonical document, or all of its problems.

The canonical document is what is stored and hashed. It is in the short form, has its keys in the order of the
field table and its tasks in the author's order (positions depend on it), and reading it again changes nothing.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weft.core.definition.document import Document
from weft.core.definition.expression_checks import ExpressionChecker
from weft.core.definition.fields import COMMAND, KINDS, TASK, TASKS_MAX, workflow_record
from weft.core.definition.inferred_needs import Mentions
from weft.core.definition.inputs import INPUTS, define_inputs
from weft.core.definition.long_form import is_long, read_long
from weft.core.definition.problems import BAD, Problem, Reader, mismatch, quoted
from weft.core.definition.source_paths import NAME_KEYS, Written
from weft.core.definition.task_checks import check_task
from weft.core.definition.task_field_types import TASK_NAME
from weft.core.definition.triggers import TRIGGERS, check_triggers
from weft.core.definition.workflow_checks import (
    check_encoding,
    check_graph,
    check_mode,
    check_secrets,
    check_signals,
)


class Reading(msgspec.Struct, frozen=True):
    """`document` is None if there are problems; `more` counts those left out of the list."""

    document: Document | None
    problems: tuple[Problem, ...]
    more: int = 0
    mentions: Mentions = {}  # what its expressions name: the compiler need not parse them again


def read(value: Any, name: str = "workflow") -> Reading:
    """`name` is the workflow's if the value gives none."""
    reader = Reader()
    mentions: Mentions = {}
    document = _read_document(reader, value, name, mentions)
    if document is not BAD and not reader.problems:
        check_encoding(reader, document)
    if document is BAD or reader.problems:
        return Reading(None, tuple(reader.problems), reader.more)
    return Reading(document, (), mentions=mentions)


def _read_document(reader: Reader, value: Any, name: str, mentions: Mentions) -> Any:
    if isinstance(value, (list, tuple)):
        document = {"name": name, "chain": True, "tasks": _read_chain(reader, value)}
    elif isinstance(value, dict):
        document = {"name": name, **WORKFLOW.read(reader, value)}
        if "tasks" not in value:
            at = next((key for key in value if isinstance(key, str) and key.lower() in ("jobs", "steps")), None)
            return reader.problem("the workflow has no tasks", f"rename '{at}' to tasks" if at else "add tasks:")
    else:
        return mismatch(reader, "a workflow: a mapping with tasks, or a list of commands", value)
    tasks = document.get("tasks", BAD)
    if tasks is BAD:
        return BAD
    written = Written(value)
    checker = ExpressionChecker(reader, written, tasks, _declared_inputs(value), document.get("defaults", {}))
    check_graph(reader, written, checker, tasks)
    check_signals(reader, written, tasks)
    check_secrets(reader, written, tasks, document)
    check_mode(reader, document)
    for key in ("env", "defaults"):
        checker.shared((key,), document.get(key))
    checker.output(("output",), document.get("output"))
    if document.get("triggers"):
        good = not any(problem.path[:1] == ("inputs",) for problem in reader.problems)
        check_triggers(reader, document, define_inputs(document.get("inputs", {})) if good else None)
    mentions.update(checker.mentions)
    return document


def _declared_inputs(value: Any) -> dict[str, Any] | None:
    """As written: an input whose declaration is wrong is there all the same."""
    inputs = value.get("inputs", {}) if isinstance(value, dict) else {}
    return inputs if isinstance(inputs, dict) else None


def _read_chain(reader: Reader, value: Any) -> Any:
    """A bare list: each task needs the one before it, unless it says itself what it needs."""
    if not value:
        return reader.problem("the list of commands is empty", "add a command")
    out: dict[str, Any] = {}
    last: str | None = None
    for at, item in enumerate(value):
        reader.path.append(at)
        name = item.get("name", f"t{at + 1}") if isinstance(item, dict) else f"t{at + 1}"
        task = _read_task(reader, item, ("name",))
        name = _read_name(reader, name, out, "name")
        reader.path.pop()
        if name is BAD:
            continue
        says_needs = isinstance(item, dict) and ("needs" in item or "dependsOn" in item)
        if task is not BAD and last is not None and not says_needs:
            task = _ordered({**task, "needs": [last]})
        out[name] = {} if task is BAD else task
        last = name
    return out


def _read_name(reader: Reader, name: Any, others: dict[str, Any], key: str) -> Any:
    reader.path.append(key)
    good = TASK_NAME.read(reader, name)
    if good is not BAD and good in others:
        good = reader.problem(f"there are two tasks named {quoted(name)}", "give one of them another name")
    reader.path.pop()
    return good


@dataclass(frozen=True, slots=True)
class Tasks:
    """A mapping of names to tasks, or a list of tasks that name themselves. A task that could not be read is
    kept empty, so that those which need it are not blamed too."""

    def read(self, reader: Reader, value: Any) -> Any:
        if not isinstance(value, (list, tuple, dict)):
            return mismatch(reader, "a mapping of names to tasks", value, "write tasks as `name: command`")
        if not value:
            return reader.problem("the workflow has no tasks", "add a task, e.g. hello: echo hello")
        if len(value) > TASKS_MAX:
            return reader.problem(f"the workflow has {len(value):,} tasks; {TASKS_MAX:,} is the limit")
        return self._read_list(reader, value) if not isinstance(value, dict) else self._read_map(reader, value)

    def _read_map(self, reader: Reader, value: dict[Any, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        path = reader.path
        path.append("")
        for name, item in value.items():
            path[-1] = name
            before = len(reader.problems)
            if TASK_NAME.read(reader, name) is BAD:
                reader.problems[before:] = [msgspec.structs.replace(p, at="key") for p in reader.problems[before:]]
            task = _read_task(reader, item, ())
            out[name] = {} if task is BAD else task
            if isinstance(item, dict):
                _same_name(reader, item, name)
        path.pop()
        return out

    def _read_list(self, reader: Reader, value: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for at, item in enumerate(value):
            reader.path.append(at)
            name, key = BAD, "name"
            if isinstance(item, dict):
                key = next((key for key in NAME_KEYS if key in item), "")
                if key:
                    name = _read_name(reader, item[key], out, key)
                else:
                    reader.problem("a task in a list must say its name", "add `key: …`, or write tasks as a mapping")
                task = _read_task(reader, item, NAME_KEYS)
                if name is not BAD:
                    out[name] = {} if task is BAD else task
            else:
                mismatch(
                    reader, "a task with its name", item,
                    "write tasks as `name: command`; a list of commands can only be the whole file",
                )  # fmt: skip
            reader.path.pop()
        return out

    def schema(self) -> dict[str, Any]:
        by_name = {
            "type": "object",
            "propertyNames": TASK_NAME.schema(),
            "additionalProperties": {"$ref": "#/$defs/task"},
            "minProperties": 1,
        }
        listed = {"type": "array", "items": {"$ref": "#/$defs/namedTask"}, "minItems": 1}
        return {"anyOf": [by_name, listed]}


WORKFLOW: Final = workflow_record(Tasks(), INPUTS, TRIGGERS)


def _same_name(reader: Reader, item: dict[Any, Any], name: str) -> None:
    for key in ("key", "id"):
        if key in item and is_long(item) and isinstance(item[key], str) and item[key] != name:
            reader.problem_at((*reader.path, key), f"the task is named {quoted(name)} already", "remove this key")


def _read_task(reader: Reader, value: Any, name_keys: tuple[str, ...]) -> Any:
    """One task in canonical form. `name_keys` are not options of it: whoever lists the tasks reads them."""
    if isinstance(value, (str, bool)):
        command = COMMAND.read(reader, value)
        return BAD if command is BAD else {"run": command}
    if not isinstance(value, dict):
        return mismatch(reader, "a task: a command, or a mapping with `run`", value)
    if is_long(value):
        return check_task(reader, value, read_long(reader, value))
    if name_keys:
        value = {key: item for key, item in value.items() if key not in name_keys}
    out = TASK.read(reader, value)
    if "condition" in out:
        out["long_form"] = True
    kinds = [kind for kind in KINDS if kind in value]
    if len(kinds) > 1:
        reader.problem(f"a task has only one of {' and '.join(kinds)}", "split it into two tasks", at="key")
    elif not kinds and not reader.slip(value, TASK.by_name, KINDS):
        reader.problem("the task does nothing", "add `run: …` or `argv: […]`", at="key")
    return check_task(reader, value, out)


def _ordered(task: dict[str, Any]) -> dict[str, Any]:
    return {key: task[key] for key in sorted(task, key=TASK.rank.__getitem__)}
