"""Wake-ups between the processes that share a SQLite file: a byte written after COMMIT, inotify on the other side.

A hint only: whoever misses it finds the work by polling. Without inotify (macOS) the poll of 250 ms remains.
"""

import asyncio
import contextlib
import ctypes
import os
import struct
from collections.abc import Callable
from pathlib import Path

from weft.core.decision.draft import Hint
from weft.store.private_files import open_private
from weft.store.protocol import EVERYONE, Woken

POLL_S = 0.25
_IN_MODIFY = 0x2
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_EVENT = struct.Struct("iIII")


class WakeFile:
    """The file, and this process's listeners. `changed` says whether somebody else wrote to the store."""

    hears = False  # polling costs little here: no node does it more rarely

    def __init__(self, path: Path | None, changed: Callable[[], bool]) -> None:
        self._changed = changed
        self._listeners: list[tuple[asyncio.AbstractEventLoop, Woken]] = []
        self._path = path
        self._fd = -1 if path is None else open_private(path)
        self._inotify = -1
        self._stop_poll: Callable[[], object] | None = None

    def wake_others(self, hint: Hint = EVERYONE) -> None:
        """After COMMIT: other processes. They look for themselves what it is about."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # a full disk: others find by polling what has been committed
                os.pwrite(self._fd, b"w", 0)

    def wake_all(self, hint: Hint = EVERYONE) -> None:
        """After COMMIT: other processes, and the nodes in this one."""
        self.wake_others()
        for loop, woken in list(self._listeners):
            loop.call_soon_threadsafe(woken, hint)

    def taken(self, tasks: int) -> None:
        """Nobody waits for its turn here."""

    def listen(self, woken: Woken) -> Callable[[], None]:
        entry = (asyncio.get_running_loop(), woken)
        self._listeners.append(entry)
        if self._path is not None and len(self._listeners) == 1:
            self._start_watching()

        def stop() -> None:
            self._listeners.remove(entry)
            if not self._listeners:
                self._stop_watching()

        return stop

    def _wake_listeners(self) -> None:
        here = asyncio.get_running_loop()
        for loop, woken in list(self._listeners):
            if loop is here:
                woken(EVERYONE)
            else:
                loop.call_soon_threadsafe(woken, EVERYONE)

    def _start_watching(self) -> None:
        loop = asyncio.get_running_loop()
        self._inotify = _watch(self._path) if self._path is not None else -1
        if self._inotify >= 0:
            loop.add_reader(self._inotify, self._read)
            fd = self._inotify
            self._stop_poll = lambda: loop.remove_reader(fd)
            return
        task = loop.create_task(self._poll())
        self._stop_poll = task.cancel

    def _read(self) -> None:
        try:
            os.read(self._inotify, 64 * _EVENT.size)
        except BlockingIOError:
            return
        if self._changed():  # our own COMMITs touch the file too
            self._wake_listeners()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            if self._changed():
                self._wake_listeners()

    def _stop_watching(self) -> None:
        if self._stop_poll is not None:
            self._stop_poll()
            self._stop_poll = None
        if self._inotify >= 0:
            os.close(self._inotify)
            self._inotify = -1

    def close(self) -> None:
        self._stop_watching()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _watch(path: Path) -> int:
    """An inotify descriptor for writes to this file, or -1 where there is no inotify."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return -1
    fd: int = libc.inotify_init1(_FLAGS)
    if fd < 0:
        return -1
    if libc.inotify_add_watch(fd, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(fd)
        return -1
    return fd
