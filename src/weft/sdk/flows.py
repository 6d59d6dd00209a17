"""`@flow`: a function that calls tasks becomes a workflow that can be run, submitted, or exported.

The function runs once, with symbols for its parameters; the calls that it makes are the tasks of the definition.

>>> from weft import flow, task
>>> @task
... def extract(day: str) -> list[str]:
...     return [f"{day}.csv"]
>>> @task
... def load(paths: list[str]) -> int:
...     return len(paths)
>>> @flow
... def nightly(day: str = "2026-01-01") -> int:
...     return load(extract(day))
>>> definition = nightly.definition()
>>> definition["inputs"]
{'day': {'type': 'string', 'default': '2026-01-01'}}
>>> definition["tasks"]["load"]["with"]
{'paths': '${{ tasks.extract.output }}'}
>>> definition["output"]
'${{ tasks.load.output }}'
"""

import copy
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)  # fmt: skip

from weft.authoring.code_positions import (
    CodePosition,
    caller_position,
    definition_position,
    flow_error,
    raise_position,
)
from weft.authoring.python_definition import PythonDefinition
from weft.sdk.function_names import check_function, definition_anchor, function_name, importing_position
from weft.sdk.options import FlowOptions, TaskOptions, check_options, document_options
from weft.sdk.tracing import Trace, current_trace, document_value

if TYPE_CHECKING:
    from weft.authoring.load import Loaded
    from weft.core.definition.problems import ValueProblem
    from weft.executors.python_functions.load import Function

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")

_LOADING: ContextVar[tuple[Callable[..., Any], ...]] = ContextVar("weft_loading", default=())


