"""Files and directories for their user only, whatever the umask says. Those of an earlier version are tightened."""

import contextlib
import os
import tempfile
from pathlib import Path

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
_OTHERS = 0o077


def open_private(path: Path, flags: int = os.O_RDWR) -> int:
    """A descriptor of the file, which is made if it is not there. Not for a database: closing any descriptor of it
    gives up the locks that this process has on it."""
    fd = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    tighten(path)
    return fd


def create_private(path: Path, text: str = "") -> bool:
    """Whole or not at all; False: it is there already."""
    fd, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.link(temporary, path)
        return True
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)


def make_private_directory(path: Path) -> None:
    path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    tighten(path)


def tighten(path: Path) -> None:
    """Nothing for others, if it is there and ours to say so. By its name: see `open_private`."""
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS & 0o777)


def sync_directory(directory: Path) -> None:
    """What was made or renamed in it outlives a loss of power."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
