"""The Python executor: calls `module:function` and `file.py:function` in warm runner processes.

A runner (see python_runner/) is started through the shell executor, as an attempt that lasts. So it is a child of a
spawner, and the guarantees for the processes of a shell task hold for it and all its descendants: a stop ends all of
them, they do not outlive a killed node, and they die at the deadline until which the node is trusted. Each call is a
message.

An attempt with secrets has a dedicated runner, which gets them with the call, writes its output through the spawner's
masker, and ends with the attempt: nothing that a function keeps or prints late reaches another task. If tasks run as
a user of their own (`run_as`), every attempt has a dedicated runner.

A function that ignores a stop is killed with its runner. When a runner dies by itself, only the attempt that was
active fails (see crash_attribution): attempts that had not started go to another runner, other async attempts go back
to the queue.
"""

import asyncio
import marshal
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from weft.executors import linux
from weft.executors.framing import MARSHAL_VERSION
from weft.executors.output import file_stem
from weft.executors.protocol import Ended, Launch, Outcome, StopReason
from weft.executors.python.crash_attribution import CrashAttribution
from weft.executors.python.messages import (
    CallEnded,
    CallsReturned,
    FunctionKind,
    OnceRequest,
    RetireRunner,
    RunnerReady,
    RunnerRetiring,
    StartCall,
    StopCall,
)
from weft.executors.python.once_answers import OnceAnswers
from weft.executors.python.outcome import interrupted, not_started, outcome_of, runner_not_started, take_streams
from weft.executors.python.pool import RunnerPool
from weft.executors.python.runner_link import PythonAttempt, RunnerLink, RunnerPlace
from weft.executors.python.runner_process import RunnerCommand, missing_interpreter
from weft.executors.shell.executor import ShellExecutor

