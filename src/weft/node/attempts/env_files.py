"""Variables from files (`env_file`), read by the node that runs an attempt, each time one starts.

A line is `NAME=VALUE`, with `export` before it or not; empty lines and lines that begin with # are skipped. Nothing
is expanded: `$` stands for itself, and no command is run. Messages name the file and the line, never a value.
"""

import os
import re
import stat
from collections.abc import Iterable
from typing import Final

from weft.core.definition.fields import RESERVED_VARIABLES
from weft.core.expressions.shell.text import VALUE_BYTES_MAX
from weft.core.patterns import lazy

FILE_BYTES_MAX: Final = 1024 * 1024
_LINE: Final = lazy(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.ASCII | re.DOTALL)
_SINGLE: Final = lazy(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE: Final = lazy(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_ESCAPE: Final = lazy(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}
_COMMENT: Final = lazy(r"(?:^|\s)#.*")
_OWN: Final = lazy(r"WEFT_V[0-9]+")


class EnvFileError(Exception):
    """A file that is not there or cannot be used. Trying again would not change that."""


def read_env_files(paths: Iterable[str], root: str, secrets: tuple[str, ...]) -> dict[str, str]:
    """The variables of all files, later files winning. Paths are relative to `root`; no name may be a secret's."""
    out: dict[str, str] = {}
    for path in paths:
        place = os.path.join(root, path)
        found = parse_env_file(_read(place), place)
        for name in secrets:
            if name in found:
                raise EnvFileError(f"env_file {place} sets {name}, which is a secret of this task")
        out |= found
    return out


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise EnvFileError(f"env_file {path} is no file")
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise EnvFileError(f"env_file {path} cannot be read: {why}") from None
    if len(data) > FILE_BYTES_MAX:
        raise EnvFileError(f"env_file {path} has more than {FILE_BYTES_MAX:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise EnvFileError(f"env_file {path} is not UTF-8") from None


def parse_env_file(text: str, path: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        why = "expected NAME=VALUE"
        if match is not None:
            name, value = match[1], _value(match[2])
            why = _wrong(name, value) or ""
            if value is not None and not why:
                out[name] = value
                continue
        raise EnvFileError(f"env_file {path}, line {number}: {why}")
    return out


def _value(text: str) -> str | None:
    """None: it begins with a quote, and its end is not the end of the line."""
    if text.startswith("'"):
        single = _SINGLE.fullmatch(text)
        return None if single is None else single[1]
    if text.startswith('"'):
        double = _DOUBLE.fullmatch(text)
        return None if double is None else _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]), double[1])
    return _COMMENT.sub("", text, count=1).rstrip()


def _wrong(name: str, value: str | None) -> str | None:
    if value is None:
        return f"the quotes around the value of {name} are not closed, or something follows them"
    if name in RESERVED_VARIABLES or _OWN.fullmatch(name):
        return f"{name} is set by Weft itself"
    if "\0" in value or len(value.encode()) > VALUE_BYTES_MAX:
        return f"the value of {name} holds a NUL, or more than {VALUE_BYTES_MAX:,} bytes"
    return None
