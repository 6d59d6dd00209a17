"""Calls without a run: of a task outside any flow, and of a flow as a function.

A call of a task calls its function, with a stand-in for the attempt. A flow is traced before it is called, so errors
of its definition are reported. Its tasks get their arguments through JSON, converted by their annotations, and must
return values with a JSON form, as in a run. Retries, timeouts, conditions and the store need a run, as do shell
commands and waits.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.authoring.code_positions import flow_error
from weft.executors.python_functions.annotations import hints_of
from weft.executors.python_functions.current_attempt import StandIn, direct_run_id, standing_in
from weft.executors.python_functions.json_values import plain_value
from weft.executors.python_functions.load import Function
from weft.executors.python_functions.typed_values import TypeMismatch, convert_value
from weft.sdk.inputs import named_arguments
from weft.sdk.tracing import DIRECT_RUN_ID, document_value


def call_alone(
    function: Callable[..., Any], name: str, arguments: tuple[Any, ...], named: dict[str, Any], index: int | None
) -> Any:
    """A call outside any flow: nothing is checked or converted."""
    stand_in = StandIn(name, direct_run_id(), index=index)
    if inspect.iscoroutinefunction(function):

        async def wait() -> Any:
            with standing_in(stand_in):
                return await function(*arguments, **named)

        return wait()
    with standing_in(stand_in):
        return function(*arguments, **named)


@contextmanager
def direct_flow() -> Iterator[None]:
    """Tasks called inside are tasks of a flow that is called directly."""
    token = DIRECT_RUN_ID.set(DIRECT_RUN_ID.get() or direct_run_id())
    try:
        yield
    finally:
        DIRECT_RUN_ID.reset(token)


def call_as_task(function: Function, arguments: tuple[Any, ...], named: dict[str, Any], index: int | None) -> Any:
    """Calls the function as a runner does: arguments and result are converted to JSON and back."""
    plain = {
        key: document_value(None, value, f"the argument {key}", data=False)
        for key, value in named_arguments(function.call, arguments, named).items()
    }
    bound = function.bind(plain)
    run_id = DIRECT_RUN_ID.get()
    assert run_id is not None
    token = DIRECT_RUN_ID.set(None)  # calls from the function itself are plain calls
    try:
        with standing_in(StandIn(function.name, run_id, index=index)):
            value = function.call(**bound)
            if hasattr(value, "__await__"):
                value = _awaited(value, function.name)
    finally:
        DIRECT_RUN_ID.reset(token)
    result = plain_value(value, f"{function.name}() returned")
    try:
        return convert_value(hints_of(function.call).get("return", Any), result)
    except TypeMismatch:
        return result  # as in a run: the annotation of the task that receives the value decides


def _awaited(value: Any, name: str) -> Any:
    import asyncio

    async def wait() -> Any:
        return await value

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    if hasattr(value, "close"):
        value.close()
    raise flow_error(
        f"{name} is async, and the flow that calls it was called on a running event loop",
        "call the flow in a thread: await asyncio.to_thread(flow, …)",
    )
