"""The gate of a server: tokens in the store, and one that the server was started with (WEFT_TOKEN, or the owner's).

A token that was found good is believed for a moment, so that most requests ask no store: a revoked one works for that
much longer at the most. Whoever keeps sending wrong ones is not listened to for a while, by address; a token that was
good lately gets through even then, because many clients may share an address (a proxy's).
"""

import hashlib
import hmac
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import Request

from weft.api.access.auth import Caller
from weft.api.app_state import AppState
from weft.core.placement.worker_binding import WorkerBinding
from weft.node.attempts.run_tokens import PREFIX
from weft.node.workers.checks import WorkerToken
from weft.operations.errors import ApiError
from weft.operations.replies import TokenInfo
from weft.operations.run_scope import RunScope

BELIEVED_S = 2.0
KNOWN_MAX = 1000
FAILURES_MAX = 10  # in a row, then one more every…
FAILURE_EVERY_S = 6.0
ADDRESSES_MAX = 10_000


class Failures:
    """How often an address was wrong: a bucket that leaks. The addresses that failed longest ago are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._level: OrderedDict[str, tuple[float, float]] = OrderedDict()  # (how full, when)

    def wait_s(self, address: str) -> float:
        """How long it is not listened to; 0: it is."""
        over = self._now(address) - (FAILURES_MAX - 1)
        return max(0.0, over * FAILURE_EVERY_S)

    def failed(self, address: str) -> None:
        level = self._now(address)
        self._level[address] = (min(level + 1.0, FAILURES_MAX + 1.0), self._clock())
        self._level.move_to_end(address)
        while len(self._level) > ADDRESSES_MAX:
            self._level.popitem(last=False)

    def _now(self, address: str) -> float:
        level, at = self._level.get(address, (0.0, 0.0))
        return max(0.0, level - (self._clock() - at) / FAILURE_EVERY_S)

    def __len__(self) -> int:
        return len(self._level)


class Tokens:
    """`holder` asks the store whose token it is. `one` is the server's own, an admin's; `name` is who uses it.
    `scope_of` asks which run the token of an attempt opens, each time: it ends with the attempt."""

    def __init__(
        self,
        holder: Callable[[str], TokenInfo | None],
        one: str | None = None,
        name: str = "WEFT_TOKEN",
        clock: Callable[[], float] = time.monotonic,
        scope_of: Callable[[str], RunScope | None] = lambda token: None,
    ) -> None:
        self._holder = holder
        self._scope_of = scope_of
        self._one = None if one is None else one.encode()
        self._name = name
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()  # by hash; when it was asked for
        self.failures = Failures(clock)

    async def caller(self, token: str | None, request: Request) -> Caller | None:
        if token is None:
            return None
        if self._one is not None and hmac.compare_digest(token.encode(), self._one):
            return Caller(self._name, "admin")
        hash = hashlib.sha256(token.encode()).digest()
        known = self._known.get(hash)
        if known is not None and self._clock() - known[1] < BELIEVED_S:
            return known[0]
        address = request.client.host if request.client is not None else ""
        wait_s = 0.0 if known is not None else self.failures.wait_s(address)
        if wait_s > 0:
            raise ApiError(
                "too_many_failures", "too many wrong tokens came from this address", "wait, then use a good one",
                headers={"Retry-After": str(math.ceil(wait_s))},
            )  # fmt: skip
        state: AppState = request.app.state
        caller = await state.off_loop(lambda: self._found(token))
        self._known.pop(hash, None)
        if caller is None:
            self.failures.failed(address)
            return None
        # The token of an attempt is remembered, so that failures of others do not shut it out, but never believed.
        self._known[hash] = (caller, self._clock() if caller.scope is None else -math.inf)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return caller

    def _found(self, token: str) -> Caller | None:
        if token.startswith(PREFIX):
            scope = self._scope_of(token)
            return None if scope is None else Caller(scope.actor, "viewer", scope)
        found = self._holder(token)
        if found is None:
            return None
        worker = None
        if found.role == "worker":
            worker = WorkerToken(found.id, found.label, WorkerBinding(found.labels, tuple(found.workflows)))
        return Caller(f"{found.id} {found.label}".strip(), found.role, worker=worker)
