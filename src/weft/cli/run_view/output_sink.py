"""Writing that never blocks the event loop: a slow reader (a paused pager, ^S) must not cost a node its lease.

One thread writes everything in the order in which it came. What produces output looks at `pending` and waits.
"""

import os
import queue
import threading

from weft.cli.standard_streams import OutputLost

FULL_BYTES = 1 << 20


class Sink:
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pending = 0
        self._closed: set[int] = set()  # descriptors that take no more
        self.lost: OutputLost | None = None  # why standard output did not get all of it
        self._thread = threading.Thread(target=self._write_all, name="weft-output", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """Bytes not yet taken by their reader."""
        return self._pending

    @property
    def full(self) -> bool:
        return self._pending > FULL_BYTES

    def put(self, fd: int, data: bytes) -> None:
        if not data or fd in self._closed:
            return
        with self._lock:
            self._pending += len(data)
        self._queue.put((fd, data))

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            fd, data = item
            if fd not in self._closed:
                try:
                    _write(fd, data)
                except OSError as error:  # the work goes on without it
                    self._closed.add(fd)
                    if fd == 1 and not isinstance(error, BrokenPipeError):
                        self.lost = OutputLost(error)
            with self._lock:
                self._pending -= len(data)

    def close(self, timeout_s: float | None = None) -> None:
        """Write what is left. With a timeout, what the reader does not take by then is lost."""
        self._queue.put(None)
        self._thread.join(timeout_s)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
