"""Where a runner's print, logging and child processes write to: always to the files of the attempt they belong to.

A plain function has the runner to itself: the descriptors 1 and 2 lead to its files while it runs, so that whatever
it calls writes there, too. Their files are nameless until something was written, and serve the next attempt if
nothing was (see output_files); the node holds them as well, so that a sudden death of the runner loses nothing.
Async functions run side by side: for them sys.stdout and sys.stderr find the attempt by its context, and what a
process that they start prints goes to the runner's own output, unless it is handed `stdout=sys.stdout`.
"""

import io
import os
from collections.abc import Callable
from typing import Any, TextIO

from weft.executors import linux
from weft.executors.output_files import FILE_MODE, MiddleNotDroppable, Stream
from weft.executors.python_functions.attempt_context import current

Written = tuple[int, int, int]
NOTHING: Written = (0, 0, 0)
_SUFFIXES = (b".out", b".err")
_DIRECTORIES_MAX = 1000


class CallFiles:
    """The descriptors 1 and 2, for one plain function after the other."""

    def __init__(self, tell: Callable[[list[int]], None]) -> None:
        self._tell = tell  # of new files
        self._own = (os.dup(1), os.dup(2))
        self._streams: list[Stream] = []
        self._device = -1
        self._devices: dict[str, int] = {}

    def begin(self, directory: str, stem: str, cap: int) -> None:
        device = self._devices.get(directory)
        if device is None:
            os.makedirs(directory, exist_ok=True)
            if len(self._devices) >= _DIRECTORIES_MAX:
                self._devices.clear()
            device = self._devices[directory] = os.stat(directory).st_dev
        path = os.fsencode(f"{directory}/{stem}")
        if not self._streams or device != self._device:
            self._renew(os.fsencode(directory), path)
            self._device = device
        for stream, suffix, target in zip(self._streams, _SUFFIXES, (1, 2), strict=True):
            stream.path = path + suffix
            stream.cap = cap
            os.dup2(stream.fd, target)  # each time: functions may close or redirect theirs

    def end(self) -> tuple[Written, Written]:
        """How much was written. Files that hold something get their name, and are not used again."""
        streams = self._streams
        out, err = close_stream(streams[0]), close_stream(streams[1])
        if out[0] or err[0] or streams[0].named or streams[1].named:
            self.lead_home()
            self.drop()
        return out, err

    def sweep(self) -> None:
        for stream in self._streams:
            sweep_stream(stream)

    def lead_home(self) -> None:
        """To the runner's own output: nothing belongs to a single attempt now."""
        os.dup2(self._own[0], 1)
        os.dup2(self._own[1], 2)

    def drop(self) -> None:
        for stream in self._streams:
            os.close(stream.fd)
            if stream.named and not stream.size:
                os.unlink(stream.path)
        self._streams = []

    def _renew(self, directory: bytes, path: bytes) -> None:
        self.drop()
        for suffix in _SUFFIXES:
            fd = linux.open_nameless(directory, FILE_MODE)
            named = fd is None
            if fd is None:
                fd = os.open(path + suffix, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            self._streams.append(Stream(path + suffix, fd, named, 0))
        self._tell([stream.fd for stream in self._streams])


class AsyncFiles:
    """The files of one async attempt, each made when something is first written to it."""

    def __init__(self, directory: str, stem: str, cap: int) -> None:
        self._path = os.fsencode(f"{directory}/{stem}")
        self._cap = cap
        self._streams: list[Stream | None] = [None, None]
        self._texts: list[TextIO | None] = [None, None]
        self.over = False

    def text(self, which: int) -> TextIO:
        text = self._texts[which]
        if text is None or text.closed:
            text = self._texts[which] = self._open(which)
        return text

    def _open(self, which: int) -> TextIO:
        path = self._path + _SUFFIXES[which]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        old = self._streams[which]
        if old is not None:
            os.close(old.fd)
        self._streams[which] = Stream(path, fd, True, self._cap)
        return text_of(fd)

    def sweep(self) -> None:
        for stream in self._streams:
            if stream is not None and not self.over:
                sweep_stream(stream)

    def end(self) -> tuple[Written, Written]:
        self.over = True
        sizes = []
        for which in (0, 1):
            text, stream = self._texts[which], self._streams[which]
            if text is not None and not text.closed:
                text.flush()
            if stream is None:
                # What the import of its module printed was written before the function was known to be async.
                sizes.append(_size_of(self._path + _SUFFIXES[which], self._cap))
                continue
            sizes.append(close_stream(stream))
            os.close(stream.fd)
        return sizes[0], sizes[1]


class OwnFiles:
    """In a runner that serves one attempt alone: the descriptors 1 and 2 are that attempt's, whoever asks.

    They lead to the spawner, which masks and stores what comes, and says how much that was.
    """

    def __init__(self) -> None:
        self.over = False
        self._texts = (text_of(1), text_of(2))

    def begin(self, directory: str, stem: str, cap: int) -> None:
        return

    def text(self, which: int) -> TextIO:
        return self._texts[which]

    def sweep(self) -> None:
        return

    def lead_home(self) -> None:
        return

    def end(self) -> tuple[Written, Written]:
        for text in self._texts:
            text.flush()
        return NOTHING, NOTHING


class Routed:
    """sys.stdout or sys.stderr: the file of the async attempt that the calling code belongs to, or the descriptor."""

    def __init__(self, which: int) -> None:
        self._which = which
        self._plain = text_of(which + 1)

    def _target(self) -> TextIO:
        attempt = current.get()
        if attempt is not None and attempt.files is not None and not attempt.files.over:
            return attempt.files.text(self._which)
        if self._plain.closed:
            self._plain = text_of(self._which + 1)
        return self._plain

    def write(self, text: str) -> int:
        return self._target().write(text)

    def flush(self) -> None:
        self._target().flush()

    def close(self) -> None:
        """As at the end of a program: what was written is written, and nobody else is the worse for it."""
        self._target().flush()

    def __iter__(self) -> Any:
        raise io.UnsupportedOperation("not readable")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target(), name)


def text_of(fd: int) -> TextIO:
    # Line by line: what a function printed before it crashed is what one wants to see.
    return open(fd, "w", encoding="utf-8", errors="backslashreplace", newline="\n", buffering=1, closefd=False)


def close_stream(stream: Stream) -> Written:
    """Name a file that holds something, cut it to its cap, and say how much was written and is kept."""
    size = os.fstat(stream.fd).st_size
    if size == 0:
        return NOTHING
    stream.size = size
    if not stream.named:
        stream.give_name()
    if size <= stream.cap:
        return size, size, 0
    try:
        stream.cut(size)
    except MiddleNotDroppable:
        return size, size, 0  # whole, if large
    head = stream.cap // 2
    return size, head, stream.cap - head


def sweep_stream(stream: Stream) -> None:
    try:
        stream.sweep()
    except (MiddleNotDroppable, OSError):
        return  # the end of the attempt tries again, and reports it


def _size_of(path: bytes, cap: int) -> Written:
    try:
        size = os.stat(path).st_size
    except OSError:
        return NOTHING
    return (size, size, 0) if size <= cap else measure(path, cap)


def measure(path: bytes, cap: int, fd: int | None = None) -> Written:
    """What a runner that died left of a stream. `fd` is its nameless file, if it had one."""
    try:
        if fd is not None:
            return close_stream(Stream(path, fd, os.fstat(fd).st_nlink > 0, cap))
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except OSError:
        return NOTHING
    try:
        return close_stream(Stream(path, fd, True, cap))
    except OSError:
        return NOTHING
    finally:
        os.close(fd)
