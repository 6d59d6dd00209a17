"""Calls without a run: a task that is called by itself, and a flow that is called like the function it is.

A task by itself is its function, with a stand-in for the attempt. A flow has been traced before it is called, so what
would be wrong with a run is told; its tasks get JSON, read by their annotations, and what they return must have a
JSON form: as in a run. Retries, timeouts, conditions and the store belong to runs; shell commands and waits need one.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.authoring.code_positions import flow_error
from weft.executors.python_attempt import StandIn, direct_run_id, standing_in
from weft.executors.python_load import Function
from weft.executors.python_types import Misfit, hints_of, read_as
from weft.executors.python_value import plain_value
from weft.sdk.inputs import named_arguments
from weft.sdk.tracing import DIRECT, document_value


def call_alone(
    function: Callable[..., Any], name: str, arguments: tuple[Any, ...], named: dict[str, Any], index: int | None
) -> Any:
    """Outside any flow: nothing is checked or converted."""
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
    """Tasks that are called within are tasks of a flow."""
    token = DIRECT.set(DIRECT.get() or direct_run_id())
    try:
        yield
    finally:
        DIRECT.reset(token)


def call_as_task(function: Function, arguments: tuple[Any, ...], named: dict[str, Any], index: int | None) -> Any:
    """As a runner would: arguments and result by way of JSON."""
    given = {
        key: document_value(None, value, f"the argument {key}", data=False)
        for key, value in named_arguments(function.call, arguments, named).items()
    }
    bound = function.bind(given)
    run_id = DIRECT.get()
    assert run_id is not None
    token = DIRECT.set(None)  # what the function itself calls are plain calls
    try:
        with standing_in(StandIn(function.name, run_id, index=index)):
            value = function.call(**bound)
            if hasattr(value, "__await__"):
                value = _awaited(value, function.name)
    finally:
        DIRECT.reset(token)
    result = plain_value(value, f"{function.name}() returned")
    try:
        return read_as(hints_of(function.call).get("return", Any), result)
    except Misfit:
        return result  # as in a run: the annotation of the task that gets it is the one that counts


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
        f"{name} is async, and the flow that calls it is called on a running event loop",
        "call the flow in a thread: await asyncio.to_thread(flow, …)",
    )
