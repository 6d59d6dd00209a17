"""Writers of several processes take turns.

SQLite's own busy handler sleeps and retries, so a busy writer starves the others: measured, a second process got
through once in 2.8 s. Two flocks make a fair queue: take A, take B, let go of A; the next one waits at A while
the current one holds B. A flock knows no timeout, so both are asked for again and again, at
most half a millisecond apart.
"""

import fcntl
import os
import time
from pathlib import Path

from weft.store.private_files import open_private

FIRST_S, LONGEST_S = 0.0001, 0.0005  # between two askings


class Turnstile:
    def __init__(self, directory: Path) -> None:
        self._a = open_private(directory / "turn.a")
        self._b = open_private(directory / "turn.b")

    def enter(self, wait_s: float) -> bool:
        """False: it did not become our turn in that time."""
        deadline = time.monotonic() + wait_s if wait_s else 0.0
        if not _lock(self._a, deadline):
            return False
        try:
            return _lock(self._b, deadline)
        finally:
            fcntl.flock(self._a, fcntl.LOCK_UN)

    def leave(self) -> None:
        fcntl.flock(self._b, fcntl.LOCK_UN)

    def holder(self) -> int | None:
        """The process that keeps us from it, where the system tells: whose turn it is, or who is next."""
        try:
            lines = Path("/proc/locks").read_text().splitlines()
        except OSError:
            return None
        held = {}
        for line in lines:  # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:123456 0 EOF
            words = line.split()
            if words[1] == "FLOCK" and words[4].isdecimal() and int(words[4]) != os.getpid():
                held[int(words[5].rpartition(":")[2])] = int(words[4])
        return held.get(os.fstat(self._b).st_ino) or held.get(os.fstat(self._a).st_ino)

    def close(self) -> None:
        os.close(self._a)
        os.close(self._b)


def _lock(file: int, deadline: float) -> bool:
    pause = FIRST_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_S)
