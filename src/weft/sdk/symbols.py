"""Symbols: placeholders for values that are known only during a run, inputs of a flow and results of its tasks.

A symbol can be passed as an argument, indexed, and asked for members. An operation that needs its value raises an
error, with the position and what to write instead: an `if` on a symbol would otherwise take a wrong branch silently.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from weft.authoring.code_positions import called_by, display_path, flow_error

if TYPE_CHECKING:
    from weft.sdk.tracing import Trace

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}


class SymbolOrigin(NamedTuple):
    """What a symbol is a placeholder for. `task` is None for an input."""

    trace: "Trace"
    task: str | None
    text: str


class Symbol:
    """A value in a flow that is being traced. Its members are symbols, too."""

    __slots__ = ("_weft_origin",)
    _weft_origin: SymbolOrigin

    def __init__(self, origin: SymbolOrigin) -> None:
        object.__setattr__(self, "_weft_origin", origin)

    def __getattr__(self, name: str) -> "Symbol":
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: Any) -> "Symbol":
        origin = origin_of(self)
        return Symbol(origin._replace(text=origin.text + _member(origin, key)))

    def map(self, task: Any, /, *arguments: Any, **constants: Any) -> Any:
        """`files.map(convert)` is `convert.map(files)`."""
        if not hasattr(task, "map"):
            name = getattr(task, "__name__", type(task).__name__)
            raise flow_error(f"{name} is not a task, so it cannot be mapped", f"write @task above def {name}")
        return task.map(self, *arguments, **constants)

    def __repr__(self) -> str:
        return f"<symbol {origin_of(self).text}>"


def origin_of(symbol: Symbol) -> SymbolOrigin:
    origin: SymbolOrigin = object.__getattribute__(symbol, "_weft_origin")
    return origin


def member(text: str, name: str) -> str:
    """A member of an expression: after a dot if the name is an identifier, else in brackets."""
    if _NAME.fullmatch(name):
        return f"{text}.{name}"
    quoted = "".join(_ESCAPES.get(c, c) for c in name)
    return f"{text}['{quoted}']"


def _member(origin: SymbolOrigin, key: Any) -> str:
    if isinstance(key, Symbol):
        inner = origin_of(key)
        if inner.trace is not origin.trace:
            raise flow_error("the index is a value of another flow", "use a value of this flow")
        return f"[{inner.text}]"
    if isinstance(key, str):
        return member("", key)
    if isinstance(key, int) and not isinstance(key, bool):
        if key < 0:
            raise flow_error("a symbol has no negative index", f"use [{key}:][0], or index it within a task")
        return f"[{key}]"
    if isinstance(key, slice) and key.step is None:
        ends = [0 if key.start is None else key.start] + ([] if key.stop is None else [key.stop])
        if all(isinstance(end, int) for end in ends):
            return f".slice({', '.join(str(int(end)) for end in ends)})"
    raise flow_error(
        "a symbol can be indexed only by a name, a number from 0, or start:stop", "index it within a task"
    )


class _Refusal(NamedTuple):
    methods: str
    operation: str
    fix: str


_REFUSED = (
    _Refusal(
        "bool",
        "is used as a condition",
        "pass the condition to the tasks that depend on it: .options(if_=…); it is evaluated during the run",
    ),
    _Refusal("iter next reversed", "is looped over", "use task.map(…): one task for each element"),
    _Refusal("len", "is used in len()", "count within a task, or use .length in an if_ text"),
    _Refusal("contains", "is searched", "search within a task, or use .includes(…) in an if_ text"),
    _Refusal(
        "str format bytes",
        "is converted to text",
        "pass it as an argument, or to shell() through env={'NAME': value} or as one item of a list",
    ),
    _Refusal(
        "eq ne lt le gt ge",
        "is compared",
        "compare within a task, or in text: .options(if_='tasks.check.output > 3')",
    ),
    _Refusal(
        "add sub mul truediv floordiv mod divmod pow matmul lshift rshift and or xor "
        "radd rsub rmul rtruediv rfloordiv rmod rdivmod rpow rmatmul rlshift rrshift rand ror rxor "
        "neg pos abs invert round trunc floor ceil int float complex index",
        "is used in a calculation",
        "calculate within a task",
    ),
    _Refusal("call", "is called", "call methods and functions of the value within a task"),
    _Refusal(
        "await aiter anext enter exit aenter aexit",
        "is awaited or entered",
        "remove it: a flow only calls tasks, and waits for none",
    ),
    _Refusal(
        "setattr setitem delattr delitem", "is changed", "create a new value within a task: results never change"
    ),
    _Refusal("hash", "is used as a key", "use a constant key, or do it within a task"),
)


def _refusing(refusal: _Refusal) -> Callable[..., NoReturn]:
    def refused(self: Symbol, *arguments: Any, **named: Any) -> NoReturn:
        called = called_by(origin_of(self).trace.function)
        if called is not None:
            name, position, inner = called
            raise flow_error(
                f"{origin_of(self).text} {refusal.operation} by {name}() ({display_path(inner.file)}:{inner.line}),"
                " but is known only when the flow runs",
                f"write @task above def {name}, or call it within a task: a plain function runs before the flow",
                position,
            )
        raise flow_error(
            f"{origin_of(self).text} {refusal.operation}, but is known only when the flow runs", refusal.fix
        )

    return refused


for _refusal in _REFUSED:
    for _method in _refusal.methods.split():
        setattr(Symbol, f"__{_method}__", _refusing(_refusal))
