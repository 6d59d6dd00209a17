"""One attempt on Cloud Run: its job is run with a marker in its variables, polled, cancelled if need be, reported.

The service names executions itself, and running a job twice makes two of them. So after an answer that was lost the
marker is looked for before the job is run again, and an attempt that may have run it twice ends only when the service
says of every execution with its marker that it has ended.
"""

import asyncio
import random
import time
from collections.abc import Callable

import msgspec

from weft.executors.boot_clock import boottime
from weft.executors.cloud_run.api import CloudRunApi, CloudRunError
from weft.executors.cloud_run.objects import Execution, ExecutionTask, LongRunningOperation
from weft.executors.cloud_run.outcome import FAILURES_MAX, CloudRunEnding, ended, make_outcome
from weft.executors.cloud_run.run_request import MARKER, BadCloudRunTask, run_request
from weft.executors.protocol import Ended, Handle, Launch, StopReason
from weft.executors.remote.followed_output import FollowedOutput
from weft.executors.remote.http_connection import Unreachable

_JITTER = 0.2
_GROWTH = 1.5
_AGAIN_MAX_S = 60.0
_ASK_AGAIN_S = 30.0  # after a cancel that nothing came of
_PASSING_CODES = (4, 8, 10, 13, 14)  # of operations: deadline, quota, aborted, internal, unavailable


class Pace(msgspec.Struct, frozen=True):
    """How often the service is asked, in seconds. `settle`: how long after a request whose answer was lost its effect
    may still appear."""

    first: float = 2.0
    most: float = 30.0
    again: float = 1.0
    settle: float = 30.0


class CloudRunStop(msgspec.Struct):
    reason: StopReason
    asked: float  # when it was first asked for; CLOCK_BOOTTIME


