"""Shell tasks: `run` texts and `argv` lists, each attempt a process of its own.

The processes are the spawner's (see spawner/loop.py); this side turns a Launch into what the spawner starts, and its
report into an Outcome. Nothing here waits per attempt: a start is a message, an end is a call back.

Opening this executor makes the node's process a subreaper for good: should the spawner die, what it had started
comes to the node, which ends it. An application that embeds a node sees orphans of its own other children
come to it as well, as they would to init.
"""

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Any

import msgspec

from weft.executors import linux
from weft.executors.masking import needles
from weft.executors.output import (
    ANSWER_BYTES_MAX,
    BadAnswer,
    describe_stream,
    drop_answer,
    file_stem,
    output_path,
    take_answer,
    take_context,
)
from weft.executors.protocol import Ended, Launch, Outcome, StopReason
from weft.executors.run_as import NOT_INHERITED, User
from weft.executors.shell.private_directory import PrivateFiles
from weft.executors.spawner.link import SpawnerLink
from weft.executors.spawner.messages import START, STOP, TRUST, Message

_SHELLS = {"sh": (b"/bin/sh", b"-e", b"-c"), "bash": (b"bash", b"-eo", b"pipefail", b"-c")}
_SPAWNERS_MAX = 4
_LOAD_FOR_ANOTHER = 2  # attempts on the idlest spawner from which on one more pays
_SIGNAL_NAMES = {int(number): number.name for number in signal.Signals}


class BadCommand(Exception):
    """The spec cannot be turned into a command."""


