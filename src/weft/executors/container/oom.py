"""Was a process of a container killed because its memory was used up? The cgroup counts such kills; the engine's own
word (`OOMKilled`) is missing where it does not watch this kind of cgroup, and exit code 137 says only SIGKILL.

The cgroup goes away soon after the container's end: so it is located while the container runs, and read as soon as
the output has ended.
"""

import os
from contextlib import suppress

_ROOT = "/sys/fs/cgroup"


def locate(pid: int) -> str | None:
    """The file that counts the kills in the cgroup of this process; None: the process is gone, or not on this
    machine."""
    try:
        with open(f"/proc/{pid}/cgroup") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    unified = None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if path == "/":
            continue  # of the whole machine: not the container's own
        if "memory" in controllers.split(","):
            return f"{_ROOT}/memory{path}/memory.oom_control"
        if controllers == "":
            unified = f"{_ROOT}{path}/memory.events"
    return unified


def kills(path: str | None) -> int:
    """How many processes were killed for their cgroup's memory; 0 if that cannot be read any more."""
    if path is None:
        return 0
    with suppress(OSError, ValueError), open(path) as file:
        for line in file:
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def logged(container_id: str) -> bool:
    """The kernel's log names the cgroup, and so the container, of each process that it killed for want of memory. Not
    every user may read it."""
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        while container_id:
            try:
                record = os.read(fd, 8192)
            except BrokenPipeError:
                continue  # the oldest records were just overwritten
            if b"oom-kill:" in record and container_id.encode() in record:
                return True
    except OSError:
        pass  # there are no more
    finally:
        os.close(fd)
    return False
