"""Shared memory in which a runner notes the call that has the processor, so that a crash can be attributed to it.

The memory outlives the runner: whatever kills the runner, the node can read which attempt it was running.
"""

import mmap
import os

_BYTES = 16


class ActiveCall:
    """The id of the active attempt (0: none), and when it started."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        if os.fstat(fd).st_size < _BYTES:
            os.ftruncate(fd, _BYTES)
        page = memoryview(mmap.mmap(fd, _BYTES))
        self._ids = page.cast("Q")
        self._times = page.cast("d")

    def set(self, id: int, started: float) -> None:
        self._times[1] = started
        self._ids[0] = id

    def switch(self, id: int) -> None:
        self._ids[0] = id

    def clear(self) -> None:
        self._ids[0] = 0

    @property
    def id(self) -> int:
        return self._ids[0]

    @property
    def started(self) -> float:
        return self._times[1]
