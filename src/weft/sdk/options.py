"""What can be said about a task beside its function and arguments, and the keys of the definition it becomes."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from weft.authoring.code_positions import flow_error
from weft.sdk.symbols import Symbol
from weft.sdk.tracing import Trace, document_value


class TaskOptions(TypedDict, total=False):
    """Durations are texts such as "10m" or "1h30m", or numbers of seconds."""

    name: str  # the task's, in place of the function's
    needs: Any  # what earlier task calls gave back, or names of tasks: they must be done first
    when: str  # all_success, none_failed, any_success, on_failure, always
    if_: Any  # a condition as text, "tasks.check.output > 3", or a symbol that is true or false
    retries: int  # after the first attempt
    backoff: str | float  # the delay before the first retry
    retry: Mapping[str, Any]  # everything about retries: max, backoff, multiplier, max_backoff, jitter, on_lost
    timeout: str | float | None  # of one attempt
    grace: str | float  # how long a stopped task may take to end by itself
    priority: int  # 0 to 10
    allow_failure: bool  # its failure counts as success for what follows
    env: Mapping[str, Any]
    cwd: str
    description: str
    max_parallel: int  # of the elements of .map
    batch: int  # elements of .map that one task takes together, as a list
    tolerate: int | str  # failed elements of .map that are not the whole map's failure: 3 or "5%"
    requires: Mapping[str, Any]  # of a node: labels, memory, gpu …
    prefers: Mapping[str, Any]
    cache: bool | Mapping[str, Any]  # keep a success: True, or {"key": …, "ttl": "1d"}
    pools: str | Sequence[str]  # of which it takes a place while it runs
    secrets: Sequence[str]
    inline: bool  # an async function that runs in the application itself, on its node's event loop


class WaitOptions(TypedDict, total=False):
    """A wait runs nothing, so there is less to say about it."""

    name: str
    needs: Any
    when: str
    if_: Any
    allow_failure: bool
    description: str


class FlowOptions(TypedDict, total=False):
    """What can be said about a workflow as a whole."""

    name: str
    description: str
    on_failure: str  # halt, halt_now, continue
    mode: str  # eager, levels
    ownership: str  # task, run
    max_parallel: int
    concurrency: int  # tasks of all its runs at a time
    placement: str  # pull, scored
    timeout: str | float  # of the whole run
    handlers_timeout: str | float  # of its handlers, after a cancel or the run's timeout
    env: dict[str, Any]
    defaults: dict[str, Any]
    context: dict[str, Any]
    triggers: list[dict[str, Any]]


_OF_MAP = ("batch", "tolerate", "max_parallel")
_TEMPLATED = ("env", "cwd", "cache")


def check_options(options: Mapping[str, Any], what: str, kind: type = TaskOptions) -> None:
    known = list(kind.__annotations__)
    for name in options:
        if name not in known:
            from weft.core.definition.suggest import nearest

            meant = nearest(name, known)
            fix = f"did you mean {meant}=?" if meant else f"there are {', '.join(known)}"
            raise flow_error(f"{what} has no option {name!r}", fix)


def document_options(trace: Trace, options: Mapping[str, Any], *, mapped: bool) -> dict[str, Any]:
    """The options as keys of a task; `name` is not one of them."""
    out: dict[str, Any] = {}
    retry: dict[str, Any] = {}
    for name, value in options.items():
        if name == "needs":
            needed = [value] if isinstance(value, (str, Symbol)) else list(value)
            out["needs"] = list(dict.fromkeys([trace.need(need) for need in needed]))
        elif name == "if_":
            out["if"] = document_value(trace, value, "if_", data=False)
        elif name == "retry":
            retry = {**document_value(None, dict(value), name), **retry}
        elif name in ("retries", "backoff"):
            retry["max" if name == "retries" else "backoff"] = document_value(None, value, name)
        elif name in _OF_MAP and not mapped:
            raise flow_error(f"{name}= is about the elements of a map", "use it with .map(…)")
        elif name not in ("name", "inline"):
            out[name] = document_value(trace if name in _TEMPLATED else None, value, name, data=False)
    if retry:
        out["retry"] = retry
    return out
