"""The long form of a task (`type`, `spec`, `dependsOn`, `retryPolicy`, …), converted to the short form.

The canonical task keeps `condition` and `constraints` under their own names, because their meaning differs from that
of `if` and `requires`, and has `long_form: true`, because `parent.x.state` has other values there.
"""

from typing import Any, Final

from weft.core.definition.field_types.collections import Field, ListOf, OneOf, Record
from weft.core.definition.field_types.scalars import Boolean, Enum, Milliseconds, Number, Text
from weft.core.definition.field_types.task_fields import TASK_NAME, NeedsType
from weft.core.definition.fields import (
    ARGUMENT,
    ARGV,
    COMMAND,
    CONDITION,
    CONSTRAINTS,
    CONTAINER,
    CWD,
    ENV,
    KUBERNETES,
    TASK,
)
from weft.core.definition.problems import ProblemCollector
from weft.core.definition.source_paths import NAME_KEYS

#: A task with one of these keys is in the long form.
_MARKS: Final = frozenset(("type", "spec", "dependsOn", "retryPolicy"))

_COMMON: Final = (
    Field(
        "command",
        OneOf((COMMAND, ARGV), lambda value: 1 if isinstance(value, (list, tuple)) else 0),
        "A shell command, or a program and its arguments as a list.",
    ),
    Field("args", ListOf(ARGUMENT, "a list of arguments"), "The arguments; `command` is then the program."),
    Field("cwd", CWD, "The directory to start in."),
    Field("env", ENV, "Environment variables."),
    Field("timeoutMs", Milliseconds(least_ms=1), "How long one attempt may take.", target="timeout"),
)
SPEC: Final = Record(
    (_COMMON[0], Field("argv", ARGV, "A program and its arguments, without a shell."), *_COMMON[1:]), "spec"
)
#: The types of tasks that run on an engine, each with the key of the short form.
REMOTE_TYPES: Final = {
    "container": "container", "docker": "container", "podman": "container",
    "k8s_job": "kubernetes", "kubernetes": "kubernetes",
}  # fmt: skip

RETRY_POLICY: Final = Record(
    (
        Field("maxRetries", Number(0, 10_000), "Retries after the first attempt.", target="max"),
        Field("backoffMs", Milliseconds(), "The delay before the first retry.", target="backoff"),
        Field("backoffMultiplier", Number(1, 1000, whole=False), "Growth of the delay.", target="multiplier"),
        Field("maxBackoffMs", Milliseconds(), "The longest delay.", target="max_backoff"),
        Field("retryable", Boolean(), "Whether an attempt lost with its node runs again.", target="on_lost"),
    ),
    "retryPolicy",
)

_LATER_TYPES: Final = ("agent", "subagent", "python", "http", "wait")
_SHORT_FORM_KEYS: Final = (
    "description", "needs", "when", "if", "env", "cwd", "timeout", "grace", "retry", "priority",
    "allow_failure", "with", "secrets", "map", "batch", "tolerate", "replicas", "max_parallel", "requires", "prefers",
    "cache", "pools",
)  # fmt: skip


def _long_task(spec: Record, *more: Field) -> Record:
    return Record(
        (
            Field("key", TASK_NAME, "The task's name."),
            Field("id", TASK_NAME, "The task's name."),
            Field("name", Text("a name"), "The task's name, or a title beside `key`."),
            Field("type", Enum(("shell", *REMOTE_TYPES), later=_LATER_TYPES), "What runs the task."),
            Field("spec", spec, "What to run."),
            Field("dependsOn", NeedsType(), "Tasks that must be done first.", target="needs"),
            Field("condition", CONDITION, "A condition; false skips the task."),
            Field("constraints", CONSTRAINTS, "Where the task may run."),
            Field("retryPolicy", RETRY_POLICY, "Retries.", target="retry"),
            *(TASK.by_name[name] for name in _SHORT_FORM_KEYS),
            *more,
        ),
        "a task",
    )


