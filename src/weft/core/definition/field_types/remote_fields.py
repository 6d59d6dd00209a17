"""The types of the keys `container` and `kubernetes` of a task, and what the defaults add to them."""

from typing import Any, Final

import msgspec

from weft.core.definition.field_types.collections import Field, FieldType, Json, ListOf, MapOf, OneOf, Record
from weft.core.definition.field_types.scalars import Boolean, Enum, Number, Pattern, Text
from weft.core.definition.problems import INVALID, NO_EXPRESSION, ProblemCollector, has_expression, mismatch

#: The keys that may stand beside `container`: what runs in it instead of its own command.
IN_CONTAINER: Final = ("run", "argv", "python")
#: Those beside `kubernetes`.
IN_POD: Final = ("run", "argv")
#: Keys of both that say what runs, so that none of the above may stand beside them.
OWN_COMMAND: Final = ("command", "args")
#: Keys of both whose texts may have ${{ … }}.
RESOLVED: Final = ("command", "args", "env", "workdir")

_IMAGE: Final = Pattern(
    expected="an image",
    regex=r"[A-Za-z0-9\[][A-Za-z0-9._:/@\[\]-]{0,511}",
    fix="write it like python:3.14 or registry.example.com/team/app:1.2",
)
_VOLUME: Final = Pattern(
    expected="a volume",
    regex=r"[^:\x00-\x1f]+:/[^:\x00-\x1f]*(:(ro|rw))?",
    fix="write it like ./data:/data or /srv/models:/models:ro",
)
_NETWORK: Final = Pattern(
    expected="a network",
    regex=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}",
    fix="use none, host, bridge, or the name of a network",
)
_CAPABILITY: Final = Pattern(
    expected="a capability", regex=r"[A-Z][A-Z_]{0,63}", fix="write it like ALL, NET_RAW or SYS_ADMIN"
)
_KUBERNETES_NAME: Final = Pattern(
    expected="a Kubernetes name",
    regex="[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?",
    fix="use lower-case letters, digits, - and ., at most 63 characters",
)
_QUANTITY: Final = OneOf(
    (Text("a quantity such as 500m, 2 or 1Gi"), Number(0, 1 << 60, whole=False)),
    pick=lambda value: 1 if isinstance(value, (int, float)) and not isinstance(value, bool) else 0,
)
_QUANTITIES: Final = MapOf(Text("text"), _QUANTITY, "a mapping of resources to quantities")
_PULL: Final = Enum(("missing", "always", "never"))
_USER: Final = Text("a user, or user:group", integers=True)


