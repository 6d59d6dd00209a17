"""Signals and kills whole process trees, whatever the processes do to avoid it.

A tree is frozen with SIGSTOP before it is killed: a process that forks faster than this process can read /proc would
otherwise always be one child ahead.
"""

import os
import time

from weft.executors import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal

_FREEZE_ROUNDS_MAX = 200
SETTLE_S = 0.0002  # SIGSTOP takes effect a moment after it was sent


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        # It has ended; or it changed its user, and only a cgroup could reach it then.
        return


def signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def freeze(roots: "Callable[[], list[int]]") -> list[int]:
    """Stop the roots, which are asked for in each round, and all their descendants; return the live ones."""
    seen: dict[int, bool] = {}  # pid -> alive when last checked
    running: list[int] = []
    for _ in range(_FREEZE_ROUNDS_MAX):
        new = [pid for pid in linux.descendants(roots()) if pid not in seen]
        for pid in new:
            seen[pid] = True
            send_signal(pid, signal.SIGSTOP)
        running = [pid for pid in running + new if not _is_frozen(pid, seen)]
        if not running and not new:
            break
        if running:
            time.sleep(SETTLE_S)
    return [pid for pid, alive in seen.items() if alive]


def _is_frozen(pid: int, seen: dict[int, bool]) -> bool:
    stat = linux.read_stat(pid)
    if stat is None or stat.dead:
        seen[pid] = False
        return True
    return stat.halted


def kill_tree(roots: list[int]) -> list[int]:
    """Freeze and kill; return the pids that were alive. They are not reaped yet."""
    return kill_trees(lambda: roots) if roots else []


def kill_trees(roots: "Callable[[], list[int]]") -> list[int]:
    alive = freeze(roots)
    for pid in alive:
        send_signal(pid, signal.SIGKILL)
    return alive


def terminate_tree(leader: int, orphans: list[int]) -> None:
    """Send SIGTERM to a whole attempt: to its process group, then to descendants that have left the group."""
    signal_group(leader, signal.SIGTERM)
    for pid in linux.descendants([leader, *orphans]):
        stat = linux.read_stat(pid)
        if stat is not None and stat.group != leader:
            send_signal(pid, signal.SIGTERM)
            send_signal(pid, signal.SIGCONT)
    signal_group(leader, signal.SIGCONT)  # a stopped process handles SIGTERM only once it continues
