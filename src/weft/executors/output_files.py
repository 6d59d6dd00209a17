"""The output files of running attempts, as the spawner keeps them.

A file has no name until something was written to it: the child gets a nameless file (O_TMPFILE), which is
linked into the run's directory when a sweep or the attempt's end finds bytes in it. A command that prints
nothing leaves nothing to delete, and its files serve again. (Creating and deleting two named files per attempt
was tried first: 30 µs each on ext4, and up to 1 ms on one without a journal, which shuns inodes deleted a
moment ago. Nameless files made anew for each attempt cost about half of that; used again, 7 µs.) Where the
filesystem has no nameless files the file is made under its name, and deleted if empty.

Over the cap the middle is given back to the filesystem while the child goes on writing: the first half of the
cap and the last half stay, the file keeps its apparent size, and disk use stays bounded.
"""

import errno
import os
import stat

from weft.executors import linux
from weft.executors.spawner.messages import AsUser

FILE_MODE = 0o600  # for the user of the node only
_SPARES_MAX = 64
_BLOCK_BYTES = 4096
_PUNCH_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV)


class MiddleNotDroppable(Exception):
    """The output is over its cap and this filesystem cannot punch holes."""


class Stream:
    """One output file of a running attempt. `fd` stays with the spawner; the child gets one of its own."""

    __slots__ = ("_cut_to", "cap", "failed", "fd", "named", "path", "size")

    def __init__(self, path: bytes, fd: int, named: bool, cap: int) -> None:
        self.path = path
        self.fd = fd
        self.named = named
        self.cap = cap
        self.size = 0
        self.failed: OSError | None = None  # what kept masked output from being stored
        self._cut_to = 0  # everything between the head and here is a hole

    def sweep(self) -> bool:
        """Look at the file: name it once it holds something, cut it when over the cap. True if it was cut."""
        if self.failed is not None:
            raise self.failed
        size = os.fstat(self.fd).st_size
        if size == self.size:
            return False
        self.size = size
        if not self.named:
            self.give_name()
        return size > self.cap and self.cut(size)

    def give_name(self) -> None:
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
        # From the block's beginning: two holes that meet within a block would leave it allocated.
        start = max(head, self._cut_to - self._cut_to % _BLOCK_BYTES)
        if size < self._cut_to:  # the command truncated its own output: what it wrote since is whole
            start = head
        end = size - (self.cap - head)
        if end <= start:
            return False
        try:
            linux.punch_hole(self.fd, start, end - start)
        except OSError as error:
            if error.errno in _PUNCH_UNSUPPORTED:
                raise MiddleNotDroppable from None
            raise
        self._cut_to = end
        return True


class Files:
    """Opens streams and closes them, and keeps nameless files that stayed empty for the next attempt."""

    def __init__(self) -> None:
        self._spares: dict[int, list[int]] = {}  # descriptors, by the filesystem's device number
        self._descriptors = linux.OwnDescriptors()
        self._devices: dict[bytes, int] = {}
        self._nameless = True
        self.user: AsUser | None = None  # who attempts run as, if not as this process does
        umask = os.umask(0o077)
        os.umask(umask)
        self._mode = stat.S_IFREG | (FILE_MODE & ~umask)

    def open(self, directory: bytes, name: bytes, cap: int) -> Stream:
        path = directory + b"/" + name
        if self._nameless:
            fd = self._spare(directory)
            if fd is None:
                fd = linux.open_nameless(directory, FILE_MODE)
                if fd is not None:
                    self.give(fd)
            if fd is not None:
                return Stream(path, fd, False, cap)
            self._nameless = False
        self._device(directory)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self.give(fd)
        return Stream(path, fd, True, cap)

    def give(self, fd: int) -> None:
        """To the user whom the attempt runs as: else it could write to its output, but not open /dev/stdout."""
        if self.user is not None:
            os.fchown(fd, self.user[1], self.user[2])

    def open_for_child(self, stream: Stream) -> int:
        """A descriptor to hand to the child and then close.

        It has an open file description of its own: so when the kernel says that the spawner's is the only one
        left, nobody anywhere can still write to the file.
        """
        return os.dup(stream.fd) if stream.named else self._descriptors.reopen(stream.fd)

    def close(self, stream: Stream) -> tuple[int, int, int]:
        """Say how much was written, and how much of its head and of its tail is in the file."""
        fd = stream.fd
        info = os.fstat(fd)
        size = info.st_size
        try:
            if size == 0:
                if stream.named:
                    os.unlink(stream.path)
                elif self._keep(fd, info):
                    fd = -1
                return 0, 0, 0
            if not stream.named:
                stream.give_name()
            if size <= stream.cap:
                return size, size, 0
            stream.cut(size)
            head = stream.cap // 2
            return size, head, stream.cap - head
        finally:
            if fd >= 0:
                os.close(fd)

    def forget_directories(self) -> None:
        """Look at them again when they are next used: somebody may have removed one."""
        self._devices.clear()

    def _spare(self, directory: bytes) -> int | None:
        spares = self._spares.get(self._device(directory))
        return spares.pop() if spares else None

    def _keep(self, fd: int, info: os.stat_result) -> bool:
        spares = self._spares.setdefault(info.st_dev, [])
        pristine = info.st_blocks == 0 and info.st_nlink == 0 and info.st_mode == self._mode
        if pristine and len(spares) < _SPARES_MAX and linux.is_sole_opener(fd):
            spares.append(fd)
            return True
        return False

    def _device(self, directory: bytes) -> int:
        """The filesystem of a directory, which is made if need be."""
        device = self._devices.get(directory)
        if device is None:
            os.makedirs(directory, exist_ok=True)
            device = self._devices[directory] = os.stat(directory).st_dev
        return device
