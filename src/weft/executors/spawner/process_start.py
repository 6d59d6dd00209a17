"""Starting one process for an attempt, and saying in one line why that did not work."""

import errno
import os
import resource
import signal
from typing import NoReturn

from weft.executors.spawner.messages import AsUser

# The node itself is short of something: another node, or this one later, may well start the same attempt.
_NODES_FAULT = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"


class CannotStart(Exception):
    def __init__(self, error: str, code: int | None, startable: bool = True) -> None:
        super().__init__(error)
        self.error = error
        self.code = code
        self.startable = startable


class Starter:
    """Knows what children must not inherit: ignored signals, and the spawner's own limit of open files.

    A start holds the spawner up until the child has loaded its program. A program or directory on a network
    filesystem that hangs holds up everything of that spawner, stops included, until it goes on.
    """

    def __init__(self) -> None:
        self._reset = [n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN]
        self._limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._raised = (self._limit[1], self._limit[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, self._raised)
        self._low = [os.dup(0), os.dup(0), os.dup(0)]
        self.user: AsUser | None = None  # who attempts run as, if not as this process does

    def start(
        self,
        argv: tuple[bytes, ...],
        search: bool,
        env: dict[bytes, bytes],
        cwd: bytes,
        channel: int | None,
        out: int,
        err: int,
    ) -> int:
        """Start the process in its own session and return its pid. Its standard input is `channel`, or the spawner's:
        /dev/null."""
        try:
            os.chdir(cwd)
        except OSError as error:
            raise _no_directory(cwd, error) from None
        program = _find(argv[0], env) if search else argv[0]
        fds = [0 if channel is None else channel, out, err]
        try:
            if self.user is not None:
                return self._fork(program, argv, env, cwd, fds)
            return self._spawn(program, argv, env, fds)
        except OSError as error:
            raise _refusal(program, error) from None
        except ValueError as error:  # a NUL, or a variable without a name
            raise CannotStart(f"cannot start {_text(program)}: {error}", 126) from None

    def _spawn(self, program: bytes, argv: tuple[bytes, ...], env: dict[bytes, bytes], fds: list[int]) -> int:
        if self._limit == self._raised:
            return self._spawn_here(program, argv, env, fds)
        # A child inherits the limit of the moment. The C library takes no descriptor above it, so high ones
        # are brought down to the three that were set aside for that.
        low = max(fds) >= self._limit[0]
        if low:
            for fd, place in zip(fds, self._low, strict=True):
                os.dup2(fd, place, inheritable=False)
            fds = self._low
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limit)
        try:
            return self._spawn_here(program, argv, env, fds)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._raised)
            if low:
                for place in self._low:
                    os.dup2(0, place, inheritable=False)

    def _spawn_here(self, program: bytes, argv: tuple[bytes, ...], env: dict[bytes, bytes], fds: list[int]) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(fds) if fd != target]
        return os.posix_spawn(
            program, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=self._reset
        )

    # As another user, which posix_spawn cannot do: a fork of this process, which is small and has one thread

    def _fork(
        self, program: bytes, argv: tuple[bytes, ...], env: dict[bytes, bytes], cwd: bytes, fds: list[int]
    ) -> int:
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become(program, argv, env, cwd, fds, theirs)
        os.close(theirs)
        with open(ours, "rb") as pipe:
            failure = pipe.read()  # nothing, once it has become its program
        if not failure:
            return pid
        os.waitpid(pid, 0)
        stage, _, rest = failure.partition(b" ")
        if stage == b"value":
            raise ValueError(rest.decode())
        error = OSError(int(rest), os.strerror(int(rest)))
        if stage == b"directory":
            raise _no_directory(cwd, error, self.user)
        if stage == b"user":
            assert self.user is not None
            raise CannotStart(f"cannot become the user {self.user[0]}: {_reason(error)}", None, startable=False)
        raise error

    def _become(
        self,
        program: bytes,
        argv: tuple[bytes, ...],
        env: dict[bytes, bytes],
        cwd: bytes,
        fds: list[int],
        failed: int,
    ) -> NoReturn:
        """In the child. Whatever happens, it does not come back."""
        stage = b"user"
        try:
            assert self.user is not None
            _, user, group, groups = self.user
            os.setsid()
            for number in self._reset:
                signal.signal(number, signal.SIG_DFL)
            for target, fd in enumerate(fds):
                os.dup2(fd, target)
            resource.setrlimit(resource.RLIMIT_NOFILE, self._limit)
            os.setgroups(groups)
            os.setgid(group)
            os.setuid(user)
            stage = b"directory"
            os.chdir(cwd)
            stage = b"program"
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execve(program, argv, env)
        except OSError as error:
            os.write(failed, b"%s %d" % (stage, error.errno or errno.EIO))
        except ValueError as error:
            os.write(failed, b"value " + str(error).encode())
        finally:
            os._exit(127)


def _find(name: bytes, env: dict[bytes, bytes]) -> bytes:
    """Look a command up as execvp does, but in the attempt's own PATH."""
    if b"/" in name:
        return name
    not_executable = None
    for directory in env.get(b"PATH", _DEFAULT_PATH).split(b":"):
        path = (directory or b".") + b"/" + name
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
        if os.path.isfile(path):
            not_executable = path
    if not_executable:
        raise CannotStart(f"not executable: {_text(not_executable)}", 126)
    raise CannotStart(f"command not found: {_text(name)}", 127)


def _refusal(program: bytes, error: OSError) -> CannotStart:
    name = _text(program)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR if os.path.lexists(program):
            return CannotStart(f"cannot run {name}: the interpreter that it names is missing", 127)
        case errno.ENOENT | errno.ENOTDIR:
            return CannotStart(f"command not found: {name}", 127)
        case errno.ENOEXEC:
            return CannotStart(f"cannot run {name}: neither a program nor a script with a #! line", 126)
        case errno.EACCES:
            return CannotStart(f"not executable: {name}", 126)
        case errno.E2BIG:
            return CannotStart(f"cannot run {name}: a value or all of the environment is too long", 126)
    return CannotStart(f"cannot start {name}: {_reason(error)}", 126, error.errno not in _NODES_FAULT)


def _no_directory(cwd: bytes, error: OSError, user: AsUser | None = None) -> CannotStart:
    who = "" if user is None else f" as {user[0]}"
    return CannotStart(f"cannot enter the directory {_text(cwd)}{who}: {_reason(error)}", None)


def cannot_store(error: OSError) -> CannotStart:
    """The output files could not be made: always the node's trouble, never the task's."""
    return CannotStart(f"cannot make the output files: {_reason(error)}", None, startable=False)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
