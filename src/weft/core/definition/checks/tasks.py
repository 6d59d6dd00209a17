"""Checks of a task that depend on more than one of its keys: which exclude each other, which need each other."""

from typing import Any

from weft.core.definition.checks.agents import check_agent
from weft.core.definition.child_workflows import CHILD_TASK_KEYS
from weft.core.definition.field_types.remote_fields import IN_CONTAINER, IN_POD, OWN_COMMAND
from weft.core.definition.fields import SERVICES, TASK, TASK_KINDS, WAIT_TASK_KEYS
from weft.core.definition.inferred_needs import uses_element
from weft.core.definition.problems import INVALID, ProblemCollector

_SERVICES = frozenset((*SERVICES, "type"))
#: Keys that no check below is about, as long as they are among themselves: most tasks have no others.
_PLAIN = frozenset(
    ("run", "argv", "python", "inline", "with", "needs", "if", "when", "timeout", "retry", "env", "cwd",
     "description")
)  # fmt: skip


def check_task(collector: ProblemCollector, value: dict[Any, Any], out: Any) -> Any:
    """Checks that depend on more than one key of a task; returns the canonical task."""
    if out is INVALID:
        return INVALID
    if not out.get("needs", True):
        del out["needs"]
    if _PLAIN.issuperset(value) and _PLAIN.issuperset(out):
        return out
    if "shell" in out and "run" not in value:
        collector.problem_at((*collector.path, "shell"), "`shell` applies only to `run`", "remove it", "key")
    if "wait" in value:
        _check_wait(collector, value)
    else:
        _check_elements(collector, value)
        _check_cache(collector, value, out)
    if "inline" in value and "secrets" in out:
        fix = "remove it: an inline function runs in the node itself, and sees the environment of the node"
        collector.problem_at((*collector.path, "secrets"), "`secrets` does not apply to `inline`", fix, "key")
    without = next((kind for kind in _WITHOUT_TOKEN if kind in value), None)
    if "allow" in out and without is not None:
        message = f"`allow` is about the token of a task's own processes, and `{without}` has none"
        collector.problem_at((*collector.path, "allow"), message, "remove it", "key")
    if "spec" in out and "type" not in out:
        collector.problem_at((*collector.path, "spec"), "`spec` needs a type", "add type: …", "key")
    if not _SERVICES.isdisjoint(out):
        _check_service(collector, next(kind for kind in (*SERVICES, "type") if kind in out), out)
    out = _check_files(collector, value, out)
    if "workflow" in value:
        _check_child(collector, value)
    elif "wait" not in value:
        _check_remote(collector, value, out)
    if "if" in out and "condition" in out:
        collector.problem_at(
            (*collector.path, "condition"),
            "`if` and `condition` are the same key in two forms",
            "keep one of them",
            "key",
        )
    return out


_WITHOUT_TOKEN = ("inline", "http", "cloud_run", "type")
#: Keys that only commands and functions can do something with; agents and plugins have processes, perhaps.
_OF_COMMANDS = ("with", "container", "kubernetes")
_OF_PROCESSES = ("cwd", "env", "env_file")


def _check_service(collector: ProblemCollector, service: str, out: dict[str, Any]) -> None:
    """What runs elsewhere has no directory and no variables of this machine."""
    for key in _OF_COMMANDS if service in ("agent", "type") else (*_OF_COMMANDS, *_OF_PROCESSES):
        if out.get(key) is None:
            continue
        what = f"tasks of type {out['type']}" if service == "type" else f"`{service}`"
        collector.problem_at((*collector.path, key), f"`{key}` does not apply to {what}", "remove it", "key")
    spec: dict[str, Any] = out[service] if service != "type" else {}
    if service == "http":
        _check_http(collector, spec)
    if service == "cloud_run" and "secrets" in out:
        message = "what Cloud Run gets can be read there, so no secret is sent"
        fix = "remove it, and refer to Secret Manager in Cloud Run itself"
        collector.problem_at((*collector.path, "secrets"), message, fix, "key")
    if service == "agent":
        check_agent(collector, spec)


