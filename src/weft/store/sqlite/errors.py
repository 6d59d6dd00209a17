"""SQLite's errors as ours, in words that say what to do."""

import errno
import os

import apsw

from weft.store.protocol import NO_SPACE, PATIENCE_MS, StoreBusy, StoreError, StoreFull, StoreUnusable

_UNUSABLE = (errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EPERM, errno.EEXIST)


class Explained:
    """A block in which errors of SQLite become the store's. Every exchange is in one, so it is no generator.
    `name`: the store, as people know it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and (meaning := _meaning(self._name, error)) is not None:
            raise meaning from error


def _meaning(name: str, error: BaseException) -> StoreError | None:
    """None: it stays what it is."""
    match error:
        case apsw.NotADBError():
            return StoreUnusable(f"{name} is not a SQLite database. Choose another file with --store")
        case apsw.CorruptError():
            return StoreUnusable(f"{name} is damaged ({error}). Restore it from a copy, or move it away")
        case apsw.ReadOnlyError():
            return StoreUnusable(f"{name} is read-only. Make it writable, or choose another with --store")
        case apsw.FullError():
            return _full(name)
        case apsw.CantOpenError() | apsw.IOError() if _has_no_space(name):
            return _full(name)  # of the files beside it SQLite says no more than that
        case apsw.CantOpenError():
            return StoreUnusable(f"{name} cannot be opened: {error}. Check that its directory exists and is writable")
        case apsw.BusyError():
            return StoreBusy(f"{name} is locked by another program for more than {PATIENCE_MS // 1000} s")
        case apsw.IOError():
            return StoreUnusable(f"{name} cannot be read or written: {error}")
        case apsw.Error():
            return StoreError(f"{name}: {error}")
        case OSError() if error.errno in NO_SPACE:
            return _full(name)
        case OSError() if error.errno in _UNUSABLE:
            return StoreUnusable(f"{name} cannot be used: {error.strerror}")
    return None


def _full(name: str) -> StoreFull:
    return StoreFull(f"the disk that holds {name} is full. Free some space and try again")


def _has_no_space(name: str) -> bool:
    try:
        disk = os.statvfs(os.path.dirname(name) or ".")
    except OSError:
        return False
    return disk.f_bavail == 0 or (disk.f_files > 0 and disk.f_favail == 0)
