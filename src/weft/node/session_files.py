"""Proof of death on one machine: a session holds a lock on a file of its own for as long as its process lives.

Whoever gets that lock knows that the session is over, at once and for certain; the kernel lets go of it however
the process ended. Close-on-exec keeps it out of the attempts' processes.
"""

import fcntl
import os
from pathlib import Path

from weft.store.private_files import make_private_directory, open_private


class SessionFiles:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mine: dict[str, int] = {}

    def hold(self, session: str) -> None:
        make_private_directory(self._directory)
        fd = self._mine[session] = open_private(self._path(session))
        fcntl.flock(fd, fcntl.LOCK_EX)

    def gone(self, session: str) -> bool:
        """True only if its process is provably gone. A missing file proves nothing: it may be about to be made."""
        if session in self._mine:
            return False
        try:
            fd = os.open(self._path(session), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True

    def forget(self, session: str) -> None:
        """The session has ended in the store: its file has done its work."""
        self._path(session).unlink(missing_ok=True)
        fd = self._mine.pop(session, None)
        if fd is not None:
            os.close(fd)

    def _path(self, session: str) -> Path:
        return self._directory / f"{session}.lock"
