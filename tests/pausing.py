"""SIGSTOP at a moment when a process does not hold the store, or when it does: on SQLite, whoever is stopped while it
writes stops all others, too."""

import fcntl
import os
import signal
import time
from pathlib import Path


def pause(pid: int, store: str | Path, *, writing: bool = False) -> None:
    """`store` is the database's file; an address of a server has nothing to be held."""
    turns = [Path(store).parent / name for name in ("turn.a", "turn.b")]
    deadline = time.monotonic() + 30
    while True:
        os.kill(pid, signal.SIGSTOP)
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TtZ":
            time.sleep(0.001)
        if any(turn.exists() and _held(turn) for turn in turns) == writing:
            return
        os.kill(pid, signal.SIGCONT)
        assert time.monotonic() < deadline, f"it {'never' if writing else 'always'} writes"
        time.sleep(0.003)


def _held(turn: Path) -> bool:
    with turn.open("rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
        return False
