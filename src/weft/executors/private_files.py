"""A directory that only this node's user can enter, for what must not lie around: `$WEFT_INPUT`, and what a task with
secrets writes to `$WEFT_OUTPUT` and `$WEFT_CONTEXT` before it is masked.

It is apart from the store, which is kept and copied. A node that was killed could not remove its directory; the next
node does, once it gets the lock that the dead one held.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress

_PREFIX = "weft-private-"
_LOCK = "lock"


class PrivateFiles:
    """Made when it is first needed."""

    def __init__(self) -> None:
        self._directory: str | None = None
        self._lock = -1
        self._last = 0

    def stem(self) -> str:
        """The beginning of a path that nobody else uses."""
        if self._directory is None:
            _remove_deserted(tempfile.gettempdir())
            self._directory = tempfile.mkdtemp(prefix=_PREFIX)
            self._lock = os.open(f"{self._directory}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._last += 1
        return f"{self._directory}/{self._last}"

    def close(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            os.close(self._lock)
            self._directory = None


def write_private(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


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
