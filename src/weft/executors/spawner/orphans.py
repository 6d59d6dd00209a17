"""Whose process is this? Orphans, traced back to the attempt that made them.

When a process dies, its children become the spawner's. Such an orphan belongs to the attempt whose session it
is in (nobody can enter a session from outside), else to the one whose token is in its environment. One that has
left both behind is a stray: it belongs to every attempt that was alive when it started, and ends with the last.
"""

import os
import signal
import time
from contextlib import suppress

from weft.executors import linux
from weft.executors.spawner.attempt import Attempt
from weft.executors.spawner.messages import TOKEN
from weft.executors.spawner.process_tree import SETTLE_S, send

_LOOKS_MAX = 2
_HOLD_ROUNDS_MAX = 100
_STOP_ROUNDS_MAX = 100
_TICK_S = 0.02  # the kernel gives start times in ticks of 10 ms


class Orphans:
    def __init__(self, by_pid: dict[int, Attempt], by_token: dict[bytes, Attempt]) -> None:
        self._children = linux.OwnChildren()
        self._by_pid = by_pid
        self._by_token = by_token
        self._owners: dict[int, tuple[Attempt, ...]] = {}
        self._held: dict[int, None] = {}
        self._sessions: dict[int, Attempt] = {}  # made by orphans of an attempt: their children stay in it

    def reaped(self, pid: int) -> None:
        self._owners.pop(pid, None)
        self._held.pop(pid, None)

    def reported(self, attempt: Attempt) -> None:
        for session in [s for s, owner in self._sessions.items() if owner is attempt]:
            del self._sessions[session]

    def children(self) -> list[int]:
        """All children of the spawner: leaders, orphans and zombies."""
        return self._children.pids()

    def known(self) -> list[int]:
        """The pids of those that were seen and not reaped yet."""
        return list(self._owners)

    def find(self, certain: bool = True) -> tuple[dict[Attempt, list[int]], list[int]]:
        """The live orphans there are: by the attempt that has to end them, and those left of nobody.

        A stray is listed only once none of its owners runs any more. To be certain, what is found must be all
        there is: an orphan that dies while it is looked at may have left a child that was not there before. If
        that goes on, orphans are held (stopped) until `release`.
        """
        for _ in range(_LOOKS_MAX):
            alive, steady = self._look()
            if steady or not certain:
                break
        else:
            alive = self._hold()
        by_attempt: dict[Attempt, list[int]] = {}
        left: list[int] = []
        for pid, stat in alive.items():
            owners = self._owners.get(pid)
            if owners is None:
                owners = self._owners[pid] = self._trace(pid, stat)
            if len(owners) > 1 and any(owner.status is None for owner in owners):
                continue
            waiting = [owner for owner in owners if not owner.reported]
            for owner in waiting:
                by_attempt.setdefault(owner, []).append(pid)
            if not waiting:
                left.append(pid)
        return by_attempt, left

    def _look(self) -> tuple[dict[int, linux.ProcessStat], bool]:
        """The orphans that are alive, and whether none of them died meanwhile."""
        alive: dict[int, linux.ProcessStat] = {}
        steady = True
        for pid in self._unknown():
            stat = None if self._reap(pid) else linux.read_stat(pid)
            if stat is None or stat.dead:
                steady = False
            else:
                alive[pid] = stat
        return alive, steady

    def _hold(self) -> dict[int, linux.ProcessStat]:
        """Stop all orphans until a look at them shows that each is still there, and stopped."""
        for _ in range(_HOLD_ROUNDS_MAX):
            self._stop_on_sight()
            alive, steady = self._look()
            if steady and all(pid in self._held and stat.halted for pid, stat in alive.items()):
                break
            time.sleep(SETTLE_S)
        return alive

    def _stop_on_sight(self) -> None:
        """Stop whatever is not held yet, the newest first, until nothing new comes.

        Nothing is asked about them meanwhile: on a machine that is busy, those that fork and exit leave dead ones
        faster than this process could read about them.
        """
        for _ in range(_STOP_ROUNDS_MAX):
            fresh = [pid for pid in reversed(self._unknown()) if pid not in self._held]
            if not fresh:
                break
            for pid in fresh:
                send(pid, signal.SIGSTOP)
                self._held[pid] = None

    def release(self) -> None:
        """Let those go on that were held and not killed."""
        for pid in self._held:
            send(pid, signal.SIGCONT)
        self._held.clear()

    def _unknown(self) -> list[int]:
        """The spawner's children that are not the leader of an attempt."""
        by_pid = self._by_pid
        found = []
        for pid in self._children.pids():
            leader = by_pid.get(pid)
            if leader is None or leader.status is not None:
                found.append(pid)
        return found

    def _reap(self, pid: int) -> bool:
        with suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                self.reaped(pid)
                return True
        return False

    def _trace(self, pid: int, stat: linux.ProcessStat) -> tuple[Attempt, ...]:
        owner = self._by_pid.get(stat.session) or self._sessions.get(stat.session)
        if owner is None:
            token = linux.environment_value(pid, TOKEN)
            owner = self._by_token.get(token) if token else None
        if owner is None:
            return tuple(a for a in self._by_token.values() if a.started <= stat.started + _TICK_S)
        if stat.session != owner.pid:
            self._sessions[stat.session] = owner
        return (owner,)