#: Headers that follow from the request itself.
_MESSAGE_HEADERS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade")
)


def _check_http(collector: ProblemCollector, spec: dict[str, Any]) -> None:
    path = (*collector.path, "http")
    if "json" in spec and "body" in spec:
        collector.problem_at((*path, "body"), "`http` has both json and body", "keep one of them", "key")
    for sent in ("json", "body"):
        if sent in spec and spec.get("method") in ("GET", "HEAD"):
            message = f"a {spec['method']} request sends no {sent}"
            collector.problem_at((*path, sent), message, "remove it, or use method: POST", "key")
    for name in spec.get("headers", {}):
        if name.lower() in _MESSAGE_HEADERS:
            message = f"{name} follows from the request and cannot be set"
            collector.problem_at((*path, "headers", name), message, "remove it", "key")
    poll = spec.get("poll", {})
    for key in ("done", "failed"):
        if key in poll and "state_at" not in poll:
            collector.problem_at((*path, "poll", key), f"`{key}` needs state_at", "add state_at: /state", "key")
    if "state_at" in poll and "done" not in poll:
        message = "nothing says which state is a success"
        collector.problem_at((*path, "poll", "state_at"), message, "add done: [succeeded]", "key")
    if "cancel_at" in poll and "cancel" not in poll:
        collector.problem_at((*path, "poll", "cancel_at"), "`cancel_at` needs cancel", "add cancel: POST", "key")
    if "url" in poll and "url_at" in poll:
        collector.problem_at((*path, "poll", "url_at"), "`poll` has both url and url_at", "keep one of them", "key")


def _check_remote(collector: ProblemCollector, value: dict[Any, Any], out: dict[str, Any]) -> None:
    """One engine, one thing that runs on it, and nothing that only the node itself can run."""
    if out.get("container") is not None and "kubernetes" in out:
        message = "a task can have only one of container and kubernetes"
        collector.problem_at((*collector.path, "kubernetes"), message, "remove one of them", "key")
    for where, inside in (("container", IN_CONTAINER), ("kubernetes", IN_POD)):
        remote = out.get(where)
        if remote is None:
            continue
        if "inline" in value:
            fix = "remove it: an inline function runs in the node itself"
            collector.problem_at((*collector.path, where), f"`{where}` does not apply to `inline`", fix, "key")
        if "python" in value and "python" not in inside:
            fix = "use argv: [python, …], or container"
            collector.problem_at((*collector.path, where), f"`{where}` does not apply to `python`", fix, "key")
        elif isinstance(out.get("python"), dict):
            message = "the Python of the container's image calls it"
            collector.problem_at((*collector.path, "python"), message, "write python: module:function", "key")
        kind = next((kind for kind in inside if kind in value), None)
        for key in OWN_COMMAND:
            if kind is not None and key in remote:
                collector.problem_at(
                    (*collector.path, where, key),
                    f"`{kind}` says what runs in it, so it has no `{key}`",
                    f"remove {kind}, or {key}",
                    "key",
                )


def _check_elements(collector: ProblemCollector, value: dict[Any, Any]) -> None:
    """Options about elements need `map` or `replicas`."""
    made_of = [key for key in ("map", "matrix", "replicas") if key in value]
    if len(made_of) > 1:
        message = f"a task can have only one of {' and '.join(made_of)}"
        collector.problem_at((*collector.path, made_of[1]), message, "remove one of them", "key")
    if "batch" in value and "map" not in value:
        collector.problem_at(
            (*collector.path, "batch"), "`batch` applies only to `map`", "add map, or remove it", "key"
        )
    if made_of:
        return
    for key in ("max_parallel", "tolerate", "label"):
        if key in value:
            fix = "add map, matrix or replicas, or " + (
                "set max_parallel on the workflow" if key == "max_parallel" else "remove it"
            )
            collector.problem_at(
                (*collector.path, key),
                f"`{key}` applies to the elements of a task, and this task has none",
                fix,
                "key",
            )


