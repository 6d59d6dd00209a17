"""Describes an exception for people: one line, its type and message, and the traceback from their own code on."""

import os
from types import TracebackType

from weft.executors.python_functions.json_values import WrongValue
from weft.executors.python_functions.load import CannotLoad, WrongArguments

TRACEBACK_BYTES_MAX = 32 * 1024
_MESSAGE_CHARS_MAX = 4096
_LINE_CHARS_MAX = 500
_OWN_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_CUT = "\n  […]\n"

#: (one line, type, message, traceback)
Failure = tuple[str, str, str, str]


def describe(error: BaseException) -> Failure:
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    message = _message(error)
    if isinstance(error, (CannotLoad, WrongArguments, WrongValue)):
        # Weft's own errors: the message is complete, and where in the runner they were raised does not matter.
        traceback = _traceback(error.__cause__) if error.__cause__ is not None else ""
        return _one_line(message), kind.__name__, message, traceback
    if isinstance(error, SystemExit):
        message = f"the function called exit({message}): to end early, return; to fail, raise an exception"
    return (
        _one_line(f"{kind.__qualname__}: {message}" if message else kind.__qualname__),
        name,
        message,
        _traceback(error),
    )


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as fault:
        text = f"(its message cannot be read: {type(fault).__name__})"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _MESSAGE_CHARS_MAX else text[: _MESSAGE_CHARS_MAX - 1] + "…"


def _one_line(text: str) -> str:
    line = " ".join(text.split("\n", 1)[0].split())
    return line if len(line) <= _LINE_CHARS_MAX else line[: _LINE_CHARS_MAX - 1] + "…"


def _traceback(error: BaseException) -> str:
    import traceback

    try:
        text = "".join(traceback.format_exception(type(error), error, _without_own_frames(error.__traceback__)))
    except Exception as fault:
        return f"(the traceback cannot be formatted: {type(fault).__name__})"
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > TRACEBACK_BYTES_MAX:
        half = (TRACEBACK_BYTES_MAX - len(_CUT.encode())) // 2
        data = data[:half] + _CUT.encode() + data[-half:]
    return data.decode("utf-8", "ignore")


def _without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Without the runner's own frames: the first ones, those of importlib that they called, and the handler of the
    stop signal at the end."""
    while traceback is not None and _is_own(traceback):
        traceback = traceback.tb_next
    last = traceback
    while last is not None and last.tb_next is not None:
        if last.tb_next.tb_next is None and _is_own(last.tb_next):
            last.tb_next = None
        last = last.tb_next
    return traceback


def _is_own(traceback: TracebackType) -> bool:
    file = traceback.tb_frame.f_code.co_filename
    return file.startswith((_OWN_DIRECTORY, "<frozen importlib")) or file.endswith("importlib/__init__.py")