class Workdir(msgspec.Struct, frozen=True):
    """A directory inside: absolute, because the image's own is not known here."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        text = Text("a directory", templates=True).read(collector, value)
        if text is INVALID or text.startswith("/") or has_expression(text):
            return text
        return mismatch(collector, "an absolute directory", value, f"write /{text.removeprefix('./')}")

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^/|\$\{\{"}


def container_record(argument: FieldType, env: FieldType, secret: FieldType) -> Record:
    """The types that commands and secrets of all tasks have are passed in: their module imports this one."""
    command = ListOf(
        argument, "a list of arguments, the program first", least=1, fix="write [program, argument, …], or use run"
    )
    return Record(
        (
            Field("image", _IMAGE, "The image."),
            Field("command", command, "What runs in it, instead of the image's own command: a list."),
            Field("args", ListOf(argument, "a list of arguments"),
                  "Arguments after `command`, or after the image's own."),
            Field("entrypoint", ListOf(Text("text"), "a list of arguments, the program first"),
                  "Instead of the image's entrypoint; an empty list is none."),
            Field("env", env, "Environment variables, added to the task's `env`."),
            Field("volumes", ListOf(_VOLUME, "a list of volumes", single=True),
                  "Directories of the engine's machine, or named volumes: `host:inside`, `host:inside:ro`."),
            Field("workdir", Workdir(), "The directory inside in which it starts."),
            Field("user", _USER, "The user inside: a name or a number, or `user:group`."),
            Field("network", _NETWORK, "`none`, `host`, `bridge`, or a network's name."),
            Field("pull", _PULL, "When the image is pulled; `missing` by default."),
            Field("credentials", secret, "The secret with which the image is pulled."),
            Field("gpus", Number(0, 1024), "GPUs that it sees; by default those of `requires.gpu`."),
            Field("read_only", Boolean(), "Whether its own file system is read-only."),
            Field("cap_drop", ListOf(_CAPABILITY, "a list of capabilities", single=True, once=True),
                  "Linux capabilities that it does not get, or `ALL`."),
            Field("init", Boolean(), "Whether a small init process reaps its zombies."),
            Field("mount", Enum(("ro", "rw", "none")),
                  "How the definition's directory is mounted; `ro` by default."),
            Field("secrets_as", Enum(("env", "files")),
                  "How it gets its secrets: as variables (the default), or as files, which `inspect` does not show."),
            Field("engine", Enum(("docker", "podman")), "The engine that must run it; by default the node's."),
        ),
        "container",
    )  # fmt: skip


def kubernetes_record(argument: FieldType, env: FieldType) -> Record:
    command = ListOf(
        argument, "a list of arguments, the program first", least=1, fix="write [program, argument, …], or use run"
    )
    objects = ListOf(MapOf(Text("text"), Json(expressions=False), "a mapping"), "a list of mappings")
    return Record(
        (
            Field("image", _IMAGE, "The image."),
            Field("command", command, "What runs in it, instead of the image's entrypoint: a list."),
            Field("args", ListOf(argument, "a list of arguments"), "Arguments of the command."),
            Field("namespace", _KUBERNETES_NAME, "The namespace; by default the node's."),
            Field("resources", Record(
                (Field("requests", _QUANTITIES, "What the scheduler reserves."),
                 Field("limits", _QUANTITIES, "What it may use at most.")), "resources"),
                "Requests and limits as Kubernetes has them; `requires` sets memory, cpus and gpu without them."),
            Field("node_selector", MapOf(Text("text"), Text("a label's value", empty=True), "a mapping of labels"),
                  "Labels that a Kubernetes node must have."),
            Field("tolerations", objects, "Taints that are tolerated, as Kubernetes has them."),
            Field("service_account", _KUBERNETES_NAME, "The service account of its pod."),
            Field("volumes", objects, "Kubernetes volumes, each with a `mountPath`."),
            Field("pod", MapOf(Text("text"), Json(expressions=False), "a mapping (the pod's spec)"),
                  "A patch that is merged into the pod's spec."),
            Field("env", env, "Environment variables, added to the task's `env`."),
            Field("pull", _PULL, "When the image is pulled; `missing` by default."),
        ),
        "kubernetes",
    )  # fmt: skip


class RemoteType(msgspec.Struct, frozen=True):
    """A mapping. `none`: `false` is the same as null, which means none, whatever the defaults say."""

    record: Record
    none: bool = False

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if value is False and self.none:
            return None
        what = self.record.what
        if isinstance(value, str) and _IMAGE.compiled.fullmatch(value):
            return mismatch(collector, f"a mapping ({what})", value, f"write {what}: {{image: {value}}}")
        if not isinstance(value, dict):
            return self.record.read(collector, value)
        fixed = {}
        for key, item in value.items():
            if key in self.record.by_name and key not in RESOLVED and isinstance(item, str) and has_expression(item):
                places = ", ".join(name for name in RESOLVED if name in self.record.by_name)
                fix = f"of {what}, only {places} may have values of a run"
                collector.problem_at((*collector.path, key), NO_EXPRESSION[0], fix)
            else:
                fixed[key] = item
        return self.record.read(collector, fixed)

    def schema(self) -> dict[str, Any]:
        schema = self.record.schema()
        return {"anyOf": [{"enum": [False]}, schema]} if self.none else schema


def container_of(task: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any] | None:
    """The container that a canonical task runs in, the defaults merged key by key; None: none."""
    own = task.get("container", {})
    shared = defaults.get("container")
    if own is None or "kubernetes" in task:
        return None
    if "container" not in task and (not shared or not any(key in task for key in IN_CONTAINER)):
        return None
    merged = {**(shared or {}), **own}
    if "env" in own and "env" in (shared or {}):
        merged["env"] = {**(shared or {})["env"], **own["env"]}
    if any(key in task for key in IN_CONTAINER):
        for key in OWN_COMMAND:
            merged.pop(key, None)
    elif "command" in own and "args" not in own:
        merged.pop("args", None)  # the arguments of another command
    return merged