def _check_cache(collector: ProblemCollector, value: dict[Any, Any], out: dict[str, Any]) -> None:
    """The key of a cached result must differ where results can differ."""
    cache = out.get("cache", False)
    if cache is False:
        return
    key = cache.get("key") if isinstance(cache, dict) else None
    path = (*collector.path, "cache")
    if key is None and "inline" in value:
        collector.problem_at(
            path, "the source of an inline function is not known, so its result needs a key", "add cache: {key: …}"
        )
    if (
        key is not None
        and any(made_of in value for made_of in ("map", "matrix", "replicas"))
        and not uses_element(key)
    ):
        collector.problem_at(
            (*path, "key"),
            "all elements would share one result, because the key is the same for all of them",
            "put ${{ item }} or ${{ index }} into it",
        )


def _with_needs(out: dict[str, Any]) -> dict[str, Any]:
    """A task needs those whose files it gets; keys stay in the order of the table."""
    needs = list(dict.fromkeys((*out.get("needs", ()), *out["files"])))
    merged = {**out, "needs": needs}
    return {field.name: merged[field.name] for field in TASK.fields if field.name in merged}


_WITH_FILES = ("run", "argv", "python", "agent")


def _check_files(collector: ProblemCollector, value: dict[Any, Any], out: dict[str, Any]) -> dict[str, Any]:
    """Files are those of processes of the node itself. Returns the task, which needs those whose files it gets."""
    if "files" in out:
        collector.has_files = True
        out = _with_needs(out)
    if "wait" in value or "workflow" in value:
        return out
    remote = out.get("container") is not None or "kubernetes" in out
    for key in ("artifacts", "files"):
        if key not in out:
            continue
        if remote or not any(kind in value for kind in _WITH_FILES):
            message = f"`{key}` applies to run, argv, python and agent tasks without a container"
            fix = "remove it: what a container leaves can be kept by a task after it, in a directory that both see"
            collector.problem_at((*collector.path, key), message, fix if remote else "remove it", "key")
        elif "cache" in out and out["cache"] is not False:
            cache = out["cache"]
            if key == "artifacts":
                message = "its files go with their run, so no other run can use its result"
                collector.problem_at((*collector.path, "cache"), message, "remove it", "key")
            elif cache is True or "key" not in cache:
                message = "its result may depend on the files that it gets, so it needs a key"
                collector.problem_at((*collector.path, "cache"), message, "add cache: {key: …}", "key")
    return out


def _check_wait(collector: ProblemCollector, value: dict[Any, Any]) -> None:
    """A wait runs on no node: options about running do not apply to it."""
    for key in value:
        known = TASK.by_name.get(key) if isinstance(key, str) else None
        if known is None or known.later or key in TASK_KINDS or key in WAIT_TASK_KEYS:
            continue
        fix = "remove it"
        if key == "timeout":
            fix = "write it inside: wait: {signal: …, timeout: 24h}"
        elif key in ("map", "matrix", "replicas"):
            fix = "remove it: a wait cannot be mapped, but the tasks before it can"
        collector.problem_at((*collector.path, key), f"`{key}` does not apply to a wait", fix, "key")


def _check_child(collector: ProblemCollector, value: dict[Any, Any]) -> None:
    """The other workflow runs by its own definition: options about running belong there."""
    for key in value:
        known = TASK.by_name.get(key) if isinstance(key, str) else None
        if known is None or known.later or key in TASK_KINDS or key in CHILD_TASK_KEYS or key == "shell":
            continue
        fix = (
            "set it in that workflow"
            if key not in ("env", "env_file")
            else "set it in that workflow, or pass it as an input in with"
        )
        collector.problem_at(
            (*collector.path, key),
            f"`{key}` belongs in the definition of the workflow that the task runs",
            fix,
            "key",
        )
