"""Reads the files that an attempt left: where they are, the tails of its output as text, and its answers, which are
the values that it wrote to $WEFT_OUTPUT and $WEFT_CONTEXT.

Text is lossless. UTF-8 is decoded as it is; otherwise bytes that are not UTF-8 become \\xNN and backslashes are
doubled, and a flag says so. Memory is bounded: only tails are read, answers have a cap.
"""

import os
import re
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:  # the command line imports this module, and should not load ctypes for it
    from weft.executors.output_file import Written
    from weft.executors.protocol import Launch, Outcome

TAIL_BYTES = 64 * 1024
ANSWER_BYTES_MAX = 64 * 1024 * 1024

StreamName = Literal["stdout", "stderr"]
_SUFFIX = {"stdout": "out", "stderr": "err"}
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SHOWN_CHARS = 80


class BadAnswer(Exception):
    """$WEFT_OUTPUT or $WEFT_CONTEXT holds a value that cannot be used."""


def file_stem(task: str, attempt: int) -> str:
    return f"{task}.{attempt}"


def output_path(output_dir: str, task: str, attempt: int, stream: StreamName) -> str:
    """The file of an output stream. It does not exist if the attempt wrote nothing."""
    return f"{output_dir}/{file_stem(task, attempt)}.{_SUFFIX[stream]}"


def read_tail(path: str, tail_bytes: int, whole: bool) -> tuple[str, bool, bool]:
    """The end of a file as text, whether it is truncated, and whether it is escaped.

    `whole` is false when the file's own middle was cut, so that even a complete tail is truncated.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        start = max(0, size - tail_bytes)
        data = os.pread(fd, tail_bytes, start)
    finally:
        os.close(fd)
    truncated = start > 0 or not whole
    if truncated:
        data = _from_character_boundary(data)
    text, escaped = as_text(data)
    return text, truncated, escaped


def as_text(data: bytes) -> tuple[str, bool]:
    """Bytes as text, and whether they had to be escaped."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace"), True


def _from_character_boundary(data: bytes) -> bytes:
    at = 0
    while at < min(3, len(data)) and data[at] & 0xC0 == 0x80:
        at += 1
    return data[at:]


def describe_stream(result: dict[str, Any], name: StreamName, path: str, written: "Written") -> None:
    """Add a stream's tail to a result, and only those flags that are set."""
    size, head, tail = written
    if not size:
        result[name] = ""
        return
    cut = head + tail < size
    result[name], truncated, escaped = read_tail(path, min(TAIL_BYTES, tail) if cut else TAIL_BYTES, not cut)
    if truncated:
        result[name + "Truncated"] = True
    if escaped:
        result[name + "Escaped"] = True
    if cut:
        result[name + "Bytes"] = size
        result[name + "Kept"] = [head, tail]


def read_streams(outcome: "Outcome", launch: "Launch", stdout: "Written", stderr: "Written") -> None:
    """Add both streams to the outcome's result; fail the outcome if they cannot be read."""
    assert outcome.result is not None
    try:
        if stdout[0]:
            path = output_path(launch.output_dir, launch.task, launch.attempt, "stdout")
            describe_stream(outcome.result, "stdout", path, stdout)
        if stderr[0]:
            path = output_path(launch.output_dir, launch.task, launch.attempt, "stderr")
            describe_stream(outcome.result, "stderr", path, stderr)
    except OSError as error:
        outcome.ok = False
        outcome.error = outcome.error or f"its output cannot be read: {error.strerror}"


def take_answer(path: str, name: str, bytes_max: int = ANSWER_BYTES_MAX, owner: int | None = None) -> Any:
    """Read and remove $WEFT_OUTPUT or $WEFT_CONTEXT; UNSET if the attempt wrote nothing to it.

    `owner` is the user that the attempt ran as, if not this process's own: then only a file of that user is read, and
    no link is followed, or a task could have this process read a file that the task itself may not read.
    """
    if not os.access(path, os.F_OK):  # the common case, and cheaper than a failed open
        return msgspec.UNSET
    try:
        # O_NONBLOCK: a FIFO at this path must not block the node.
        no_follow = 0 if owner is None else os.O_NOFOLLOW
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | no_follow)
    except OSError as error:
        raise BadAnswer(f"{name} cannot be read: {error.strerror}") from None
    try:
        remove_answer(path)
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise BadAnswer(f"{name} is not a regular file")
        if owner is not None and info.st_uid != owner:
            raise BadAnswer(f"{name} is not a file of the user that the task runs as")
        if info.st_size > bytes_max:
            raise BadAnswer(
                f"{name} holds {info.st_size:,} bytes, more than the {bytes_max:,} that artifact_max allows:"
                " keep it in a file of your own and give its path"
            )
        with open(fd, "rb", closefd=False) as file:
            return parse_answer(file.read(info.st_size), name)
    finally:
        os.close(fd)


def remove_answer(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def parse_answer(data: bytes, name: str) -> Any:
    """One JSON value if it parses, else `key=value` lines."""
    if not data.strip():
        return msgspec.UNSET
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        json_error = str(error)
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise BadAnswer(f"{name} is not UTF-8 text (byte {error.start})") from None
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        if not equals or not _KEY.fullmatch(key):
            shown = line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…"
            hint = f" ({json_error})" if data.lstrip()[:1] in b'{["' else ""
            raise BadAnswer(f"{name} is neither JSON{hint} nor key=value lines: line {number} is {shown!r}")
        values[key] = value
    return values


def take_context(
    path: str, name: str, bytes_max: int = ANSWER_BYTES_MAX, owner: int | None = None
) -> dict[str, Any] | None:
    value = take_answer(path, name, bytes_max, owner)
    if value is msgspec.UNSET:
        return None
    if not isinstance(value, dict):
        raise BadAnswer(f"{name} must be a JSON object or key=value lines, not a JSON {_json_type(value)}")
    return value


def _json_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
    return "array"
