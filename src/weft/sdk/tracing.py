"""The trace of a flow: the tasks that its function calls, in order, with their arguments and code positions."""

from contextvars import ContextVar
from typing import Any

from weft.authoring.code_positions import CodePosition, caller_position, flow_error
from weft.sdk.symbols import Symbol, SymbolOrigin, member, origin_of

_DEPTH_MAX = 64
_INTEGER_MAX = 2**63 - 1
_CURRENT: ContextVar["Trace | None"] = ContextVar("weft_trace", default=None)
#: While a flow is called directly: an id in place of a run's. See direct_calls.
DIRECT_RUN_ID: ContextVar[str | None] = ContextVar("weft_direct", default=None)


def current_trace() -> "Trace | None":
    """The trace in progress, if there is one."""
    return _CURRENT.get()


class Trace:
    """Collects the tasks of one flow while its function runs once, with symbols for its parameters."""

    def __init__(self, flow: str, directory: str, function: Any = None) -> None:
        """`directory` is that of the definition: files of functions are named relative to it."""
        self.flow = flow
        self.function = function
        self.directory = directory
        self.tasks: dict[str, dict[str, Any]] = {}
        self.positions: dict[str, CodePosition] = {}
        self.inline: dict[str, Any] = {}  # functions that run on the event loop of the node, by name
        self.flows: dict[
            str, tuple[Any, CodePosition]
        ] = {}  # the flows that this one calls, by their reference in the definition
        self._repeats: dict[str, int] = {}  # the last number appended to a name

    def __enter__(self) -> "Trace":
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _CURRENT.reset(self._token)

    def input(self, name: str) -> Symbol:
        return Symbol(SymbolOrigin(self, None, member("inputs", name)))

    def record(self, requested: str, body: dict[str, Any], *, chosen: bool) -> Symbol:
        """Adds a task of this name; if the name is taken, and the author did not choose it, of the next free name."""
        position = caller_position(exactly=False)
        name = requested
        while name in self.tasks:
            if chosen:
                before = self.positions[name]
                raise flow_error(
                    f"there are two tasks named {name!r}: the first is at {before.file}:{before.line}",
                    "give one of them another name",
                )
            self._repeats[requested] = number = self._repeats.get(requested, 1) + 1
            suffix = f"_{number}"
            name = requested[: 64 - len(suffix)] + suffix
        self.tasks[name] = body
        self.positions[name] = position
        return Symbol(SymbolOrigin(self, name, member("tasks", name) + ".output"))

    def template(self, symbol: Symbol) -> str:
        return "${{ " + self.text(symbol) + " }}"

    def text(self, symbol: Symbol) -> str:
        origin = origin_of(symbol)
        if origin.trace is not self:
            raise flow_error(
                f"{origin.text} is a value of the flow {origin.trace.flow!r}, used in {self.flow!r}",
                "pass it as an argument, or return it from that flow",
            )
        return origin.text

    def need(self, need: Any) -> str:
        """The name of a needed task."""
        if isinstance(need, Symbol):
            self.text(need)
            task = origin_of(need).task
            if task is None:
                raise flow_error(
                    f"{origin_of(need).text} is an input, and a task cannot wait for an input", "remove it from needs"
                )
            return task
        if isinstance(need, str):
            return need
        raise flow_error(
            f"needs takes the result of a task call, or the name of a task, not {_shown(need)}",
            "write needs=[extracted], where extracted = extract(…)",
        )


def document_value(trace: Trace | None, value: Any, what: str, *, data: bool = True) -> Any:
    """A value as a definition stores it: symbols become templates, dates texts, dataclasses dicts, tuples lists.
    `data`: ${{ in texts is escaped. `trace` is None where symbols are not allowed."""
    return _converted(trace, value, what, data, 0)


def _converted(trace: Trace | None, value: Any, what: str, data: bool, depth: int) -> Any:
    if isinstance(value, Symbol):
        if trace is None:
            raise flow_error(
                f"{what} is part of the definition, and {origin_of(value).text} is known only when the flow runs",
                "write a constant here, or pass the value to a task as an argument",
            )
        return trace.template(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        return text.replace("${{", "$${{") if data else text
    if isinstance(value, int):
        if abs(value) > _INTEGER_MAX:
            raise flow_error(f"{what}: the number does not fit into 64 bits", "pass it as text")
        return int(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise flow_error(f"{what}: {value} has no JSON form", "pass None or a text instead")
        return float(value)
    if isinstance(value, (list, tuple, dict)):
        if depth >= _DEPTH_MAX:
            raise flow_error(
                f"{what} is nested more than {_DEPTH_MAX} levels deep", "pass the name of a file instead"
            )
        if not isinstance(value, dict):
            return [_converted(trace, item, what, data, depth + 1) for item in value]
        return {
            _key(key, what): _converted(trace, item, f"{what}[{key!r}]", data, depth + 1)
            for key, item in value.items()
        }
    return _other(trace, value, what, data, depth)


def _other(trace: Trace | None, value: Any, what: str, data: bool, depth: int) -> Any:
    """A value that JSON does not have: a date, an enum, a dataclass, or any other value with a JSON form."""
    from weft.executors.python_functions.json_values import NO_FORM, WrongValue, advice, json_form, ordered

    if isinstance(value, (set, frozenset)):
        return ordered([_converted(trace, item, what, data, depth + 1) for item in value])
    if _is_function(value):
        raise flow_error(f"{what} is {_shown(value)}, and a function cannot be an argument", _call_fix(value))
    if hasattr(value, "cr_code"):  # the coroutine that a call of an async function returns
        value.close()
        name = value.__name__
        raise flow_error(
            f"{what} is a coroutine: {name} is async, but not a task", f"write @task above async def {name}"
        )
    try:
        form = json_form(value)
    except WrongValue as wrong:
        raise flow_error(f"{what}: {wrong}", "create it within the task that needs it") from None
    if form is NO_FORM:
        raise flow_error(f"{what}: a {type(value).__name__} has no JSON form", advice(value, "pass"))
    return _converted(trace, form, what, data, depth + 1)


def _key(key: Any, what: str) -> str:
    from weft.executors.python_functions.json_values import json_form

    text = key if isinstance(key, str) else json_form(key)
    if not isinstance(text, str) or "${{" in text:
        raise flow_error(f"{what}: the key {key!r} cannot be stored", "use texts without ${{ as keys")
    return str.__str__(text)


def _is_function(value: Any) -> bool:
    return callable(value) and hasattr(value, "__name__")


def _shown(value: Any) -> str:
    if not _is_function(value):
        return f"a {type(value).__name__}"
    if type(value).__name__ in ("Task", "Flow"):
        return f"the {type(value).__name__.lower()} {value.__name__}"
    return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"


def _call_fix(value: Any) -> str:
    name = value.__name__
    if type(value).__name__ in ("Task", "Flow"):
        return f"call it, and pass its result: {name}(…)"
    return f"write @task above def {name}, call it, and pass its result: {name}(…)"
