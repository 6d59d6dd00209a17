"""Directs the output of functions (print, logging, child processes) to the files of the attempt that writes it.

A plain function has the runner to itself: the descriptors 1 and 2 are its files while it runs, so that all code that
it calls writes there, too. The files are nameless until bytes are written, and are used again by the next attempt if
none were (see output_file); the node holds them as well, so that no output is lost if the runner dies. Async
functions run concurrently: for them sys.stdout and sys.stderr look the attempt up in the context, and the output of a
process that they start goes to the runner's own output, unless it is given `stdout=sys.stdout`.
"""

import io
import os
from collections.abc import Callable
from typing import Any, TextIO

from weft.executors import linux
from weft.executors.output_file import (
    FILE_MODE,
    NOTHING_WRITTEN,
    CannotPunchHole,
    OutputFile,
    Written,
    finish_abandoned,
)
from weft.executors.python_functions.attempt_context import current

_SUFFIXES = (b".out", b".err")
_DIRECTORIES_MAX = 1000


class PlainCallOutput:
    """The descriptors 1 and 2, for one plain function after the other."""

    def __init__(self, on_opened: Callable[[list[int]], None]) -> None:
        """`on_opened` gets the descriptors of new files."""
        self._on_opened = on_opened
        self._runner_output = (os.dup(1), os.dup(2))
        self._files: list[OutputFile] = []
        self._device = -1
        self._devices: dict[str, int] = {}

    def start(self, directory: str, stem: str, cap: int) -> None:
        device = self._devices.get(directory)
        if device is None:
            os.makedirs(directory, exist_ok=True)
            if len(self._devices) >= _DIRECTORIES_MAX:
                self._devices.clear()
            device = self._devices[directory] = os.stat(directory).st_dev
        path = os.fsencode(f"{directory}/{stem}")
        if not self._files or device != self._device:
            self._open_files(os.fsencode(directory), path)
            self._device = device
        for file, suffix, target in zip(self._files, _SUFFIXES, (1, 2), strict=True):
            file.path = path + suffix
            file.cap = cap
            os.dup2(file.fd, target)  # each time: functions may close or redirect theirs

    def end(self) -> tuple[Written, Written]:
        """How many bytes were written. Files that hold bytes get their name, and are not used again."""
        files = self._files
        stdout, stderr = files[0].finish(), files[1].finish()
        if stdout[0] or stderr[0] or files[0].named or files[1].named:
            self.use_runner_output()
            self._close_files()
        return stdout, stderr

    def sweep(self) -> None:
        for file in self._files:
            sweep_file(file)

    def use_runner_output(self) -> None:
        """Point 1 and 2 to the runner's own output: no single attempt has the runner to itself now."""
        os.dup2(self._runner_output[0], 1)
        os.dup2(self._runner_output[1], 2)

    def _close_files(self) -> None:
        for file in self._files:
            os.close(file.fd)
            if file.named and not file.size:
                os.unlink(file.path)
        self._files = []

    def _open_files(self, directory: bytes, path: bytes) -> None:
        self._close_files()
        for suffix in _SUFFIXES:
            fd = linux.open_nameless(directory, FILE_MODE)
            named = fd is None
            if fd is None:
                fd = os.open(path + suffix, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            self._files.append(OutputFile(path + suffix, fd, named, 0))
        self._on_opened([file.fd for file in self._files])


class AsyncCallOutput:
    """The files of one async attempt, each created with the first write to it."""

    def __init__(self, directory: str, stem: str, cap: int) -> None:
        self._path = os.fsencode(f"{directory}/{stem}")
        self._cap = cap
        self._files: list[OutputFile | None] = [None, None]
        self._writers: list[TextIO | None] = [None, None]
        self.ended = False

    def writer(self, which: int) -> TextIO:
        """`which` is 0 for stdout, 1 for stderr."""
        writer = self._writers[which]
        if writer is None or writer.closed:
            writer = self._writers[which] = self._open(which)
        return writer

    def _open(self, which: int) -> TextIO:
        path = self._path + _SUFFIXES[which]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        old = self._files[which]
        if old is not None:
            os.close(old.fd)
        self._files[which] = OutputFile(path, fd, True, self._cap)
        return text_writer(fd)

    def sweep(self) -> None:
        for file in self._files:
            if file is not None and not self.ended:
                sweep_file(file)

    def end(self) -> tuple[Written, Written]:
        self.ended = True
        written = []
        for which in (0, 1):
            writer, file = self._writers[which], self._files[which]
            if writer is not None and not writer.closed:
                writer.flush()
            if file is None:
                # Output of the import of its module was written before the function was known to be async.
                written.append(_finish_unopened(self._path + _SUFFIXES[which], self._cap))
                continue
            written.append(file.finish())
            os.close(file.fd)
        return written[0], written[1]


class DedicatedOutput:
    """In a dedicated runner the descriptors 1 and 2 are always the attempt's.

    They lead to the spawner, which masks and stores the output, and reports how much there was.
    """

    def __init__(self) -> None:
        self.ended = False
        self._writers = (text_writer(1), text_writer(2))

    def start(self, directory: str, stem: str, cap: int) -> None:
        return

    def writer(self, which: int) -> TextIO:
        return self._writers[which]

    def sweep(self) -> None:
        return

    def use_runner_output(self) -> None:
        return

    def end(self) -> tuple[Written, Written]:
        for writer in self._writers:
            writer.flush()
        return NOTHING_WRITTEN, NOTHING_WRITTEN


class RoutedStream:
    """sys.stdout or sys.stderr: writes to the file of the async attempt that calls, or else to the descriptor."""

    def __init__(self, which: int) -> None:
        self._which = which
        self._plain = text_writer(which + 1)

    def _target(self) -> TextIO:
        attempt = current.get()
        if attempt is not None and attempt.output is not None and not attempt.output.ended:
            return attempt.output.writer(self._which)
        if self._plain.closed:
            self._plain = text_writer(self._which + 1)
        return self._plain

    def write(self, text: str) -> int:
        return self._target().write(text)

    def flush(self) -> None:
        self._target().flush()

    def close(self) -> None:
        """Only flush: the stream belongs to all functions of this process."""
        self._target().flush()

    def __iter__(self) -> Any:
        raise io.UnsupportedOperation("not readable")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target(), name)


def text_writer(fd: int) -> TextIO:
    # Line-buffered: the lines that a function printed before it crashed must be in the file.
    return open(fd, "w", encoding="utf-8", errors="backslashreplace", newline="\n", buffering=1, closefd=False)


def sweep_file(file: OutputFile) -> None:
    try:
        file.sweep()
    except (CannotPunchHole, OSError):
        return  # the end of the attempt tries again, and reports the error


def _finish_unopened(path: bytes, cap: int) -> Written:
    try:
        size = os.stat(path).st_size
    except OSError:
        return NOTHING_WRITTEN
    return (size, size, 0) if size <= cap else finish_abandoned(path, cap)
