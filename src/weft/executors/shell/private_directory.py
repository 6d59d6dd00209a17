"""A directory that only this node's user can list, for files that other users must not read: `$WEFT_INPUT`, and
`$WEFT_OUTPUT` and `$WEFT_CONTEXT` of a task with secrets, which are not masked yet. If tasks run as a user of their
own, each attempt has a directory there that belongs to that user: so other tasks can neither replace nor redirect the
files that the node reads.

The directory is not in the store, which is kept and copied. A node that was killed could not remove its directory;
the next node does, once it gets the lock that the dead one held.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress

from weft.executors.run_as import User

_PREFIX = "weft-private-"
_LOCK = "lock"


class PrivateDirectory:
    """Created when it is first needed."""

    def __init__(self, user: User | None = None) -> None:
        """`user` is the user that tasks run as, if not this process's own."""
        self._user = user
        self._path: str | None = None
        self._lock = -1
        self._last = 0

    @property
    def path(self) -> str:
        if self._path is None:
            _remove_abandoned(tempfile.gettempdir())
            self._path = tempfile.mkdtemp(prefix=_PREFIX)
            if self._user is not None:
                os.chmod(self._path, 0o711)
            self._lock = os.open(f"{self._path}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self._path

    def stem(self) -> str:
        """A path prefix that no other attempt uses."""
        self._last += 1
        stem = f"{self.path}/{self._last}"
        if self._user is None:
            return stem
        os.mkdir(stem, 0o700)
        os.chown(stem, self._user.uid, self._user.gid)
        return f"{stem}/answer"

    def write(self, path: str, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            if self._user is not None:
                os.fchown(fd, self._user.uid, self._user.gid)
            file.write(data)

    def drop(self, stem: str) -> None:
        """Remove the directory of an attempt that ran as a user of its own, with everything that it left there."""
        if self._user is not None:
            shutil.rmtree(os.path.dirname(stem), ignore_errors=True)

    def close(self) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            os.close(self._lock)
            self._path = None


def _remove_abandoned(parent: str) -> None:
    for entry in os.scandir(parent):
        if not entry.name.startswith(_PREFIX):
            continue
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            # Without a lock file it has just been created, or is being removed.
            fd = os.open(f"{entry.path}/{_LOCK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(fd)