def _remote_spec(record: Record) -> Record:
    """The keys of the short form's mapping, and those of every `spec`."""
    known = {field.name for field in _COMMON}
    return Record((*_COMMON, *(field for field in record.fields if field.name not in known)), "spec")


LONG_TASK: Final = _long_task(SPEC, TASK.by_name["container"])
REMOTE_LONG_TASKS: Final = {
    "container": _long_task(_remote_spec(CONTAINER)),
    "kubernetes": _long_task(_remote_spec(KUBERNETES)),
}


def is_long(value: dict[Any, Any]) -> bool:
    return not _MARKS.isdisjoint(value)


def read_long(collector: ProblemCollector, value: dict[Any, Any]) -> dict[str, Any]:
    """The task in canonical short form. Its needs are not yet checked against the other tasks."""
    type_ = value.get("type", "shell")
    remote = REMOTE_TYPES.get(type_) if isinstance(type_, str) else None
    record = LONG_TASK if remote is None else REMOTE_LONG_TASKS[remote]
    out: dict[str, Any] = record.read(collector, value)
    if "name" in out and ("key" in value or "id" in value):
        out.setdefault("description", out["name"])  # `key` or `id` is the name, so this is a title
    for name in (*NAME_KEYS, "type"):
        out.pop(name, None)
    spec = out.pop("spec", None)
    if "spec" not in value and not collector.misspelled(value, record.by_name, ("spec",)):
        collector.problem("the task has no `spec`", "add spec: {command: …}", at="key")
    if spec is not None:
        collector.path.append("spec")
        for key in ("cwd", "env", "timeout"):
            if key in spec:
                if key in out:
                    collector.problem(f"`{key}` is set both in `spec` and beside it", "keep one of them")
                out[key] = spec[key]
        if remote is None:
            out.update(_action(collector, spec, value["spec"]))
        else:
            out.update(_remote_action(collector, spec, remote, type_))
        collector.path.pop()
    out["long_form"] = True
    return {key: out[key] for key in sorted(out, key=TASK.rank.__getitem__)}


def _action(collector: ProblemCollector, spec: dict[str, Any], source: dict[Any, Any]) -> dict[str, Any]:
    """A `command` that is text is for the shell; with `args`, or as a list, it is a program and its arguments."""
    command, argv, args = spec.get("command"), spec.get("argv"), spec.get("args")
    if "argv" in source and ("command" in source or "args" in source):
        collector.problem("`spec` has both `argv` and `command` or `args`", "keep one of them")
    missing = "command" not in source and "argv" not in source and not args
    if missing and not collector.misspelled(source, SPEC.by_name, ("command", "argv", "args")):
        collector.problem("the spec has no `command`", "add command: …", at="key")
    if command is None:
        return {"argv": argv or args}
    if isinstance(command, list):
        return {"argv": command + (args or [])}
    return {"run": command} if args is None else {"argv": [command, *args]}


def _remote_action(collector: ProblemCollector, spec: dict[str, Any], remote: str, type_: str) -> dict[str, Any]:
    """As in any spec, a `command` that is text is for the shell, and with `args` a program."""
    inside = {key: item for key, item in spec.items() if key not in ("cwd", "env", "timeout")}
    if type_ in ("docker", "podman") and inside.setdefault("engine", type_) != type_:
        collector.path.append("engine")
        collector.problem(f"the type of the task is {type_}", f"remove engine, or write type: {inside['engine']}")
        collector.path.pop()
    out: dict[str, Any] = {remote: inside}
    if isinstance(inside.get("command"), str):
        if "args" in inside:
            inside["command"] = [inside["command"]]
        else:
            out["run"] = inside.pop("command")
    out[remote] = {key: inside[key] for key in sorted(inside, key=_RANKS[remote].__getitem__)}
    return out


_RANKS: Final = {"container": CONTAINER.rank, "kubernetes": KUBERNETES.rank}
