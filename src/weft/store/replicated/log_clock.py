"""The log's time: that of the last applied entry, and what has passed here since it was that time, by CLOCK_BOOTTIME.

An entry carries the time that its origin works out like this, so log time never runs faster than real time, and a
wall clock that is wrong changes nothing. What wall clocks say moves it forward only where a majority of the nodes
that are there agree (time_vote.py): it stands still while all nodes are down.

An entry is applied later than it was made. The clock does not go back by that: counted from each entry's arrival,
what passes on its way is lost, and under load an entry is always on its way (once measured, four threads that append
to etcd: 3.2 s of log time in 4 s, and 4.0 s since).
"""

import time

from weft.executors.boot_clock import boot_id, boottime


class LogClock:
    def __init__(self, time_ms: int = 0, at_ms: int | None = None, boot: str = "") -> None:
        """`time_ms` is the last entry's. `at_ms`: when it was that time on this machine, in ms of the boot with this
        id."""
        self.time_ms = time_ms
        self._at_ms = at_ms if at_ms is not None and boot == boot_id() else self.here_ms()

    def here_ms(self) -> int:
        return int(boottime() * 1000)

    def civil_ms(self) -> int:
        return civil_ms()

    def now(self) -> int:
        if not self.time_ms:
            return self.civil_ms()  # nothing was applied yet
        return self.time_ms + max(0, self.here_ms() - self._at_ms)

    def applied(self, time_ms: int) -> None:
        self.time_ms, self._at_ms = time_ms, self._since(time_ms)

    def mark(self, time_ms: int) -> tuple[int, int, str]:
        """What another process of this machine needs to make the same clock."""
        return time_ms, self._since(time_ms), boot_id()

    def _since(self, time_ms: int) -> int:
        ahead = self.now() - time_ms if self.time_ms else 0
        return self.here_ms() - max(0, ahead)


def civil_ms() -> int:
    return int(time.time() * 1000)
