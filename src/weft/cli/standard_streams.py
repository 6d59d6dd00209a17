"""The standard streams of a process, prepared once before anything else: whatever is wrong with them ends no command
with a traceback, and no file of ours ever gets the number of a stream that was closed.

Standard output that cannot be written raises OutputLost, once. What cannot be written to standard error is left out:
a worker goes on when the reader of its log is gone.
"""

import io
import os
import select
import sys
from typing import Any, TextIO


class OutputLost(Exception):
    """Standard output takes no more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {error.strerror}")
        self.reader_gone = isinstance(error, BrokenPipeError)


class _Stream(io.FileIO):
    def write(self, data: Any, /) -> int:
        while (count := super().write(data)) is None:  # another program has made it non-blocking, and it is full
            select.select((), (self,), ())
        return count


class _Output(_Stream):
    lost = False

    def write(self, data: Any, /) -> int:
        try:
            return len(memoryview(data)) if self.lost else super().write(data)
        except OSError as error:
            self.lost = True
            raise OutputLost(error) from error


class _Messages(_Stream):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data))


def prepare() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            os.set_inheritable(number, True)
    sys.stdin = sys.stdin or io.TextIOWrapper(io.FileIO(0, closefd=False))
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr)


def waiting_input() -> bool:
    """Whether something was given on standard input that nobody has read: the rest of a file, or bytes in a pipe."""
    import fcntl
    import stat
    import termios

    try:
        kind = os.fstat(0)
        if stat.S_ISREG(kind.st_mode):
            return kind.st_size > os.lseek(0, 0, os.SEEK_CUR)
        if not stat.S_ISFIFO(kind.st_mode):
            return False
        return int.from_bytes(fcntl.ioctl(0, termios.FIONREAD, bytes(4)), sys.byteorder) > 0
    except OSError:
        return False


def _text(raw: _Stream, before: TextIO | None) -> TextIO:
    """In the encoding that Python chose. Half of a surrogate pair becomes its escape, which is right in JSON, too."""
    if before is not None:
        before.flush()
    encoding = "utf-8" if before is None else before.encoding
    lines = raw.isatty() or raw.fileno() == 2
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=lines)
