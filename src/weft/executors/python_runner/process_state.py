"""The state of the runner process that functions may change: restored after each call, or checked for leftovers."""

import os
import sys
from contextlib import suppress

from weft.executors import linux

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class Environment:
    """os.environ: the node's variables, and those of the attempt while its function runs."""

    def __init__(self) -> None:
        for name in ("WEFT_OUTPUT", "WEFT_CONTEXT"):  # the runner's own, not the attempt's
            os.environ.pop(name, None)
        self._base = dict(os.environ)
        self._entered: dict[str, str] = {}
        self._expected = _raw()

    def enter(self, variables: dict[str, str]) -> None:
        """Set only the variables that differ from the last attempt's: most are the same."""
        self.restore()
        last = self._entered
        if variables != last:
            for name in last:
                if name not in variables:
                    if name in self._base:
                        os.environ[name] = self._base[name]
                    else:
                        del os.environ[name]
            self._entered = variables
            for name, value in variables.items():
                if last.get(name) != value:
                    os.environ[name] = value
            self._expected = _raw()

    def restore(self) -> None:
        """Undo the changes that the function made itself."""
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


class WorkingDirectory:
    """Held open: it can be entered again even if it was renamed."""

    def __init__(self) -> None:
        self.path = os.getcwd()
        # O_PATH: works also for a directory that may be entered, but not listed.
        self._fd = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)

    def restore(self) -> None:
        with suppress(OSError):  # no longer permitted: functions will fail with that error
            os.fchdir(self._fd)


class ModuleFiles:
    """The files of modules below the runner's directory. A runner whose files have changed must be replaced."""

    def __init__(self, root: str) -> None:
        self._root = os.path.join(root, "")
        self._module_count = 0
        self._modified: dict[str, int] = {}

    def changed(self) -> bool:
        for path, modified in self._modified.items():
            if _modified_ns(path) != modified:
                return True
        if len(sys.modules) != self._module_count:
            self._module_count = len(sys.modules)
            for module in list(sys.modules.values()):
                file = getattr(module, "__file__", None)
                if isinstance(file, str) and file.startswith(self._root) and file not in self._modified:
                    self._modified[file] = _modified_ns(file)
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
    """The number of live child processes. As the runner is a subreaper, orphans of a dead parent are children,
    too."""
    try:
        # One call recognises the common case: no children at all, not even zombies.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    alive = 0
    for pid in linux.children(os.getpid()):
        stat = linux.read_stat(pid)
        alive += stat is not None and not stat.dead
    return alive
