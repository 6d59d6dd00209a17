"""Writes the output of a container into the attempt's output files, as the spawner does for processes: masked, named
when there are bytes, with the middle cut out of what is over the cap. Memory is bounded by one read."""

import os
from collections.abc import Callable

from weft.executors.masking import StreamMasker
from weft.executors.output import file_stem
from weft.executors.output_file import NOTHING_WRITTEN, CannotPunchHole, OutputFile, Written
from weft.executors.protocol import Launch
from weft.executors.spawner.output_files import OutputFiles

_SWEEP_BYTES = 1 << 20  # written between two cuts of a file over its cap
_SUFFIXES = {1: b".out", 2: b".err"}


class StreamWriter:
    """One stream. Its file is created with its first byte."""

    __slots__ = ("_drop", "_file", "_files", "_launch", "_masker", "_stream", "_unswept")

    def __init__(
        self, files: OutputFiles, launch: Launch, stream: int, secret_forms: tuple[bytes, ...], drop: int
    ) -> None:
        """`drop` bytes are stored already, by the attempts before that watched the same container."""
        self._files = files
        self._launch = launch
        self._stream = stream
        self._masker = StreamMasker(secret_forms) if secret_forms else None
        self._drop = drop
        self._file: OutputFile | None = None
        self._unswept = 0

    def write(self, data: bytes) -> None:
        """Raises OSError or CannotPunchHole if it cannot be stored."""
        self._store(data if self._masker is None else self._masker.feed(data))

    def _store(self, data: bytes) -> None:
        if self._drop:
            data, self._drop = data[self._drop :], max(0, self._drop - len(data))
        if not data:
            return
        if self._file is None:
            launch = self._launch
            name = os.fsencode(file_stem(launch.task, launch.attempt)) + _SUFFIXES[self._stream]
            self._files.forget_directories()
            self._file = self._files.open_one(os.fsencode(launch.output_dir), name, launch.output_max)
        self._unswept += len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file.fd, rest) :]
        if self._unswept >= _SWEEP_BYTES or not self._file.named:
            self._unswept = 0
            self._file.sweep()

    def finish(self) -> Written:
        """Raises as `write` does. The file is closed in any case."""
        try:
            if self._masker is not None:
                self._store(self._masker.end())
        finally:
            file, self._file = self._file, None
            written = NOTHING_WRITTEN if file is None else self._files.close(file)
        return written


class OutputWriter:
    """Both streams of an attempt. The first error is kept, and nothing is written after it."""

    __slots__ = ("_on_error", "_streams", "error")

    def __init__(
        self, files: OutputFiles, launch: Launch, secret_forms: tuple[bytes, ...], on_error: Callable[[], None]
    ) -> None:
        self._on_error = on_error
        self._streams = {
            stream: StreamWriter(files, launch, stream, secret_forms, stored)
            for stream, stored in zip((1, 2), launch.stored, strict=True)
        }
        self.error: str | None = None

    def write(self, stream: int, data: bytes) -> None:
        if self.error is None and stream in self._streams:
            try:
                self._streams[stream].write(data)
            except (OSError, CannotPunchHole) as error:
                self.error = _text(error)
                self._on_error()

    def finish(self) -> tuple[Written, Written]:
        written = []
        for writer in self._streams.values():
            try:
                written.append(writer.finish())
            except (OSError, CannotPunchHole) as error:
                self.error = self.error or _text(error)
                written.append(NOTHING_WRITTEN)
        return written[0], written[1]


def _text(error: Exception) -> str:
    if isinstance(error, CannotPunchHole):
        return "its output is over output_max and this filesystem cannot drop the middle"
    return f"the output could not be stored: {getattr(error, 'strerror', None) or error}"
