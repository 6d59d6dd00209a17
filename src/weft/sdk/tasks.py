"""Tasks in Python: the decorator `@task`, shell commands, and waits.

>>> from weft import task
>>> @task(retries=3, timeout="10m")
... def extract(day: str) -> list[str]:
...     return [f"{day}-a.csv", f"{day}-b.csv"]
>>> extract("2026-01-01")                   # outside a flow: a plain call
['2026-01-01-a.csv', '2026-01-01-b.csv']
"""

import functools
import inspect
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from weft.authoring.code_positions import definition_position, flow_error
from weft.executors.python_functions.attempt_context import running_attempt
from weft.sdk.function_names import check_function, function_name
from weft.sdk.options import (
    INTERPRETERS,
    TaskOptions,
    WaitOptions,
    check_options,
    document_options,
    refuse_interpreter,
)
from weft.sdk.symbols import Symbol
from weft.sdk.tracing import DIRECT_RUN_ID, Trace, current_trace, document_value

if TYPE_CHECKING:
    from weft.executors.python_functions.load import Function

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")


class Task(Generic[P, R]):
    """A function that flows call as a task: what `@task` makes of a function."""

    __wrapped__: Callable[P, R]
    __name__: str

    def __init__(self, function: Callable[P, R], options: TaskOptions) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._checked: Function | None = None  # for calls from a flow that is called directly

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Inside a flow, add a task; the value stands for its result. Outside, call the function."""
        trace = current_trace()
        if trace is None:
            return cast(R, self._call(arguments, named))
        by_name = _named(self._function, arguments, named)
        return cast(R, self._record(trace, {"with": _with(trace, by_name)}, mapped=False))

    def map(
        self: "Task[Concatenate[T, Q], R]", items: Iterable[T], /, *arguments: Q.args, **constants: Q.kwargs
    ) -> list[R]:
        """Run the function once per element, which is its first argument; other arguments are the same for all.

        The results are a list in the order of the elements. Inside a flow, `items` may be the result of another task.

        >>> from weft import task
        >>> @task
        ... def double(number: int) -> int:
        ...     return 2 * number
        >>> double.map([1, 2, 3])
        [2, 4, 6]
        """
        trace = current_trace()
        if trace is None:
            elements = enumerate(batches(items, self._options))
            return [self._call((element, *arguments), constants, index) for index, element in elements]
        body = mapped_body(trace, self._function, items, arguments, constants)
        return cast(list[R], self._record(trace, body, mapped=True))

    def _call(self, arguments: tuple[Any, ...], named: dict[str, Any], index: int | None = None) -> Any:
        """Outside a flow: calls the function. `weft.current()` returns the calling attempt, or a stand-in."""
        if DIRECT_RUN_ID.get() is None and running_attempt() is not None:
            return self._function(*arguments, **named)
        from weft.sdk.direct_calls import call_alone, call_as_task

        if DIRECT_RUN_ID.get() is None:
            return call_alone(self._function, self.name, arguments, named, index)
        if self._checked is None:
            from weft.executors.python_functions.load import Function

            self._checked = Function(self.name, self._function)
        return call_as_task(self._checked, arguments, named, index)

    @property
    def name(self) -> str:
        """The name of the tasks that calls add."""
        return self._options.get("name") or self.__name__

    def _record(self, trace: Trace, body: dict[str, Any], *, mapped: bool) -> Any:
        options = document_options(trace, self._options, mapped=mapped)
        if not body["with"]:
            del body["with"]
        body = {**self._what(trace), **body, **options}
        return trace.record(self.name, body, chosen="name" in self._options)

    def _what(self, trace: Trace) -> dict[str, Any]:
        if not self._options.get("inline"):
            return {"python": self._called(trace)}
        refuse_interpreter(self._options, f"{self.__name__} is inline, and runs in the application")
        if not inspect.iscoroutinefunction(self._function):
            raise flow_error(
                f"{self.__name__} is inline, but not async: it would block the event loop of the node",
                "write async def, or remove inline=True, and it runs in another process",
                definition_position(self._function),
            )
        known = trace.inline.setdefault(self.__name__, self._function)
        if known is not self._function:
            raise flow_error(f"two inline functions are named {self.__name__}", "give one of them another name")
        return {"inline": self.__name__}

    def _called(self, trace: Trace) -> Any:
        name = function_name(self._function, trace.directory)
        options: Mapping[str, Any] = self._options
        chosen = {key: document_value(trace, options[key], key) for key in INTERPRETERS if key in options}
        return {"call": name, **chosen} if chosen else name

    def options(self, **options: Unpack[TaskOptions]) -> "Task[P, R]":
        """Return the same task with other options, for one call:
        `load.options(needs=[checked], retries=5)(rows)`."""
        check_options(options, f"{self.__name__}.options")
        return Task(self._function, {**self._options, **options})

    def __repr__(self) -> str:
        return f"<task {self.__module__}:{self.__name__}>"


def _named(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    from weft.sdk.inputs import named_arguments

    return named_arguments(function, arguments, named)


def _with(trace: Trace, arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: document_value(trace, value, f"the argument {name}") for name, value in arguments.items()}


def mapped_body(
    trace: Trace, function: Callable[..., Any], items: Any, arguments: tuple[Any, ...], constants: dict[str, Any]
) -> dict[str, Any]:
    """`map` and `with` of a task whose first argument is the element."""
    name, mark = function.__name__, object()
    by_name = _named(function, (mark, *arguments), constants)
    element = next((key for key, value in by_name.items() if value is mark), None)
    if element is None:
        raise flow_error(f"{name} has no parameter for the element", "add a first parameter")
    del by_name[element]
    if not isinstance(items, Symbol):
        if isinstance(items, (str, bytes, dict)) or not isinstance(items, Iterable):
            raise flow_error(f"{name}.map takes a list, not a {type(items).__name__}", "pass a list")
        items = list(items)
    return {
        "map": document_value(trace, items, "the array of the map"),
        "with": {element: "${{ item }}", **_with(trace, by_name)},
    }


def batches(items: Iterable[Any], options: TaskOptions) -> Iterable[Any]:
    """The elements as plain calls of the function get them: in lists if `batch` is set."""
    size = options.get("batch")
    if size is None:
        return items
    every = list(items)
    return [every[start : start + size] for start in range(0, len(every), size)]


@overload
def task(function: Callable[P, Coroutine[Any, Any, T]], /) -> Task[P, Any]: ...
@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(**options: Unpack[TaskOptions]) -> "TaskDecorator": ...
def task(function: Any = None, /, **options: Unpack[TaskOptions]) -> Any:
    """Make a function of a module a task: `@task`, or with options `@task(retries=3, timeout="10m")`.

    The function can still be called, tested and imported without a store. A call of an async function has the type
    Any, because its result is awaited outside a flow and a value inside one.

    >>> from weft import flow, task
    >>> @task(retries=2)
    ... def greet(who: str) -> str:
    ...     return f"hello {who}"
    >>> @flow
    ... def greeting(who: str = "world") -> str:
    ...     return greet(who)
    >>> greeting("you")
    'hello you'
    >>> greeting.definition()["tasks"]["greet"]["retry"]
    {'max': 2}
    """
    check_options(options, "@task")
    if function is None:
        return TaskDecorator(options)
    return TaskDecorator(options)(function)


class TaskDecorator:
    """The decorator that `@task(…)` returns."""

    def __init__(self, options: TaskOptions) -> None:
        self._options = options

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> Task[P, Any]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, function: Any, /) -> Any:
        if isinstance(function, Task):
            raise flow_error(f"{function.__name__} is already a task", "use .options(…) for other options")
        if hasattr(function, "definition"):
            raise flow_error(f"{function.__name__} is a flow, and cannot be a task as well", "remove @task")
        check_function(function, "task")
        return Task(function, self._options)


def shell(command: str | Sequence[Any], /, *, shell: Any = None, **options: Unpack[TaskOptions]) -> Any:
    """Add a command to the flow as a task: a text for the shell, or a list of a program and its arguments.

    In a text `${{ inputs.day }}` is a value, as in YAML. A list, and `env`, can contain values of the flow. `shell`
    is the shell of a text, such as "bash". The call returns what the command writes to `$WEFT_OUTPUT`.

    >>> from weft import flow, shell
    >>> @flow
    ... def backup(day: str) -> None:
    ...     made = shell(["tar", "-cf", "backup.tar", day])
    ...     shell("ls -l backup.tar", needs=[made])
    >>> backup.definition()["tasks"]["tar"]["argv"]
    ['tar', '-cf', 'backup.tar', '${{ inputs.day }}']
    """
    trace = _trace_of("shell")
    check_options(options, "shell()")
    refuse_interpreter(options, "shell() calls no Python function")
    if isinstance(command, str):
        body: dict[str, Any] = {"run": command}
        first = command.split(maxsplit=1)[0] if command.strip() else ""
    else:
        if isinstance(command, Symbol) or not isinstance(command, (list, tuple)):
            raise flow_error("shell() takes a text, or a list of a program and its arguments", "shell(['ls', path])")
        body = {"argv": document_value(trace, command, "the command")}
        first = command[0] if command and isinstance(command[0], str) else ""
    if shell is not None:
        body["shell"] = document_value(None, shell, "shell")
    body.update(document_options(trace, options, mapped=False))
    return trace.record(options.get("name") or _name_of(first), body, chosen="name" in options)


def _name_of(word: str) -> str:
    """A task name from the first word of a command."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", word.rpartition("/")[2].partition(".")[0]).strip("-")[:64]
    return stem if re.match(r"[A-Za-z_]", stem) else "shell"


