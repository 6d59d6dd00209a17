"""SQLite's errors as ours, in words that say what to do."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from weft.store.protocol import NO_SPACE, PATIENCE_MS, StoreBusy, StoreError, StoreFull, StoreUnusable

_UNUSABLE = (errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EPERM, errno.EEXIST)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """`name`: the store, as people know it."""
    try:
        yield
    except apsw.NotADBError as error:
        raise StoreUnusable(f"{name} is not a SQLite database. Choose another file with --store") from error
    except apsw.CorruptError as error:
        raise StoreUnusable(f"{name} is damaged ({error}). Restore it from a copy, or move it away") from error
    except apsw.ReadOnlyError as error:
        raise StoreUnusable(f"{name} is read-only. Make it writable, or choose another with --store") from error
    except apsw.FullError as error:
        raise _full(name) from error
    except apsw.CantOpenError as error:
        if _has_no_space(name):
            raise _full(name) from error
        raise StoreUnusable(
            f"{name} cannot be opened: {error}. Check that its directory exists and is writable"
        ) from error
    except apsw.BusyError as error:
        raise StoreBusy(f"{name} is locked by another program for more than {PATIENCE_MS // 1000} s") from error
    except apsw.IOError as error:
        if _has_no_space(name):  # of the files beside it SQLite says no more than that
            raise _full(name) from error
        raise StoreUnusable(f"{name} cannot be read or written: {error}") from error
    except apsw.Error as error:
        raise StoreError(f"{name}: {error}") from error
    except OSError as error:
        if error.errno in NO_SPACE:
            raise _full(name) from error
        if error.errno in _UNUSABLE:
            raise StoreUnusable(f"{name} cannot be used: {error.strerror}") from error
        raise


def _full(name: str) -> StoreFull:
    return StoreFull(f"the disk that holds {name} is full. Free some space and try again")


def _has_no_space(name: str) -> bool:
    try:
        disk = os.statvfs(os.path.dirname(name) or ".")
    except OSError:
        return False
    return disk.f_bavail == 0 or (disk.f_files > 0 and disk.f_favail == 0)
