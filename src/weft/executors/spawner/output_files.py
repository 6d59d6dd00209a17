"""The output files of the spawner's attempts: opened for each attempt, closed when it is reported.

A nameless file that stayed empty is used again for the next attempt. (Creating and deleting two named files per
attempt was tried first: 30 µs each on ext4, and up to 1 ms on one without a journal, which avoids inodes deleted a
moment ago. A new nameless file for each attempt costs about half of that; one used again, 7 µs.)
"""

import os
import stat

from weft.executors import linux
from weft.executors.output_file import FILE_MODE, NOTHING_WRITTEN, OutputFile, Written
from weft.executors.spawner.messages import AsUser

_SPARES_MAX = 64


class OutputFiles:
    def __init__(self) -> None:
        self._spares: dict[int, list[int]] = {}  # descriptors of empty nameless files, by the device number
        self._descriptors = linux.OwnDescriptors()
        self._devices: dict[bytes, int] = {}
        self._nameless_supported = True
        self.user: AsUser | None = None  # the user that attempts run as, if not this process's own
        umask = os.umask(0o077)
        os.umask(umask)
        self._mode = stat.S_IFREG | (FILE_MODE & ~umask)

    def open(self, directory: bytes, stem: bytes, cap: int) -> tuple[OutputFile, OutputFile]:
        """The files of both streams."""
        path = directory + b"/" + stem
        spares = self._spares.get(self._device(directory))
        if spares and len(spares) > 1:
            return OutputFile(path + b".out", spares.pop(), False, cap), OutputFile(
                path + b".err", spares.pop(), False, cap
            )
        stdout = self._create(directory, path + b".out", cap)
        try:
            return stdout, self._create(directory, path + b".err", cap)
        except OSError:
            os.close(stdout.fd)
            raise

    def _create(self, directory: bytes, path: bytes, cap: int) -> OutputFile:
        fd = linux.open_nameless(directory, FILE_MODE) if self._nameless_supported else None
        named = fd is None
        if fd is None:
            self._nameless_supported = False
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self.chown(fd)
        return OutputFile(path, fd, named, cap)

    def chown(self, fd: int) -> None:
        """To the user that the attempt runs as: else it could write to its output, but not open /dev/stdout."""
        if self.user is not None:
            os.fchown(fd, self.user[1], self.user[2])

    def open_for_child(self, file: OutputFile) -> int:
        """A descriptor for the child; the caller closes its copy after the start.

        It has an open file description of its own: so when the kernel says that the spawner's is the only one
        left, no process anywhere can still write to the file.
        """
        return os.dup(file.fd) if file.named else self._descriptors.reopen(file.fd)

    def close(self, file: OutputFile) -> Written:
        fd = file.fd
        info = os.fstat(fd)
        size = info.st_size
        if size == 0 and not file.named and self._keep_spare(fd, info):
            return NOTHING_WRITTEN
        try:
            if size == 0:
                if file.named:
                    os.unlink(file.path)
                return NOTHING_WRITTEN
            if not file.named:
                file.link()
            if size > file.cap:
                file.cut(size)
            return file.kept(size)
        finally:
            os.close(fd)

    def forget_directories(self) -> None:
        """Check that they exist when they are next used: they may have been removed."""
        self._devices.clear()

    def _keep_spare(self, fd: int, info: os.stat_result) -> bool:
        spares = self._spares.setdefault(info.st_dev, [])
        unused = info.st_blocks == 0 and info.st_nlink == 0 and info.st_mode == self._mode
        if unused and len(spares) < _SPARES_MAX and linux.is_sole_opener(fd):
            spares.append(fd)
            return True
        return False

    def _device(self, directory: bytes) -> int:
        """The device number of a directory's filesystem; the directory is created if it does not exist."""
        device = self._devices.get(directory)
        if device is None:
            os.makedirs(directory, exist_ok=True)
            device = self._devices[directory] = os.stat(directory).st_dev
        return device
