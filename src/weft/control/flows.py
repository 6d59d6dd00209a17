"""`@flow`: a function that names tasks becomes a workflow that can be run, handed over, or looked at.

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

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, overload

from weft.authoring.sdk_flows import FlowOptions, TracedFlow
from weft.authoring.sdk_functions import loading_place
from weft.authoring.sdk_places import flow_error
from weft.authoring.sdk_trace import current

P = ParamSpec("P")
R = TypeVar("R")


class Flow(TracedFlow[P, R]):
    """A workflow written in Python. `run` and `submit` take what the function takes."""

    def run(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Run it here, durably, in the store that the command line would use; what it returns, or RunFailed."""
        from weft.control.embedded import open as open_store

        _refuse_here(self, "run")
        with open_store() as weft:
            return weft.run(self, *arguments, **named)

    def submit(self, *arguments: P.args, **named: P.kwargs) -> str:
        """Store a run for workers to take; the run's id."""
        from weft.control.embedded import open as open_store

        _refuse_here(self, "submit")
        with open_store() as weft:
            return weft.submit(self, *arguments, **named)


def _refuse_here(flow: Flow[Any, Any], verb: str) -> None:
    """A run that starts while a module is loaded would start again in every process that loads it."""
    place = loading_place()
    if place is not None:
        raise flow_error(
            f'{flow.__name__}.{verb}() is called while its file is loaded, outside of if __name__ == "__main__":',
            'put it under if __name__ == "__main__":, or every process that loads the file would start a run',
            place,
        )
    trace = current()
    if trace is not None:
        raise flow_error(
            f"{flow.__name__}.{verb}() is called inside the flow {trace.flow!r}", f"call {flow.__name__}(…) there"
        )


class FlowDecorator(Protocol):
    def __call__(self, function: Callable[P, R], /) -> Flow[P, R]: ...


@overload
def flow(function: Callable[P, R], /) -> Flow[P, R]: ...
@overload
def flow(**options: Unpack[FlowOptions]) -> FlowDecorator: ...
def flow(function: Any = None, /, **options: Unpack[FlowOptions]) -> Any:
    """Makes a function a flow: `@flow`, or `@flow(name="…", on_failure="continue", max_parallel=4, timeout="1h")`.

    The function runs once, with symbols for its parameters, and every task it calls becomes a task of the workflow.
    """
    if function is not None:
        return Flow(function, options)
    return lambda function: Flow(function, options)
