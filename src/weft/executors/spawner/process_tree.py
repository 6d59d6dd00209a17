"""Ending trees of processes, whatever they do to avoid it.

A tree is frozen with SIGSTOP before it is killed: a process that forks faster than a killer can read /proc
would otherwise always be one child ahead.
"""

import os
import signal
import time
from collections.abc import Callable

from weft.executors import linux

_FREEZE_ROUNDS_MAX = 200
SETTLE_S = 0.0002  # a stop takes effect a moment after it was sent


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        # Gone already; or it changed its user, which nothing short of a cgroup can help with.
        return


def send_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def freeze(roots: Callable[[], list[int]]) -> list[int]:
    """Stop the roots, whichever they are by then, and everything below them; return all that are alive."""
    seen: dict[int, bool] = {}  # pid -> alive when last looked at
    moving: list[int] = []
    for _ in range(_FREEZE_ROUNDS_MAX):
        fresh = [pid for pid in linux.descendants(roots()) if pid not in seen]
        for pid in fresh:
            seen[pid] = True
            send(pid, signal.SIGSTOP)
        moving = [pid for pid in moving + fresh if not _is_frozen(pid, seen)]
        if not moving and not fresh:
            break
        if moving:
            time.sleep(SETTLE_S)
    return [pid for pid, alive in seen.items() if alive]


def _is_frozen(pid: int, seen: dict[int, bool]) -> bool:
    stat = linux.read_stat(pid)
    if stat is None or stat.dead:
        seen[pid] = False
        return True
    return stat.halted


def kill_tree(roots: list[int]) -> list[int]:
    """Freeze and kill; return the processes that were alive to be killed. They are not reaped yet."""
    return kill_trees(lambda: roots) if roots else []


def kill_trees(roots: Callable[[], list[int]]) -> list[int]:
    victims = freeze(roots)
    for pid in victims:
        send(pid, signal.SIGKILL)
    return victims


def terminate_tree(leader: int, orphans: list[int]) -> None:
    """Ask a whole attempt to end: its group at once, then what has left the group."""
    send_group(leader, signal.SIGTERM)
    for pid in linux.descendants([leader, *orphans]):
        stat = linux.read_stat(pid)
        if stat is not None and stat.group != leader:
            send(pid, signal.SIGTERM)
            send(pid, signal.SIGCONT)
    send_group(leader, signal.SIGCONT)  # a stopped process sees SIGTERM only once it goes on
