"""Orphans of attempts, traced back to the attempt that created them.

When a process dies, its children become the spawner's. Such an orphan belongs to the attempt whose session it is in
(no process can enter a session from outside), else to the one whose token is in its environment. An orphan that has
left both is a stray: it belongs to every attempt that was alive when it started, and is killed with the last of them.
"""

import os
import time

from weft.executors import linux
from weft.executors.spawner.attempt import SpawnedAttempt
from weft.executors.spawner.messages import TOKEN
from weft.executors.spawner.process_tree import SETTLE_S, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

_SCANS_MAX = 2
_FREEZE_ROUNDS_MAX = 100
_STOP_ROUNDS_MAX = 100
_TICK_S = 0.02  # the kernel gives start times in ticks of 10 ms


class Orphans:
    def __init__(self, by_pid: dict[int, SpawnedAttempt], by_token: dict[bytes, SpawnedAttempt]) -> None:
        self._children = linux.OwnChildren()
        self._by_pid = by_pid
        self._by_token = by_token
        self._owners: dict[int, tuple[SpawnedAttempt, ...]] = {}
        self._frozen: dict[int, None] = {}
        self._sessions: dict[int, SpawnedAttempt] = {}  # created by orphans of an attempt: their children stay in it

    def reaped(self, pid: int) -> None:
        self._owners.pop(pid, None)
        self._frozen.pop(pid, None)

    def reported(self, attempt: SpawnedAttempt) -> None:
        for session in [session for session, owner in self._sessions.items() if owner is attempt]:
            del self._sessions[session]

    def children(self) -> list[int]:
        """All children of the spawner: leaders, orphans and zombies."""
        return self._children.pids()

    def known(self) -> list[int]:
        """The pids of orphans that were traced and are not reaped yet."""
        return list(self._owners)

    def find(self, complete: bool = True) -> tuple[dict[SpawnedAttempt, list[int]], list[int]]:
        """The live orphans by the attempt that must end them, and those whose attempts are all reported.

        A stray is listed only once none of its owners runs any more. A complete list needs more than one scan: an
        orphan that dies during a scan may have left a child that did not exist before. If orphans keep dying, all
        of them are frozen (SIGSTOP) until `unfreeze`.
        """
        for _ in range(_SCANS_MAX):
            alive, steady = self._scan()
            if steady or not complete:
                break
        else:
            alive = self._freeze()
        by_attempt: dict[SpawnedAttempt, list[int]] = {}
        unowned: list[int] = []
        for pid, stat in alive.items():
            owners = self._owners.get(pid)
            if owners is None:
                owners = self._owners[pid] = self._trace(pid, stat)
            if len(owners) > 1 and any(owner.status is None for owner in owners):
                continue
            unreported = [owner for owner in owners if not owner.reported]
            for owner in unreported:
                by_attempt.setdefault(owner, []).append(pid)
            if not unreported:
                unowned.append(pid)
        return by_attempt, unowned

    def _scan(self) -> tuple[dict[int, linux.ProcessStat], bool]:
        """The orphans that are alive, and whether none of them died during the scan."""
        alive: dict[int, linux.ProcessStat] = {}
        steady = True
        for pid in self._orphan_pids():
            stat = None if self._reap(pid) else linux.read_stat(pid)
            if stat is None or stat.dead:
                steady = False
            else:
                alive[pid] = stat
        return alive, steady

    def _freeze(self) -> dict[int, linux.ProcessStat]:
        """Stop all orphans until a scan shows that each is still alive, and stopped."""
        for _ in range(_FREEZE_ROUNDS_MAX):
            self._stop_unfrozen()
            alive, steady = self._scan()
            if steady and all(pid in self._frozen and stat.halted for pid, stat in alive.items()):
                break
            time.sleep(SETTLE_S)
        return alive

    def _stop_unfrozen(self) -> None:
        """Send SIGSTOP to every orphan that has not had one, the newest first, until no new ones appear.

        Nothing is read about them meanwhile: on a busy machine, processes that fork and exit leave dead ones faster
        than this process could read about them.
        """
        for _ in range(_STOP_ROUNDS_MAX):
            new = [pid for pid in reversed(self._orphan_pids()) if pid not in self._frozen]
            if not new:
                break
            for pid in new:
                send_signal(pid, signal.SIGSTOP)
                self._frozen[pid] = None

    def unfreeze(self) -> None:
        """Continue the orphans that were frozen and not killed."""
        for pid in self._frozen:
            send_signal(pid, signal.SIGCONT)
        self._frozen.clear()

    def _orphan_pids(self) -> list[int]:
        """The spawner's children that are not the leader of an attempt."""
        by_pid = self._by_pid
        pids = []
        for pid in self._children.pids():
            leader = by_pid.get(pid)
            if leader is None or leader.status is not None:
                pids.append(pid)
        return pids

    def _reap(self, pid: int) -> bool:
        try:
            if os.waitpid(pid, os.WNOHANG)[0] != pid:
                return False
        except ChildProcessError:
            return False
        self.reaped(pid)
        return True

    def _trace(self, pid: int, stat: linux.ProcessStat) -> tuple[SpawnedAttempt, ...]:
        owner = self._by_pid.get(stat.session) or self._sessions.get(stat.session)
        if owner is None:
            token = linux.environment_value(pid, TOKEN)
            owner = self._by_token.get(token) if token else None
        if owner is None:
            return tuple(attempt for attempt in self._by_token.values() if attempt.started <= stat.started + _TICK_S)
        if stat.session != owner.pid:
            self._sessions[stat.session] = owner
        return (owner,)
