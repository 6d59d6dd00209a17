"""The HTTP executor: an attempt is a request, and polls for the end of what the service only accepted.

Nothing of an attempt outlives its node but what the service does. A later attempt sends the same idempotency key.
"""

import asyncio
import resource
from functools import partial

from weft.executors.boot_clock import boottime
from weft.executors.http_call.addresses import AddressRules
from weft.executors.http_call.attempt import HttpAttempt
from weft.executors.http_call.client import HttpClient
from weft.executors.protocol import Ended, Launch, Outcome, StopReason

_AT_ONCE_MAX = 1024


class HttpExecutor:
    kinds = frozenset({"http"})

    def __init__(self, rules: AddressRules, client: HttpClient | None = None) -> None:
        self._rules = rules
        self._client = client
        self._attempts: dict[tuple[int, int], HttpAttempt] = {}
        self._tasks: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._trusted_until: float | None = None
        self._trust_timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        if self._client is None:
            descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            self._client = HttpClient(self._rules, max(16, min(_AT_ONCE_MAX, descriptors // 2)))

    async def check(self) -> str | None:
        """It needs nothing but the parser, without which this module could not be imported."""
        return None

    def start(self, launch: Launch, on_ended: Ended) -> None:
        assert self._client is not None
        key = (launch.task_id, launch.attempt)
        attempt = self._attempts[key] = HttpAttempt(self._client, launch)
        self._tasks[key] = attempt.begin(partial(self._ended, key, on_ended))

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

    def _expect_expiry(self) -> None:
        """One timer for all renewals: at its end it looks whether the trust was postponed."""
        assert self._trusted_until is not None
        left = self._trusted_until - boottime()
        if left > 0:
            self._trust_timer = asyncio.get_running_loop().call_later(left, self._expect_expiry)
            return
        self._trust_timer = None
        for attempt in list(self._attempts.values()):
            attempt.stop("lease", 0.0)

    async def close(self) -> None:
        if self._trust_timer is not None:
            self._trust_timer.cancel()
        for attempt in list(self._attempts.values()):
            attempt.stop("drain", 0.0)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
