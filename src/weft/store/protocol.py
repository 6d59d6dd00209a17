"""What a store must offer. Three exist: sqlite/, postgres/ and replicated/. One conformance suite runs on all.

Plain synchronous code. A store knows rows and guards, never rules.
"""

import errno
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from weft.core.decision.draft import Draft, Hint
from weft.core.decision.needs import Need
from weft.core.rows import BackfillRow, HandleRow, MemoRow, NotificationRow, TriggerRow
from weft.store.shipment import Shipment

PATIENCE_MS = 5000  # where no lease says otherwise
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class StoreError(Exception):
    """The store cannot do what was asked; the text says why, in one line, and what to do about it."""


class StoreUnusable(StoreError):
    """Not (or no longer) a store that this version can use: wrong, corrupt, read-only."""


class StoreMoved(StoreUnusable):
    """What it held is, or will be, in another store: nothing is written here any more."""


class StoreGone(StoreUnusable):
    """Its files are no longer where they were opened: what is written now would be in no store that others find."""


class StoreBusy(StoreError):
    """The store did not answer in time; trying again is right."""


class StoreCrowded(StoreBusy):
    """The server answers, and has no connection left for us."""


class StoreFull(StoreBusy):
    """There is no space for it: nothing was written. Reads work; trying again is right, and helps when there is."""


class StoreSlow(StoreError):
    """No answer within the moment that a transaction without waiting has. Whether it was applied is not known."""


class Superseded(StoreError):
    """A guarded write met a row that had changed. Nothing was written."""


class CommandUsed(Superseded):
    """A command's id that was used before, for something else."""


class Remembered(Exception):
    """This command id has a reply already."""

    def __init__(self, reply: str) -> None:
        super().__init__(reply)
        self.reply = reply


def recall(rows: Sequence[Sequence[Any]], command_id: str, body_hash: str) -> None:
    """`rows` are what is stored under this command id: (hash of its body, reply), or nothing."""
    for known, reply in rows:
        if known != body_hash:
            raise CommandUsed(f"command {command_id} was used before, for something else")
        raise Remembered(str(reply))


class Transaction(Protocol):
    """One write transaction. Leaving the block commits; an exception rolls back."""

    @property
    def now(self) -> int:
        """The store's clock in milliseconds, sampled under the locks of the first load: ask after it."""
        ...

    def load(self, needs: Sequence[Need]) -> tuple[list[Any], ...]: ...
    def document(self, workflow: str) -> bytes: ...
    def write(self, draft: Draft) -> None: ...
    def remember(self, command_id: str, body_hash: str) -> None:
        """Raises Remembered, here or at the first load, if this command id got a reply before; and CommandUsed, if
        that was for something else."""
        ...

    def keep_reply(self, command_id: str, body_hash: str, reply: str) -> None: ...


class Reader(Protocol):
    """Reads for people, by the names in reads.sql, with parameters in the order of their heads. One thread's."""

    def read(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]: ...
    def snapshot(self) -> AbstractContextManager[None]:
        """Reads inside see one moment of the store."""
        ...

    def now(self) -> int: ...
    def close(self) -> None: ...


EVERYONE = Hint(everyone=True)
Woken = Callable[[Hint], None]


LeaseRenewal = tuple[str, int, str | None]  # session, ttl_ms, facts


class Look(NamedTuple):
    """What a node that has nothing to report would find in an exchange."""

    worthwhile: bool
    wake_in_ms: int | None  # until something is due
    led: bool  # the cluster has a leader


class Watch(NamedTuple):
    leader: str | None
    left_ms: int  # for how long others must leave it at that
    live: int = 0  # sessions that have not ended, where that was asked for
    late: tuple[str, ...] = ()  # those of them whose leases have passed by the store's clock


class OutboxLook(NamedTuple):
    """What the leader has to do about deadlines, late triggers and notifications."""

    now: int
    late: bool  # deadlines have passed that nobody has judged
    starts: list[TriggerRow]  # triggers whose times have to be looked at
    due: list[tuple[NotificationRow, str | None]]  # with the result of the failed attempt that it quotes, as JSON


class Wakeups(Protocol):
    """Hints after COMMIT that there may be something to do: safe to lose, safe to repeat."""

    hears: bool  # wake-ups of others are known to arrive

    def wake_others(self, hint: Hint = EVERYONE) -> None: ...
    def wake_all(self, hint: Hint = EVERYONE) -> None: ...
    def taken(self, tasks: int) -> None:
        """So many of the tasks that others were woken for have been claimed here."""
        ...

    def listen(self, woken: Woken) -> Callable[[], None]: ...
    def close(self) -> None: ...


