"""What the demo's tasks wrote down themselves: the witness that does not depend on the engine."""

import os
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    word: str  # begin or end
    task: str
    attempt: int
    pid: int


def read(path: Path) -> list[Line]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    rows = [line.split() for line in text.split("\n")[:-1]]  # what follows the last newline is not yet whole
    return [Line(row[0], row[1], int(row[2]), int(row[3])) for row in rows if len(row) == 4]


def begun_times(lines: list[Line]) -> dict[str, int]:
    """How often each task was begun."""
    times: dict[str, int] = {}
    for line in lines:
        if line.word == "begin":
            times[line.task] = times.get(line.task, 0) + 1
    return times


def open_pids(lines: list[Line]) -> list[int]:
    """Processes that began and did not say that they ended."""
    ended = {line.pid for line in lines if line.word == "end"}
    return [line.pid for line in lines if line.word == "begin" and line.pid not in ended]


def is_running(pid: int) -> bool:
    """A zombie is a process that is gone; somebody just has not looked yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return Path("/proc").is_dir() is False  # no /proc here: kill(0) was the answer
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
