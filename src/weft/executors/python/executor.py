"""Python tasks: `module:function` and `file.py:function`, called in warm runner processes.

A runner (see python_runner/) is started through the shell executor, as an attempt that lasts. So it is a child of a
spawner, and what holds for the processes of a shell task holds for it and all below it: a stop ends everything, a
node's SIGKILL leaves nothing, and it dies at the deadline that the node is trusted until. Each call is a message.

An attempt with secrets has a runner to itself, which gets them with the call, writes through the spawner's masker,
and ends with the attempt: nothing that a function keeps or prints late meets another task. So has every attempt if
tasks run as a user of their own (`run_as`).

A function that does not heed a stop is ended with its runner. When a runner dies by itself, the attempt that had the
processor fails, and nobody else: what had not begun goes to another runner, async neighbours go back to the queue.
"""

import asyncio
import marshal
import os
import socket
import sys
from collections.abc import Callable

from weft.executors import linux
from weft.executors.output import file_stem
from weft.executors.protocol import Ended, Launch, Outcome, StopReason
from weft.executors.python.crash_attribution import Inquest
from weft.executors.python.messages import (
    ASK,
    ENDED,
    HELLO,
    KIND,
    LEAVING,
    LEFT_PROCESSES,
    OWN,
    QUIT,
    START,
    STOP,
    UNBEGUN,
)
from weft.executors.python.once_answers import Answers
from weft.executors.python.outcome import cut_short, never_ready, outcome_of, take_streams, unstarted
from weft.executors.python.pool import Pool
from weft.executors.python.runner_link import Attempt, RunnerLink
from weft.executors.shell.executor import ShellExecutor
from weft.executors.spawner.messages import Message

_ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
# By -c and not by a script: then __main__ has no file, which a function's own child processes would run again. The
# package's place heads sys.path only while it is imported; then the definition's directory does.
_PROGRAM = (
    f"import sys; sys.path.insert(0, {_ROOT!r}); from weft.executors.python_runner.runner import main;"
    f" sys.path.remove({_ROOT!r}); {_ROOT!r} in sys.path or sys.path.append({_ROOT!r}); main()"
)
_RUNNER_OUTPUT_MAX = 1 << 16
_EXIT_S = 2.0  # for a runner to end by itself
_CLOSED_S = 0.5  # between the end of its socket and its own
_LOOK_AGAIN_S = 0.1
_TIDY_S = 5.0
_FUNCTIONS_MAX = 10_000


