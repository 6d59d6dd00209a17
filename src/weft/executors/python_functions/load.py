"""Loads the function that `module:function` or `file.py:function` names, and checks the arguments of its calls."""

import os
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from weft.executors.python_functions.typed_values import TypeMismatch

_COROUTINE = 0x80
_VAR_KEYWORD = 0x08
_VAR_POSITIONAL = 0x04


class CannotLoad(Exception):
    """The function does not exist, or its module cannot be imported (the error is then the cause)."""


class WrongArguments(TypeError):
    """`with` does not match the function's parameters. `mismatch`: an argument does not have its annotated type."""

    def __init__(self, message: str, mismatch: "TypeMismatch | None" = None) -> None:
        super().__init__(message)
        self.mismatch = mismatch


class Parameters(NamedTuple):
    """The parameters of a function that can be passed by name."""

    names: list[str]  # in order
    required: frozenset[str]
    default_none: frozenset[str]  # optional ones whose default is None
    rest: str | None  # the parameter that takes all other names: **rest


class Function:
    """A loaded function, with the parameters that are needed to check and convert arguments."""

    __slots__ = ("_convert", "_names", "_parameters", "_required", "call", "is_async", "name")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call
        self.is_async = is_async(call)
        self._parameters = _parameters(call)
        self._required = self._parameters.required
        self._names = frozenset(self._parameters.names)
        self._convert: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None  # created by the first call

    def bind(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Converts the arguments, JSON values by name, to their annotated types. Raises WrongArguments."""
        self.check(arguments)
        if not arguments:
            return arguments
        if self._convert is None:
            from weft.executors.python_functions.typed_values import argument_converter

            self._convert = argument_converter(self.name, self.call, self._parameters)
        return self._convert(arguments)

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Checks the names of the arguments. Raises WrongArguments."""
        if not arguments and not self._required:
            return
        passed = arguments.keys()
        if passed <= self._names and self._required <= passed:
            return
        names = self._parameters.names
        missing = [name for name in names if name in self._required and name not in passed]
        if missing:
            raise WrongArguments(f"{self.name}() needs {_listed(missing)}, which `with` does not give")
        if self._parameters.rest is not None:
            return
        extra = [name for name in passed if name not in self._names]
        from weft.core.definition.suggest import nearest

        suggestion = nearest(extra[0], names)
        takes = f"it takes {_listed(names)}" if names else "it takes no arguments by name"
        fix = f"did you mean {suggestion}?" if suggestion else takes
        raise WrongArguments(f"{self.name}() takes no {_listed(extra)}: {fix}")


def load(text: str, root: str) -> Function:
    """`root` is the directory that heads sys.path, and that file names are relative to. Raises CannotLoad."""
    location, _, name = text.rpartition(":")
    if not location or not name:
        raise CannotLoad(f"{text!r} names no function: write module:function or file.py:function")
    if not name.isidentifier():
        raise CannotLoad(
            f"{text!r}: only functions at the top of a module can be tasks, neither nested ones nor lambdas"
        )
    module = _from_file(location, root) if location.endswith(".py") else _from_module(location, root)
    where = getattr(module, "__file__", None) or "built in"
    missing = object()
    call = getattr(module, name, missing)
    if call is missing:
        from weft.core.definition.suggest import nearest

        known = [key for key, value in vars(module).items() if isinstance(value, FunctionType)]
        suggestion = nearest(name, known)
        fix = f"; did you mean {suggestion}?" if suggestion else ""
        raise CannotLoad(f"{location} ({where}) has no function {name!r}{fix}")
    if isinstance(call, type) or not callable(call):
        raise CannotLoad(f"{text} is {_kind(call)}, not a function ({where})")
    if getattr(call, "__name__", "") == "<lambda>":
        raise CannotLoad(f"{text} is a lambda: write a function with `def`")
    return Function(name, call)


def _kind(value: Any) -> str:
    return "a class" if isinstance(value, type) else f"a value of type {type(value).__name__}"


# Modules


def _from_module(name: str, root: str) -> ModuleType:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        importlib.invalidate_caches()  # the module may exist at the next call
        if error.name == name or (error.name and name.startswith(error.name + ".")):
            raise CannotLoad(
                f"there is no module {name!r}{_suggestion(name, root)}; searched {', '.join(sys.path)}"
            ) from None
        raise CannotLoad(f"importing {name} failed: {_line(error)}{_of_weft(error)}") from error
    except Exception as error:
        raise CannotLoad(f"importing {name} failed: {_line(error)}") from error


def _of_weft(error: ModuleNotFoundError) -> str:
    """An interpreter of a task's own need not have what Weft needs, unless its modules import more of `weft`."""
    if error.name not in ("msgspec", "yaml"):
        return ""
    return f"; {sys.executable} lacks a package that weft needs: install weft there as well"


def _suggestion(name: str, root: str) -> str:
    from weft.core.definition.suggest import nearest

    try:
        modules = [entry[:-3] for entry in os.listdir(root) if entry.endswith(".py")]
    except OSError:
        return ""
    suggestion = nearest(name, modules)
    return f" (did you mean {suggestion}?)" if suggestion else ""


def _from_file(location: str, root: str) -> ModuleType:
    """Loads a file once. A file in the root is the module that `import` would find, any other gets a name of its
    own."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.abspath(os.path.join(root, location))
    name = _module_name(path, root)
    module = sys.modules.get(name)
    if module is not None:
        return module
    if not os.path.isfile(path):
        raise CannotLoad(f"there is no file {path}")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception):
            raise
        raise CannotLoad(f"loading {location} failed: {_line(error)}") from error
    return module


def _module_name(path: str, root: str) -> str:
    stem = os.path.basename(path)[:-3]
    if os.path.dirname(path) == os.path.abspath(root) and stem.isidentifier():
        known = sys.modules.get(stem)
        if known is None or getattr(known, "__file__", None) == path:
            return stem
    return "weft_file_" + "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in path)


def _line(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# Functions


def is_async(call: Any) -> bool:
    """True also for an async function that is wrapped, by functools.wraps or by a class of callables."""
    for _ in range(100):
        code = _code(call)
        if code is not None and code.co_flags & _COROUTINE:
            return True
        inner = getattr(call, "__wrapped__", None) or getattr(call, "func", None)
        if inner is None or not callable(inner):
            return False
        call = inner
    return False


def _code(call: Any) -> CodeType | None:
    if not isinstance(call, FunctionType):
        call = type(call).__call__
    code = getattr(call, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _parameters(call: Any) -> Parameters:
    if isinstance(call, FunctionType) and not hasattr(call, "__wrapped__") and not call.__code__.co_posonlyargcount:
        # The common case, without `inspect`, whose import takes longer than most tasks.
        code = call.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = code.co_varnames[:count]
        defaults = call.__defaults__ or ()
        optional = dict(zip(names[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True))
        optional.update(call.__kwdefaults__ or ())
        rest = (
            code.co_varnames[count + bool(code.co_flags & _VAR_POSITIONAL)] if code.co_flags & _VAR_KEYWORD else None
        )
        required = frozenset(name for name in names if name not in optional)
        default_none = frozenset(name for name, default in optional.items() if default is None)
        return Parameters(list(names), required, default_none, rest)
    import inspect

    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):  # some functions written in C have no signature
        return Parameters([], frozenset(), frozenset(), "")
    by_name = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise CannotLoad(
                f"the parameter {parameter.name} cannot be passed by name, and `with` passes all by name"
            )
    return Parameters(
        [p.name for p in by_name],
        frozenset(p.name for p in by_name if p.default is p.empty),
        frozenset(p.name for p in by_name if p.default is None),
        next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None),
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
