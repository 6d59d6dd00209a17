"""Output that an executor reads from its engine and writes to the attempt's output file itself: masked before it is
stored, cut in the middle when it is over its cap, without the bytes that an earlier attempt has stored already."""

import os

from weft.executors.masking import StreamMasker, secret_forms
from weft.executors.output import StreamName, output_path
from weft.executors.output_file import FILE_MODE, NOTHING_WRITTEN, CannotPunchHole, OutputFile, Written
from weft.executors.protocol import Launch

_SWEEP_BYTES = 1 << 20  # written between two cuts of a file over its cap
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC


class FollowedOutput:
    """One stream of one attempt. The file is created with its first bytes. The first error is kept, and nothing is
    written after it."""

    __slots__ = ("_cap", "_file", "_masker", "_path", "_skip", "_unswept", "error")

    def __init__(self, launch: Launch, stream: StreamName) -> None:
        self._path = os.fsencode(output_path(launch.output_dir, launch.task, launch.attempt, stream))
        self._cap = launch.output_max
        self._skip = launch.stored[stream == "stderr"] if launch.adopted else 0
        forms = secret_forms(launch.secrets.values()) if launch.secrets else ()
        self._masker = StreamMasker(forms) if forms else None
        self._file: OutputFile | None = None
        self._unswept = 0
        self.error: str | None = None  # why output is missing

    def write(self, data: bytes) -> None:
        self._store(data if self._masker is None else self._masker.feed(data))

    def release(self) -> None:
        """Nothing comes for a while: no descriptor is held until then."""
        if self._file is not None and self._file.fd >= 0:
            os.close(self._file.fd)
            self._file.fd = -1

    def finish(self) -> Written:
        """No more comes. How much was written and is kept."""
        if self._masker is not None:
            self._store(self._masker.end())
        file, self._file = self._file, None
        if file is None:
            return NOTHING_WRITTEN
        try:
            if file.fd < 0:
                file.fd = os.open(self._path, _APPEND)
            return file.finish()
        except OSError as error:
            self.error = self.error or _text(error)
            return NOTHING_WRITTEN
        finally:
            if file.fd >= 0:
                os.close(file.fd)

    def _store(self, data: bytes) -> None:
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        if not data or self.error is not None:
            return
        try:
            if self._file is None:
                self._file = self._open()
            elif self._file.fd < 0:
                self._file.fd = os.open(self._path, _APPEND)
            left = memoryview(data)
            while left:
                left = left[os.write(self._file.fd, left) :]
            self._unswept += len(data)
            if self._unswept >= _SWEEP_BYTES:
                self._unswept = 0
                self._file.sweep()
        except (OSError, CannotPunchHole) as error:
            self.error = _text(error)

    def _open(self) -> OutputFile:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        fd = os.open(self._path, _APPEND | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        return OutputFile(self._path, fd, True, self._cap)


def _text(error: Exception) -> str:
    if isinstance(error, CannotPunchHole):
        return "its output is over output_max and this filesystem cannot drop the middle"
    return f"the output could not be stored: {getattr(error, 'strerror', None) or error}"
