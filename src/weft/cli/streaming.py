"""The output of attempts while it grows: read from their files, bounded at a time, handed on in order."""

import os
from collections.abc import Callable
from pathlib import Path

from weft.executors.output import StreamName, output_path

CHUNK = 256 * 1024
BYTES_AT_A_TIME = 4 * 1024 * 1024
STREAMS: tuple[StreamName, ...] = ("stdout", "stderr")

#: (task, stream, bytes)
Take = Callable[[str, StreamName, bytes], None]


class OpenFile:
    """One output file: opened when it is there, read from where the last read ended. What was cut out of its
    middle is left out here, too, and counted."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._at = 0
        self.missing = 0

    def read(self) -> bytes:
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return b""
        size = os.fstat(self._fd).st_size
        if self._at >= size:
            return b""
        try:
            start = os.lseek(self._fd, self._at, os.SEEK_DATA)
            end = os.lseek(self._fd, start, os.SEEK_HOLE)
        except OSError:
            start, end = self._at, size  # no holes known to this filesystem, or nothing but a hole is left
        self.missing += start - self._at
        data = os.pread(self._fd, min(CHUNK, end - start), start)
        self._at = start + len(data)
        return data

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Streams:
    """Follows attempts of one run. An attempt that ended is read to its end, then closed."""

    def __init__(self, directory: Path, take: Take, only: StreamName | None = None) -> None:
        self._directory = str(directory)
        self._take = take
        self._names = STREAMS if only is None else (only,)
        self._open: dict[tuple[str, int], list[tuple[StreamName, OpenFile]]] = {}
        self._ending: dict[tuple[str, int], None] = {}
        self.ended: Callable[[str], None] = lambda task: None  # called when all of an attempt's output was handed on

    def begin(self, task: str, attempt: int) -> None:
        if (task, attempt) not in self._open:
            self._open[task, attempt] = [
                (name, OpenFile(output_path(self._directory, task, attempt, name))) for name in self._names
            ]

    def end(self, task: str, attempt: int) -> None:
        self.begin(task, attempt)
        self._ending[task, attempt] = None

    @property
    def busy(self) -> bool:
        """Some attempt has ended and not all of its output was handed on."""
        return bool(self._ending)

    def poll(self) -> bool:
        """Hand on what is new; True if there may be more at once."""
        left = BYTES_AT_A_TIME
        for key in list(self._open):
            ending = key in self._ending
            for name, file in self._open[key]:
                while left > 0 and (data := file.read()):
                    left -= len(data)
                    self._take(key[0], name, data)
            if left <= 0:
                return True
            if ending:
                self._finish(key)
        return False

    def _finish(self, key: tuple[str, int]) -> None:
        missing = sum(file.missing for _, file in self._open[key])
        for _, file in self._open[key]:
            file.close()
        del self._open[key]
        del self._ending[key]
        self.ended(key[0])
        if missing:
            note = f"\n[weft: {missing:,} bytes of {key[0]} were not kept]\n"
            self._take(key[0], "stderr", note.encode())

    def close(self) -> None:
        for files in self._open.values():
            for _, file in files:
                file.close()
        self._open.clear()
        self._ending.clear()


class Prefixer:
    """Whole lines only, each headed by its task's name: for output of several tasks at once."""

    def __init__(self, write: Callable[[StreamName, bytes], None], prefix: Callable[[str], bytes]) -> None:
        self._write = write
        self._prefix = prefix
        self._partial: dict[tuple[str, StreamName], bytes] = {}

    def take(self, task: str, stream: StreamName, data: bytes) -> None:
        data = self._partial.pop((task, stream), b"") + data
        lines, newline, rest = data.rpartition(b"\n")
        if len(rest) > CHUNK:  # a line without end: memory is bounded
            lines, newline, rest = data, b"\n", b""
        if rest:
            self._partial[task, stream] = rest
        if newline:
            head = self._prefix(task)
            self._write(stream, b"".join(head + line + b"\n" for line in lines.split(b"\n")))

    def ended(self, task: str) -> None:
        for name in STREAMS:
            if (task, name) in self._partial:
                self.take(task, name, b"\n")
