"""Whose process is this? Orphans, traced back to the attempt that made them.

When a process dies, its children become the spawner's. Such an orphan belongs to the attempt whose session it
is in (nobody can enter a session from outside), else to the one whose token is in its environment. One that has
left both behind is a stray: it belongs to every attempt that was alive when it started, and ends with the last.
"""

from weft.executors import linux
from weft.executors.spawner_attempt import Attempt
from weft.executors.spawner_wire import TOKEN

_TICK_S = 0.02  # the kernel gives start times in ticks of 10 ms


class Orphans:
    def __init__(self, by_pid: dict[int, Attempt], by_token: dict[bytes, Attempt]) -> None:
        self._children = linux.OwnChildren()
        self._by_pid = by_pid
        self._by_token = by_token
        self._owners: dict[int, tuple[Attempt, ...]] = {}
        self._sessions: dict[int, Attempt] = {}  # made by orphans of an attempt: their children stay in it

    def reaped(self, pid: int) -> None:
        self._owners.pop(pid, None)

    def reported(self, attempt: Attempt) -> None:
        for session in [s for s, owner in self._sessions.items() if owner is attempt]:
            del self._sessions[session]

    def children(self) -> list[int]:
        """All children of the spawner: leaders, orphans and zombies."""
        return self._children.pids()

    def strays(self) -> list[int]:
        return [pid for pid, owners in self._owners.items() if len(owners) > 1]

    def find(self) -> tuple[dict[Attempt, list[int]], list[int]]:
        """The live orphans there are: by the attempt that has to end them, and those left of nobody.

        A stray is listed only once none of its owners runs any more.
        """
        by_attempt: dict[Attempt, list[int]] = {}
        left: list[int] = []
        for pid in self._children.pids():
            leader = self._by_pid.get(pid)
            if leader is not None and leader.status is None:
                continue
            stat = linux.read_stat(pid)
            if stat is None or stat.dead:
                continue
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
