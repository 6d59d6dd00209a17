"""Checks of a task that depend on more than one of its keys: which exclude each other, which need each other."""

from typing import Any

from weft.core.definition.child_workflows import OF_CHILDREN
from weft.core.definition.fields import KINDS, OF_WAITS, TASK
from weft.core.definition.inferred_needs import names_element
from weft.core.definition.problems import BAD, Reader


def check_task(reader: Reader, value: dict[Any, Any], out: Any) -> Any:
    """What depends on more than one key of a task."""
    if out is BAD:
        return BAD
    if not out.get("needs", True):
        del out["needs"]
    if "shell" in out and "run" not in value:
        reader.problem_at((*reader.path, "shell"), "`shell` has a meaning for `run` only", "remove it", "key")
    if "wait" in value:
        _check_wait(reader, value)
    else:
        _check_elements(reader, value)
        _check_cache(reader, value, out)
    if "inline" in value and "secrets" in out:
        fix = "an inline function runs in the node itself, which has its environment: remove it"
        reader.problem_at((*reader.path, "secrets"), "`secrets` has no meaning for `inline`", fix, "key")
    if "workflow" in value:
        _check_child(reader, value)
    if "if" in out and "condition" in out:
        reader.problem_at((*reader.path, "condition"), "`if` and `condition` say the same", "keep one", "key")
    return out


def _check_elements(reader: Reader, value: dict[Any, Any]) -> None:
    """What is said about elements needs something to make them from."""
    if "map" in value and "replicas" in value:
        reader.problem_at(
            (*reader.path, "replicas"), "a task has only one of map and replicas", "remove one of them", "key"
        )
    if "batch" in value and "map" not in value:
        reader.problem_at(
            (*reader.path, "batch"), "`batch` has a meaning for `map` only", "add map, or remove it", "key"
        )
    if "map" in value or "replicas" in value:
        return
    for key, what in (("max_parallel", "limits its elements"), ("tolerate", "is about its elements")):
        if key in value:
            fix = "add map or replicas, or " + (
                "set max_parallel on the workflow" if key == "max_parallel" else "remove it"
            )
            reader.problem_at((*reader.path, key), f"on a task, `{key}` {what}, and it has none", fix, "key")


def _check_cache(reader: Reader, value: dict[Any, Any], out: dict[str, Any]) -> None:
    """A key must tell apart what gives different results."""
    cache = out.get("cache", False)
    if cache is False:
        return
    key = cache.get("key") if isinstance(cache, dict) else None
    path = (*reader.path, "cache")
    if key is None and "inline" in value:
        reader.problem_at(
            path, "nobody can see the source of an inline function, so its result has no key", "add cache: {key: …}"
        )
    if key is not None and ("map" in value or "replicas" in value) and not names_element(key):
        reader.problem_at(
            (*path, "key"),
            "all elements would share one result under this key",
            "put ${{ item }} or ${{ index }} into it",
        )


def _check_wait(reader: Reader, value: dict[Any, Any]) -> None:
    """A wait runs nowhere: whatever is about running has no meaning for it."""
    for key in value:
        known = TASK.by_name.get(key) if isinstance(key, str) else None
        if known is None or known.later or key in KINDS or key in OF_WAITS:
            continue
        fix = "remove it"
        if key == "timeout":
            fix = "write it inside: wait: {signal: …, timeout: 24h}"
        elif key in ("map", "replicas"):
            fix = "one wait can't be many: let the tasks before it be mapped"
        reader.problem_at((*reader.path, key), f"`{key}` has no meaning for a wait", fix, "key")


def _check_child(reader: Reader, value: dict[Any, Any]) -> None:
    """Another workflow runs by its own definition: what is about running belongs there."""
    for key in value:
        known = TASK.by_name.get(key) if isinstance(key, str) else None
        if known is None or known.later or key in KINDS or key in OF_CHILDREN or key == "shell":
            continue
        fix = "set it there" if key != "env" else "set it there, or pass it on in with"
        reader.problem_at((*reader.path, key), f"`{key}` belongs into the workflow that is run", fix, "key")
