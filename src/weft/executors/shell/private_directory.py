"""A directory that only this node's user can list, for what must not lie around: `$WEFT_INPUT`, and what a task with
secrets writes to `$WEFT_OUTPUT` and `$WEFT_CONTEXT` before it is masked. If tasks run as a user of their own, each
attempt has a directory there that is that user's: so they can neither replace nor redirect what the node reads.

It is apart from the store, which is kept and copied. A node that was killed could not remove its directory; the next
node does, once it gets the lock that the dead one held.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress

from weft.executors.run_as import User

_PREFIX = "weft-private-"
_LOCK = "lock"


class PrivateFiles:
    """Made when it is first needed."""

    def __init__(self, user: User | None = None) -> None:
        """`user` is who tasks run as, if that is another than this process's."""
        self._user = user
        self._directory: str | None = None
        self._lock = -1
        self._last = 0

    @property
    def directory(self) -> str:
        if self._directory is None:
            _remove_deserted(tempfile.gettempdir())
            self._directory = tempfile.mkdtemp(prefix=_PREFIX)
            if self._user is not None:
                os.chmod(self._directory, 0o711)
            self._lock = os.open(f"{self._directory}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self._directory

    def stem(self) -> str:
        """The beginning of a path that nobody else uses."""
        self._last += 1
        stem = f"{self.directory}/{self._last}"
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
        """Of a task that ran as a user of its own, which may have left anything there."""
        if self._user is not None:
            shutil.rmtree(os.path.dirname(stem), ignore_errors=True)

    def close(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            os.close(self._lock)
            self._directory = None


def _remove_deserted(parent: str) -> None:
    for entry in os.scandir(parent):
        if not entry.name.startswith(_PREFIX):
            continue
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            # Without a lock file it has just been made, or is about to go.
            fd = os.open(f"{entry.path}/{_LOCK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(fd)