class Store(Protocol):
    kind: str
    library: str
    path: Path | None  # of a file on this machine
    on_loop: bool  # a commit may run on an event loop's own thread
    takes_output: bool  # its nodes may be on several machines, so they send it the output of their attempts
    log: Callable[[str], None]  # one line for people: what is waited for
    #: How long a transaction waits for another one, and how long it may hold others up while nothing is heard of it.
    patience_ms: int

    @property
    def name(self) -> str:
        """For people; never a password."""
        ...

    @property
    def schema(self) -> int: ...

    @property
    def busy(self) -> bool:
        """A read right now would have to wait."""
        ...

    def transaction(self, *, wait: bool = True) -> AbstractContextManager[Transaction | None]:
        """With wait=False: None when another writer is at it right now; may raise StoreSlow."""
        ...

    def renew(
        self, session: str, ttl_ms: int, facts: str | None = None, *, own: bool = False
    ) -> tuple[int, int, int] | None:
        """Lengthen a lease on a connection of its own, and keep what the node says of itself (JSON, None: nothing
        new). Gives (last exchange number, how many attempts the session holds, their checksum); None: this session
        is dead. Where that connection cannot be had, another one serves, unless `own`."""
        ...

    def renew_each(
        self, renewals: "Sequence[LeaseRenewal]", *, own: bool = False
    ) -> list[tuple[int, int, int] | None]:
        """The same for several sessions, in one transaction: their ids ascend."""
        ...

    def look(self, session: str, demands: list[str], known_demands: int) -> Look:
        """Is an exchange worthwhile for a node that has nothing to report, has room for these demands, and knows the
        demands up to this number? A read, which costs a tenth of an exchange that finds nothing."""
        ...

    def keep_output(self, shipment: Shipment) -> list[tuple[int, int]]:
        """Store chunks of output, on a connection of its own; (task, attempt) of those that were refused, because
        the attempt is not, or no longer, that session's."""
        ...

    def watch(self, *, late: bool = False) -> Watch:
        """Who leads; with `late`, also which sessions have leases that have passed. One round trip."""
        ...

    def answers(self) -> bool:
        """Is it there at all? Known within a few seconds, whatever other connections wait for."""
        ...

    def check_writable(self, *, write: bool) -> None:
        """Raises what a write would raise. `write`: by writing something, else as far as that shows without."""
        ...

    def reader(self) -> Reader: ...
    def now(self) -> int: ...
    def live_sessions(self) -> list[tuple[str, bool]]: ...
    def placing_waits(self) -> bool:
        """There are tasks whose node has to be picked, or that may have to be taken back from one."""
        ...

    def due_triggers(self) -> tuple[int, int | None, bool, list[TriggerRow]]:
        """(the store's time, when the next trigger's time comes, whether one follows runs, those whose time or
        turn has come)."""
        ...

    def backfills_to_step(self, limit: int) -> list[tuple[BackfillRow, TriggerRow]]:
        """Backfills that are under way and may have one more run, oldest first, with their triggers."""
        ...

    def outbox(self, term: int, limit: int) -> OutboxLook:
        """For the leader of this term; at most so many notifications."""
        ...

    def settled_event(self) -> int:
        """The number up to which no event can appear any more."""
        ...

    def ends_to_follow(self, limit: int) -> list[tuple[Any, ...]]:
        """(trigger, event's number, run id, its name, the event's JSON) of ended runs that triggers follow."""
        ...

    def triggers_behind(self, lag: int) -> tuple[int, list[TriggerRow]]:
        """(the newest event's number, triggers that follow runs and are so many events behind it)."""
        ...

    def orphans(self, engines: list[str], limit: int) -> list[tuple[HandleRow, bool]]:
        """Orphaned handles on these engines, and whether their tasks shall stop."""
        ...

    def run_facts(self, run_nos: list[int], *, wait: bool = True) -> list[tuple[Any, ...]]:
        """With wait=False it may raise StoreSlow."""
        ...

    def ends_at(self, run_no: int, positions: list[int]) -> list[tuple[Any, ...]]: ...
    def context_of(self, run_no: int) -> dict[str, Any]: ...
    def cached(self, keys: list[str]) -> list[MemoRow]:
        """Results kept for `cache` under these keys that have not expired, in the order of their keys."""
        ...

    def array_of(self, run_no: int, pos: int, generation: int) -> Any:
        """What a map over the run's context maps over: stored when it opened."""
        ...

    def size_bytes(self) -> int: ...
    def downgrade(self, schema: int) -> None:
        """Bring its tables back to those of an older version; nobody may be at work on it."""
        ...

    def changed_by_others(self) -> bool:
        """Somebody else has committed since the last call; asked where there are no wake-ups of its own."""
        ...

    def wakeups(self) -> Wakeups | None:
        """Its own way to wake other processes, if it has one."""
        ...

    def close(self) -> None: ...
