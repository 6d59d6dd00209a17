"""Calls that need Linux, each with a plain fallback for other systems.

All guarantees about processes hold on Linux and are tested there. What is weaker elsewhere (macOS):

* no subreaper: a descendant whose parent died belongs to init and is found only through its process group;
* no /proc: processes are listed with `ps`, which costs milliseconds, and environments cannot be read, so
  that an orphan cannot be traced to its attempt by its token;
* no hole punching: an attempt whose output passes the cap is stopped instead of losing its middle;
* no boot clock: see boot_clock.py.

The spawner imports this module, so it may import little, and nothing that is heavy.
"""

import ctypes
import errno
import fcntl
import os
import sys

from weft.executors.boot_clock import boottime as boottime

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # without its enums: they take as long to import as the rest of this module

IS_LINUX = sys.platform.startswith("linux")

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_FALLOC_FL_KEEP_SIZE = 0x01
_FALLOC_FL_PUNCH_HOLE = 0x02
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_TMPFILE: int = getattr(os, "O_TMPFILE", 0)
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)
if IS_LINUX:
    _libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def become_subreaper() -> bool:
    """Make orphaned descendants children of this process. It survives exec but not fork."""
    return IS_LINUX and _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def deny_inspection() -> bool:
    """Keep other processes of this user, such as tasks, from reading this one's environment and memory and from
    tracing it (root still can). There are no core dumps then, and of /proc/self some files are root's. It survives
    fork but not exec."""
    return IS_LINUX and _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0


def punch_hole(fd: int, offset: int, length: int) -> None:
    """Give the blocks of a range back to the filesystem; the range then reads as zeros."""
    if not IS_LINUX:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    if _libc.fallocate(fd, _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE, offset, length) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def open_nameless(directory: bytes, mode: int) -> int | None:
    """An append-only file that has no name yet, or None where the filesystem does not support that."""
    if not _TMPFILE:
        return None
    try:
        return os.open(directory, _TMPFILE | _APPENDING, mode)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return None
        raise