class PythonExecutor:
    kinds = frozenset({"python"})

    def __init__(
        self,
        runners: int | None = None,
        *,
        shell: ShellExecutor | None = None,
        workdir: str | None = None,
        tasks_max: int = 1000,
        growth_max: int = 512 << 20,
        value_max: int = 1 << 20,
        idle_s: float = 60.0,
        python: str | None = None,
    ) -> None:
        """`runners` is how many there may be (as many as cores), each made when it is needed.

        `shell` starts them; without one there is one for this alone, with the node's environment. A runner is
        replaced after `tasks_max` calls, when its memory has grown by `growth_max` bytes, or when a file of its
        modules changed, and ends after `idle_s` seconds without work. `value_max` bounds the JSON that a function
        returns.
        """
        self._shell = shell or ShellExecutor(workdir, spawners=1)
        self._own_shell = shell is None
        self._workdir = os.path.abspath(workdir or os.getcwd())
        self._limits = (str(tasks_max), str(growth_max), str(value_max))
        self._idle_s = idle_s
        self._python = python or sys.executable
        self._pool = Pool(
            runners or os.cpu_count() or 1, self._is_async, self._start_runner, self._give, self._retire
        )
        self._attempts: dict[tuple[int, int], Attempt] = {}
        self._own: dict[int, RunnerLink] = {}  # runners of attempts with secrets, by number
        self._hidden: dict[str, None] = {}  # variables that no runner may have from the node's environment
        self._kinds: dict[tuple[str, str], bool] = {}  # is it async? By directory and function, of those seen
        self._answers = Answers()
        self._inquest = Inquest()
        self._last_id = self._last_runner = 0
        self._pump_due = False
        self._tidy: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()  # no runner is left
        self._open = False

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._own_shell:
            await self._shell.open()
        self._open = True

    @property
    def runner_count(self) -> int:
        return len(self._pool.runners) + len(self._own)

    def start(self, launch: Launch, ended: Ended) -> None:
        if not self._open:
            raise RuntimeError("the Python executor is not open")
        self._last_id = id = self._last_id + 1
        root = launch.cwd or self._workdir
        attempt = Attempt(id, launch, ended, b"", root, linux.boottime())
        try:
            attempt.arguments = marshal.dumps(launch.spec.get("with") or {})
        except ValueError as error:
            self._loop.call_soon(self._tell, attempt, unstarted(attempt, f"its arguments cannot be sent: {error}"))
            return
        self._attempts[launch.task_id, launch.attempt] = attempt
        if launch.hidden:
            self._hide(launch.hidden)
        if self._needs_own(attempt):
            self._start_own(attempt)
            return
        self._pool.add(attempt)
        self._pump_soon()

    def _hide(self, names: tuple[str, ...]) -> None:
        """Runners that were started before a variable was known to be a secret still have it, and make way."""
        if all(name in self._hidden for name in names):
            return
        self._hidden.update(dict.fromkeys(names))
        for runner in list(self._pool.runners.values()):
            if runner.leaving is None:
                self._retire(runner)

    def trust(self, until: float) -> None:
        self._shell.trust(until)

    async def close(self) -> None:
        self._open = False
        self._answers.close()
        for directory in list(self._pool.directories.values()):
            for attempt in [*directory.plain, *directory.beside]:
                self._pool.remove(attempt)
                attempt.stop = "drain"
                self._end(attempt, unstarted(attempt, "stopped before it started"))
        for runner in [*self._pool.runners.values(), *self._own.values()]:
            self._kill(runner)
        if self._own_shell:
            await self._shell.close()
        if self._pool.runners or self._own:
            await self._empty.wait()
        if self._tidy is not None:
            self._tidy.cancel()

    # Stopping

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        found = self._attempts.get((task_id, attempt))
        if found is None or found.over:
            return
        runner = found.runner
        if reason == "timeout" and (runner is None or not runner.has_begun(found)):
            # Time spent waiting for a runner does not count.
            seconds = linux.boottime() - found.accepted
            self._arm(found, seconds, lambda: self._time_up(found, seconds, grace_s))
        elif runner is None:
            self._stop_unbegun(found, reason)
        elif runner.owner is not None and not runner.given:
            found.stop = found.stop or reason
            self._kill(runner)  # it has not even come up
        else:
            self._stop_in(runner, found, reason, grace_s)

    def _stop_in(self, runner: RunnerLink, attempt: Attempt, reason: StopReason, grace_s: float) -> None:
        if attempt.stop is None:
            attempt.stop = reason
            if grace_s > 0 or not runner.has_begun(attempt):  # without grace, nothing of it may run any more
                runner.send((STOP, attempt.id))
        if grace_s > 0:
            self._arm(attempt, grace_s, lambda: self._grace_over(runner, attempt))
        else:
            self._grace_over(runner, attempt)

    def _grace_over(self, runner: RunnerLink, attempt: Attempt) -> None:
        if attempt.runner is not runner:
            return
        if runner.has_begun(attempt) or attempt.stop == "lease":
            self._kill(runner)
        else:
            # It waits behind another function, and must not cost that one its life.
            self._arm(attempt, _LOOK_AGAIN_S, lambda: self._grace_over(runner, attempt))

    def _time_up(self, attempt: Attempt, seconds: float, grace_s: float) -> None:
        """A timeout that was put off because the attempt had not begun."""
        runner = attempt.runner
        left = seconds
        if runner is not None and runner.has_begun(attempt):
            assert runner.mark is not None
            started = attempt.sent if runner.is_async else runner.mark.started
            left = started + seconds - linux.boottime()
            if left <= 0:
                self._stop_in(runner, attempt, "timeout", grace_s)
                return
        self._arm(attempt, min(left, seconds), lambda: self._time_up(attempt, seconds, grace_s))

    def _arm(self, attempt: Attempt, seconds: float, call: Callable[[], None]) -> None:
        if attempt.kill is not None:
            attempt.kill.cancel()
        attempt.kill = self._loop.call_later(seconds, call)

    def _stop_unbegun(self, attempt: Attempt, reason: StopReason) -> None:
        self._pool.remove(attempt)
        attempt.stop = reason
        attempt.over = True
        self._loop.call_soon(self._end, attempt, unstarted(attempt, "stopped before it started"))

    # Runners

    def _needs_own(self, attempt: Attempt) -> bool:
        """One with secrets; and as another user every one, who may not make files where their output belongs."""
        return bool(attempt.launch.secrets) or self._shell.user is not None

    def _start_own(self, attempt: Attempt) -> None:
        """How many there are is bounded by the node's slots, not by `runners`: they are not there to be shared."""
        attempt.runner = self._start_runner(attempt.root, attempt)
        self._own[attempt.runner.number] = attempt.runner

    def _start_runner(self, root: str, owner: Attempt | None = None) -> RunnerLink:
        self._last_runner = number = self._last_runner + 1
        runner = RunnerLink(number, root, linux.boottime())
        runner.owner = owner
        self._empty.clear()
        if self._tidy is None:
            self._tidy = self._loop.call_later(min(_TIDY_S, self._idle_s), self._tidy_up)
        words = [self._python, "-P", "-c", _PROGRAM, *self._limits]
        spec = {"argv": words}
        try:
            ours, theirs = socket.socketpair()
            directory = self._shell.private.directory
        except OSError as error:
            death = Outcome(-number, 1, False, None, None, linux.boottime(), f"no place for its socket: {error}")
            death.startable = False
            self._loop.call_soon(self._runner_gone, runner, death)
            return runner
        if owner is None:
            name = f"runner-{number}"
            launch = Launch(-number, 1, "", name, "shell", spec, {}, root, directory, _RUNNER_OUTPUT_MAX)
            launch.hidden = tuple(self._hidden)
        else:
            words.append(OWN)
            of = owner.launch
            launch = Launch(-number, of.attempt, "", of.task, "shell", spec, {}, root, of.output_dir, of.output_max)
            launch.secrets, launch.hidden = of.secrets, of.hidden
        runner.connect(ours, self._message, self._closed)
        self._shell.start(launch, lambda outcome: self._runner_gone(runner, outcome), theirs.detach())
        return runner

    def _is_ready(self, runner: RunnerLink) -> None:
        runner.idle_since = linux.boottime()
        if runner.owner is not None and runner.leaving is None:
            self._give(runner, runner.owner)

    def _give(self, runner: RunnerLink, attempt: Attempt) -> None:
        attempt.runner = runner
        attempt.sent = linux.boottime()
        runner.given[attempt.id] = attempt
        launch = attempt.launch
        stem = file_stem(launch.task, launch.attempt)
        variables = {**launch.env, **launch.secrets} if launch.secrets else launch.env
        runner.send(
            (START, attempt.id, launch.spec["function"], attempt.arguments, variables, launch.output_dir, stem,
             launch.output_max)
        )  # fmt: skip

    def _retire(self, runner: RunnerLink) -> None:
        """Let it finish what it has begun and end by itself; it hands back the rest."""
        runner.leaving = "asked"
        self._pool.leave(runner)
        runner.send((QUIT,))
        self._reap_later(runner)

    def _reap_later(self, runner: RunnerLink) -> None:
        """A runner that leaves and has nothing more to do has so long to end."""
        if not runner.given and runner.reaper is None:
            runner.reaper = self._loop.call_later(_EXIT_S, self._kill, runner)

    def _kill(self, runner: RunnerLink) -> None:
        runner.killed = True
        runner.leaving = runner.leaving or "killed"
        self._pool.leave(runner)
        self._shell.stop(*runner.place, "drain", 0.0)
        self._pump_soon()

    def _tidy_up(self) -> None:
        """End runners that have had nothing to do for long."""
        self._tidy = None
        limit = linux.boottime() - self._idle_s
        for runner in list(self._pool.runners.values()):
            if runner.idle and runner.idle_since <= limit:
                self._retire(runner)
        if self._pool.runners and self._open:
            self._tidy = self._loop.call_later(min(_TIDY_S, self._idle_s), self._tidy_up)

    # What runners say

    def _message(self, runner: RunnerLink, message: Message) -> None:
        kind = message[0]
        if kind == ENDED:
            self._call_ended(runner, message)
        elif kind == UNBEGUN:
            attempts = [runner.given.pop(id) for id in message[1] if id in runner.given]
            runner.slow = bool(runner.given)
            self._requeue(attempts)
        elif kind == KIND:
            runner.is_async = True
            if message[1] in runner.given:
                self._learn(runner.given[message[1]], message[2])
        elif kind == LEAVING:
            runner.leaving = message[1]
            self._pool.leave(runner)
            if message[1] == LEFT_PROCESSES:
                self._kill(runner)
            else:
                self._reap_later(runner)
        elif kind == ASK:
            self._answers.begin(runner, message)
        elif kind == HELLO:
            self._is_ready(runner)
        self._pump_soon()

    def _call_ended(self, runner: RunnerLink, message: Message) -> None:
        attempt = runner.given.pop(message[1], None)
        if attempt is None:
            return
        runner.slow = False
        if message[2] is not None and not runner.is_async:
            runner.took(message[3] - message[2])
            self._learn(attempt, False)
        if not runner.given:
            runner.idle_since = message[3]
            if runner.leaving is not None:
                self._reap_later(runner)
        attempt.runner = None
        outcome = self._read(attempt, message)
        if message[-1] or runner.owner is not None:
            attempt.over = True
            runner.left = attempt, outcome  # it is over when nothing of it is left
            if runner.owner is not None and not message[-1]:
                self._retire(runner)
        else:
            self._end(attempt, outcome)

    def _read(self, attempt: Attempt, message: Message) -> Outcome:
        try:
            return outcome_of(attempt, message)
        except Exception as error:
            # Whatever a function leaves behind, it is reported, and so are those that ended along with it.
            return unstarted(attempt, f"what it left cannot be read: {error!r}")

    def _closed(self, runner: RunnerLink) -> None:
        """Its socket has ended, and so will it; if not, it is of no use."""
        if not runner.ready:
            return  # how it ended is why: that is about to be known
        if runner.reaper is None and not runner.killed:
            runner.reaper = self._loop.call_later(_CLOSED_S, self._kill, runner)
        if runner.leaving is None:
            runner.leaving = "gone"
            self._pool.leave(runner)

    def _requeue(self, attempts: list[Attempt]) -> None:
        """Attempts that a runner was given and has not begun."""
        again = []
        for attempt in attempts:
            attempt.runner = None
            if attempt.stop is not None or not self._open:
                attempt.stop = attempt.stop or "drain"
                self._end(attempt, unstarted(attempt, "stopped before it started"))
            elif self._needs_own(attempt):
                self._start_own(attempt)
            else:
                again.append(attempt)
        self._pool.put_back(again)

    def _learn(self, attempt: Attempt, is_async: bool) -> None:
        if self._is_async(attempt) is is_async:
            return
        if len(self._kinds) >= _FUNCTIONS_MAX:
            self._kinds.clear()
        self._kinds[attempt.root, attempt.launch.spec["function"]] = is_async
        self._pool.sort_again(attempt.root)

    def _is_async(self, attempt: Attempt) -> bool | None:
        return self._kinds.get((attempt.root, attempt.launch.spec["function"]))

    # The end of a runner

    def _runner_gone(self, runner: RunnerLink, death: Outcome) -> None:
        """It is dead, and so is everything below it."""
        while runner.receive():
            pass  # it may have said more before it died than has been read
        self._pool.runners.pop(runner.number, None)
        self._own.pop(runner.number, None)
        self._pool.leave(runner)
        if runner.left is not None:
            attempt, outcome = runner.left
            outcome.killed = death.killed
            if runner.owner is not None:
                take_streams(outcome, death)
            self._end(attempt, outcome)
        if runner.ready:
            self._sort_out(runner, death)
        elif runner.owner is not None:
            self._owner_never_ran(runner.owner, death)
        elif not runner.killed and runner.leaving is None:
            self._never_ready(runner, death)
        runner.discard()
        if not self._pool.runners and not self._own:
            self._empty.set()
        self._pump_soon()

    def _sort_out(self, runner: RunnerLink, death: Outcome) -> None:
        """What a dead runner had been given: whose doing was it, who had not begun, who merely stood beside?"""
        begun, unbegun, culprits = self._inquest.held(runner, death)
        runner.given.clear()
        for attempt in begun:
            attempt.runner = None
            self._end(attempt, cut_short(attempt, runner, death, blamed=attempt in culprits))
        self._requeue(unbegun)

    def _never_ready(self, runner: RunnerLink, death: Outcome) -> None:
        """It could not even start. Another would not, either: say so to all that wait for one."""
        directory = self._pool.directories.get(runner.root)
        if directory is None or directory.runners:
            return
        waiting = [*directory.plain, *directory.beside]
        directory.plain.clear()
        directory.beside.clear()
        for attempt in waiting:
            attempt.stop = attempt.stop or death.stopped
            self._end(attempt, never_ready(attempt, death))

    def _owner_never_ran(self, attempt: Attempt, death: Outcome) -> None:
        attempt.runner = None
        if attempt.stop is None and not self._open:
            attempt.stop = "drain"
        attempt.stop = attempt.stop or (death.stopped if death.stopped == "lease" else None)
        stopped = attempt.stop is not None
        self._end(
            attempt, unstarted(attempt, "stopped before it started") if stopped else never_ready(attempt, death)
        )

    # Reports

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        if attempt.kill is not None:
            attempt.kill.cancel()
        del self._attempts[attempt.launch.task_id, attempt.launch.attempt]
        self._tell(attempt, outcome)

    def _tell(self, attempt: Attempt, outcome: Outcome) -> None:
        try:
            attempt.ended(outcome)
        except Exception as error:
            context = {"message": f"the callback of {attempt.launch.task} failed", "exception": error}
            self._loop.call_exception_handler(context)

    def _pump_soon(self) -> None:
        if not self._pump_due and self._open:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_due = False
        if self._open:
            self._pool.pump()
