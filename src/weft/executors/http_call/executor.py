"""The HTTP executor: an attempt is a request, and polls for the end of what the service only accepted.

Nothing of an attempt outlives its node but what the service does. A later attempt sends the same idempotency key.
"""

import asyncio
import resource

from weft.executors.http_call.addresses import AddressRules
from weft.executors.http_call.attempt import HttpAttempt
from weft.executors.http_call.client import HttpClient
from weft.executors.protocol import Ended, Launch
from weft.executors.remote.awaited_attempts import AwaitedAttempts

_AT_ONCE_MAX = 1024


class HttpExecutor(AwaitedAttempts[HttpAttempt]):
    kinds = frozenset({"http"})

    def __init__(self, rules: AddressRules, client: HttpClient | None = None) -> None:
        super().__init__()
        self._rules = rules
        self._client = client

    async def open(self) -> None:
        if self._client is None:
            descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            self._client = HttpClient(self._rules, max(16, min(_AT_ONCE_MAX, descriptors // 2)))

    async def check(self) -> str | None:
        """It needs nothing but the parser, without which this module could not be imported."""
        return None

    def start(self, launch: Launch, on_ended: Ended) -> None:
        assert self._client is not None
        self._begin(HttpAttempt(self._client, launch), on_ended)

    async def close(self) -> None:
        """Stopping needs no answer: what a service does not answer in time is left to it."""
        if self._trust_timer is not None:
            self._trust_timer.cancel()
        for attempt in list(self._attempts.values()):
            attempt.stop("drain", 0.0)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