def wait(
    signal: str | None = None,
    *,
    timeout: str | float | None = None,
    default: Any = ...,
    for_: Any = None,
    until: Any = None,
    **options: Unpack[WaitOptions],
) -> Any:
    """Add a task that waits without using a slot: for a signal (`weft signal RUN NAME`), for a duration (`for_`), or
    until a time (`until`).

    The call returns the data of the signal. If no signal arrives within `timeout`, it returns `default`; without a
    default the task fails.

    >>> from weft import flow, shell, wait
    >>> @flow
    ... def deploy() -> None:
    ...     approved = wait("approve", timeout="1d")
    ...     shell("./deploy.sh", needs=[approved])
    >>> deploy.definition()["tasks"]["approve"]["wait"]
    {'signal': 'approve', 'timeout': '1d'}
    """
    trace = _trace_of("wait")
    check_options(options, "wait()", WaitOptions)
    if sum(kind is not None for kind in (signal, for_, until)) != 1:
        raise flow_error(
            "wait() takes exactly one of a signal, for_= and until=",
            "write wait('approve'), wait(for_='10m') or wait(until='…')",
        )
    body: dict[str, Any] = {}
    if signal is not None:
        body["signal"] = document_value(None, signal, "the signal", data=False)
        if timeout is not None:
            body["timeout"] = document_value(None, timeout, "timeout")
        if default is not ...:
            body["default"] = document_value(None, default, "default", data=False)
    elif timeout is not None or default is not ...:
        raise flow_error("timeout= and default= apply only to a signal", "remove them")
    else:
        key, value = ("for", for_) if for_ is not None else ("until", until)
        body[key] = document_value(trace, value, key, data=False)
    name = options.get("name") or (_name_of(signal) if signal else "wait")
    rest = document_options(trace, options, mapped=False)
    return trace.record(name, {"wait": body, **rest}, chosen="name" in options)


def _trace_of(name: str) -> Trace:
    """The trace in progress. Raises FlowError outside a flow."""
    trace = current_trace()
    if trace is None:
        if DIRECT_RUN_ID.get() is not None:
            raise flow_error(
                f"{name}() needs a run, and this flow is called directly", "run it: flow.run(…), or weft.open()"
            )
        raise flow_error(
            f"{name}() can be called only inside a flow", "call it in a function with @flow, and run that"
        )
    return trace
