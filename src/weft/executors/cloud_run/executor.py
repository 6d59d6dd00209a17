"""The Cloud Run executor: each attempt is an execution of a job.

The engine is the API itself: one executor serves all projects and regions that its credentials reach, so a handle's
place names the job. A job cannot be run inert: what a request has started whose sender is gone may show up a little
later, so absence is believed only after a while.
"""

import asyncio
import ssl
from collections.abc import Sequence
from functools import partial

from weft.executors.boot_clock import boottime
from weft.executors.cloud_run.api import ENDPOINT, CloudRunApi, CloudRunError
from weft.executors.cloud_run.attempt import CloudRunAttempt, Pace
from weft.executors.cloud_run.credentials import credentials_of
from weft.executors.cloud_run.run_request import MARKER, place_of
from weft.executors.protocol import Ended, Handle, Launch, Outcome, StopReason
from weft.executors.remote.http_connection import Unreachable
from weft.executors.remote.names import attempt_name

POLLS_PER_S = 20.0  # of all attempts of a node together: the API has a quota
_CLOSE_S = 60.0
_CLOSE_AWAY_S = 5.0  # while the API does not answer
_REMOVE_S = 15.0
_PACE = Pace()


class CloudRunExecutor:
    kinds = frozenset({"cloud_run"})

    def __init__(
        self,
        endpoint: str | None = None,
        token_file: str | None = None,
        pace: Pace = _PACE,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._endpoint = endpoint or ENDPOINT
        self._token_file = token_file
        self._pace = pace
        self._tls = tls
        self._api: CloudRunApi | None = None
        self._usable = False
        self._attempts: dict[tuple[int, int], CloudRunAttempt] = {}
        self._tasks: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._absent_since: dict[Handle, float] = {}
        self._trusted_until: float | None = None
        self._trust_timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        self._api = CloudRunApi(self._endpoint, credentials_of(self._token_file), self._tls)

    # -- the engine --------------------------------------------------------------------------------------

    async def check(self) -> str | None:
        """Whether there are credentials: the API itself is asked about jobs only, by name."""
        assert self._api is not None
        problem = await self._api.credentials.check()
        self._usable = problem is None
        return problem

    @property
    def engine(self) -> str | None:
        return self._identity if self._usable else None

    @property
    def _identity(self) -> str:
        assert self._api is not None
        return f"cloud_run:{self._api.host}"

    def handle(self, launch: Launch) -> Handle:
        name = attempt_name(launch.run_id, launch.task, launch.attempt)
        return Handle(self._identity, name, place_of(launch.spec["cloud_run"]))

    # -- attempts ----------------------------------------------------------------------------------------

    def start(self, launch: Launch, on_ended: Ended) -> None:
        assert self._api is not None
        loop = asyncio.get_running_loop()
        handle = launch.handle
        if handle is None or handle.engine != self._identity:
            why = "has no handle" if handle is None else f"is on {handle.engine}, and this node asks {self._identity}"
            outcome = Outcome(
                launch.task_id, launch.attempt, False, None, None, boottime(), f"cannot start: it {why}"
            )
            outcome.startable = False
            loop.call_soon(on_ended, outcome)
            return
        key = (launch.task_id, launch.attempt)
        attempt = CloudRunAttempt(self._api, launch, handle, self._trusts, self._pace, self._least_s)
        self._attempts[key] = attempt
        self._tasks[key] = loop.create_task(attempt.run(partial(self._ended, key, on_ended)))

    def _least_s(self) -> float:
        return len(self._attempts) / POLLS_PER_S

    def _ended(self, key: tuple[int, int], on_ended: Ended, outcome: Outcome) -> None:
        self._attempts.pop(key)
        self._tasks.pop(key)
        on_ended(outcome)

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

    async def close(self) -> None:
        """What may be adopted is left running; all else is cancelled, and over, before this returns."""
        for key, attempt in list(self._attempts.items()):
            if attempt.launch.adoptable and attempt.stop_request is None:
                await self._abandon(key)
            elif attempt.stop_request is None:
                attempt.stop("cancel", 0.0)
        loop = asyncio.get_running_loop()
        last, left = loop.time(), len(self._tasks)
        while self._tasks and loop.time() - last < _CLOSE_S:
            await asyncio.wait(self._tasks.values(), timeout=0.5)
            if len(self._tasks) < left:
                last, left = loop.time(), len(self._tasks)
            elif loop.time() - last > _CLOSE_AWAY_S and not await self._answers():
                break
        for key in list(self._tasks):
            await self._abandon(key)
        if self._trust_timer is not None:
            self._trust_timer.cancel()
        if self._api is not None:
            await self._api.credentials.close()
            self._api.close()

    async def _abandon(self, key: tuple[int, int]) -> None:
        self._tasks[key].cancel()
        await asyncio.wait([self._tasks[key]])
        self._attempts.pop(key, None)
        self._tasks.pop(key, None)

    async def _answers(self) -> bool:
        assert self._api is not None
        attempt = next(iter(self._attempts.values()), None)
        if attempt is None:
            return True
        try:
            async with asyncio.timeout(_CLOSE_AWAY_S):
                await self._api.executions(attempt.handle.place)
        except (Unreachable, CloudRunError, TimeoutError):
            return False
        return True

    # -- what others left --------------------------------------------------------------------------------

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        """One list for all handles of a job."""
        own = {attempt.handle for attempt in self._attempts.values()}
        by_place: dict[str, list[Handle]] = {}
        for handle in handles:
            if handle.engine == self._identity and handle not in own:
                by_place.setdefault(handle.place, []).append(handle)
        found = await asyncio.gather(*(self._remove_at(place, some) for place, some in by_place.items()))
        return [handle for some in found for handle in some]

    async def _remove_at(self, place: str, handles: list[Handle]) -> list[Handle]:
        assert self._api is not None
        gone: list[Handle] = []
        try:
            async with asyncio.timeout(_REMOVE_S):
                while True:
                    alive = await self._cancel_at(place, handles, gone)
                    handles = [handle for handle in handles if handle not in gone]
                    if not alive:
                        return gone
                    await asyncio.sleep(self._pace.again)
        except (Unreachable, CloudRunError, TimeoutError):
            return gone

    async def _cancel_at(self, place: str, handles: list[Handle], gone: list[Handle]) -> bool:
        """Whether something of them runs; those of which nothing does are added to `gone`."""
        assert self._api is not None
        now = boottime()
        executions = await self._api.executions(place)
        alive = False
        for handle in handles:
            own = [one for one in executions if one.marker(MARKER) == handle.name]
            running = [one for one in own if one.completed is None]
            for one in running:
                alive = True
                await self._api.cancel(one.name)
            if running:
                continue
            since = self._absent_since.setdefault(handle, now)
            if own or now - since >= self._pace.settle:
                self._absent_since.pop(handle, None)
                gone.append(handle)
        return alive
