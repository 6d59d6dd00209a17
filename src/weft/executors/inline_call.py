"""An application's own async functions as inline functions: `with` becomes their arguments, and what holds for a
Python task holds here too: arguments are what the annotations say, and the result must have a JSON form."""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from weft.executors.inline import InlineFunction
from weft.executors.protocol import Launch
from weft.executors.python_functions.json_values import plain_value
from weft.executors.python_functions.load import Function

AsyncFunction = Callable[..., Coroutine[Any, Any, Any]]


def inline_functions(given: Mapping[str, AsyncFunction] | Iterable[AsyncFunction]) -> dict[str, InlineFunction]:
    """By name: the mapping's, or the functions' own. Raises TypeError for what cannot run on an event loop."""
    out: dict[str, InlineFunction] = {}
    if isinstance(given, Mapping):
        named = list(given.items())
    else:
        named = [(getattr(function, "__name__", repr(function)), function) for function in given]
    for name, function in named:
        function = inspect.unwrap(function) if callable(function) else function
        if not inspect.iscoroutinefunction(function):
            kind = "a plain function" if callable(function) else f"a {type(function).__name__}"
            raise TypeError(
                f"inline: {name} is {kind}, which would block the node's event loop while it runs;"
                " write async def, or leave it out of inline: a plain function runs in a runner process"
            )
        if name in out:
            raise TypeError(f"inline: two functions are named {name}; give them names: inline={{'{name}': …, …}}")
        out[name] = InlineCall(name, function)
    return out


class InlineCall:
    __slots__ = ("_function",)

    def __init__(self, name: str, function: AsyncFunction) -> None:
        self._function = Function(name, function)

    async def __call__(self, launch: Launch) -> Any:
        arguments = self._function.bind(launch.spec.get("with") or {})
        return plain_value(await self._function.call(**arguments), "returned")
