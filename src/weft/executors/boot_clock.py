"""The clock of this machine's boot, for the store and the executors: leases, starts and ends are measured with it.

Spawners import this module, so it may import nothing but the standard library, and little of that.
"""

import time

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since boot, time asleep included. macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC does the same."""
    return time.clock_gettime(_CLOCK)


def boot_id() -> str:
    """Another one after each boot."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return "unknown"
