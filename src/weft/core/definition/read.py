"""Reads a definition: a value from YAML, JSON or Python becomes the canonical document, or a list of its problems.

The canonical document is what is stored and hashed. It is in the short form, has its keys in the order of the
field table and its tasks in the author's order (positions depend on it), and reading it again changes nothing.
"""

from typing import Any, Final

import msgspec

from weft.core.definition.checks.attempts import check_attempts
from weft.core.definition.checks.expressions import ExpressionChecker
from weft.core.definition.checks.tasks import check_task
from weft.core.definition.checks.workflows import (
    check_budgets,
    check_encoding,
    check_files,
    check_graph,
    check_mode,
    check_secrets,
    check_signals,
    check_workspace,
)
from weft.core.definition.document import Document
from weft.core.definition.field_types.task_fields import TASK_NAME
from weft.core.definition.fields import COMMAND, REMOTE_KEYS, TASK, TASK_KINDS, TASKS_MAX, workflow_record
from weft.core.definition.inferred_needs import ReferencesByText
from weft.core.definition.inputs import INPUTS, define_inputs
from weft.core.definition.long_form import is_long, read_long
from weft.core.definition.problems import INVALID, ProblemCollector, ValueProblem, mismatch, quoted
from weft.core.definition.source_paths import NAME_KEYS, SourcePaths
from weft.core.definition.triggers import TRIGGERS, check_triggers


class ReadResult(msgspec.Struct, frozen=True):
    """`document` is None if there are problems; `more` counts the problems left out of the list. `encoded` is the
    document as it is hashed and stored: the only time that a definition is encoded on its way to a run."""

    document: Document | None
    problems: tuple[ValueProblem, ...]
    more: int = 0
    encoded: bytes = b""
    references: ReferencesByText = {}  # of its expressions: the compiler need not parse them again


def read(value: Any, name: str = "workflow") -> ReadResult:
    """`name` is the workflow's name if the definition has none."""
    collector = ProblemCollector()
    references: ReferencesByText = {}
    document = _read_document(collector, value, name, references)
    encoded = b""
    if document is not INVALID and not collector.problems:
        encoded = check_encoding(collector, document)
    if document is INVALID or collector.problems:
        return ReadResult(None, tuple(collector.problems), collector.more)
    return ReadResult(document, (), 0, encoded, references)


def _read_document(collector: ProblemCollector, value: Any, name: str, references: ReferencesByText) -> Any:
    if isinstance(value, (list, tuple)):
        document = {"name": name, "chain": True, "tasks": _read_chain(collector, value)}
    elif isinstance(value, dict):
        document = {"name": name, **WORKFLOW.read(collector, value)}
        if "tasks" not in value:
            if not WORKFLOW.reported(collector, value, ("tasks",)):
                collector.problem("the workflow has no tasks", "add tasks:")
            return INVALID
    else:
        return mismatch(collector, "a workflow: a mapping with tasks, or a list of commands", value)
    tasks = document.get("tasks", INVALID)
    if tasks is INVALID:
        return INVALID
    source = SourcePaths(value)
    checker = ExpressionChecker(collector, source, tasks, _declared_inputs(value), document.get("defaults", {}))
    check_graph(collector, source, checker, tasks)
    if collector.has_files:
        check_files(collector, source, tasks)
    check_signals(collector, source, tasks)
    check_secrets(collector, source, tasks, document)
    check_attempts(collector, source, tasks, document.get("defaults", {}))
    check_mode(collector, document)
    check_workspace(collector, source, document)
    check_budgets(collector, source, document)
    for key in ("env", "env_file", "defaults"):
        checker.shared((key,), document.get(key))
    checker.output(("output",), document.get("output"))
    if document.get("triggers"):
        good = not any(problem.path[:1] == ("inputs",) for problem in collector.problems)
        check_triggers(collector, document, define_inputs(document.get("inputs", {})) if good else None)
    references.update(checker.references)
    return document


def _declared_inputs(value: Any) -> dict[str, Any] | None:
    """The inputs as the author wrote them: an input with a wrong declaration is declared nevertheless."""
    inputs = value.get("inputs", {}) if isinstance(value, dict) else {}
    return inputs if isinstance(inputs, dict) else None


def _read_chain(collector: ProblemCollector, value: Any) -> Any:
    """A bare list of tasks: each needs the one before it, unless it has `needs` of its own."""
    if not value:
        return collector.problem("the list of commands is empty", "add a command")
    out: dict[str, Any] = {}
    last: str | None = None
    for at, item in enumerate(value):
        collector.path.append(at)
        name = item.get("name", f"t{at + 1}") if isinstance(item, dict) else f"t{at + 1}"
        task = _read_task(collector, item, ("name",))
        name = _read_name(collector, name, out, "name")
        collector.path.pop()
        if name is INVALID:
            continue
        has_needs = isinstance(item, dict) and ("needs" in item or "dependsOn" in item)
        if task is not INVALID and last is not None and not has_needs:
            task = _ordered({**task, "needs": [last]})
        out[name] = {} if task is INVALID else task
        last = name
    return out


