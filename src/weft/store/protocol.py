"""What a store must offer. Two exist: sqlite/ and postgres/; one conformance suite runs on both.

Plain synchronous code. A store knows rows and guards, never rules.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from weft.core.draft import Draft
from weft.core.needs import Need


class StoreError(Exception):
    """The store cannot do what was asked; the text says why, in one line, and what to do about it."""


class StoreUnusable(StoreError):
    """Not (or no longer) a store that this version can use: wrong, corrupt, full, read-only."""


class StoreBusy(StoreError):
    """The store did not answer in time; trying again is right."""


class Superseded(StoreError):
    """A guarded write met a row that had changed. Nothing was written."""


class Transaction(Protocol):
    """One write transaction. Leaving the block commits; an exception rolls back."""

    now: int  # the store's clock in milliseconds, sampled under the locks

    def load(self, needs: Sequence[Need]) -> tuple[list[Any], ...]: ...
    def document(self, workflow: str) -> bytes: ...
    def write(self, draft: Draft) -> None: ...
    def remember(self, command_id: str, body_hash: str) -> str | None:
        """The reply that this command id got before, if any."""
        ...

    def keep_reply(self, command_id: str, body_hash: str, reply: str) -> None: ...


class Store(Protocol):
    def transaction(self, *, wait: bool = True) -> AbstractContextManager[Transaction | None]:
        """With wait=False: None when another writer is at it right now."""
        ...

    def renew(self, session: str, ttl_ms: int) -> bool:
        """Lengthen a lease on a connection of its own; False: this session is dead."""
        ...

    def close(self) -> None: ...
