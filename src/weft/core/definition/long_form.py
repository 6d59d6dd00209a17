"""The long form of a task (`type`, `spec`, `dependsOn`, `retryPolicy`, …), converted to the short form.

The canonical task keeps `condition` and `constraints` under their own names, because their meaning differs from that
of `if` and `requires`, and has `long_form: true`, because `parent.x.state` has other values there.
"""

from typing import Any, Final

import msgspec

from weft.core.definition.field_types.collections import Field, FieldType, Json, ListOf, OneOf, Record
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
    OWN_TYPES,
    PLUGIN_TYPE,
    TASK,
    TEXT_LIST,
)
from weft.core.definition.problems import INVALID, ProblemCollector
from weft.core.definition.source_paths import NAME_KEYS
from weft.core.definition.suggest import nearest

#: A task with one of these keys is in the long form, and so is one with a `type` that is no plugin's.
_MARKS: Final = frozenset(("dependsOn", "retryPolicy"))

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

#: Those with a mapping that is `spec` itself.
SERVICE_TYPES: Final = {
    "http": "http", "cloud_run": "cloud_run", "agent": "agent", "subagent": "agent", "claude_relay": "agent",
}  # fmt: skip
TYPES: Final = ("shell", *REMOTE_TYPES, *SERVICE_TYPES)
_LATER_TYPES: Final = ("python", "wait")
_OWN_TYPES: Final = dict.fromkeys(OWN_TYPES)
_SHORT_FORM_KEYS: Final = (
    "description", "needs", "when", "if", "env", "env_file", "cwd", "timeout", "grace", "retry", "priority",
    "allow_failure", "with", "secrets", "map", "matrix", "label", "batch", "tolerate", "replicas", "max_parallel",
    "requires", "prefers", "cache", "pools",
)  # fmt: skip


class _ServiceSpec(msgspec.Struct, frozen=True):
    """The mapping of the short form, with what stands beside it there; `{around, service}`."""

    service: FieldType
    around: Record

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if not isinstance(value, dict):
            service = self.service.read(collector, value)
            return INVALID if service is INVALID else {"around": {}, "service": service}
        around = {key: item for key, item in value.items() if key in self.around.by_name}
        rest = {key: item for key, item in value.items() if key not in around}
        out = {"around": self.around.read(collector, around), "service": self.service.read(collector, rest)}
        return INVALID if INVALID in out.values() else out

    def schema(self) -> dict[str, Any]:
        schema = self.service.schema()
        schema = next((one for one in schema.get("anyOf", ()) if one.get("type") == "object"), schema)
        return {**schema, "properties": {**self.around.schema()["properties"], **schema["properties"]}}


_AROUND: Final = Record(_COMMON[2:], "spec")
_RELAY: Final = Record(
    (
        *_AROUND.fields,
        Field("node", Text("a node's name"), "The node whose agent is asked."),
        Field("labels", TEXT_LIST, "Labels of a node whose agent is asked, all of them."),
    ),
    "spec",
)


def _long_task(spec: FieldType, *more: Field, type_: FieldType | None = None) -> Record:
    return Record(
        (
            Field("key", TASK_NAME, "The task's name."),
            Field("id", TASK_NAME, "The task's name."),
            Field("name", Text("a name"), "The task's name, or a title beside `key`."),
            Field("type", type_ or Enum(TYPES, later=_LATER_TYPES), "What runs the task."),
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
SERVICE_LONG_TASKS: Final = {
    type_: _long_task(_ServiceSpec(TASK.by_name[kind].type, _RELAY if type_ == "claude_relay" else _AROUND))
    for type_, kind in SERVICE_TYPES.items()
}
PLUGIN_LONG_TASK: Final = _long_task(Json(expressions=True), type_=PLUGIN_TYPE)
#: Of a type that is misspelt nothing is known but that.
_MISSPELT_LONG_TASK: Final = _long_task(Json(expressions=True))


def is_long(value: dict[Any, Any]) -> bool:
    if not _MARKS.isdisjoint(value):
        return True
    return not _is_plugin(value) if "type" in value else "spec" in value


def _is_plugin(value: dict[Any, Any]) -> bool:
    """Its type is none of Weft's own, nor looks like one: a plugin's, if there is such a plugin."""
    type_ = value.get("type", "shell")
    if not isinstance(type_, str) or type_ in _OWN_TYPES or PLUGIN_TYPE.compiled.fullmatch(type_) is None:
        return False
    return nearest(type_, _OWN_TYPES) is None


def read_long(collector: ProblemCollector, value: dict[Any, Any]) -> dict[str, Any]:
    """The task in canonical short form. Its needs are not yet checked against the other tasks."""
    type_ = value.get("type", "shell")
    remote = REMOTE_TYPES.get(type_) if isinstance(type_, str) else None
    service = SERVICE_TYPES.get(type_) if isinstance(type_, str) else None
    plugin = _is_plugin(value)
    misspelt = not plugin and type_ not in TYPES
    record = _MISSPELT_LONG_TASK if misspelt else _record(type_, remote, service, plugin)
    out: dict[str, Any] = record.read(collector, value)
    if "name" in out and ("key" in value or "id" in value):
        out.setdefault("description", out["name"])  # `key` or `id` is the name, so this is a title
    for name in NAME_KEYS if plugin else (*NAME_KEYS, "type"):
        out.pop(name, None)
    out["long_form"] = True
    if plugin:
        return _ordered(out)
    spec = out.pop("spec", None)
    if misspelt:
        return _ordered({**out, "argv": None})
    if "spec" not in value and not collector.misspelled(value, record.by_name, ("spec",)):
        collector.problem("the task has no `spec`", "add spec: {command: …}", at="key")
    if spec is not None:
        collector.path.append("spec")
        if service is not None:
            out[service], spec = spec["service"], spec["around"]
            _add_requirements(out, spec)
        for key in ("cwd", "env", "timeout"):
            if key in spec:
                if key in out:
                    collector.problem(f"`{key}` is set both in `spec` and beside it", "keep one of them")
                out[key] = spec[key]
        if remote is None and service is None:
            out.update(_action(collector, spec, value["spec"]))
        elif remote is not None:
            out.update(_remote_action(collector, spec, remote, type_))
        collector.path.pop()
    return _ordered(out)


def _ordered(task: dict[str, Any]) -> dict[str, Any]:
    return {key: task[key] for key in sorted(task, key=TASK.rank.__getitem__)}


def _record(type_: Any, remote: str | None, service: str | None, plugin: bool) -> Record:
    if plugin:
        return PLUGIN_LONG_TASK
    if service is not None:
        return SERVICE_LONG_TASKS[type_]
    return LONG_TASK if remote is None else REMOTE_LONG_TASKS[remote]


def _add_requirements(out: dict[str, Any], spec: dict[str, Any]) -> None:
    """The node that an agent is asked on."""
    asked = {key: spec[key] for key in ("labels", "node") if key in spec}
    if asked:
        out["requires"] = {**out.get("requires", {}), **asked}


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
