"""Symbols stand for values that will be there when the run gets to them: a flow's inputs and its tasks' results.

A symbol can be passed on, indexed, and asked for members. Whatever would need its value now raises, with the place
and what to write instead: an `if` on a symbol that took the wrong branch in silence would be the worst of all ends.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from weft.authoring.code_positions import called_by, flow_error, shown_path

if TYPE_CHECKING:
    from weft.sdk.tracing import Trace

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}


class Origin(NamedTuple):
    """What a symbol stands for. `task` is None for an input."""

    trace: "Trace"
    task: str | None
    text: str


class Symbol:
    """A value of a flow that is traced. Its members are symbols, too."""

    __slots__ = ("_weft_origin",)
    _weft_origin: Origin

    def __init__(self, origin: Origin) -> None:
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
            raise flow_error(f"{name} is no task, so nothing can be mapped with it", f"write @task above def {name}")
        return task.map(self, *arguments, **constants)

    def __repr__(self) -> str:
        return f"<symbol {origin_of(self).text}>"


def origin_of(symbol: Symbol) -> Origin:
    origin: Origin = object.__getattribute__(symbol, "_weft_origin")
    return origin


def member(text: str, name: str) -> str:
    """A name after a dot where the language takes it so, else in brackets."""
    if _NAME.fullmatch(name):
        return f"{text}.{name}"
    quoted = "".join(_ESCAPES.get(c, c) for c in name)
    return f"{text}['{quoted}']"


def _member(origin: Origin, key: Any) -> str:
    if isinstance(key, Symbol):
        inner = origin_of(key)
        if inner.trace is not origin.trace:
            raise flow_error("the index belongs to another flow", "use values of this flow")
        return f"[{inner.text}]"
    if isinstance(key, str):
        return member("", key)
    if isinstance(key, int) and not isinstance(key, bool):
        if key < 0:
            raise flow_error(
                "a symbol has no negative index", f"take it from the end with [{key}:][0], or within a task"
            )
        return f"[{key}]"
    if isinstance(key, slice) and key.step is None:
        ends = [0 if key.start is None else key.start] + ([] if key.stop is None else [key.stop])
        if all(isinstance(end, int) for end in ends):
            return f".slice({', '.join(str(int(end)) for end in ends)})"
    raise flow_error("a symbol is indexed by names, numbers from 0, or start:stop", "do it within a task")


class _Refusal(NamedTuple):
    methods: str
    what: str
    fix: str


_REFUSED = (
    _Refusal(
        "bool",
        "is asked for true or false",
        "give the condition to the tasks it is for: .options(if_=…); it is evaluated when the run gets there",
    ),
    _Refusal("iter next reversed", "is looped over", "use task.map(…): one task for each element"),
    _Refusal("len", "is asked for its length", "count within a task, or use .length in an if_ text"),
    _Refusal("contains", "is searched", "search within a task, or use .includes(…) in an if_ text"),
    _Refusal(
        "str format bytes",
        "is made into text",
        "pass it on as an argument, or to shell() through env={'NAME': value} or as one word of a list",
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
        "is calculated with",
        "calculate within a task",
    ),
    _Refusal("call", "is called", "it is data: methods and functions belong within a task"),
    _Refusal("await aiter anext enter exit aenter aexit", "is awaited or entered", "a flow only names what to do"),
    _Refusal("setattr setitem delattr delitem", "is changed", "results never change: make a new value in a task"),
    _Refusal("hash", "is used as a key", "use its name, or do it within a task"),
)


def _refusing(refusal: _Refusal) -> Callable[..., NoReturn]:
    def refused(self: Symbol, *arguments: Any, **named: Any) -> NoReturn:
        called = called_by(origin_of(self).trace.function)
        if called is not None:
            name, place, inner = called
            raise flow_error(
                f"{origin_of(self).text} {refusal.what} by {name}() ({shown_path(inner.file)}:{inner.line}), but is"
                " known only when the flow runs",
                f"{name} is a plain function, which runs before the flow does: write @task above its def, or call it"
                " within a task",
                place,
            )
        raise flow_error(f"{origin_of(self).text} {refusal.what}, but is known only when the flow runs", refusal.fix)

    return refused


for _refusal in _REFUSED:
    for _method in _refusal.methods.split():
        setattr(Symbol, f"__{_method}__", _refusing(_refusal))