class Flow(PythonDefinition, Generic[P, R]):
    """A workflow written in Python: what `@flow` makes of a function. `run` and `submit` take the arguments of the
    function."""

    __wrapped__: Callable[P, R]
    __name__: str

    def __init__(self, function: Callable[P, R], options: FlowOptions) -> None:
        if hasattr(function, "options"):
            raise flow_error(f"{function.__name__} is a task, and cannot be a flow as well", "remove @task")
        check_function(function, "flow")
        _check_options(function, options)
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._called: TaskOptions = {}
        self._checked: Function | None = None
        self._loaded: Loaded | None = None
        self.inline: dict[
            str, Any
        ] = {}  # its async functions that run on the event loop of the node; filled by tracing

    @property
    def name(self) -> str:
        """The name of the workflow: `name=` of the decorator, or that of the function."""
        return self._options.get("name") or self.__name__

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Inside another flow, add a task that runs this one. Outside, run its tasks in this process, one after the
        other, without a store; inputs, arguments and results are checked and converted as in a run."""
        trace = current_trace()
        if trace is None:
            return self._direct(arguments, named)
        from weft.sdk.inputs import named_arguments

        inputs = named_arguments(self._function, arguments, named)
        body = {"with": {name: document_value(trace, value, f"the input {name}") for name, value in inputs.items()}}
        return cast(R, self._record(trace, body, mapped=False))

    def map(
        self: "Flow[Concatenate[T, Q], R]", items: Iterable[T], /, *arguments: Q.args, **constants: Q.kwargs
    ) -> list[R]:
        """Start one run per element, which is its first input; other inputs are the same for all. Inside another flow
        this adds one task; outside, the runs are plain calls, one after the other."""
        from weft.sdk.tasks import batches, mapped_body

        trace = current_trace()
        if trace is None:
            return [self._direct((element, *arguments), constants) for element in batches(items, self._called)]
        body = mapped_body(trace, self._function, items, arguments, constants)
        return cast(list[R], self._record(trace, body, mapped=True))

    def options(self, **options: Unpack[TaskOptions]) -> Self:
        """Return the same flow with options for the task that a call inside another flow adds:
        `nightly.options(retries=2)(day)`."""
        check_options(options, f"{self.__name__}.options")
        other = copy.copy(self)
        other._called = {**self._called, **options}
        return other

    def _direct(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> R:
        from weft.executors.python_functions.json_values import plain_value
        from weft.sdk.direct_calls import direct_flow

        bound = inspect.signature(self._function).bind(*arguments, **named)
        bound.arguments = dict(self._read_inputs(self.inputs_from(bound.arguments)))
        with direct_flow():
            returned = self._function(*bound.args, **bound.kwargs)
        return self.result_from(plain_value(returned, f"{self.__name__} returned"))

    def inputs_from(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a run as JSON values, with defaults, checked against the definition and the
        annotations. Raises InputError."""
        from weft.core.definition.inputs import checked_inputs

        plain = {name: document_value(None, value, f"the input {name}", data=False) for name, value in values.items()}
        checked = checked_inputs(self.load().inputs, plain)
        self._read_inputs(checked)
        return checked

    def _read_inputs(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        from weft.core.definition.inputs import InputError
        from weft.executors.python_functions.load import Function, WrongArguments

        if self._checked is None:
            self._checked = Function(self.__name__, self._function)
        try:
            return self._checked.bind(values)
        except WrongArguments as wrong:
            mismatch = wrong.mismatch
            raise InputError(f"the input '{mismatch.path}' {mismatch.message}" if mismatch else str(wrong)) from None

    def result_from(self, value: Any) -> R:
        """Convert the output of a run, which is JSON, to the type of the return annotation. Raises TypeError."""
        from weft.executors.python_functions.annotations import hints_of
        from weft.executors.python_functions.json_values import WrongValue
        from weft.executors.python_functions.typed_values import TypeMismatch, convert_value

        hint = hints_of(self._function).get("return", Any)
        if value is None and self.load().document.get("output") is None:
            return cast(R, None)
        try:
            return cast(R, convert_value(hint, value))
        except TypeMismatch as mismatch:
            raise WrongValue(
                f"{self.__name__} does not return what its annotation says: {mismatch}; change the annotation"
            ) from None

    def definition(self) -> dict[str, Any]:
        """Return the canonical document of this flow, the same as that of a YAML file."""
        return copy.deepcopy(self.load().document)

    def load(self) -> "Loaded":
        """Return the definition, ready to run. The function runs only at the first call. Raises FlowError."""
        if self._loaded is None:
            self._loaded = self._trace()
        return self._loaded

    def _trace(self) -> "Loaded":
        from weft.sdk.inputs import flow_inputs

        anchor = definition_anchor(self._function)
        trace = Trace(self.name, os.path.dirname(anchor) if anchor else os.getcwd(), self._function)
        document: dict[str, Any] = {"name": self.name}
        description = _first_paragraph(self._function)
        if description:
            document["description"] = description
        document.update(document_value(None, dict(self._options), "an option of the flow", data=False))
        inputs = flow_inputs(self._function)
        if inputs:
            document["inputs"] = inputs
        signature = inspect.signature(self._function)
        bound = signature.bind_partial()
        for name in inputs:
            bound.arguments[name] = trace.input(name)
        returned = self._traced(trace, bound)
        self.inline = trace.inline
        if returned is not None:
            document["output"] = document_value(trace, returned, f"the return value of {self.__name__}")
        document["tasks"] = trace.tasks
        return self._read(document, trace, anchor)

    def _traced(self, trace: Trace, bound: inspect.BoundArguments) -> Any:
        from weft.authoring.errors import DefinitionErrors

        try:
            with trace:
                return self._function(*bound.args, **bound.kwargs)
        except DefinitionErrors:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise flow_error(
                f"the flow {self.name!r} raised {text.partition(chr(10))[0]}",
                "the function of a flow runs before its tasks, with symbols instead of values: move code that needs a"
                " value into a function with @task",
                raise_position(error, self._function),
            ) from error

    def _read(self, document: dict[str, Any], trace: Trace, anchor: str | None) -> "Loaded":
        from weft.authoring.children import input_problems
        from weft.authoring.flow_errors import FlowError
        from weft.authoring.load import Loaded
        from weft.core.definition.read import read
        from weft.core.definition.source_paths import SourcePaths

        home = definition_position(self._function)
        reading = read(document, self.name)
        if reading.document is None:
            raise FlowError([_located(problem, trace, home) for problem in reading.problems[:100]], reading.more)
        children = self._children(trace)
        wrong = input_problems(reading.document, SourcePaths(reading.document), children) if children else []
        if wrong:
            raise FlowError([_located(problem, trace, home) for problem in wrong[:100]], 0)
        source_path = Path(anchor) if anchor else None
        return Loaded.of(reading.document, reading.encoded, reading.references, source_path, children)

    def _children(self, trace: Trace) -> "dict[str, Loaded]":
        """The flows that this one calls, in the order of the calls. Raises FlowError if they call this one."""
        path = (*_LOADING.get(), self._function)
        token = _LOADING.set(path)
        try:
            out = {}
            for name, (flow, position) in trace.flows.items():
                if flow._function in path:
                    shown = [function.__name__ for function in (*path[path.index(flow._function) :], flow._function)]
                    raise flow_error(
                        f"these flows run each other: {' -> '.join(shown)}", "remove one of these calls", position
                    )
                out[name] = flow.load()
                for called, function in flow.inline.items():
                    if self.inline.setdefault(called, function) is not function:
                        message = f"two inline functions are named {called}, one of them in the flow {flow.name!r}"
                        raise flow_error(message, "give one of them another name", position)
            return out
        finally:
            _LOADING.reset(token)

    def _record(self, trace: Trace, body: dict[str, Any], *, mapped: bool) -> Any:
        """Adds a task whose `workflow` is `module:flow` or `file.py:flow`, as in YAML."""
        options = document_options(trace, self._called, mapped=mapped)
        if not body["with"]:
            del body["with"]
        reference = function_name(self._function, trace.directory)
        trace.flows.setdefault(reference, (self, caller_position()))
        name = self._called.get("name") or self.__name__
        return trace.record(name, {"workflow": reference, **body, **options}, chosen="name" in self._called)

    def run(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Run the flow durably in this process, in the store of the command line, and return its result. On a
        terminal, a line says how far it is. Raises RunFailed."""
        from weft.sdk.embedded import open as open_store

        _refuse_while_loading(self, "run")
        with open_store() as weft:
            return weft.run_shown(self, *arguments, **named)

    def submit(self, *arguments: P.args, **named: P.kwargs) -> str:
        """Store a run, which workers execute, in the store of the command line. Return its id."""
        from weft.sdk.embedded import open as open_store

        _refuse_while_loading(self, "submit")
        with open_store() as weft:
            return weft.submit(self, *arguments, **named)

    def __repr__(self) -> str:
        return f"<flow {self.__module__}:{self.__name__}>"


def _refuse_while_loading(flow: Flow[Any, Any], verb: str) -> None:
    """A run that starts while its module is imported would start again in every process that imports it."""
    position = importing_position()
    if position is not None:
        raise flow_error(
            f'{flow.__name__}.{verb}() is called while its file is imported, outside of if __name__ == "__main__":',
            'put it under if __name__ == "__main__":, or every process that imports the file would start a run',
            position,
        )
    trace = current_trace()
    if trace is not None:
        raise flow_error(
            f"{flow.__name__}.{verb}() is called inside the flow {trace.flow!r}", f"call {flow.__name__}(…) instead"
        )


def _check_options(function: Callable[..., Any], options: FlowOptions) -> None:
    check_options(options, "@flow", FlowOptions)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise flow_error(
            f"{function.__name__} is {'async' if inspect.iscoroutinefunction(function) else 'a generator'}, but a "
            "flow only calls its tasks, and does not wait for them",
            "write a plain def; its tasks may be async",
            definition_position(function),
        )


def _first_paragraph(function: Callable[..., Any]) -> str:
    text = (inspect.getdoc(function) or "").split("\n\n")[0]
    return "" if "${{" in text or "\0" in text else " ".join(text.split())


def _located(problem: "ValueProblem", trace: Trace, home: CodePosition) -> Any:
    """A problem of the document, at the line of the call that added the task."""
    from weft.authoring.flow_errors import in_code
    from weft.authoring.load import path_text

    path = problem.path
    task = path[1] if len(path) > 1 and path[0] == "tasks" else None
    position = trace.positions.get(task, home) if isinstance(task, str) else home
    shown = path_text(path) or None
    message = f"{problem.message} (at {shown})" if shown else problem.message
    return in_code(position, message, problem.fix, shown)


class FlowDecorator(Protocol):
    def __call__(self, function: Callable[P, R], /) -> Flow[P, R]: ...


@overload
def flow(function: Callable[P, R], /) -> Flow[P, R]: ...
@overload
def flow(**options: Unpack[FlowOptions]) -> FlowDecorator: ...
def flow(function: Any = None, /, **options: Unpack[FlowOptions]) -> Any:
    """Make a function a flow: `@flow`, or `@flow(name="…", on_failure="continue", max_parallel=4, timeout="1h")`.

    The function runs once, with symbols for its parameters; every task that it calls becomes a task of the workflow.
    A task whose result is passed to another one runs before it.

    >>> from weft import flow, task
    >>> @task
    ... def extract(day: str) -> list[str]:
    ...     return [f"{day}.csv"]
    >>> @task
    ... def load(paths: list[str]) -> int:
    ...     return len(paths)
    >>> @flow(max_parallel=4)
    ... def nightly(day: str) -> int:
    ...     return load(extract(day))
    >>> nightly.definition()["tasks"]["load"]["with"]
    {'paths': '${{ tasks.extract.output }}'}
    """
    if function is not None:
        return Flow(function, options)
    return lambda function: Flow(function, options)
