"""What executors have in common whose attempts are tasks of the event loop that wait for something elsewhere: they
are found by key, stopped when the node may no longer hold them, and awaited when it closes."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from weft.executors.boot_clock import boottime
from weft.executors.protocol import Ended, Launch, Outcome, StopReason

_CLOSE_S = 60.0
_CLOSE_AWAY_S = 5.0  # while the other side does not answer
_LOOK_S = 0.5

Key = tuple[int, int]  # task, attempt


class AwaitedAttempt(Protocol):
    launch: Launch
    started: float | None

    def begin(self, on_ended: Ended) -> "asyncio.Task[None]": ...
    def stop(self, reason: StopReason, grace_s: float) -> None: ...
    @property
    def stopping(self) -> StopReason | None: ...


AttemptT = TypeVar("AttemptT", bound=AwaitedAttempt)


class AwaitedAttempts(Generic[AttemptT]):
    def __init__(self) -> None:
        self._attempts: dict[Key, AttemptT] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._trusted_until: float | None = None
        self._trust_timer: asyncio.TimerHandle | None = None

    def _begin(self, attempt: AttemptT, on_ended: Ended) -> None:
        key = (attempt.launch.task_id, attempt.launch.attempt)
        self._attempts[key] = attempt
        self._tasks[key] = attempt.begin(partial(self._ended, key, on_ended))

    def _ended(self, key: Key, on_ended: Ended, outcome: Outcome) -> None:
        self._forget(key)
        on_ended(outcome)

    def _forget(self, key: Key) -> None:
        del self._attempts[key], self._tasks[key]

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        found = self._attempts.get((task_id, attempt))
        if found is not None:
            found.stop(reason, grace_s)

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        found = self._attempts.get((task_id, attempt))
        return None if found is None else found.started

    def trust(self, until: float) -> None:
        self._trusted_until = float(until)
        if self._trust_timer is None:
            self._expect_expiry()

    def _trusts(self) -> bool:
        return self._trusted_until is None or boottime() < self._trusted_until

    def _expect_expiry(self) -> None:
        """One timer for all renewals: at its end it looks whether the trust was postponed."""
        assert self._trusted_until is not None
        left = self._trusted_until - boottime()
        if left > 0:
            self._trust_timer = asyncio.get_running_loop().call_later(left, self._expect_expiry)
            return
        self._trust_timer = None
        for attempt in list(self._attempts.values()):
            if not attempt.launch.adoptable:
                attempt.stop("lease", 0.0)

    async def _end_all(self, answers: Callable[[], Awaitable[bool]], reason: StopReason = "cancel") -> None:
        """What may be adopted is left running; all else is stopped, and over, before this returns. It gives up when
        nothing has ended for a while: sooner if the other side does not answer."""
        if self._trust_timer is not None:
            self._trust_timer.cancel()
        for key, attempt in list(self._attempts.items()):
            if attempt.launch.adoptable and attempt.stopping is None:
                await self._abandon(key)
            else:
                attempt.stop(attempt.stopping or reason, 0.0)
        loop = asyncio.get_running_loop()
        last, left = loop.time(), len(self._tasks)
        while self._tasks and loop.time() - last < _CLOSE_S:
            await asyncio.wait(self._tasks.values(), timeout=_LOOK_S)
            if len(self._tasks) < left:
                last, left = loop.time(), len(self._tasks)
            elif loop.time() - last > _CLOSE_AWAY_S and not await answers():
                break
        for key in list(self._tasks):
            await self._abandon(key)

    async def _abandon(self, key: Key) -> None:
        task = self._tasks[key]
        task.cancel()
        await asyncio.wait([task])
        if key in self._tasks:
            self._forget(key)


def misplaced(launch: Launch, engine: str | None) -> Outcome | None:
    """How an attempt ends at once whose handle is on no engine that this node reaches."""
    handle = launch.handle
    if handle is not None and handle.engine == engine:
        return None
    why = "has no handle" if handle is None else f"is on {handle.engine}, and this node reaches {engine}"
    outcome = Outcome(launch.task_id, launch.attempt, False, None, None, boottime(), f"cannot start: it {why}")
    outcome.startable = False
    return outcome
