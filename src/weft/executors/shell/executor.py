"""The shell executor: `run` texts and `argv` lists, each attempt a process of its own.

A spawner (see spawner/loop.py) starts and watches the processes; this side turns a Launch into a StartProcess
message, and a ProcessEnded message into an Outcome. Nothing here waits per attempt: a start is a message, an end is a
callback.

Opening this executor makes the node's process a subreaper for good: should a spawner die, the node inherits the
processes that it had started, and kills them. An application that embeds a node also inherits the orphans of its own
other children, as init would.
"""

import asyncio
import os
import signal
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from weft.executors import linux
from weft.executors.masking import secret_forms
from weft.executors.output import (
    ANSWER_BYTES_MAX,
    BadAnswer,
    file_stem,
    read_streams,
    remove_answer,
    take_answer,
    take_context,
)
from weft.executors.protocol import Ended, Launch, Outcome, StopReason
from weft.executors.run_as import NOT_INHERITED, User
from weft.executors.shell.private_directory import PrivateDirectory
from weft.executors.spawner.link import SpawnerLink
from weft.executors.spawner.messages import LastWill, ProcessEnded, StartProcess, StopProcess, TrustUntil

_SHELLS = {"sh": (b"/bin/sh", b"-e", b"-c"), "bash": (b"bash", b"-eo", b"pipefail", b"-c")}
_SPAWNERS_MAX = 4
_LOAD_FOR_ANOTHER = 2  # attempts on the least busy spawner from which on another spawner pays
_SIGNAL_NAMES = {int(number): number.name for number in signal.Signals}


class BadCommand(Exception):
    """The spec cannot be turned into a command."""


class _Running(msgspec.Struct):
    launch: Launch
    on_ended: Ended
    answer_stem: str  # the paths of $WEFT_OUTPUT, $WEFT_CONTEXT and $WEFT_INPUT without their suffixes
    sent: float