_EXIT_S = 2.0  # for a retiring runner to exit by itself
_CLOSED_S = 0.5  # between the end of a runner's socket and its exit
_GRACE_RECHECK_S = 0.1
_IDLE_CHECK_S = 5.0
_STOPPED_EARLY = "stopped before it started"


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
        """`runners` is the maximum number of shared runners (default: the number of cores); they are started on
        demand.

        `shell` starts the runners; by default this executor opens one of its own, with the node's environment. A
        runner is replaced after `tasks_max` calls, when its memory has grown by `growth_max` bytes, or when a file of
        its modules changed, and retires after `idle_s` seconds without work. `value_max` bounds the JSON that a
        function returns.
        """
        self._shell = shell or ShellExecutor(workdir, spawners=1)
        self._owns_shell = shell is None
        self._workdir = os.path.abspath(workdir or os.getcwd())
        self._command = RunnerCommand(python or sys.executable, tasks_max, growth_max, value_max)
        self._idle_s = idle_s
        self._pool = RunnerPool(runners or os.cpu_count() or 1, self._start_runner, self._assign, self._retire)
        self._attempts: dict[tuple[int, int], PythonAttempt] = {}
        self._dedicated: dict[int, RunnerLink] = {}  # dedicated runners, by number
        self._hidden: dict[str, None] = {}  # variables that no runner may have from the node's environment
        self._once_answers = OnceAnswers()
        self._crashes = CrashAttribution()
        self._last_id = self._last_runner = 0
        self._dispatch_scheduled = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._no_runners = asyncio.Event()
        self._open = False

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._owns_shell:
            await self._shell.open()
        self._open = True

    @property
    def runner_count(self) -> int:
        return len(self._pool.runners) + len(self._dedicated)

    def start(self, launch: Launch, on_ended: Ended) -> None:
        if not self._open:
            raise RuntimeError("the Python executor is not open")
        self._last_id = id = self._last_id + 1
        place = RunnerPlace(launch.cwd or self._workdir, launch.spec.get("interpreter"))
        attempt = PythonAttempt(id, launch, on_ended, b"", place, linux.boottime())
        try:
            attempt.arguments = marshal.dumps(launch.spec.get("with") or {}, MARSHAL_VERSION)
        except ValueError as error:
            outcome = not_started(attempt, f"its arguments cannot be sent: {error}")
            self._loop.call_soon(self._report, attempt, outcome)
            return
        if place.python is not None and (missing := missing_interpreter(place.python)):
            self._loop.call_soon(self._report, attempt, not_started(attempt, missing))
            return
        self._attempts[launch.task_id, launch.attempt] = attempt
        if launch.hidden:
            self._hide(launch.hidden)
        if self._needs_dedicated(attempt):
            self._start_dedicated(attempt)
            return
        self._pool.add(attempt)
        self._dispatch_soon()

    def _hide(self, names: tuple[str, ...]) -> None:
        """Retire the runners that were started before these variables were known to be secrets: they have them."""
        if all(name in self._hidden for name in names):
            return
        self._hidden.update(dict.fromkeys(names))
        for runner in list(self._pool.runners.values()):
            if runner.retiring is None:
                self._retire(runner)

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        found = self._attempts.get((task_id, attempt))
        if found is None or found.ended:
            return accepted
        return None if found.runner is None else found.runner.started(found)

    def trust(self, until: float) -> None:
        self._shell.trust(until)

    async def close(self) -> None:
        self._open = False
        self._once_answers.close()
        for place in list(self._pool.queues):
            for attempt in self._pool.take_all(place):
                attempt.stop = "drain"
                self._end(attempt, not_started(attempt, _STOPPED_EARLY))
        for runner in [*self._pool.runners.values(), *self._dedicated.values()]:
            self._kill(runner)
        if self._owns_shell:
            await self._shell.close()
        if self._pool.runners or self._dedicated:
            await self._no_runners.wait()
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    # Stopping

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        target = self._attempts.get((task_id, attempt))
        if target is None or target.ended:
            return
        runner = target.runner
        if reason == "timeout" and (runner is None or not runner.has_started(target)):
            # Time spent waiting for a runner does not count.
            seconds = linux.boottime() - target.accepted
            self._set_timer(target, seconds, lambda: self._check_timeout(target, seconds, grace_s))
        elif runner is None:
            self._stop_waiting(target, reason)
        elif runner.owner is not None and not runner.assigned:
            target.stop = target.stop or reason
            self._kill(runner)  # the dedicated runner is not ready yet
        else:
            self._stop_in_runner(runner, target, reason, grace_s)

    def _stop_in_runner(self, runner: RunnerLink, attempt: PythonAttempt, reason: StopReason, grace_s: float) -> None:
        if attempt.stop is None:
            attempt.stop = reason
            if grace_s > 0 or not runner.has_started(attempt):  # without grace, its code must not run any more
                runner.send(StopCall(attempt.id))
        if grace_s > 0:
            self._set_timer(attempt, grace_s, lambda: self._grace_over(runner, attempt))
        else:
            self._grace_over(runner, attempt)

    def _grace_over(self, runner: RunnerLink, attempt: PythonAttempt) -> None:
        if attempt.runner is not runner:
            return
        if runner.has_started(attempt) or attempt.stop == "lease":
            self._kill(runner)
        else:
            # It waits behind another function, which must not be killed for it.
            self._set_timer(attempt, _GRACE_RECHECK_S, lambda: self._grace_over(runner, attempt))

    def _check_timeout(self, attempt: PythonAttempt, seconds: float, grace_s: float) -> None:
        """Handle a timeout that was postponed because the attempt had not started."""
        runner = attempt.runner
        left = seconds
        if runner is not None and runner.has_started(attempt):
            assert runner.active is not None
            started = attempt.sent if runner.is_async else runner.active.started
            left = started + seconds - linux.boottime()
            if left <= 0:
                self._stop_in_runner(runner, attempt, "timeout", grace_s)
                return
        self._set_timer(attempt, min(left, seconds), lambda: self._check_timeout(attempt, seconds, grace_s))

    def _set_timer(self, attempt: PythonAttempt, seconds: float, callback: Callable[[], None]) -> None:
        if attempt.timer is not None:
            attempt.timer.cancel()
        attempt.timer = self._loop.call_later(seconds, callback)

    def _stop_waiting(self, attempt: PythonAttempt, reason: StopReason) -> None:
        self._pool.remove(attempt)
        attempt.stop = reason
        attempt.ended = True
        self._loop.call_soon(self._end, attempt, not_started(attempt, _STOPPED_EARLY))

    # Runners

    def _needs_dedicated(self, attempt: PythonAttempt) -> bool:
        """With secrets; and always if tasks run as another user, who may not create files in the output directory."""
        return bool(attempt.launch.secrets) or self._shell.user is not None

    def _start_dedicated(self, attempt: PythonAttempt) -> None:
        """The number of dedicated runners is bounded by the node's slots, not by `runners`."""
        attempt.runner = self._start_runner(attempt.place, attempt)
        self._dedicated[attempt.runner.number] = attempt.runner

    def _start_runner(self, place: RunnerPlace, owner: PythonAttempt | None = None) -> RunnerLink:
        self._last_runner = number = self._last_runner + 1
        runner = RunnerLink(number, place, linux.boottime())
        runner.owner = owner
        self._no_runners.clear()
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(min(_IDLE_CHECK_S, self._idle_s), self._retire_idle)
        try:
            own_end, runner_end = socket.socketpair()
            output_dir = self._shell.private.path
        except OSError as error:
            death = Outcome(-number, 1, False, None, None, linux.boottime(), f"cannot create its socket: {error}")
            death.startable = False
            self._loop.call_soon(self._runner_ended, runner, death)
            return runner
        if owner is None:
            launch = self._command.shared(number, place, output_dir, tuple(self._hidden))
        else:
            launch = self._command.dedicated(number, place, owner.launch)
        runner.connect(own_end, self._handle, self._socket_closed)
        self._shell.start(launch, lambda outcome: self._runner_ended(runner, outcome), runner_end.detach())
        return runner

    def _runner_ready(self, runner: RunnerLink) -> None:
        runner.idle_since = linux.boottime()
        if runner.owner is not None and runner.retiring is None:
            self._assign(runner, runner.owner)

    def _assign(self, runner: RunnerLink, attempt: PythonAttempt) -> None:
        attempt.runner = runner
        attempt.sent = linux.boottime()
        runner.assigned[attempt.id] = attempt
        launch = attempt.launch
        stem = file_stem(launch.task, launch.attempt)
        variables = {**launch.env, **launch.secrets} if launch.secrets else launch.env
        runner.send(
            StartCall(
                attempt.id, launch.spec["function"], attempt.arguments, variables, launch.output_dir, stem,
                launch.output_max, launch.workspace,
            )
        )  # fmt: skip

    def _retire(self, runner: RunnerLink) -> None:
        """Let it finish the calls that have started and exit by itself; it returns the others."""
        runner.retiring = "requested"
        self._pool.withdraw(runner)
        runner.send(RetireRunner())
        self._kill_later(runner)

    def _kill_later(self, runner: RunnerLink) -> None:
        """Give a retiring runner without assigned attempts some time to exit."""
        if not runner.assigned and runner.exit_timer is None:
            runner.exit_timer = self._loop.call_later(_EXIT_S, self._kill, runner)

    def _kill(self, runner: RunnerLink) -> None:
        runner.killed = True
        runner.retiring = runner.retiring or "killed"
        self._pool.withdraw(runner)
        self._shell.stop(*runner.shell_attempt, "drain", 0.0)
        self._dispatch_soon()

    def _retire_idle(self) -> None:
        self._idle_timer = None
        limit = linux.boottime() - self._idle_s
        for runner in list(self._pool.runners.values()):
            if runner.idle and runner.idle_since <= limit:
                self._retire(runner)
        if self._pool.runners and self._open:
            self._idle_timer = self._loop.call_later(min(_IDLE_CHECK_S, self._idle_s), self._retire_idle)

    # Messages from runners

    def _handle(self, runner: RunnerLink, message: Any) -> None:
        kind = type(message)
        if kind is CallEnded:
            self._call_ended(runner, message)
        elif kind is CallsReturned:
            attempts = [runner.assigned.pop(id) for id in message.ids if id in runner.assigned]
            runner.slow = bool(runner.assigned)
            self._requeue(attempts)
        elif kind is FunctionKind:
            runner.is_async = True
            if message.id in runner.assigned:
                self._pool.learn(runner.assigned[message.id], message.is_async)
        elif kind is RunnerRetiring:
            runner.retiring = message.reason
            self._pool.withdraw(runner)
            if message.reason == "left processes":
                self._kill(runner)
            else:
                self._kill_later(runner)
        elif kind is OnceRequest:
            self._once_answers.answer(runner, message)
        elif kind is RunnerReady:
            self._runner_ready(runner)
        self._dispatch_soon()

    def _call_ended(self, runner: RunnerLink, message: CallEnded) -> None:
        attempt = runner.assigned.pop(message.id, None)
        if attempt is None:
            return
        runner.slow = False
        runner.call_ended = message.ended
        if message.started is not None and not runner.is_async:
            runner.record_duration(message.ended - message.started)
            self._pool.learn(attempt, False)
        if not runner.assigned:
            runner.idle_since = message.ended
            if runner.retiring is not None:
                self._kill_later(runner)
        attempt.runner = None
        outcome = self._read_outcome(attempt, message)
        if message.processes_left or runner.owner is not None:
            # Reported when its processes are gone: with the runner.
            attempt.ended = True
            runner.unreported = attempt, outcome
            if runner.owner is not None and not message.processes_left:
                self._retire(runner)
        else:
            self._end(attempt, outcome)

    def _read_outcome(self, attempt: PythonAttempt, message: CallEnded) -> Outcome:
        try:
            return outcome_of(attempt, message)
        except Exception as error:
            # Whatever files a function leaves, it is reported, and so are the other attempts of the same frame.
            return not_started(attempt, f"its results cannot be read: {error!r}")

    def _socket_closed(self, runner: RunnerLink) -> None:
        """The runner is exiting; if it does not exit soon, it is killed."""
        if not runner.ready:
            return  # its exit is about to be reported, and says why
        if runner.exit_timer is None and not runner.killed:
            runner.exit_timer = self._loop.call_later(_CLOSED_S, self._kill, runner)
        if runner.retiring is None:
            runner.retiring = "socket closed"
            self._pool.withdraw(runner)

    def _requeue(self, attempts: list[PythonAttempt]) -> None:
        """Attempts that were assigned to a runner and have not started."""
        waiting = []
        for attempt in attempts:
            attempt.runner = None
            if attempt.stop is not None or not self._open:
                attempt.stop = attempt.stop or "drain"
                self._end(attempt, not_started(attempt, _STOPPED_EARLY))
            elif self._needs_dedicated(attempt):
                self._start_dedicated(attempt)
            else:
                waiting.append(attempt)
        self._pool.put_back(waiting)

    # The end of a runner

    def _runner_ended(self, runner: RunnerLink, death: Outcome) -> None:
        """The runner is dead, and so are all its descendants."""
        while runner.receive():
            pass  # it may have sent messages before it died that are not read yet
        self._pool.runners.pop(runner.number, None)
        self._dedicated.pop(runner.number, None)
        self._pool.withdraw(runner)
        if runner.unreported is not None:
            attempt, outcome = runner.unreported
            outcome.killed = death.killed
            if runner.owner is not None:
                take_streams(outcome, death)
            self._end(attempt, outcome)
        if runner.ready:
            self._end_assigned(runner, death)
        elif runner.owner is not None:
            self._dedicated_not_started(runner.owner, death)
        elif not runner.killed and runner.retiring is None:
            self._runner_not_started(runner, death)
        runner.discard()
        if not self._pool.runners and not self._dedicated:
            self._no_runners.set()
        self._dispatch_soon()

    def _end_assigned(self, runner: RunnerLink, death: Outcome) -> None:
        """End the attempts that had started in a dead runner, and assign the others to another one."""
        attribution = self._crashes.attribute(runner, death)
        runner.assigned.clear()
        for attempt in attribution.started:
            attempt.runner = None
            self._end(attempt, interrupted(attempt, runner, death, at_fault=attempt in attribution.at_fault))
        self._requeue(attribution.not_started)

    def _runner_not_started(self, runner: RunnerLink, death: Outcome) -> None:
        """The runner ended before it was ready. Another would, too: fail all attempts that wait for one."""
        queue = self._pool.queues.get(runner.place)
        if queue is None or queue.runners:
            return
        for attempt in self._pool.take_all(runner.place):
            attempt.stop = attempt.stop or death.stopped
            self._end(attempt, runner_not_started(attempt, death))

    def _dedicated_not_started(self, attempt: PythonAttempt, death: Outcome) -> None:
        attempt.runner = None
        if attempt.stop is None and not self._open:
            attempt.stop = "drain"
        attempt.stop = attempt.stop or (death.stopped if death.stopped == "lease" else None)
        if attempt.stop is not None:
            self._end(attempt, not_started(attempt, _STOPPED_EARLY))
        else:
            self._end(attempt, runner_not_started(attempt, death))

    # Reports

    def _end(self, attempt: PythonAttempt, outcome: Outcome) -> None:
        if attempt.timer is not None:
            attempt.timer.cancel()
        del self._attempts[attempt.launch.task_id, attempt.launch.attempt]
        self._report(attempt, outcome)

    def _report(self, attempt: PythonAttempt, outcome: Outcome) -> None:
        try:
            attempt.on_ended(outcome)
        except Exception as error:
            context = {"message": f"the callback of {attempt.launch.task} failed", "exception": error}
            self._loop.call_exception_handler(context)

    def _dispatch_soon(self) -> None:
        if not self._dispatch_scheduled and self._open:
            self._dispatch_scheduled = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._dispatch_scheduled = False
        if self._open:
            self._pool.dispatch()
