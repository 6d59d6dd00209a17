"""Starts the process of an attempt, or says in one line why it cannot be started."""

import errno
import os
import resource

from weft.executors.spawner.messages import AsUser

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal

# The node has run out of a resource: another node, or this one later, may well start the same attempt.
_RESOURCE_ERRORS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"


class CannotStart(Exception):
    """`code` is the exit code that a shell would report; `startable` is false if only this node is at fault."""

    def __init__(self, error: str, code: int | None, startable: bool = True) -> None:
        super().__init__(error)
        self.error = error
        self.code = code
        self.startable = startable


class ProcessStarter:
    """Resets what children must not inherit: ignored signals, and the spawner's own limit of open files.

    A start blocks the spawner until the child has loaded its program. A program or directory on a network filesystem
    that hangs blocks everything of that spawner, stops included, until the filesystem responds.
    """

    def __init__(self) -> None:
        # All signals: the C library asks for the handler of each one that is not named here, which is 60 system calls
        # and 8 µs a start.
        self._default = [int(n) for n in signal.valid_signals() if n not in (signal.SIGKILL, signal.SIGSTOP)]
        self._child_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._own_limit = (self._child_limit[1], self._child_limit[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, self._own_limit)
        self._low_fds = [os.dup(0), os.dup(0), os.dup(0)]
        self.user: AsUser | None = None  # the user that attempts run as, if not this process's own

    def start(
        self,
        argv: tuple[bytes, ...],
        search_path: bool,
        env: dict[bytes, bytes],
        cwd: bytes,
        stdin: int | None,
        stdout: int,
        stderr: int,
    ) -> int:
        """Start the process in its own session and return its pid. Without `stdin` it has the spawner's:
        /dev/null."""
        try:
            os.chdir(cwd)
        except OSError as error:
            raise _directory_error(cwd, error) from None
        program = _find(argv[0], env) if search_path else argv[0]
        fds = [0 if stdin is None else stdin, stdout, stderr]
        try:
            if self.user is not None:
                return self._fork(program, argv, env, cwd, fds)
            return self._spawn(program, argv, env, fds)
        except OSError as error:
            raise _start_error(program, error) from None
        except ValueError as error:  # a NUL, or a variable without a name
            raise CannotStart(f"cannot start {_text(program)}: {error}", 126) from None

    def _spawn(self, program: bytes, argv: tuple[bytes, ...], env: dict[bytes, bytes], fds: list[int]) -> int:
        if self._child_limit == self._own_limit:
            return self._posix_spawn(program, argv, env, fds)
        # A child inherits the limit that is in force when it starts. The C library accepts no descriptor above it,
        # so higher ones are copied to the three low descriptors that are reserved for that.
        copied = max(fds) >= self._child_limit[0]
        if copied:
            for fd, low_fd in zip(fds, self._low_fds, strict=True):
                os.dup2(fd, low_fd, inheritable=False)
            fds = self._low_fds
        resource.setrlimit(resource.RLIMIT_NOFILE, self._child_limit)
        try:
            return self._posix_spawn(program, argv, env, fds)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._own_limit)
            if copied:
                for low_fd in self._low_fds:
                    os.dup2(0, low_fd, inheritable=False)

    def _posix_spawn(self, program: bytes, argv: tuple[bytes, ...], env: dict[bytes, bytes], fds: list[int]) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(fds) if fd != target]
        return os.posix_spawn(
            program, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=self._default
        )

    # As another user, which posix_spawn cannot do: by forking this process, which is small and has one thread

    def _fork(
        self, program: bytes, argv: tuple[bytes, ...], env: dict[bytes, bytes], cwd: bytes, fds: list[int]
    ) -> int:
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._exec_as_user(program, argv, env, cwd, fds, write_end)
        os.close(write_end)
        with open(read_end, "rb") as pipe:
            failure = pipe.read()  # empty if exec succeeded: exec closes the write end
        if not failure:
            return pid
        os.waitpid(pid, 0)
        stage, _, rest = failure.partition(b" ")
        if stage == b"value":
            raise ValueError(rest.decode())
        error = OSError(int(rest), os.strerror(int(rest)))
        if stage == b"directory":
            raise _directory_error(cwd, error, self.user)
        if stage == b"user":
            assert self.user is not None
            raise CannotStart(f"cannot become the user {self.user[0]}: {_reason(error)}", None, startable=False)
        raise error

    def _exec_as_user(
        self,
        program: bytes,
        argv: tuple[bytes, ...],
        env: dict[bytes, bytes],
        cwd: bytes,
        fds: list[int],
        failure_fd: int,
    ) -> "NoReturn":
        """In the child. It never returns: a failure is written to `failure_fd`, and the child exits."""
        stage = b"user"
        try:
            assert self.user is not None
            _, user, group, groups = self.user
            os.setsid()
            for number in self._default:
                signal.signal(number, signal.SIG_DFL)
            for target, fd in enumerate(fds):
                os.dup2(fd, target)
            resource.setrlimit(resource.RLIMIT_NOFILE, self._child_limit)
            os.setgroups(groups)
            os.setgid(group)
            os.setuid(user)
            stage = b"directory"
            os.chdir(cwd)
            stage = b"program"
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execve(program, argv, env)
        except OSError as error:
            os.write(failure_fd, b"%s %d" % (stage, error.errno or errno.EIO))
        except ValueError as error:
            os.write(failure_fd, b"value " + str(error).encode())
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


def _start_error(program: bytes, error: OSError) -> CannotStart:
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
    return CannotStart(f"cannot start {name}: {_reason(error)}", 126, error.errno not in _RESOURCE_ERRORS)


def _directory_error(cwd: bytes, error: OSError, user: AsUser | None = None) -> CannotStart:
    as_user = "" if user is None else f" as {user[0]}"
    return CannotStart(f"cannot enter the directory {_text(cwd)}{as_user}: {_reason(error)}", None)


def cannot_create_output(error: OSError) -> CannotStart:
    """The output files could not be created: always the node's fault, never the task's."""
    return CannotStart(f"cannot create the output files: {_reason(error)}", None, startable=False)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