class ShellExecutor:
    kinds = frozenset({"shell"})

    def __init__(
        self,
        workdir: str | None = None,
        environment: Mapping[str, str] | None = None,
        spawners: int | None = None,
        answer_max: int = ANSWER_BYTES_MAX,
        user: User | None = None,
    ) -> None:
        """`workdir` is where attempts without a directory start; `environment` is the node's own by default.
        `answer_max` bounds the bytes read of $WEFT_OUTPUT and $WEFT_CONTEXT. `user` is the user that attempts run as,
        if not the node's own.

        There are several spawners because each start blocks its spawner until the new process has loaded its
        program: on two busy cores 2 did 1.7 times the rate of 1. They are started when they are needed.
        """
        self._workdir = os.fsencode(os.path.abspath(workdir or os.getcwd()))
        source = os.environ if environment is None else environment
        self._base_env = {
            os.fsencode(name): os.fsencode(value) for name, value in source.items() if not name.startswith("WEFT_")
        }
        self.user = user
        if user is not None:
            for name in NOT_INHERITED:
                self._base_env.pop(name, None)
            self._base_env |= user.environment
        self._spawners_max = spawners or max(2, min(_SPAWNERS_MAX, os.cpu_count() or 1))
        self._links: list[_Link] = []
        self._cleaning: list[_Link] = []  # their spawner is dead, and its processes are being killed
        self._locations: dict[tuple[int, int], tuple[_Link, int]] = {}  # (task id, attempt) -> link, id there
        self._last_id = 0
        self._trusted_until: float | None = None
        self._will: tuple[bytes, ...] | None = None
        self._answer_max = answer_max
        self.private = PrivateDirectory(user)
        self._open = False

    async def open(self) -> None:
        linux.become_subreaper()
        self._open = True
        self._connect()

    @property
    def spawner_pids(self) -> list[int]:
        return [link.pid for link in self._links]

    def start(self, launch: Launch, on_ended: Ended, stdin: int | None = None) -> None:
        """`stdin` is a descriptor for its standard input; the executor owns it from now on, and closes it. With it,
        secrets are masked but not put into the environment: the caller sends them through that descriptor."""
        if not self._open:
            raise RuntimeError("the shell executor is not open")
        self._last_id = id = self._last_id + 1
        answer_stem = f"{launch.output_dir}/{file_stem(launch.task, launch.attempt)}"
        running = _Running(launch, on_ended, answer_stem, linux.boottime())
        try:
            if launch.secrets or launch.input is not None or self.user is not None:
                self._use_private_files(running)
            message = self._start_message(id, running, stdin is not None)
        except (BadCommand, UnicodeEncodeError, OSError) as error:
            if stdin is not None:
                os.close(stdin)
            self._remove_answers(running)
            outcome = _failure(running, f"cannot start: {error}", startable=not isinstance(error, OSError))
            asyncio.get_running_loop().call_soon(on_ended, outcome)
            return
        link = self._pick_link()
        link.running[id] = running
        self._locations[launch.task_id, launch.attempt] = link, id
        link.send(message, stdin)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        location = self._locations.get((task_id, attempt))
        if location is not None:
            link, id = location
            link.send(StopProcess(id, reason, float(grace_s)))

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        return accepted

    def trust(self, until: float) -> None:
        self._trusted_until = float(until)
        for link in self._links:
            link.send(TrustUntil(self._trusted_until))

    def last_will(self, argv: tuple[bytes, ...]) -> None:
        """A command that one spawner runs when this process is dead or past its trust. It replaces the last one."""
        self._will = argv
        if self._links:
            self._links[0].send(LastWill(argv))

    async def close(self) -> None:
        self._open = False
        await asyncio.gather(*[link.close() for link in self._links + self._cleaning])
        self.private.close()

    def _pick_link(self) -> "_Link":
        """The spawner with the fewest attempts, or a new one if all are busy and another is allowed."""
        links = self._links
        if not links:
            return self._connect()
        link = links[0] if len(links) == 1 else min(links, key=_load)
        if len(link.running) >= _LOAD_FOR_ANOTHER and len(links) < self._spawners_max:
            return self._connect()
        return link

    def _connect(self) -> "_Link":
        link: _Link = SpawnerLink(
            self._base_env, self.user, self._process_ended, self._spawner_ended, self._cleaned_up
        )
        self._links.append(link)
        if self._trusted_until is not None:
            link.send(TrustUntil(self._trusted_until))
        if self._will is not None and len(self._links) == 1:
            link.send(LastWill(self._will))
        return link

    def _use_private_files(self, running: _Running) -> None:
        """For an attempt whose input and answers may hold secrets that are not masked yet."""
        launch = running.launch
        running.answer_stem = self.private.stem()
        if launch.input is not None:
            self.private.write(running.answer_stem + ".input", launch.input)

    def _remove_answers(self, running: _Running) -> None:
        """Remove the input and answer files of an attempt, once they were read or are not needed."""
        for suffix in (".output", ".context", ".input"):
            remove_answer(running.answer_stem + suffix)
        self.private.drop(running.answer_stem)

    def _start_message(self, id: int, running: _Running, has_stdin: bool) -> StartProcess:
        launch = running.launch
        argv, search = command(launch.spec)
        env = {
            name.encode("utf-8", "surrogateescape"): value.encode("utf-8", "surrogateescape")
            for name, value in launch.env.items()
        }
        answers = os.fsencode(running.answer_stem)
        env[b"WEFT_OUTPUT"] = answers + b".output"
        env[b"WEFT_CONTEXT"] = answers + b".context"
        if launch.input is not None:
            env[b"WEFT_INPUT"] = answers + b".input"
        forms: tuple[bytes, ...] = ()
        if launch.secrets:
            forms = secret_forms(launch.secrets.values())
        if launch.secrets and not has_stdin:
            env |= {_encode(name): _encode(value) for name, value in launch.secrets.items()}
        cwd = self._workdir if launch.cwd is None else _encode_directory(launch.cwd)
        directory, stem = _encode_directory(launch.output_dir), os.fsencode(file_stem(launch.task, launch.attempt))
        hidden = tuple(map(_encode, launch.hidden)) if launch.hidden else ()
        return StartProcess(id, argv, search, env, cwd, directory, stem, launch.output_max, hidden, forms, has_stdin)

    def _process_ended(self, link: "_Link", message: ProcessEnded) -> None:
        running = link.running.pop(message.id)
        launch = running.launch
        del self._locations[launch.task_id, launch.attempt]
        try:
            outcome = _outcome(running, message, self._answer_max, None if self.user is None else self.user.uid)
        except Exception as error:
            # Whatever files a command leaves, it is reported, and so are the other attempts of the same frame.
            outcome = _failure(running, f"its results cannot be read: {error!r}", started=message.started)
        if launch.input is not None or self.user is not None:
            self._remove_answers(running)
        self._report(running, outcome)

    def _report(self, running: _Running, outcome: Outcome) -> None:
        try:
            running.on_ended(outcome)
        except Exception as error:
            context = {"message": f"the callback of {running.launch.task} failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _spawner_ended(self, link: "_Link") -> None:
        """It gets no more attempts; the link kills the processes that it had started."""
        keeps_will = link is self._links[0]
        self._links.remove(link)
        self._cleaning.append(link)
        if self._will is not None and keeps_will and self._open:
            if self._links:
                self._links[0].send(LastWill(self._will))
            else:
                self._connect()

    def _cleaned_up(self, link: "_Link") -> None:
        """All processes that a dead spawner had started are dead, too."""
        self._cleaning.remove(link)
        lost = list(link.running.values())
        link.running.clear()
        for running in lost:
            del self._locations[running.launch.task_id, running.launch.attempt]
            self._remove_answers(running)
        for running in lost:
            self._report(running, _failure(running, "the spawner died", started=running.sent, startable=False))


_Link = SpawnerLink[_Running]


def _load(link: _Link) -> int:
    return len(link.running)


def _encode(text: str) -> bytes:
    """The texts of a definition reach its commands as UTF-8, whatever the node's locale."""
    return text.encode("utf-8", "surrogateescape")


_encode_directory = lru_cache(maxsize=64)(os.fsencode)  # most attempts share theirs


def command(spec: dict[str, Any]) -> tuple[tuple[bytes, ...], bool]:
    """The argument list of a spec, and whether its first item must be looked up in PATH."""
    text = spec.get("run")
    if text is None:
        words = spec.get("argv")
        if not isinstance(words, (list, tuple)) or not words or not all(isinstance(word, str) for word in words):
            raise BadCommand("argv must be a list of one or more strings")
        return tuple(map(_encode, words)), True
    if not isinstance(text, str):
        raise BadCommand("run must be a text")
    shell = spec.get("shell") or "sh"
    if isinstance(shell, str):
        prefix = _SHELLS.get(shell)
        if prefix is None:
            raise BadCommand(f"shell must be sh, bash or a list, not {shell!r}")
        return (*prefix, _encode(text)), shell != "sh"
    return (*map(_encode, shell), _encode(text)), True


def _outcome(running: _Running, message: ProcessEnded, answer_max: int, owner: int | None) -> Outcome:
    """`owner` is the user that must own its answer files, if not the node's own."""
    _, wait_status, started, ended, stopped, killed, error, code, startable, stdout, stderr = message
    launch = running.launch
    if wait_status is not None:
        code = os.waitstatus_to_exitcode(wait_status)
        if code < 0:
            number = -code
            code = 128 + number
            error = error or f"killed by {_SIGNAL_NAMES.get(number, f'signal {number}')}"
        elif stopped:
            error = error or f"stopped ({stopped})"
        elif code:
            error = error or f"exit code {code}"
    outcome = Outcome(launch.task_id, launch.attempt, error is None, code, started, ended, error, stopped)
    outcome.startable = startable
    outcome.killed = killed
    if code is not None:
        outcome.result = {"exitCode": code, "stdout": "", "stderr": ""}
        read_streams(outcome, launch, stdout, stderr)
    if started is not None:
        _read_answers(outcome, running.answer_stem, answer_max, owner)
    return outcome


def _read_answers(outcome: Outcome, answer_stem: str, bytes_max: int, owner: int | None) -> None:
    """Read and remove $WEFT_OUTPUT and $WEFT_CONTEXT after a success; remove them unread after a failure."""
    if outcome.ok:
        try:
            output = take_answer(answer_stem + ".output", "$WEFT_OUTPUT", bytes_max, owner)
            context = take_context(answer_stem + ".context", "$WEFT_CONTEXT", bytes_max, owner)
        except BadAnswer as error:
            outcome.ok = False
            outcome.error = str(error)
        else:
            outcome.output, outcome.context = output, context
            return
    remove_answer(answer_stem + ".output")
    remove_answer(answer_stem + ".context")


def _failure(running: _Running, error: str, *, started: float | None = None, startable: bool = True) -> Outcome:
    launch = running.launch
    outcome = Outcome(launch.task_id, launch.attempt, False, None, started, linux.boottime(), error)
    outcome.startable = startable
    return outcome
