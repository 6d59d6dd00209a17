"""What this machine has for tasks, where no setting says it: memory, disk space, CPUs, GPUs."""

import os
from pathlib import Path

_MARGIN = 0.1  # of the memory, for everything that is not a task
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int | None:
    """Nine tenths of the machine's memory, or of what its container may use."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    for path in _CGROUP_LIMITS:
        try:
            total = min(total, int(Path(path).read_text()))
        except (OSError, ValueError):
            continue  # no limit, or no such file
    return int(total * (1 - _MARGIN))


def disk_bytes(directory: Path) -> int | None:
    """Free where tasks start, now; what tasks reserve is counted down from this."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def cpu_count() -> int | None:
    return os.cpu_count()


def gpu_count() -> int:
    """Device files of the usual driver; others say it with a setting."""
    return sum(1 for path in Path("/dev").glob("nvidia[0-9]*"))
