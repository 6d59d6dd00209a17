"""What a function may have changed of its process, put back for the next one; and what it may have left behind."""

import os
import sys
from contextlib import suppress

from weft.executors import linux

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class Environment:
    """os.environ: the node's variables, and those of the attempt while it runs."""

    def __init__(self) -> None:
        for name in ("WEFT_OUTPUT", "WEFT_CONTEXT"):  # the runner's own, which are of no use to a function
            os.environ.pop(name, None)
        self._base = dict(os.environ)
        self._given: dict[str, str] = {}
        self._expected = _raw()

    def enter(self, variables: dict[str, str]) -> None:
        """Only what differs from the last attempt's is set: most of it is the same."""
        self.restore()
        given = self._given
        if variables != given:
            for name in given:
                if name not in variables:
                    if name in self._base:
                        os.environ[name] = self._base[name]
                    else:
                        del os.environ[name]
            self._given = variables
            for name, value in variables.items():
                if given.get(name) != value:
                    os.environ[name] = value
            self._expected = _raw()

    def restore(self) -> None:
        """Undo what the function itself changed."""
        now = _raw()
        if now == self._expected:
            return
        for name in now:
            if name not in self._expected:
                del os.environb[name]
        for name, value in self._expected.items():
            if now.get(name) != value:
                os.environb[name] = value


def _raw() -> dict[bytes, bytes]:
    # A copy of the inner dictionary takes 1 µs where dict(os.environ) takes 30: this is done twice per attempt.
    inner = getattr(os.environ, "_data", None)
    return dict(inner) if isinstance(inner, dict) else dict(os.environb)


class Directory:
    """The working directory, held open: it can be entered again even if it was renamed."""

    def __init__(self) -> None:
        self.path = os.getcwd()
        # O_PATH: a directory that may be entered, but not listed, is good enough.
        self._fd = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)

    def restore(self) -> None:
        with suppress(OSError):  # somebody took our right to enter it: functions will say so
            os.fchdir(self._fd)


class Sources:
    """The files of modules below the runner's directory. A runner whose files change must make way for a new one."""

    def __init__(self, root: str) -> None:
        self._root = os.path.join(root, "")
        self._modules = 0
        self._files: dict[str, int] = {}

    def changed(self) -> bool:
        for path, modified in self._files.items():
            if _modified_ns(path) != modified:
                return True
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            for module in list(sys.modules.values()):
                file = getattr(module, "__file__", None)
                if isinstance(file, str) and file.startswith(self._root) and file not in self._files:
                    self._files[file] = _modified_ns(file)
        return False


def _modified_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if linux.IS_LINUX else 1)


def processes_left() -> int:
    """Live processes below this one. As it is a subreaper, they cannot hide behind a parent that died."""
    try:
        # One call tells the usual case: no children at all, not even dead ones.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    alive = 0
    for pid in linux.children(os.getpid()):
        stat = linux.read_stat(pid)
        alive += stat is not None and not stat.dead
    return alive
