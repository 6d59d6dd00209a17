"""The simple way to write an executor: a class with one async function, which does the work of an attempt."""

import asyncio
from typing import Any, ClassVar

import msgspec

from weft.executors.boot_clock import boottime
from weft.executors.output import read_streams
from weft.executors.protocol import Ended, Launch, Outcome, StopReason
from weft.executors.python_functions.failure import describe
from weft.executors.python_functions.json_values import plain_value
from weft.executors.remote.followed_output import FollowedOutput

_CANCEL_AGAIN_S = 1.0
_CLOSE_ROUNDS_MAX = 5


class AttemptFailed(Exception):
    """Raise it in `run` to say more of a failure than its text.

    `cause` is what `retry: {on: […]}` can name: a name that begins with a capital letter, a number from 1 to 599, or
    one of its words. `retryable=False`: another attempt would end in the same way. `retry_after_s`: the other side
    asked for as long a delay before another attempt.
    """

    def __init__(
        self,
        message: str,
        *,
        cause: int | str | None = None,
        retryable: bool = True,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class AsyncAttempt:
    """The attempt that `run` works on."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.context: dict[str, Any] = {}  # added to the run's context if the attempt succeeds
        self._stdout = FollowedOutput(launch, "stdout")
        self._stderr = FollowedOutput(launch, "stderr")

    @property
    def idempotency_key(self) -> str:
        """The same for all attempts of a task: services that know it do not repeat an effect."""
        return self.launch.env["WEFT_IDEMPOTENCY_KEY"]

    def print(self, *values: object, error: bool = False) -> None:
        """A line of the attempt's output, which `weft logs` shows; `error`: on its standard error. Secrets are
        masked."""
        stream = self._stderr if error else self._stdout
        stream.write((" ".join(map(str, values)) + "\n").encode("utf-8", "backslashreplace"))

    def _finish(self, outcome: Outcome) -> None:
        """Adds the ends of its output to the outcome."""
        written = self._stdout.finish(), self._stderr.finish()
        lost = self._stdout.error or self._stderr.error
        if written[0][0] or written[1][0]:
            outcome.result = {"stdout": "", "stderr": "", **(outcome.result or {})}
            read_streams(outcome, self.launch, *written)
        if lost is not None and outcome.ok:
            outcome.ok, outcome.error = False, lost


class AsyncExecutor:
    """An executor whose attempts are calls of `run`, on one event loop.

    A stop cancels the call (asyncio.CancelledError), and cancels it again every second until it has ended; a call
    that ignores this, or blocks, cannot be stopped. When the node loses its lease, all calls are cancelled.
    """

    schema: ClassVar[Any] = None  # of the spec: a JSON Schema, or a msgspec Struct, which `run` is then given
    requires: ClassVar[dict[str, Any]] = {}  # of the node: lists of programs, labels, capabilities
    takes_slot: ClassVar[bool] = True  # False: an attempt only waits, and holds no slot of its node

    def __init__(self) -> None:
        self._calls: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._stop_reasons: dict[tuple[int, int], StopReason] = {}
        self._trust: asyncio.TimerHandle | None = None

    async def run(self, spec: Any, attempt: AsyncAttempt) -> Any:
        """Do the work, and return the task's output: a value with a JSON form. What it raises fails the attempt."""
        raise NotImplementedError

    async def open(self) -> None:
        """Prepare what all attempts share."""

    async def check(self) -> str | None:
        """Why no attempt could succeed now, in one line; None: it could. Called every few seconds."""
        return None

    def start(self, launch: Launch, on_ended: Ended) -> None:
        """Start the attempt."""
        key = (launch.task_id, launch.attempt)
        self._calls[key] = asyncio.get_running_loop().create_task(self._call(key, launch, on_ended), name=launch.task)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        """Cancel the call; again every second, should it ignore that."""
        key = (task_id, attempt)
        call = self._calls.get(key)
        if call is None:
            return
        if key not in self._stop_reasons:
            asyncio.get_running_loop().call_later(_CANCEL_AGAIN_S, self._cancel_again, key, call)
        self._stop_reasons[key] = reason
        call.cancel()

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        """At once."""
        return accepted

    def trust(self, until: float) -> None:
        """Cancel all calls then, unless a later call postpones it."""
        if self._trust is not None:
            self._trust.cancel()
        left = max(0.0, until - boottime())
        self._trust = asyncio.get_running_loop().call_later(left, self._stop_all)

    async def close(self) -> None:
        """Cancel all calls, and wait for them."""
        if self._trust is not None:
            self._trust.cancel()
        for _ in range(_CLOSE_ROUNDS_MAX):
            if not self._calls:
                return
            self._stop_all()
            await asyncio.wait(self._calls.values(), timeout=_CANCEL_AGAIN_S)

    def _stop_all(self) -> None:
        for key in list(self._calls):
            self.stop(*key, "lease", 0.0)

    def _cancel_again(self, key: tuple[int, int], call: "asyncio.Task[None]") -> None:
        if self._calls.get(key) is call:
            call.cancel()
            asyncio.get_running_loop().call_later(_CANCEL_AGAIN_S, self._cancel_again, key, call)

    async def _call(self, key: tuple[int, int], launch: Launch, on_ended: Ended) -> None:
        attempt, started = AsyncAttempt(launch), boottime()
        outcome = Outcome(launch.task_id, launch.attempt, True, 0, started, started)
        try:
            spec = launch.spec.get(launch.kind, {})
            if isinstance(self.schema, type):
                spec = msgspec.convert(spec, self.schema)
            value = await self.run(spec, attempt)
            if value is not None:
                outcome.output = plain_value(value, "returned")
            outcome.context = attempt.context or None
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            self._fail(outcome, error, self._stop_reasons.get(key))
        outcome.ended = boottime()
        attempt._finish(outcome)
        del self._calls[key]
        self._stop_reasons.pop(key, None)
        on_ended(outcome)

    def _fail(self, outcome: Outcome, error: BaseException, stopped: StopReason | None) -> None:
        outcome.ok, outcome.exit_code = False, None
        if stopped is not None:
            outcome.stopped, outcome.error = stopped, f"stopped ({stopped})"
            return
        line, kind, message, traceback = describe(error)
        outcome.error = line
        outcome.result = {"error": {"type": kind, "message": message, "traceback": traceback}}
        if isinstance(error, AttemptFailed):
            outcome.error = message
            outcome.cause, outcome.retryable = error.cause, error.retryable
            outcome.retry_after_s = error.retry_after_s
