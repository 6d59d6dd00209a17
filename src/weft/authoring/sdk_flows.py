"""Flows: a function that is run once, with symbols for its parameters, and leaves a definition behind."""

import copy
import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, cast

from weft.authoring.sdk_functions import check_function, definition_anchor
from weft.authoring.sdk_options import check_options
from weft.authoring.sdk_places import CodePlace, definition_of, flow_error
from weft.authoring.sdk_trace import Trace, current, document_value

if TYPE_CHECKING:
    from weft.authoring.load import Loaded
    from weft.core.problems import Problem

P = ParamSpec("P")
R = TypeVar("R")


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
    env: dict[str, Any]
    defaults: dict[str, Any]
    context: dict[str, Any]
    triggers: list[dict[str, Any]]


class TracedFlow(Generic[P, R]):
    """A flow as a definition. How it is run is the control layer's."""

    __wrapped__: Callable[P, R]
    __name__: str

    def __init__(self, function: Callable[P, R], options: FlowOptions) -> None:
        check_function(function, "flow")
        _check_options(function, options)
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._loaded: Loaded | None = None
        self.inline: dict[str, Any] = {}  # its async functions that run on the node's own event loop, once traced

    @property
    def name(self) -> str:
        return self._options.get("name") or self.__name__

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Inside another flow: a task that runs this one. Outside: the plain function, with plain tasks, here."""
        trace = current()
        if trace is None:
            return self._function(*arguments, **named)
        return cast(R, self._record(trace, arguments, named))

    def definition(self) -> dict[str, Any]:
        """The document that this flow is: the same that YAML makes."""
        return copy.deepcopy(self.load().document)

    def load(self) -> "Loaded":
        """The definition, ready to run. The function runs once, however often this is called."""
        if self._loaded is None:
            self._loaded = self._trace()
        return self._loaded

    def _trace(self) -> "Loaded":
        from weft.authoring.sdk_inputs import flow_inputs

        anchor = definition_anchor(self._function)
        trace = Trace(self.name, os.path.dirname(anchor) if anchor else os.getcwd())
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
        with trace:
            returned = self._function(*bound.args, **bound.kwargs)
        self.inline = trace.inline
        if returned is not None:
            document["output"] = document_value(trace, returned, f"what {self.__name__} returns")
        document["tasks"] = trace.tasks
        return self._read(document, trace, anchor)

    def _read(self, document: dict[str, Any], trace: Trace, anchor: str | None) -> "Loaded":
        from weft.authoring.load import Loaded
        from weft.core.compile import compile_workflow
        from weft.core.definition import document_hash, read

        reading = read(document, self.name)
        if reading.document is None:
            from weft.authoring.sdk_errors import FlowErrors

            home = definition_of(self._function)
            raise FlowErrors([_told(problem, trace, home) for problem in reading.problems[:100]], reading.more)
        workflow = compile_workflow(reading.document, document_hash(reading.document), reading.mentions)
        return Loaded(reading.document, workflow, Path(anchor) if anchor else None)

    def _record(self, trace: Trace, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        from weft.authoring.sdk_inputs import named_arguments
        from weft.core.fields import TASK

        if TASK.by_name["workflow"].later:
            raise flow_error(
                f"the flow {self.name!r} is called inside the flow {trace.flow!r}, which this version cannot run yet",
                "call its tasks here, or run it on its own",
            )
        given = named_arguments(self._function, arguments, named)
        body: dict[str, Any] = {"workflow": self.name}
        if given:
            body["with"] = {name: document_value(trace, value, f"the input {name}") for name, value in given.items()}
        return trace.record(self.__name__, body, chosen=False)

    def __repr__(self) -> str:
        return f"<flow {self.__module__}:{self.__name__}>"


def _check_options(function: Callable[..., Any], options: FlowOptions) -> None:
    check_options(options, "@flow", FlowOptions)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise flow_error(
            f"{function.__name__} is {'async' if inspect.iscoroutinefunction(function) else 'a generator'}, but a "
            "flow only names its tasks, and waits for none",
            "write a plain def; its tasks may be async",
            definition_of(function),
        )


def _first_paragraph(function: Callable[..., Any]) -> str:
    text = (inspect.getdoc(function) or "").split("\n\n")[0]
    return "" if "${{" in text or "\0" in text else " ".join(text.split())


def _told(problem: "Problem", trace: Trace, home: CodePlace) -> Any:
    """A problem of the document, at the line of the call that made that part of it."""
    from weft.authoring.load import path_text
    from weft.authoring.sdk_errors import in_code

    path = problem.path
    task = path[1] if len(path) > 1 and path[0] == "tasks" else None
    place = trace.places.get(task, home) if isinstance(task, str) else home
    shown = path_text(path) or None
    message = f"{problem.message} (at {shown})" if shown else problem.message
    return in_code(place, message, problem.fix, shown)