def _read_name(collector: ProblemCollector, name: Any, others: dict[str, Any], key: str) -> Any:
    collector.path.append(key)
    good = TASK_NAME.read(collector, name)
    if good is not INVALID and good in others:
        good = collector.problem(f"there are two tasks named {quoted(name)}", "give one of them another name")
    collector.path.pop()
    return good


class TasksType(msgspec.Struct, frozen=True):
    """A mapping of names to tasks, or a list of tasks with names. A task that cannot be read becomes an empty one, so
    that the tasks which need it get no problem of their own."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if not isinstance(value, (list, tuple, dict)):
            return mismatch(collector, "a mapping of names to tasks", value, "write tasks as `name: command`")
        if not value:
            return collector.problem("the workflow has no tasks", "add a task, e.g. hello: echo hello")
        if len(value) > TASKS_MAX:
            return collector.problem(f"the workflow has {len(value):,} tasks; the limit is {TASKS_MAX:,}")
        return self._read_list(collector, value) if not isinstance(value, dict) else self._read_map(collector, value)

    def _read_map(self, collector: ProblemCollector, value: dict[Any, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        path = collector.path
        path.append("")
        for name, item in value.items():
            path[-1] = name
            before = len(collector.problems)
            if TASK_NAME.read(collector, name) is INVALID:
                collector.problems[before:] = [
                    msgspec.structs.replace(p, at="key") for p in collector.problems[before:]
                ]
            task = _read_task(collector, item, ())
            out[name] = {} if task is INVALID else task
            if isinstance(item, dict):
                _refuse_other_name(collector, item, name)
        path.pop()
        return out

    def _read_list(self, collector: ProblemCollector, value: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for at, item in enumerate(value):
            collector.path.append(at)
            name, key = INVALID, "name"
            if isinstance(item, dict):
                key = next((key for key in NAME_KEYS if key in item), "")
                if key:
                    name = _read_name(collector, item[key], out, key)
                else:
                    collector.problem("a task in a list needs a name", "add `key: …`, or write tasks as a mapping")
                task = _read_task(collector, item, NAME_KEYS)
                if name is not INVALID:
                    out[name] = {} if task is INVALID else task
            else:
                mismatch(
                    collector, "a task with its name", item,
                    "write tasks as `name: command`; only a whole file can be a list of commands",
                )  # fmt: skip
            collector.path.pop()
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


_KINDS: Final = frozenset(TASK_KINDS)
WORKFLOW: Final = workflow_record(TasksType(), INPUTS, TRIGGERS)


def _refuse_other_name(collector: ProblemCollector, item: dict[Any, Any], name: str) -> None:
    for key in ("key", "id"):
        if key in item and is_long(item) and isinstance(item[key], str) and item[key] != name:
            collector.problem_at(
                (*collector.path, key), f"the task already has the name {quoted(name)}", "remove this key"
            )


def _read_task(collector: ProblemCollector, value: Any, name_keys: tuple[str, ...]) -> Any:
    """One task in canonical form. `name_keys` are ignored: the caller has read the name."""
    if isinstance(value, (str, bool)):
        command = COMMAND.read(collector, value)
        return INVALID if command is INVALID else {"run": command}
    if not isinstance(value, dict):
        return mismatch(collector, "a task: a command, or a mapping with `run`", value)
    if is_long(value):
        return check_task(collector, value, read_long(collector, value))
    if name_keys:
        value = {key: item for key, item in value.items() if key not in name_keys}
    out = TASK.read(collector, value)
    if "condition" in out:
        out["long_form"] = True
    kinds = [key for key in value if key in _KINDS]
    if len(kinds) > 1:
        kinds.sort(key=TASK_KINDS.index)
        collector.problem(f"a task can have only one of {' and '.join(kinds)}", "split it into two tasks", at="key")
    elif (
        not kinds
        and not any(value.get(key) not in (None, False) for key in REMOTE_KEYS)
        and not TASK.reported(collector, value, (*TASK_KINDS, *REMOTE_KEYS))
    ):
        collector.problem("the task does nothing", "add `run: …` or `argv: […]`", at="key")
    return check_task(collector, value, out)


def _ordered(task: dict[str, Any]) -> dict[str, Any]:
    return {key: task[key] for key in sorted(task, key=TASK.rank.__getitem__)}
