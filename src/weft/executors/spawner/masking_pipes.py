"""Output that passes through the spawner: of attempts that have secrets, masked before it is stored.

The attempt writes to a pipe, and what the spawner reads of it goes through the masker into the file that the output
of every other attempt goes to straight away. Memory is bounded by what one read takes and the longest secret; an
attempt that writes faster than that waits, as it would for a disk.
"""

import os
import select
from typing import TYPE_CHECKING

from weft.executors.output_files import Stream

if TYPE_CHECKING:
    from weft.executors.masking import StreamMasker

_READ_BYTES = 1 << 16
_LAST_READS = 64  # more than a pipe can hold: a stranger who was handed its end must not keep us here


class Pipe:
    __slots__ = ("fd", "masker", "stream")

    def __init__(self, stream: Stream, fd: int, masker: "StreamMasker") -> None:
        self.stream = stream
        self.fd = fd
        self.masker = masker


class Pipes:
    """The pipes that are open, and the streams behind them."""

    def __init__(self, poll: "select.poll") -> None:
        self._poll = poll
        self._by_fd: dict[int, Pipe] = {}
        self._by_stream: dict[Stream, Pipe] = {}

    def __contains__(self, fd: int) -> bool:
        return fd in self._by_fd

    def open(self, stream: Stream, forms: tuple[bytes, ...]) -> int:
        """A descriptor to hand to the child and then close. What it writes goes to the stream, masked."""
        from weft.executors.masking import StreamMasker

        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        pipe = Pipe(stream, ours, StreamMasker(forms))
        self._by_fd[ours] = self._by_stream[stream] = pipe
        self._poll.register(ours, select.POLLIN)
        return theirs

    def pump(self, fd: int) -> bool:
        """Take in what is there, one read at most; False: there is nothing now, or never again."""
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

    def finish(self, stream: Stream) -> None:
        """Nobody is left who could write to it: store the rest. Raises what kept the output from being stored."""
        pipe = self._by_stream.pop(stream, None)
        if pipe is None:
            return
        for _ in range(_LAST_READS):
            if pipe.fd not in self._by_fd or not self.pump(pipe.fd):
                break
        self._close(pipe)
        if stream.failed is not None:
            raise stream.failed

    def _write(self, pipe: Pipe, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(pipe.stream.fd, data) :]
        except OSError as error:
            pipe.stream.failed = error  # told when the stream is next looked at
            self._close(pipe)

    def _close(self, pipe: Pipe) -> None:
        if self._by_fd.pop(pipe.fd, None) is None:
            return
        self._poll.unregister(pipe.fd)
        os.close(pipe.fd)
        if pipe.stream.failed is None:
            self._write(pipe, pipe.masker.end())
