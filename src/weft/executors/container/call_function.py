"""Calls a Python function inside a container. The image needs python3 and nothing of Weft: this file is copied into
the attempt's private directory, so it imports only the standard library, and runs on Python 3.8 and newer.

Beside it, call.json names the function and its arguments. The JSON of what it returns goes to $WEFT_OUTPUT; an
exception is described in the file `failure`, and makes the exit code 1.
"""

import json
import os
import sys
from typing import Any, Callable, Dict, Tuple  # noqa: UP035 - those of collections.abc are newer than Python 3.8

_HERE = os.path.dirname(os.path.abspath(__file__))
_MESSAGE_CHARS_MAX = 4096
_LINE_CHARS_MAX = 500
_TRACEBACK_CHARS_MAX = 32 * 1024


class _Mistake(Exception):
    """The function cannot be called, or its value not be used. `kind` is what the Python executor calls that."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _load(text: str, root: str) -> Tuple[Callable[..., Any], str]:  # noqa: UP006
    location, _, name = text.rpartition(":")
    if not location or not name.isidentifier():
        raise _Mistake("CannotLoad", f"{text!r} names no function: write module:function or file.py:function")
    sys.path[0] = root
    try:
        module = _from_file(os.path.join(root, location)) if location.endswith(".py") else _from_module(location)
    except _Mistake:
        raise
    except Exception as error:
        verb = "loading" if location.endswith(".py") else "importing"
        raise _Mistake("CannotLoad", f"{verb} {location} failed: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function) or isinstance(function, type):
        where = getattr(module, "__file__", "built in")
        raise _Mistake("CannotLoad", f"{location} ({where}) has no function {name!r}")
    return function, name


def _from_module(name: str) -> Any:
    import importlib

    return importlib.import_module(name)


def _from_file(path: str) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    if not os.path.isfile(path):
        message = f"there is no file {path} in the container: is the definition's directory mounted?"
        raise _Mistake("CannotLoad", message)
    stem = os.path.basename(path)[:-3]
    spec = spec_from_file_location(stem if stem.isidentifier() else "weft_file", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _call(function: Callable[..., Any], name: str, arguments: Dict[str, Any]) -> Any:  # noqa: UP006
    import inspect

    function = inspect.unwrap(function)
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        message = f"{name}(): `with` does not match its parameters: {error}"
        raise _Mistake("WrongArguments", message) from None
    except ValueError:
        pass  # some functions written in C have no signature
    value = function(**arguments)
    if inspect.iscoroutine(value):
        import asyncio

        value = asyncio.run(value)
    return value


def _json_form(value: Any) -> Any:
    """Of a value that JSON does not know."""
    import base64
    import dataclasses
    import datetime
    import decimal
    import enum
    import uuid

    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    raise _Mistake("WrongValue", f"returned a value with a {type(value).__name__} in it, which JSON cannot hold")


def _encode(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_json_form).encode()
    except (TypeError, ValueError, RecursionError) as error:
        message = f"returned a {type(value).__name__}, which JSON cannot hold: {error}"
        raise _Mistake("WrongValue", message) from None


def _describe(error: BaseException) -> Dict[str, str]:  # noqa: UP006
    message = str(error)[:_MESSAGE_CHARS_MAX]
    kind = type(error)
    if isinstance(error, _Mistake):
        trace = "" if error.__cause__ is None else _traceback(error.__cause__)
        return {"line": _one_line(message), "type": error.kind, "message": message, "traceback": trace}
    if isinstance(error, SystemExit):
        message = f"the function called exit({message}): to end early, return; to fail, raise an exception"
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    line = f"{kind.__qualname__}: {message}" if message else kind.__qualname__
    return {"line": _one_line(line), "type": name, "message": message, "traceback": _traceback(error)}


def _traceback(error: BaseException) -> str:
    """From the function's own code on."""
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    half = _TRACEBACK_CHARS_MAX // 2
    return text if len(text) <= 2 * half else text[:half] + "\n  […]\n" + text[-half:]


def _one_line(text: str) -> str:
    return " ".join(text.split("\n", 1)[0].split())[:_LINE_CHARS_MAX]


def main() -> int:
    with open(os.path.join(_HERE, "call.json"), "rb") as file:
        request = json.load(file)
    try:
        data = _encode(_call(*_load(request["function"], request["root"] or os.getcwd()), request["with"]))
    except (Exception, SystemExit) as error:
        with open(os.path.join(_HERE, "failure"), "w", encoding="utf-8", errors="backslashreplace") as failure:
            json.dump(_describe(error), failure)
        return 1
    with open(os.environ["WEFT_OUTPUT"], "wb") as output:
        output.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
