"""One output file of a running attempt: named late, and cut in the middle when it is over its cap.

A file has no name until bytes are written to it: the process gets a nameless file (O_TMPFILE), which is linked into
the run's directory when a sweep or the attempt's end finds bytes in it. A command that prints nothing leaves nothing
to delete. Where the filesystem has no nameless files the file is created under its name, and deleted if empty.

Over the cap the middle is given back to the filesystem while the process goes on writing: the first half of the
cap and the last half stay, the file keeps its apparent size, and disk use stays bounded.

The spawner imports this module, so it may import nothing but the standard library, and little of that.
"""

import errno
import os

from weft.executors import linux

FILE_MODE = 0o600  # for the user of the node only
_BLOCK_BYTES = 4096
_PUNCH_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV)

#: Bytes written, bytes kept of the head, bytes kept of the tail.
Written = tuple[int, int, int]
NOTHING_WRITTEN: Written = (0, 0, 0)


class CannotPunchHole(Exception):
    """The output is over its cap and this filesystem cannot punch holes."""


class OutputFile:
    """`fd` stays with the process that watches the file; the attempt has a descriptor of its own."""

    __slots__ = ("_hole_end", "cap", "fd", "named", "path", "size", "write_error")

    def __init__(self, path: bytes, fd: int, named: bool, cap: int) -> None:
        self.path = path
        self.fd = fd
        self.named = named
        self.cap = cap
        self.size = 0
        self.write_error: OSError | None = None  # why masked output could not be stored
        self._hole_end = 0  # everything between the head and this offset is a hole

    def sweep(self) -> bool:
        """Check the size: name the file once it holds bytes, cut it when over the cap. True if it was cut."""
        if self.write_error is not None:
            raise self.write_error
        size = os.fstat(self.fd).st_size
        if size == self.size:
            return False
        self.size = size
        if not self.named:
            self.link()
        return size > self.cap and self.cut(size)

    def link(self) -> None:
        """Give the nameless file its name."""
        try:
            linux.name_file(self.fd, self.path)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            linux.name_file(self.fd, self.path)
        except FileExistsError:
            os.unlink(self.path)
            linux.name_file(self.fd, self.path)
        self.named = True

    def cut(self, size: int) -> bool:
        head = self.cap // 2
        # From the start of a block: two holes that meet within a block would leave it allocated.
        start = max(head, self._hole_end - self._hole_end % _BLOCK_BYTES)
        if size < self._hole_end:  # the command truncated its own output: what it wrote since is whole
            start = head
        end = size - (self.cap - head)
        if end <= start:
            return False
        try:
            linux.punch_hole(self.fd, start, end - start)
        except OSError as error:
            if error.errno in _PUNCH_UNSUPPORTED:
                raise CannotPunchHole from None
            raise
        self._hole_end = end
        return True

    def kept(self, size: int) -> Written:
        """How many bytes were written and are kept, of a file of this size after its last cut."""
        if size <= self.cap:
            return size, size, 0
        head = self.cap // 2
        return size, head, self.cap - head

    def finish(self) -> Written:
        """Name the file if it holds bytes, cut it to its cap, and return how many were written and are kept."""
        size = os.fstat(self.fd).st_size
        if size == 0:
            return NOTHING_WRITTEN
        self.size = size
        if not self.named:
            self.link()
        if size > self.cap:
            try:
                self.cut(size)
            except CannotPunchHole:
                return size, size, 0  # whole, although over the cap
        return self.kept(size)


def finish_abandoned(path: bytes, cap: int, fd: int | None = None) -> Written:
    """Finish a file whose writer is gone. `fd` is its nameless file, if it had one."""
    try:
        if fd is not None:
            return OutputFile(path, fd, os.fstat(fd).st_nlink > 0, cap).finish()
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except OSError:
        return NOTHING_WRITTEN
    try:
        return OutputFile(path, fd, True, cap).finish()
    except OSError:
        return NOTHING_WRITTEN
    finally:
        os.close(fd)
