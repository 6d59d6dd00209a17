"""Pipes for the output of attempts that have secrets: the spawner masks the output before it is stored.

The attempt writes to a pipe; the spawner reads the pipe, masks the bytes and writes them to the output file, to which
other attempts write directly. Memory is bounded by one read and the longest secret; an attempt that writes faster
than the spawner masks waits, as it would for a disk.
"""

import os
import select

from weft.executors.output_file import OutputFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from weft.executors.masking import StreamMasker

_READ_BYTES = 1 << 16
_LAST_READS_MAX = 64  # more than a pipe can hold: a foreign process that was handed its end must not keep us reading


class MaskingPipe:
    __slots__ = ("fd", "file", "masker")

    def __init__(self, file: OutputFile, fd: int, masker: "StreamMasker") -> None:
        self.file = file
        self.fd = fd
        self.masker = masker


class MaskingPipes:
    """The open pipes, by descriptor and by output file."""

    def __init__(self, poll: "select.poll") -> None:
        self._poll = poll
        self._by_fd: dict[int, MaskingPipe] = {}
        self._by_file: dict[OutputFile, MaskingPipe] = {}

    def __contains__(self, fd: int) -> bool:
        return fd in self._by_fd

    def open(self, file: OutputFile, secret_forms: tuple[bytes, ...]) -> int:
        """The write end for the child; the caller closes its copy after the start."""
        from weft.executors.masking import StreamMasker

        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        pipe = MaskingPipe(file, read_end, StreamMasker(secret_forms))
        self._by_fd[read_end] = self._by_file[file] = pipe
        self._poll.register(read_end, select.POLLIN)
        return write_end

    def pump(self, fd: int) -> bool:
        """Read once, mask and store. False: the pipe is empty for now, or closed."""
        pipe = self._by_fd[fd]
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close(pipe)
            return False
        self._write(pipe, pipe.masker.feed(data))
        return fd in self._by_fd

    def finish(self, file: OutputFile) -> None:
        """The attempt has no process left: store the rest. Raises the error that kept output from being stored."""
        pipe = self._by_file.pop(file, None)
        if pipe is None:
            return
        for _ in range(_LAST_READS_MAX):
            if pipe.fd not in self._by_fd or not self.pump(pipe.fd):
                break
        self._close(pipe)
        if file.write_error is not None:
            raise file.write_error

    def _write(self, pipe: MaskingPipe, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(pipe.file.fd, data) :]
        except OSError as error:
            pipe.file.write_error = error  # raised by the file's next sweep, or by `finish`
            self._close(pipe)

    def _close(self, pipe: MaskingPipe) -> None:
        if self._by_fd.pop(pipe.fd, None) is None:
            return
        self._poll.unregister(pipe.fd)
        os.close(pipe.fd)
        if pipe.file.write_error is None:
            self._write(pipe, pipe.masker.end())
