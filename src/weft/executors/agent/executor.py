"""The agent executor: each attempt is a runner (see runner.py), a process of its own that the shell executor starts.

So the guarantees for the processes of a shell task hold for the agent's program and all that it starts: they end with
a stop, a timeout, a lost lease and a killed node. The runner gets its request through a socket, which is its standard
input, and sends back what the agent spends, its session, and how it ended.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from weft.core.definition.field_types.text_formats import parse_duration_ms
from weft.executors.agent.command_line import python_command
from weft.executors.agent.messages import AgentEnded, AgentRequest, RunnerMessage, SessionKnown, SpentSoFar
from weft.executors.agent.sessions import KeptSession, TaskConversation
from weft.executors.agent.usage import MILLION
from weft.executors.boot_clock import boottime
from weft.executors.masking import Masker, secret_forms
from weft.executors.output import ANSWER_BYTES_MAX, file_stem
from weft.executors.protocol import Ended, Launch, Outcome, StopReason, Usage
from weft.executors.shell.executor import ShellExecutor

_TEXT_MAX: Final = 64 * 1024  # characters of the answer beside the output, which is whole
_LAST_MESSAGES_S: Final = 5.0  # from the end of the processes to the end of what they sent
_MESSAGE_SLACK: Final = 1 << 20  # beside an answer, each character of which JSON may write as six


class _AgentAttempt(msgspec.Struct, eq=False):
    launch: Launch
    on_ended: Ended
    files: TaskConversation
    kept: KeptSession
    usage: Usage | None = None
    ended: AgentEnded | None = None
    talk: "asyncio.Task[None] | None" = None


class AgentExecutor:
    kinds = frozenset({"agent"})

    def __init__(
        self,
        shell: ShellExecutor,
        program: Sequence[str] = ("claude",),
        *,
        store: str | None = None,
        answer_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        """`program` runs without `command` and `api`; `store` is the file of the store, for the tools of `weft mcp`;
        `answer_max` bounds the bytes of an answer."""
        self._shell = shell
        self._program = list(program)
        self._store = store
        self._answer_max = answer_max
        self._attempts: dict[tuple[int, int], _AgentAttempt] = {}
        self._finishing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """The shell executor, which starts all processes, is opened by its owner."""

    def start(self, launch: Launch, on_ended: Ended) -> None:
        files = TaskConversation(launch.output_dir, launch.task)
        resume = launch.spec["agent"].get("resume", True)
        kept = files.read()
        if not resume:
            kept.session = None
        attempt = _AgentAttempt(launch, on_ended, files, kept)
        self._attempts[launch.task_id, launch.attempt] = attempt
        process = msgspec.structs.replace(
            launch, kind="shell", spec={"argv": python_command("weft.executors.agent.runner", "main")}, input=None
        )
        ours, theirs = socket.socketpair()
        try:
            fds = [files.open_conversation(fresh=kept.session is None)]
            fds.insert(0, files.open_messages(file_stem(launch.task, launch.attempt)))
            socket.send_fds(ours, [b"\0"], fds)  # a byte: the buffer of a new socket has room
        except OSError as error:
            ours.close()
            theirs.close()
            asyncio.get_running_loop().call_soon(self._cannot_start, attempt, f"cannot start: {error}")
            return
        for fd in fds:
            os.close(fd)
        attempt.talk = asyncio.get_running_loop().create_task(self._talk(attempt, ours))
        self._shell.start(process, partial(self._process_ended, attempt), theirs.detach())

    def _cannot_start(self, attempt: _AgentAttempt, error: str) -> None:
        launch = attempt.launch
        ended = Outcome(launch.task_id, launch.attempt, False, None, None, boottime(), error, startable=False)
        self._process_ended(attempt, ended)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        if (task_id, attempt) in self._attempts:
            self._shell.stop(task_id, attempt, reason, grace_s)

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        return accepted

    def trust(self, until: float) -> None:
        """The shell executor, which runs the processes, is trusted itself."""

    async def close(self) -> None:
        for attempt in list(self._attempts.values()):
            self.stop(attempt.launch.task_id, attempt.launch.attempt, "drain", 0)
        while self._attempts:
            await asyncio.sleep(0.01)

    # The runner

    def _request(self, attempt: _AgentAttempt) -> AgentRequest:
        launch, kept = attempt.launch, attempt.kept
        limit, agent = _limit(launch), launch.spec["agent"]
        if "idle" in agent:
            agent = {**agent, "idle_s": parse_duration_ms(agent["idle"]) / 1000}
        return AgentRequest(
            agent, self._program, launch.secrets, launch.output_max, self._answer_max, limit.usd,
            limit.tokens, kept.session, kept.problem, kept.rejected, self._store,
        )  # fmt: skip

    async def _talk(self, attempt: _AgentAttempt, ours: socket.socket) -> None:
        ours.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours, limit=self._answer_max * 6 + _MESSAGE_SLACK)
        try:
            writer.write(msgspec.json.encode(self._request(attempt)) + b"\n")
            while line := await reader.readline():
                self._heard(attempt, msgspec.json.decode(line, type=RunnerMessage))
        except (OSError, ValueError, msgspec.DecodeError):
            pass  # what the runner did not send, or nobody can read, is missing in the end, and that is said there
        finally:
            writer.close()

    def _heard(self, attempt: _AgentAttempt, message: RunnerMessage) -> None:
        launch = attempt.launch
        if isinstance(message, SpentSoFar):
            attempt.usage = _at_least(attempt.usage, Usage(message.usd, message.tokens))
            if launch.spent is not None:
                launch.spent(launch.task_id, launch.attempt, attempt.usage)
        elif isinstance(message, SessionKnown):
            attempt.kept = KeptSession(message.id)
            attempt.files.write(attempt.kept)  # at once: the node may be killed before the attempt ends
        else:
            attempt.ended = message

    def _process_ended(self, attempt: _AgentAttempt, outcome: Outcome) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(attempt, outcome))
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def _finish(self, attempt: _AgentAttempt, outcome: Outcome) -> None:
        if attempt.talk is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(attempt.talk, _LAST_MESSAGES_S)
        del self._attempts[outcome.task_id, outcome.attempt]
        _complete(outcome, attempt)
        if outcome.ok:
            attempt.files.remove()
        else:
            problem = Masker(secret_forms(attempt.launch.secrets.values())).text(_problem(outcome))
            attempt.files.write(KeptSession(attempt.kept.session, problem, outcome.cause == "schema"))
        attempt.on_ended(outcome)


def _limit(launch: Launch) -> Usage:
    """The allowance of this attempt, and never more than the budget of the task."""
    budget = launch.spec["agent"].get("budget", {})
    given = launch.allowance or Usage()
    usd = None if "usd" not in budget else round(budget["usd"] * MILLION)
    return Usage(_least(given.usd, usd), _least(given.tokens, budget.get("tokens")))


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _at_least(known: Usage | None, new: Usage) -> Usage:
    """What was spent never becomes less, also if a program is started a second time."""
    if known is None:
        return new
    usd = known.usd if new.usd is None else max(known.usd or 0, new.usd)
    return Usage(usd, max(known.tokens or 0, new.tokens or 0))


def _problem(outcome: Outcome) -> str:
    return f"it was stopped ({outcome.stopped})" if outcome.stopped else outcome.error or "it failed"


def _complete(outcome: Outcome, attempt: _AgentAttempt) -> None:
    """Adds to the end of the processes what the runner said of the agent's."""
    outcome.usage = attempt.usage
    outcome.output = msgspec.UNSET
    ended = attempt.ended
    if ended is None:
        if outcome.ok:  # it left without a word
            outcome.ok, outcome.error = False, "the agent's runner ended without a result"
        return
    outcome.result = {**(outcome.result or {}), **_described(ended)}
    if outcome.stopped is not None:
        return
    if ended.error is not None:
        outcome.ok, outcome.error = False, ended.error
        outcome.cause, outcome.retryable, outcome.retry_after_s = ended.cause, ended.retryable, ended.retry_after_s
    elif outcome.ok:
        outcome.output = ended.text if ended.value is msgspec.UNSET else ended.value


def _described(ended: AgentEnded) -> dict[str, Any]:
    out: dict[str, Any] = {"text": ended.text[:_TEXT_MAX], "usage": ended.usage, "turns": ended.turns}
    if len(ended.text) > _TEXT_MAX:
        out["textTruncated"] = True
    out |= {"session": ended.session, "model": ended.model, "warning": ended.warning}
    return {name: value for name, value in out.items() if value is not None}