class _Running(msgspec.Struct):
    launch: Launch
    ended: Ended
    answers: str  # where $WEFT_OUTPUT and $WEFT_CONTEXT are, but for their suffixes
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
        `answer_max` bounds what is read of $WEFT_OUTPUT and $WEFT_CONTEXT. `user` is who attempts run as, if not as
        the node does.

        There are several spawners because each start holds its spawner up until the new process has loaded its
        program: on two busy cores 2 did 1.7 times the rate of 1. They are made when they are needed.
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
        self._clearing: list[_Link] = []  # their spawner is dead, and what it had started has yet to be
        self._places: dict[tuple[int, int], tuple[_Link, int]] = {}
        self._last_id = 0
        self._trusted_until: float | None = None
        self._answer_max = answer_max
        self.private = PrivateFiles(user)
        self._open = False

    async def open(self) -> None:
        linux.become_subreaper()
        self._open = True
        self._connect()

    @property
    def spawner_pids(self) -> list[int]:
        return [link.pid for link in self._links]

    def start(self, launch: Launch, ended: Ended, channel: int | None = None) -> None:
        """`channel` is a descriptor that becomes its standard input, and is this object's from now on. Its secrets
        are masked, but not in its environment then: they travel by that way."""
        if not self._open:
            raise RuntimeError("the shell executor is not open")
        self._last_id = id = self._last_id + 1
        answers = f"{launch.output_dir}/{file_stem(launch.task, launch.attempt)}"
        running = _Running(launch, ended, answers, linux.boottime())
        try:
            if launch.secrets or launch.input is not None or self.user is not None:
                self._keep_private(running)
            message = self._start_message(id, running, channel is not None)
        except (BadCommand, UnicodeEncodeError, OSError) as error:
            if channel is not None:
                os.close(channel)
            self._drop_answers(running)
            outcome = _failure(running, f"cannot start: {error}", startable=not isinstance(error, OSError))
            asyncio.get_running_loop().call_soon(ended, outcome)
            return
        link = self._pick()
        link.running[id] = running
        self._places[launch.task_id, launch.attempt] = link, id
        link.send(message, channel)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        place = self._places.get((task_id, attempt))
        if place is not None:
            link, id = place
            link.send((STOP, id, reason, float(grace_s)))

    def trust(self, until: float) -> None:
        self._trusted_until = float(until)
        for link in self._links:
            link.send((TRUST, self._trusted_until))

    async def close(self) -> None:
        self._open = False
        await asyncio.gather(*[link.close() for link in self._links + self._clearing])
        self.private.close()

    def _pick(self) -> "_Link":
        """The spawner with the least to do, or a new one if there may be and all have something to do."""
        links = self._links
        if not links:
            return self._connect()
        link = links[0] if len(links) == 1 else min(links, key=_load)
        if len(link.running) >= _LOAD_FOR_ANOTHER and len(links) < self._spawners_max:
            return self._connect()
        return link

    def _connect(self) -> "_Link":
        link: _Link = SpawnerLink(self._base_env, self.user, self._ended, self._dead, self._gone)
        self._links.append(link)
        if self._trusted_until is not None:
            link.send((TRUST, self._trusted_until))
        return link

    def _keep_private(self, running: _Running) -> None:
        """What it is told and what it answers may hold secrets that are not masked yet."""
        launch = running.launch
        running.answers = self.private.stem()
        if launch.input is not None:
            self.private.write(running.answers + ".input", launch.input)

    def _drop_answers(self, running: _Running) -> None:
        """What is left of an attempt's files, once its answers were read or are of no use."""
        for suffix in (".output", ".context", ".input"):
            drop_answer(running.answers + suffix)
        self.private.drop(running.answers)

    def _start_message(self, id: int, running: _Running, by_channel: bool) -> Message:
        launch = running.launch
        argv, search = command(launch.spec)
        env = {_encode(name): _encode(value) for name, value in launch.env.items()}
        answers = os.fsencode(running.answers)
        env[b"WEFT_OUTPUT"] = answers + b".output"
        env[b"WEFT_CONTEXT"] = answers + b".context"
        if launch.input is not None:
            env[b"WEFT_INPUT"] = answers + b".input"
        forms: tuple[bytes, ...] = ()
        if launch.secrets:
            forms = needles(launch.secrets.values())
        if launch.secrets and not by_channel:
            env |= {_encode(name): _encode(value) for name, value in launch.secrets.items()}
        cwd = self._workdir if launch.cwd is None else os.fsencode(launch.cwd)
        directory, stem = os.fsencode(launch.output_dir), os.fsencode(file_stem(launch.task, launch.attempt))
        hidden = tuple(map(_encode, launch.hidden))
        return START, id, argv, search, env, cwd, directory, stem, launch.output_max, hidden, forms, by_channel

    def _ended(self, link: "_Link", message: Message) -> None:
        running = link.running.pop(message[1])
        launch = running.launch
        del self._places[launch.task_id, launch.attempt]
        try:
            outcome = _outcome(running, message, self._answer_max, None if self.user is None else self.user.uid)
        except Exception as error:
            # Whatever a command leaves behind, it is reported, and so are those that ended along with it.
            outcome = _failure(running, f"what it left cannot be read: {error!r}", started=message[3])
        if launch.input is not None or self.user is not None:
            self._drop_answers(running)
        self._tell(running, outcome)

    def _tell(self, running: _Running, outcome: Outcome) -> None:
        try:
            running.ended(outcome)
        except Exception as error:
            context = {"message": f"the callback of {running.launch.task} failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _dead(self, link: "_Link") -> None:
        """The spawner ended. Nothing more is given to it; what it had started is being ended."""
        self._links.remove(link)
        self._clearing.append(link)

    def _gone(self, link: "_Link") -> None:
        """Everything that a dead spawner had started is dead, too."""
        self._clearing.remove(link)
        lost = list(link.running.values())
        link.running.clear()
        for running in lost:
            del self._places[running.launch.task_id, running.launch.attempt]
            self._drop_answers(running)
        for running in lost:
            self._tell(running, _failure(running, "the spawner died", started=running.sent, startable=False))


_Link = SpawnerLink[_Running]


def _load(link: _Link) -> int:
    return len(link.running)


def _encode(text: str) -> bytes:
    """What a definition says is UTF-8 for its commands, whatever the node's locale."""
    return text.encode("utf-8", "surrogateescape")


def command(spec: dict[str, Any]) -> tuple[tuple[bytes, ...], bool]:
    """The argument list that a spec stands for, and whether its first item is to be looked up in PATH."""
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


def _outcome(running: _Running, message: Message, answer_max: int, owner: int | None) -> Outcome:
    """`owner` is the user that its answers must be of, if that is not the node's own."""
    _, _, status, started, ended, stopped, killed, error, code, startable, out, err = message
    launch = running.launch
    if status is not None:
        code = os.waitstatus_to_exitcode(status)
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
        _read_streams(outcome, launch, out, err)
    if started is not None:
        _read_answers(outcome, running.answers, answer_max, owner)
    return outcome


def _read_streams(outcome: Outcome, launch: Launch, out: tuple[int, int, int], err: tuple[int, int, int]) -> None:
    assert outcome.result is not None
    try:
        if out[0]:
            path = output_path(launch.output_dir, launch.task, launch.attempt, "stdout")
            describe_stream(outcome.result, "stdout", path, out)
        if err[0]:
            path = output_path(launch.output_dir, launch.task, launch.attempt, "stderr")
            describe_stream(outcome.result, "stderr", path, err)
    except OSError as error:
        outcome.ok = False
        outcome.error = outcome.error or f"its output cannot be read: {error.strerror}"


def _read_answers(outcome: Outcome, answers: str, bytes_max: int, owner: int | None) -> None:
    """Take $WEFT_OUTPUT and $WEFT_CONTEXT of a success; of a failure they are removed unread."""
    if outcome.ok:
        try:
            output = take_answer(answers + ".output", "$WEFT_OUTPUT", bytes_max, owner)
            context = take_context(answers + ".context", "$WEFT_CONTEXT", bytes_max, owner)
        except BadAnswer as error:
            outcome.ok = False
            outcome.error = str(error)
        else:
            outcome.output, outcome.context = output, context
            return
    drop_answer(answers + ".output")
    drop_answer(answers + ".context")


def _failure(running: _Running, error: str, *, started: float | None = None, startable: bool = True) -> Outcome:
    launch = running.launch
    outcome = Outcome(launch.task_id, launch.attempt, False, None, started, linux.boottime(), error)
    outcome.startable = startable
    return outcome
