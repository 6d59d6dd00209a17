"""The Cloud Run executor: each attempt is an execution of a job.

The engine is the API itself: one executor serves all projects and regions that its credentials reach, so a handle's
place names the job. A job cannot be run inert: what a request has started whose sender is gone may show up a little
later, so absence is believed only after a while.
"""

import asyncio
import ssl
from collections.abc import Sequence

from weft.executors.boot_clock import boottime
from weft.executors.cloud_run.api import ENDPOINT, CloudRunApi, CloudRunError
from weft.executors.cloud_run.attempt import CloudRunAttempt, Pace
from weft.executors.cloud_run.credentials import credentials_of
from weft.executors.cloud_run.run_request import MARKER, place_of
from weft.executors.protocol import Ended, Handle, Launch
from weft.executors.remote.awaited_attempts import AwaitedAttempts, misplaced
from weft.executors.remote.http_connection import Unreachable
from weft.executors.remote.names import attempt_name

POLLS_PER_S = 20.0  # of all attempts of a node together: the API has a quota
_ANSWER_S = 5.0
_REMOVE_S = 15.0
_PACE = Pace()


class CloudRunExecutor(AwaitedAttempts[CloudRunAttempt]):
    kinds = frozenset({"cloud_run"})

    def __init__(
        self,
        endpoint: str | None = None,
        token_file: str | None = None,
        pace: Pace = _PACE,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__()
        self._endpoint = endpoint or ENDPOINT
        self._token_file = token_file
        self._pace = pace
        self._tls = tls
        self._api: CloudRunApi | None = None
        self._usable = False
        self._absent_since: dict[Handle, float] = {}

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
        refused = misplaced(launch, self._identity)
        if refused is not None:
            asyncio.get_running_loop().call_soon(on_ended, refused)
            return
        assert launch.handle is not None
        self._begin(
            CloudRunAttempt(self._api, launch, launch.handle, self._trusts, self._pace, self._least_s), on_ended
        )

    def _least_s(self) -> float:
        return len(self._attempts) / POLLS_PER_S

    async def close(self) -> None:
        await self._end_all(self._answers)
        if self._api is not None:
            await self._api.credentials.close()
            self._api.close()

    async def _answers(self) -> bool:
        assert self._api is not None
        attempt = next(iter(self._attempts.values()), None)
        if attempt is None:
            return True
        try:
            async with asyncio.timeout(_ANSWER_S):
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
