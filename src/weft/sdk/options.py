"""Options of tasks, waits and flows, and the keys of the definition that they become."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from weft.authoring.code_positions import flow_error
from weft.sdk.symbols import Symbol
from weft.sdk.tracing import Trace, document_value


class TaskOptions(TypedDict, total=False):
    """Durations are texts such as "10m" or "1h30m", or numbers of seconds."""

    name: str  # of the task; by default that of the function
    needs: Any  # results of earlier task calls, or names of tasks, which must end first
    when: str  # all_success, none_failed, any_success, on_failure, always
    if_: Any  # a condition as text, "tasks.check.output > 3", or a symbol
    retries: int  # after the first attempt
    backoff: str | float  # the delay before the first retry
    retry: Mapping[
        str, Any
    ]  # all options: max, backoff, multiplier, max_backoff, jitter, on, not_on, memory, on_lost
    timeout: str | float | None  # of one attempt
    grace: str | float  # how long a stopped task may take to end by itself
    priority: int  # 0 to 10
    allow_failure: bool  # its failure counts as success for the tasks that need it
    env: Mapping[str, Any]  # variables of its process; values may be results of other tasks
    env_file: str | Sequence[str]  # files with variables, relative to the definition; those of env win
    cwd: str  # the directory where it starts, relative to that of the definition
    description: str  # for people
    max_parallel: int  # of the elements of .map
    label: str  # of the elements of .map: the name by which people see them, "${{ item }}"
    batch: int  # how many elements of .map one task takes, as a list
    tolerate: int | str  # how many elements of .map may fail: 3 or "5%"
    requires: Mapping[str, Any]  # what a node must have: labels, memory, gpu …
    prefers: Mapping[str, Any]  # labels that a node should have; they count with placement="scored"
    artifacts: str | Sequence[str]  # files, patterns and directories that are kept with the run
    files: Any  # results of earlier task calls, or names of tasks, whose artifacts it gets in $WEFT_FILES
    cache: bool | Mapping[str, Any]  # keep and reuse the result of a success: True, or {"key": …, "ttl": "1d"}
    pools: str | Sequence[str]  # in which it takes a place while it runs
    secrets: Sequence[str]  # names of secrets that it gets as variables; they are masked in its output
    container: Mapping[str, Any] | None  # in which it runs: {"image": …}; None: in none, whatever the defaults say
    kubernetes: Mapping[str, Any]  # of a command: the container in Kubernetes in which it runs
    venv: str  # of a function: the virtual environment whose Python calls it, relative to that of the definition
    interpreter: str  # of a function: the Python that calls it
    inline: bool  # run the async function in the application, on the event loop of its node


class WaitOptions(TypedDict, total=False):
    """Options of a wait, which runs on no node and so has fewer."""

    name: str  # of the task; by default that of the signal
    needs: Any  # as for tasks
    when: str  # as for tasks
    if_: Any  # as for tasks
    allow_failure: bool  # as for tasks
    description: str  # for people


class FlowOptions(TypedDict, total=False):
    """Options of a workflow as a whole."""

    name: str  # of the workflow; by default that of the function
    description: str  # for people; by default the first paragraph of the function's docstring
    on_failure: str  # halt, halt_now, continue
    mode: str  # eager, levels
    order: str  # longest_path, fifo
    ownership: str  # task, run
    max_parallel: int  # tasks of one run at a time
    concurrency: int  # tasks of all its runs at a time
    placement: str  # pull, scored
    timeout: str | float  # of the whole run
    handlers_timeout: str | float  # of its handlers, after a cancel or the run's timeout
    workspace: str  # run: its tasks start in a directory of their run
    env: dict[str, Any]  # variables of all its tasks
    env_file: str | Sequence[str]  # files with variables of all its tasks
    defaults: dict[str, Any]  # options of all its tasks that do not set their own
    context: dict[str, Any]  # what the run's context begins with
    triggers: list[dict[str, Any]]  # what starts runs, as in a definition


_MAP_OPTIONS = ("label", "batch", "tolerate", "max_parallel")
_TEMPLATED_OPTIONS = ("env", "env_file", "cwd", "artifacts", "cache", "container", "kubernetes")
INTERPRETERS = ("venv", "interpreter")  # keys of `python`, where the function is
_FAILURES = ("on", "not_on")  # of retries; exceptions may be given as their classes


def check_options(options: Mapping[str, Any], what: str, kind: type = TaskOptions) -> None:
    known = list(kind.__annotations__)
    for name in options:
        if name not in known:
            from weft.core.definition.suggest import nearest

            meant = nearest(name, known)
            fix = f"did you mean {meant}=?" if meant else f"its options are {', '.join(known)}"
            raise flow_error(f"{what} has no option {name!r}", fix)


def document_options(trace: Trace, options: Mapping[str, Any], *, mapped: bool) -> dict[str, Any]:
    """The options as keys of a task in the definition; `name` is not one of them."""
    out: dict[str, Any] = {}
    retry: dict[str, Any] = {}
    for name, value in options.items():
        if name in ("needs", "files"):
            needed = [value] if isinstance(value, (str, Symbol)) else list(value)
            out[name] = list(dict.fromkeys([trace.need(need) for need in needed]))
        elif name == "if_":
            out["if"] = document_value(trace, value, "if_", data=False)
        elif name == "retry":
            named = {key: _failures(item) if key in _FAILURES else item for key, item in value.items()}
            retry = {**document_value(None, named, name), **retry}
        elif name in ("retries", "backoff"):
            retry["max" if name == "retries" else "backoff"] = document_value(None, value, name)
        elif name in _MAP_OPTIONS and not mapped:
            raise flow_error(f"{name}= applies only to the elements of a map", "use it with .map(…)")
        elif name not in ("name", "inline", *INTERPRETERS):
            out[name] = document_value(trace if name in _TEMPLATED_OPTIONS else None, value, name, data=False)
    if retry:
        out["retry"] = retry
    return out


def refuse_interpreter(options: Mapping[str, Any], why: str) -> None:
    """For tasks that no runner calls."""
    for name in INTERPRETERS:
        if name in options:
            raise flow_error(f"{name}= does not apply: {why}", f"remove {name}=")


def _failures(value: Any) -> Any:
    """Exceptions by the names that failed attempts have them under."""
    if isinstance(value, (list, tuple)):
        return [_failures(item) for item in value]
    if not (isinstance(value, type) and issubclass(value, BaseException)):
        return value
    own = value.__module__ in ("builtins", "__main__")
    return value.__qualname__ if own else f"{value.__module__}.{value.__qualname__}"