class CloudRunAttempt:
    def __init__(
        self,
        api: CloudRunApi,
        launch: Launch,
        handle: Handle,
        trusted: Callable[[], bool],
        pace: Pace,
        least_s: Callable[[], float],
    ) -> None:
        """`least_s`: what polls are apart at least, because all attempts of a node share a quota."""
        self._api = api
        self.launch = launch
        self.handle = handle
        self._trusted = trusted
        self._pace = pace
        self._least_s = least_s
        self._changed = asyncio.Event()
        self._exists = launch.adopted  # something may run
        self._unclear_at: float | None = None if not launch.adopted else boottime()
        self._name: str | None = None  # of its execution
        self._last: Execution | None = None
        self.started: float | None = None
        self.stop_request: CloudRunStop | None = None
        self._said = ""

    def begin(self, on_ended: Ended) -> "asyncio.Task[None]":
        return asyncio.get_running_loop().create_task(self.run(on_ended))

    @property
    def stopping(self) -> StopReason | None:
        return None if self.stop_request is None else self.stop_request.reason

    def stop(self, reason: StopReason, grace_s: float) -> None:
        """Cloud Run has a grace of its own: SIGTERM, and SIGKILL ten seconds later."""
        self.stop_request = CloudRunStop(reason, self.stop_request.asked if self.stop_request else boottime())
        self._changed.set()

    async def run(self, on_ended: Ended) -> None:
        try:
            ending = await self._live()
        except Exception as error:
            ending = CloudRunEnding(f"the executor failed: {error!r}")
            self._unclear_at = boottime()
        if self._exists and (self._unclear_at is not None or ending.execution is None or ending.stopped is not None):
            await self._until_over(ending)
        on_ended(make_outcome(self.launch, ending))

    async def _live(self) -> CloudRunEnding:
        early = await (self._adopt() if self.launch.adopted else self._create())
        return early if early is not None else await self._watch()

    # -- running it --------------------------------------------------------------------------------------

    async def _create(self) -> CloudRunEnding | None:
        """None: there is an execution, and it has a name."""
        try:
            body = run_request(self.launch, self.handle)
        except BadCloudRunTask as error:
            return CloudRunEnding(f"cannot start: {error}", retryable=False)
        pause = self._pace.again
        while self.stop_request is None:
            if not self._trusted():  # the attempt may be another node's by now
                self.stop("lease", 0.0)
                break
            before, self._exists = self._exists, True
            wait_s = 0.0
            try:
                refusal = await self._name_of(await self._api.run(self.handle.place, body))
                if self._name is not None:
                    return None
                if refusal is not None:
                    return refusal
                self._unclear_at = boottime()
            except Unreachable as error:
                self._unclear_at = boottime()
                self._say(f"Cloud Run does not answer: {error}")
            except CloudRunError as error:
                if error.unclear:
                    self._unclear_at = boottime()
                else:
                    self._exists = before
                if not error.passing:
                    cause = error.status
                    return CloudRunEnding(f"Cloud Run refuses it: {error}", retryable=False, cause=cause)
                self._say(f"Cloud Run refuses it for now: {error}")
                wait_s = error.retry_after or 0.0
            if self._unclear_at is not None and await self._look():
                return None
            await self._wait(max(_spread(pause), wait_s))
            pause = min(pause * 2, _AGAIN_MAX_S)
        return self._stopped()

    async def _name_of(self, operation: LongRunningOperation) -> CloudRunEnding | None:
        """Sets the name. Neither that nor an ending: it may be run again, once its marker was looked for."""
        pause = self._pace.again
        while self.stop_request is None:
            self._name = operation.execution
            if self._name is not None:
                return None
            if operation.error is not None:
                if operation.error.code in _PASSING_CODES:
                    self._say(f"Cloud Run refuses it for now: {operation.error.message}")
                    return None
                return CloudRunEnding(f"Cloud Run could not run it: {operation.error.message}", retryable=False)
            if operation.done:
                return None
            self._say("Cloud Run has accepted it, and not named it yet")
            await self._wait(_spread(pause))
            pause = min(pause * _GROWTH, self._pace.most)
            try:
                operation = await self._api.operation(operation.name)
            except (Unreachable, CloudRunError) as error:
                if isinstance(error, CloudRunError) and not error.passing:
                    return None
        return None

    async def _look(self) -> bool:
        """Look for the marker until a lost request must have had its effect."""
        pause = self._pace.again
        while self.stop_request is None:
            began = boottime()
            try:
                found = await self._marked()
                if found:
                    self._name = found[0].name
                    return True
                if self._is_settled(began):
                    return False
            except (Unreachable, CloudRunError) as error:
                self._say(f"Cloud Run does not say whether it runs: {error}")
            await self._wait(_spread(pause))
            pause = min(pause * 2, max(self._pace.settle / 4, self._pace.again))
        return False

    def _is_settled(self, now: float) -> bool:
        return self._unclear_at is None or now - self._unclear_at >= self._pace.settle

    async def _marked(self) -> list[Execution]:
        found = await self._api.executions(self.handle.place)
        return [one for one in found if one.marker(MARKER) == self.handle.name]

    async def _adopt(self) -> CloudRunEnding | None:
        """What the marker finds. The node before may have sent its request at the last moment."""
        if await self._look():
            self._unclear_at = None
            return None
        if self.stop_request is not None:
            return self._stopped()
        self._exists = False
        return CloudRunEnding("Cloud Run has no execution of it", forgotten=True)

    # -- watching it -------------------------------------------------------------------------------------

    async def _watch(self) -> CloudRunEnding:
        assert self._name is not None
        every, failed = self._pace.first, self._pace.again
        while True:
            try:
                execution = await self._api.execution(self._name)
                failed = self._pace.again
            except (Unreachable, CloudRunError) as error:
                self._say(f"Cloud Run does not say how it is going: {error}")
                if self.stop_request is not None:
                    return self._stopped()
                await self._wait(_spread(failed))
                failed = min(failed * 2, _AGAIN_MAX_S)
                continue
            if execution is None:
                return CloudRunEnding("its execution was deleted, and not by Weft", self._last, started=self.started)
            self._note(execution)
            if execution.completed is not None:
                return ended(execution, await self._failures(execution), self.started)
            if self.stop_request is not None:
                return self._stopped()
            await self._wait(max(_spread(every), self._least_s()))
            every = min(every * _GROWTH, self._pace.most)

    def _note(self, execution: Execution) -> None:
        if self._last is None:
            self._write(execution)
        # Of what the template says nothing is needed any more: a waiting attempt is small.
        self._last = msgspec.structs.replace(execution, template=_NO_TEMPLATE)
        if self.started is None and (execution.start_time or execution.running_count):
            self.started = boottime()
        over = execution.succeeded_count + execution.failed_count + execution.cancelled_count
        if execution.completed is None:
            waits = "waits to be started" if self.started is None else f"{over} of {execution.task_count} tasks ended"
            self._say(f"{execution.name.rpartition('/')[2]}: {waits}")

    def _write(self, execution: Execution) -> None:
        """Its output is in Cloud Logging: say where."""
        launch = msgspec.structs.replace(self.launch, adopted=False)
        output = FollowedOutput(launch, "stderr")
        stamp = time.strftime("%H:%M:%S", time.gmtime())
        where = f", its output is at {execution.log_uri}" if execution.log_uri else ""
        output.write(f"{stamp} execution {execution.name}{where}\n".encode())
        output.finish()

    async def _failures(self, execution: Execution) -> list[ExecutionTask]:
        if not execution.failed_count:
            return []
        try:
            return await self._api.failed_tasks(execution.name, FAILURES_MAX)
        except (Unreachable, CloudRunError):
            return []  # they only explain: how the execution ended is known

    def _stopped(self) -> CloudRunEnding:
        return CloudRunEnding("", self._last, started=self.started, stopped=self.stop_request)

    # -- its end -----------------------------------------------------------------------------------------

    async def _until_over(self, ending: CloudRunEnding) -> None:
        """Cancel all that has its marker, but for what the ending is about; until the service says that it ended."""
        pause = self._pace.again
        asked: dict[str, float] = {}
        while True:
            try:
                began = boottime()
                alive = await self._alive()
                for execution in alive:
                    if began - asked.get(execution.name, float("-inf")) >= _ASK_AGAIN_S:
                        await self._api.cancel(execution.name)
                        asked[execution.name] = began
                if not alive and self._is_settled(began):
                    break
                if alive:
                    self._say(f"waits until {alive[0].name.rpartition('/')[2]} is cancelled")
                    pause = min(pause, self._pace.first)
            except (Unreachable, CloudRunError) as error:
                self._say(f"Cloud Run does not say whether it has ended: {error}")
            self._changed.clear()
            await asyncio.sleep(_spread(pause))
            pause = min(pause * _GROWTH, self._pace.most)
        ending.gone = boottime()
        if ending.stopped is not None:
            ending.stopped, ending.execution = self.stop_request, self._last

    async def _alive(self) -> list[Execution]:
        if self._name is not None and self._unclear_at is None:
            execution = await self._api.execution(self._name)
            found = [] if execution is None else [execution]
        else:
            found = await self._marked()
        for execution in found:
            if execution.name == self._name or self._name is None:
                self._note(execution)
        return [one for one in found if one.completed is None]

    # -- waiting -----------------------------------------------------------------------------------------

    async def _wait(self, seconds: float) -> None:
        """Or until a stop is asked for."""
        self._changed.clear()
        if self.stop_request is not None:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _say(self, text: str) -> None:
        if text != self._said and self.launch.progress is not None:
            self._said = text
            self.launch.progress(self.launch.task_id, self.launch.attempt, text)


_NO_TEMPLATE = Execution().template


def _spread(seconds: float) -> float:
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)
