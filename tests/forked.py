"""`weft` as a process of its own that does not wait for imports: it is forked from one that has them already.

Hundreds of tests call the command, and most of what a call costs is the start of Python and its imports, 0.3 s of
processor each. What is forked has the directory, the environment and the streams that it is given, and runs the
module `weft` as `python -m weft` does. Tests about starting, signals and terminals start Python itself.

    python -m tests.forked         with a socket as standard input: each message is a call, with its descriptors
"""

import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MESSAGE_MAX = 1 << 20
_STARTING = threading.Lock()
_origin: tuple[int, socket.socket, "subprocess.Popen[bytes]"] | None = None


def run(
    words: Sequence[str],
    cwd: Path,
    env: dict[str, str],
    input: bytes | None = None,
    timeout: float = 60,
    patience: float | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """Like `subprocess.run` of `python -m weft` with its output captured. `patience`: a ^C comes after so many
    seconds, and again every second until it has ended."""
    if _read_at_start(env) != _read_at_start(_origin_env()):
        return subprocess.run(
            [sys.executable, "-m", "weft", *words], cwd=cwd, env=env, input=input, timeout=timeout,
            capture_output=True, check=False,
        )  # fmt: skip
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        if input is not None:
            files[0].write(input)
            files[0].seek(0)
        shown, telling = os.pipe()
        heard = stack.enter_context(os.fdopen(shown, "rb", buffering=0))
        call = json.dumps([list(words), str(cwd), env]).encode()
        try:
            _send(call, [*(file.fileno() for file in files), telling])
        finally:
            os.close(telling)
        pid = int(heard.readline())
        until = time.monotonic() + timeout
        while not select.select([heard], [], [], timeout if patience is None else patience)[0]:
            if patience is None or time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(["weft", *words], timeout, _whole(files[1]), _whole(files[2]))
            os.kill(pid, signal.SIGINT)
            patience = 1.0
        code = int(heard.readline())
        out, err = (_whole(file) for file in files[1:])
        return subprocess.CompletedProcess(["weft", *words], code, out, err)


class ForkedProcess:
    """What tests use of a Popen with a pipe for its output. Its parent is another process, which reports its end."""

    def __init__(self, words: Sequence[str], cwd: Path, env: dict[str, str], errors: Any) -> None:
        self.args = ["weft", *words]
        self.returncode: int | None = None
        shown, telling = os.pipe()
        self._heard = os.fdopen(shown, "rb", buffering=0)
        read, write = os.pipe()
        self.stdout = os.fdopen(read, encoding="utf-8")
        call = json.dumps([list(words), str(cwd), env]).encode()
        with open(os.devnull, "rb") as nothing:
            try:
                _send(call, [nothing.fileno(), write, errors.fileno(), telling])
            finally:
                os.close(write)
                os.close(telling)
        self.pid = int(self._heard.readline())

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._heard], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._heard.readline())
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Read by a thread: it may be more than fits into the pipe."""
        parts: list[str] = []
        reading = threading.Thread(target=lambda: parts.append(self.stdout.read()), daemon=True)
        reading.start()
        reading.join(timeout)
        if reading.is_alive():
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        return parts[0], None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> "ForkedProcess":
        return self

    def __exit__(self, *error: object) -> None:
        self.wait()
        self.stdout.close()
        self._heard.close()


Process = ForkedProcess | subprocess.Popen[str]


def start(words: Sequence[str], cwd: Path, env: dict[str, str], errors: Any) -> Process:
    """`python -m weft` with a pipe for its output; `errors` is a file."""
    if _read_at_start(env) == _read_at_start(_origin_env()):
        return ForkedProcess(words, cwd, env, errors)
    return subprocess.Popen(
        [sys.executable, "-m", "weft", *words], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=errors, text=True
    )


def _origin_env() -> dict[str, str]:
    return {**os.environ, "PYTHONUTF8": "1"}


def _read_at_start(env: dict[str, str]) -> dict[str, str]:
    """What Python, and the places to crash at, read once."""
    return {name: value for name, value in env.items() if name.startswith(("PYTHON", "WEFT_CRASH"))}


def _whole(file: Any) -> bytes:
    file.seek(0)
    found: bytes = file.read()
    return found


def _send(call: bytes, descriptors: list[int]) -> None:
    with _STARTING:
        socket.send_fds(_line(), [call], descriptors)


def _line() -> socket.socket:
    """To the origin of all calls of this process, which ends with it."""
    global _origin
    if _origin is None or _origin[0] != os.getpid():
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_MAX)
        root = str(Path(__file__).parents[1])
        with theirs:
            command = [sys.executable, "-m", "tests.forked"]
            process = subprocess.Popen(command, stdin=theirs.fileno(), cwd=root, env=_origin_env())
        _origin = (os.getpid(), ours, process)
        atexit.register(_end, ours, process)
    return _origin[1]


def _end(line: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    line.close()
    if _origin is not None and _origin[0] == os.getpid():
        process.wait()


# In the origin


def _main() -> None:
    calls = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _import_all()
    _prepare_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(calls, MESSAGE_MAX, 4)
        if not message:
            return
        if os.fork() == 0:
            calls.close()
            _look_after(json.loads(message), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _import_all() -> None:
    from importlib import import_module

    from weft.cli.command_table import COMMANDS

    for command in COMMANDS:
        import_module(command.target[0])
    for name in (
        "weft.cli.main",
        "weft.node.node",
        "weft.local_node.factory",
        "weft.client.remote",
        "weft.store.sqlite.driver",
        "yaml",
        "encodings.utf_8_sig",
    ):
        import_module(name)
    sys.modules.pop("weft.__main__", None)


def _prepare_all() -> None:
    """What a process works out at its first use of it: half of what a short command costs."""
    from weft.authoring.load import load_text
    from weft.cli.parser import make_parser
    from weft.operations.table import OPERATIONS
    from weft.store.postgres.statements import statements
    from weft.store.queries import queries
    from weft.store.sqlite.statements import SQL

    make_parser()
    assert all(operation.fields is not None for operation in OPERATIONS)
    assert all(SQL[name] for name in queries("sqlite"))
    assert statements()
    assert load_text("tasks: {a: 'true', b: {needs: a, run: 'echo ${{ inputs.c }}'}}\ninputs: {c: string}\n").workflow


def _look_after(call: list[Any], descriptors: list[int]) -> None:
    """Says the call's process id, and how it ended, on the last descriptor."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, telling = descriptors
    pid = os.fork()
    if pid == 0:
        os.close(telling)
        words, cwd, env = call
        _become(words, cwd, env, streams)
    for stream in streams:
        os.close(stream)
    os.write(telling, b"%d\n" % pid)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(telling, b"%d\n" % status)
    os._exit(0)


def _become(words: list[str], cwd: str, env: dict[str, str], streams: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[0] = cwd
    sys.argv = ["weft", *words]
    code: Any = 1
    try:
        runpy.run_module("weft", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    _main()
