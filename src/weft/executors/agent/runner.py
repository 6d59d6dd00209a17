"""The process in which an attempt of an agent runs: it starts the agent's program, shows what that says, counts what
it spends, and sends the end to the node.

It is the leader of the attempt's processes, and a child of a spawner: a stop, a timeout, a lost lease and a killed
node end it with all that the agent has started. It answers SIGTERM by waiting for the program, which gets the signal
too; who does not end is killed by the spawner.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from weft.executors.agent.answer import AnswerSchema, SchemaMismatch, UnusableSchema, parse_answer_json
from weft.executors.agent.command_line import CannotBuild, CommandLine, build_command
from weft.executors.agent.messages import AgentEnded, AgentRequest, RunnerMessage, SessionKnown, SpentSoFar
from weft.executors.agent.stream import ClaudeReader, OutputReader, TextReader
from weft.executors.agent.usage import SpendingLimit
from weft.executors.masking import StreamMasker, secret_forms

_READ_BYTES: Final = 1 << 16
_LINE_MAX: Final = 32 << 20  # a longer one is shown as it comes, and not understood
_REQUEST_MAX: Final = 1 << 30
_END_S: Final = 10.0  # for a program that has given its answer to end; some wait for what they have started
_KILL_S: Final = 5.0  # from SIGTERM to SIGKILL, for one that is over its budget
_LAST_WORDS_BYTES: Final = 4096
_NO_PROGRAM: Final = 127


def main() -> int:
    node = socket.socket(fileno=os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))  # not ignored: children would inherit that
    request, (messages, conversation) = _receive(node)
    ended, code = AgentRun(request, node, messages, conversation, stops).run()
    _send(node, ended)
    node.close()
    return code


def _receive(node: socket.socket) -> tuple[AgentRequest, tuple[int, int]]:
    data, fds, _, _ = socket.recv_fds(node, 1, 2)
    if not data:
        sys.exit("the node is gone")
    for fd in fds:
        os.set_inheritable(fd, False)
    line = bytearray()
    while not line.endswith(b"\n"):
        data = node.recv(_READ_BYTES)
        if not data or len(line) > _REQUEST_MAX:
            sys.exit("the node is gone")
        line += data
    return msgspec.json.decode(line, type=AgentRequest), (fds[0], fds[1])


def _send(node: socket.socket, message: RunnerMessage) -> None:
    with suppress(OSError):  # nobody is there any more: the spawner sees to that
        node.sendall(msgspec.json.encode(message) + b"\n")


class AgentRun:
    """One attempt: its program, perhaps twice, if that does not know the conversation any more."""

    def __init__(
        self, request: AgentRequest, node: socket.socket, messages: int, conversation: int, stops: list[int]
    ) -> None:
        """`stops` grows with each SIGTERM that came."""
        self._request = request
        self._node = node
        self._stops = stops
        self._kept = _KeptMessages(messages, request.output_max, request.secrets)
        self._conversation = conversation
        self._limit = SpendingLimit(request.usd, request.tokens)
        self._session: str | None = None

    def run(self) -> tuple[AgentEnded, int]:
        """How it ended, and the exit code of this process."""
        schema = self._request.agent.get("output_schema")
        try:
            validator = None if schema is None else AnswerSchema(schema)
        except UnusableSchema as error:
            return AgentEnded(error=str(error), retryable=False), 1
        session = self._request.session
        ended, code, unknown = self._once(session)
        if session is not None and unknown and not self._stops:
            _show("· the program knows no such session any more: it starts anew")
            ended, code, _ = self._once(None)
        self._kept.close()
        if len(ended.text) > self._request.answer_max:
            size, most = len(ended.text), self._request.answer_max
            ended.text, ended.error = "", f"its answer has {size:,} characters, more than the {most:,} that it may"
        if ended.error is None and validator is not None:
            _validate(ended, validator)
        return ended, code or (1 if ended.error is not None else 0)

    def _once(self, session: str | None) -> tuple[AgentEnded, int, bool]:
        """How it ended, its exit code, and whether it did not know the session."""
        try:
            line = build_command(self._request, session, self._conversation)
        except CannotBuild as error:
            return AgentEnded(error=str(error), retryable=False), 1, False
        reader: OutputReader
        if line.format == "claude":
            reader = ClaudeReader(self._request.agent.get("prices"))
        else:
            reader = TextReader(self._request.answer_max)
        try:
            program = _start(line, self._request.secrets)
        except OSError as error:
            fix = "" if "command" in self._request.agent else "; install it on this node, or set agent_command"
            message = f"cannot start {line.argv[0]!r}: {error.strerror}{fix}"
            return AgentEnded(error=message), _NO_PROGRAM, False
        finally:
            line.close()
        if self._stops:
            program.terminate()  # the signal came before the program was there to get it
        watch = _Watch(program, self._request.agent.get("idle_s") if "api" not in self._request.agent else None)
        for chunk in watch.lines():
            self._kept.write(chunk + b"\n")
            for text in reader.read(chunk):
                _show(text)
            self._news(reader, watch)
        code = watch.exit_code
        if watch.stopped_for is not None:
            cause, message = watch.stopped_for
            ended = reader.ended(0, "")
            ended.error, ended.cause, ended.retryable = message, cause, cause != "budget"
            return ended, code, False
        ended = reader.ended(0 if reader.over and watch.ended_late else code, watch.last_words)
        if ended.error is None and (over := self._limit.exceeded(reader.tally)) is not None:
            ended.warning = f"{over}; its answer came with that, and is kept"
            _show(f"· warning: {ended.warning}")
        unknown = isinstance(reader, ClaudeReader) and (
            reader.unknown_session or (reader.session is None and "No conversation found" in watch.last_words)
        )
        return ended, 0 if watch.ended_late else code, unknown

    def _news(self, reader: OutputReader, watch: "_Watch") -> None:
        if reader.session is not None and reader.session != self._session:
            self._session = reader.session
            _send(self._node, SessionKnown(reader.session))
        tally = reader.tally
        if tally.tokens or tally.usd:
            _send(self._node, SpentSoFar(tally.usd, tally.tokens))
        if reader.over:
            watch.expect_end()
        elif (over := self._limit.exceeded(tally)) is not None:
            watch.stop("budget", over)


def _validate(ended: AgentEnded, schema: AnswerSchema) -> None:
    try:
        value = parse_answer_json(ended.text) if ended.value is msgspec.UNSET else ended.value
        schema.check(value)
    except SchemaMismatch as error:
        ended.error, ended.cause = str(error), "schema"
    else:
        ended.value = value


def _start(line: CommandLine, secrets: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        line.argv,
        stdin=line.stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **secrets},
        pass_fds=line.inherited,
    )


def _show(text: str) -> None:
    data = text.encode("utf-8", "surrogateescape") + b"\n"
    with suppress(OSError):
        while data:
            data = data[os.write(1, data) :]


class _Watch:
    """The program's output until it has ended. Processes that it has left may keep its pipes open: they are not
    waited for, the spawner ends them."""

    def __init__(self, program: "subprocess.Popen[bytes]", idle_s: float | None) -> None:
        assert program.stdout is not None
        assert program.stderr is not None
        self._program = program
        self._out, self._err = program.stdout.fileno(), program.stderr.fileno()
        self._idle_s = idle_s
        self._heard = time.monotonic()
        self._kill_at: float | None = None
        self._end_by: float | None = None
        self._partial = bytearray()
        self._last_words = bytearray()
        self.stopped_for: tuple[str, str] | None = None  # cause and error
        self.ended_late = False  # it had to be ended after its answer
        self.exit_code = 0

    @property
    def last_words(self) -> str:
        return self._last_words.decode("utf-8", "replace")

    def expect_end(self) -> None:
        if self._end_by is None:
            self._end_by = time.monotonic() + _END_S

    def stop(self, cause: str, error: str) -> None:
        if self.stopped_for is None:
            self.stopped_for = (cause, error)
            _show(f"· stopped: {error}")
            self._terminate()

    def _terminate(self) -> None:
        self._program.terminate()
        self._kill_at = time.monotonic() + _KILL_S

    def lines(self) -> Iterator[bytes]:
        poll = select.poll()
        for fd in (self._out, self._err):
            os.set_blocking(fd, False)
            poll.register(fd, select.POLLIN)
        pidfd = os.pidfd_open(self._program.pid) if hasattr(os, "pidfd_open") else None
        if pidfd is not None:
            poll.register(pidfd, select.POLLIN)
        while self._program.poll() is None:
            for fd, _ in poll.poll(200 if pidfd is None else self._wait_ms()):
                if fd == self._out:
                    yield from self._read_lines(poll)
                elif fd == self._err:
                    self._read_errors(poll)
            self._check_time()
        for _ in range(1024):  # what it wrote last; a process that it left may go on for ever
            before = self._heard
            yield from self._read_lines(poll)
            self._read_errors(poll)
            if self._heard == before:
                break
        if self._partial:
            yield bytes(self._partial)
        code = self._program.returncode
        self.exit_code = 128 - code if code < 0 else code
        for pipe in (self._program.stdout, self._program.stderr):
            if pipe is not None:
                pipe.close()
        if pidfd is not None:
            os.close(pidfd)

    def _wait_ms(self) -> float | None:
        idle = None if self._idle_s is None or self._kill_at is not None else self._heard + self._idle_s
        times = [moment for moment in (self._kill_at, self._end_by, idle) if moment is not None]
        return max(0.0, (min(times) - time.monotonic()) * 1000 + 1) if times else None

    def _check_time(self) -> None:
        now = time.monotonic()
        if self._kill_at is not None:
            if now >= self._kill_at:
                self._program.kill()
                self._kill_at = now + _KILL_S
        elif self._end_by is not None and now >= self._end_by:
            self.ended_late = True
            self._terminate()
        elif self._idle_s is not None and now >= self._heard + self._idle_s:
            self.stop("idle", f"nothing came from it for {self._idle_s:g} s")

    def _read_lines(self, poll: "select.poll") -> Iterator[bytes]:
        data = self._read(self._out, poll)
        if not data:
            return
        first, *lines = data.split(b"\n")
        self._partial += first
        for line in lines:
            yield bytes(self._partial)
            self._partial = bytearray(line)
        if len(self._partial) > _LINE_MAX:
            yield bytes(self._partial)
            self._partial = bytearray()

    def _read_errors(self, poll: "select.poll") -> None:
        data = self._read(self._err, poll)
        rest = data
        with suppress(OSError):
            while rest:
                rest = rest[os.write(2, rest) :]
        self._last_words = (self._last_words + data)[-_LAST_WORDS_BYTES:]

    def _read(self, fd: int, poll: "select.poll") -> bytes:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if data:
            self._heard = time.monotonic()
        else:
            with suppress(KeyError):
                poll.unregister(fd)
        return data


class _KeptMessages:
    """The program's messages as they came, but for secrets, up to a number of bytes."""

    def __init__(self, fd: int, bytes_max: int, secrets: dict[str, str]) -> None:
        forms = secret_forms(secrets.values())
        self._masker = StreamMasker(forms) if forms else None
        self._fd = fd
        self._left = bytes_max

    def write(self, line: bytes) -> None:
        self._store(line if self._masker is None else self._masker.feed(line))

    def close(self) -> None:
        if self._masker is not None:
            self._store(self._masker.end())

    def _store(self, data: bytes) -> None:
        data = data[: self._left]
        self._left -= len(data)
        with suppress(OSError):
            while data:
                data = data[os.write(self._fd, data) :]