def nameless_memory() -> int:
    """A file in memory, without a name, to be shared by its descriptor."""
    if IS_LINUX:
        return os.memfd_create("weft", os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class OwnDescriptors:
    """Reopens files of this process. The open directory saves the path lookup through /proc each time."""

    def __init__(self) -> None:
        self._fd = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if IS_LINUX else -1

    def reopen(self, fd: int) -> int:
        """The same file, append-only, under an open file description of its own."""
        return os.open(str(fd), _APPENDING, dir_fd=self._fd)


def is_sole_opener(fd: int) -> bool:
    """True if no other open file description in the whole system can write to this file."""
    try:
        # The kernel grants a write lease only to the sole opener. It is released at once.
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return False
    return True


def name_file(fd: int, path: bytes) -> None:
    """Give a nameless file its name."""
    # With a directory descriptor CPython calls linkat with AT_SYMLINK_FOLLOW, which this needs; without one
    # it calls plain link, which would link the symlink itself. For an absolute source the descriptor is unused.
    os.link(b"/proc/self/fd/%d" % fd, path, src_dir_fd=fd, follow_symlinks=True)


def child_signal_fd() -> int:
    """A descriptor that becomes readable when a child ended. Read all of it, then reap.

    On Linux the signal is blocked and taken from a signalfd, so that it interrupts no system call and runs no
    Python code; elsewhere a handler writes to a pipe. Children must be started with an empty signal mask.
    """
    if not IS_LINUX:
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return read
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    mask = (ctypes.c_ulong * (1024 // (8 * ctypes.sizeof(ctypes.c_ulong))))()
    mask[0] = 1 << (signal.SIGCHLD - 1)
    fd = int(_libc.signalfd(-1, mask, os.O_NONBLOCK | os.O_CLOEXEC))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return fd


def watch_process(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends."""
    try:
        return os.pidfd_open(pid) if IS_LINUX else None
    except OSError:
        return None


class ProcessStat:
    __slots__ = ("group", "parent", "session", "started", "state")

    def __init__(self, state: str, parent: int, group: int, session: int, started: float) -> None:
        self.state = state  # R, S, D, T, t, Z, X …
        self.parent = parent
        self.group = group
        self.session = session
        self.started = started  # CLOCK_BOOTTIME seconds, to one tick

    @property
    def dead(self) -> bool:
        return self.state in ("Z", "X", "x")

    @property
    def halted(self) -> bool:
        """It runs no code at the moment and cannot fork until it is continued."""
        return self.state in ("T", "t", "D", "Z", "X", "x")


_PROC_BYTES = 1 << 16
_ONE_PAGE = 3000  # a shorter read of a /proc file is complete; a longer one may be cut at a page


def _open_proc(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _read(path: str) -> bytes:
    fd = _open_proc(path)
    try:
        data = os.read(fd, 4096)
        return data if len(data) < _ONE_PAGE else _read_rest(fd, data)
    finally:
        os.close(fd)


def _read_rest(fd: int, data: bytes) -> bytes:
    while chunk := os.pread(fd, _PROC_BYTES, len(data)):
        data += chunk
    return data


def read_stat(pid: int) -> ProcessStat | None:
    """The state of a process from the kernel; None if it does not exist."""
    if not IS_LINUX:
        return _process_table().get(pid)
    try:
        raw = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    fields = raw[raw.rindex(b")") + 2 :].split(b" ", 20)
    return ProcessStat(
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]) / _TICKS_PER_S,
    )


def environment_value(pid: int, name: bytes) -> bytes | None:
    """A variable of the environment that a process was started with; later changes do not count."""
    try:
        raw = _read(f"/proc/{pid}/environ")
    except OSError:
        return None
    prefix = name + b"="
    for entry in raw.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :]
    return None


class OwnChildren:
    """The children of this process, which must have one thread only.

    The kernel calls its list unreliable while children go away during the read. Here only the caller itself
    can reap them, and new ones are appended, so one read misses no child that existed before it.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        # Kept open: that saves 6 µs per batch of ends.
        self._fd = _open_proc(f"/proc/self/task/{self._pid}/children") if _HAS_CHILDREN_FILES else -1

    def pids(self) -> list[int]:
        """Zombies included."""
        if self._fd < 0:
            return [pid for pid, stat in _process_table().items() if stat.parent == self._pid]
        data = os.pread(self._fd, _PROC_BYTES, 0)
        if len(data) >= _ONE_PAGE:
            data = _read_rest(self._fd, data)
        return [int(pid) for pid in data.split()]


def descendants(roots: list[int]) -> list[int]:
    """The roots and all processes below them, parents before children."""
    seen = dict.fromkeys(roots)
    if _HAS_CHILDREN_FILES:
        queue = list(roots)
        for pid in queue:
            for child in children(pid):
                if child not in seen:
                    seen[child] = None
                    queue.append(child)
        return queue
    table = _process_table()
    below: dict[int, list[int]] = {}
    for pid, stat in table.items():
        below.setdefault(stat.parent, []).append(pid)
    queue = list(roots)
    for pid in queue:
        for child in below.get(pid, ()):
            if child not in seen:
                seen[child] = None
                queue.append(child)
    return queue


def children(pid: int) -> list[int]:
    """The children of all threads of a process."""
    if not _HAS_CHILDREN_FILES:
        return [child for child, stat in _process_table().items() if stat.parent == pid]
    pids: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return pids
    for thread in threads:
        try:
            pids += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
        except OSError:
            continue
    return pids


def _process_table() -> dict[int, ProcessStat]:
    """All processes of the machine: slow, for kernels without lists of children."""
    table: dict[int, ProcessStat] = {}
    if IS_LINUX:
        for entry in os.listdir("/proc"):
            if entry.isdigit() and (stat := read_stat(int(entry))):
                table[int(entry)] = stat
        return table
    import subprocess

    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,pgid=,stat="], capture_output=True, check=False)
    for line in listing.stdout.decode(errors="replace").splitlines():
        pid, parent, group, state = line.split(None, 3)
        table[int(pid)] = ProcessStat(state[0], int(parent), int(group), int(group), 0.0)
    return table


_HAS_CHILDREN_FILES = IS_LINUX and os.path.exists(f"/proc/self/task/{os.getpid()}/children")
