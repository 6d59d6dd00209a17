"""The link of a node that has the store itself. On SQLite commits run on the loop's own thread when the write lock
is free at once, else in the store's thread. (Beside a busy Python thread the same transaction takes 30 times longer:
both share one interpreter lock. On the loop's own thread there is nobody to wait for.) On PostgreSQL in the thread,
because a commit waits for the network; but for exchanges of a node that runs nothing, while they are quick.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from weft.core import commands as c
from weft.core.decision.draft import Hint
from weft.core.expressions.run_names import Ended
from weft.core.liveness import agree
from weft.core.rows import BackfillRow, HandleRow, MemoRow, TriggerRow
from weft.core.workflow import Workflow
from weft.node.committer import Committer
from weft.node.ports import LinkFull, LinkLost, Renewal, RestingLease, RunFacts
from weft.node.session_files import SessionFiles
from weft.node.wakeup import WakeFile
from weft.store.artifact_files import ArtifactFiles
from weft.store.protocol import (
    NO_SPACE,
    Look,
    OutboxLook,
    Store,
    StoreBusy,
    StoreCrowded,
    StoreError,
    StoreFull,
    StoreSlow,
    Wakeups,
    Watch,
    Woken,
)
from weft.store.shipment import Shipment

T = TypeVar("T")
SEEN_MAX = 1000
ORPHANS_MAX = 100
HERE_MAX_S = 0.005  # an exchange that may run on the loop's own thread although it waits for the network


class LocalLink:
    def __init__(self, store: Store) -> None:
        self._store = store
        self.off_loop = not store.on_loop
        directory = store.path.parent if store.path is not None else None
        self.wakeups: Wakeups = store.wakeups() or WakeFile(
            None if directory is None else directory / "wake", store.changed_by_others
        )
        self.committer, self._exchanges = _committers(store, self.wakeups.wake_all, self._wake_others)
        self.beside: Woken | None = None  # others in this process who want to know what exchanges leave to do
        self._files = None if directory is None else SessionFiles(directory / "sessions")
        self._seen: dict[int, None] = {}  # runs of which a task was claimed, oldest first
        self._facts: dict[int, RunFacts] = {}  # of those that were just claimed from for the first time
        self._exchange_s = 0.0  # what the last one took
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weft-store")
        self._renewals = ThreadPoolExecutor(1, thread_name_prefix="weft-lease")
        self._output = ThreadPoolExecutor(1, thread_name_prefix="weft-output")

    def read_artifacts_in(self, root: Path | str, node: str) -> None:
        """Where the commands of this process find outputs that are not in the store; `node` is its name."""
        self.committer.artifacts = self._exchanges.artifacts = ArtifactFiles(root, node, 0)

    async def register(self, command: c.Register) -> c.Reply:
        if self._files is None:
            return await self._in_thread(lambda: self.committer.commit(command))
        try:
            self._files.hold(command.session)
            reply: c.Reply = await self._in_thread(lambda: self.committer.commit(command))
        except BaseException as error:
            self._files.forget(command.session)  # the next try has another id
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                raise LinkFull(f"{self._store.name}: {error.strerror}") from error
            raise
        return reply

    async def exchange(self, command: c.Exchange, *, alone: bool = False) -> c.ExchangeReply:
        if self._store.on_loop:
            reply = await self._commit(self._exchanges, command)
        else:
            reply = self._exchange_here(command) if alone and self._exchange_s < HERE_MAX_S else None
            if reply is None:  # said again, if it was said: the store applies it once
                reply = await self._in_thread(lambda: self._exchange(command))
        assert isinstance(reply, c.ExchangeReply)
        return reply

    def _exchange_here(self, command: c.Exchange) -> c.ExchangeReply | None:
        """On the loop's own thread, which has nothing else to do, while the store answers quickly: the way to a
        thread and back costs 0.15 ms. None: it did not answer in its moment."""
        began = time.monotonic()
        with lost_if_busy:
            reply: c.ExchangeReply | None = self._exchanges.try_commit(command)
        self._exchange_s = time.monotonic() - began
        if reply is not None:
            self._note_claims(command, reply, wait=False)
        return reply

    def _exchange(self, command: c.Exchange) -> c.ExchangeReply:
        began = time.monotonic()
        reply: c.ExchangeReply = self._exchanges.commit(command)
        self._exchange_s = time.monotonic() - began
        self._note_claims(command, reply, wait=True)
        return reply

    def _note_claims(self, command: c.Exchange, reply: c.ExchangeReply, *, wait: bool) -> None:
        """A node that gets tasks of a run for the first time asks for its facts next: they are read right away."""
        if reply.claims and not command.reports:  # all of them were queued before: others were woken for them
            self.wakeups.taken(len(reply.claims))
        new = sorted({claim.run_no for claim in reply.claims} - self._seen.keys())
        if new:
            self._seen.update(dict.fromkeys(new))
            while len(self._seen) > SEEN_MAX:
                del self._seen[next(iter(self._seen))]
            with contextlib.suppress(StoreBusy, StoreSlow):  # then they are read when asked for
                self._facts = {facts.no: facts for facts in run_facts(self._store, new, wait=wait)}

    async def _commit_in_thread(self, command: c.Command) -> Any:
        return await self._in_thread(lambda: self.committer.commit(command))

    async def _commit(self, committer: Committer, command: c.Command) -> Any:
        reply = None
        if self._store.on_loop:
            with lost_if_busy:
                reply = committer.try_commit(command)
        return reply if reply is not None else await self._in_thread(lambda: committer.commit(command))

    async def renew(
        self, session: str, ttl_ms: int, facts: str | None, digest: tuple[int, int, int] | None, *, own: bool = False
    ) -> Renewal:
        def work() -> Renewal:
            stored = self._store.renew(session, ttl_ms, facts, own=own)
            return Renewal(stored is not None, stored is None or digest is None or agree(digest, stored))

        with lost_if_busy:
            return await asyncio.get_running_loop().run_in_executor(self._renewals, work)

    async def look(self, session: str, demands: list[str], known_demands: int) -> Look:
        return await self._read(lambda: self._store.look(session, demands, known_demands))

    @property
    def hears(self) -> bool:
        return self.wakeups.hears

    async def ship(self, shipment: Shipment) -> list[tuple[int, int]]:
        """On a thread and a connection of its own: output waits for nothing else, and nothing waits for it."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._output, self._store.keep_output, shipment)
        except StoreError as error:
            raise LinkLost(str(error)) from error

    async def reconcile(self, command: c.Reconcile) -> c.Reply:
        reply: c.Reply = await self._commit_in_thread(command)
        return reply

    async def drain(self, command: c.Drain) -> c.Reply:
        reply: c.Reply = await self._commit_in_thread(command)
        return reply

    async def open_handle(self, command: c.OpenHandle) -> c.HandleReply:
        reply: c.HandleReply = await self._commit_in_thread(command)
        return reply

    async def close_handles(self, command: c.CloseHandles) -> c.Reply:
        reply: c.Reply = await self._commit_in_thread(command)
        return reply

    def end_gone(self, own: str = "") -> int:
        """The same, for whoever has no event loop."""
        if self._files is None:
            return 0
        ended = 0
        for session, _ in self._store.live_sessions():
            if session != own and self._files.gone(session):
                ended += self.committer.commit(c.Expire(session, "process")).state == "dead"
                self._files.forget(session)
        return ended

    async def leave(self, session: str) -> None:
        try:
            await self._in_thread(lambda: self.committer.commit(c.Expire(session, "left")))
        finally:
            self.forget(session)

    def forget(self, session: str) -> None:
        if self._files is not None:
            self._files.forget(session)

    def check_writable(self) -> None:
        """Raises the store's error if it takes no writes now: after one that failed, only a write shows that."""
        both = (self.committer, self._exchanges)
        self._store.check_writable(write=any(committer.failed for committer in both))
        for committer in both:
            committer.failed = False

    async def orphans(self, engines: list[str]) -> list[tuple[HandleRow, bool]]:
        return await self._read(lambda: self._store.orphans(engines, ORPHANS_MAX))

    async def facts(self, run_nos: list[int]) -> list[RunFacts]:
        known, self._facts = self._facts, {}
        if all(no in known for no in run_nos):
            return [known[no] for no in run_nos]
        return await self._read(lambda: run_facts(self._store, run_nos))

    def _wake_others(self, hint: Hint) -> None:
        self.wakeups.wake_others(hint)
        if self.beside is not None:
            self.beside(hint)

    async def workflow(self, hash: str) -> Workflow:
        found = self.committer.workflows.get(hash)
        return found if found is not None else await self._in_thread(lambda: self.read_workflow(hash))

    async def ends(self, run_no: int, positions: list[int]) -> list[Ended]:
        return await self._read(lambda: [Ended(*row) for row in self._store.ends_at(run_no, positions)])

    async def context(self, run_no: int) -> dict[str, Any]:
        return await self._read(lambda: self._store.context_of(run_no))

    async def cached(self, keys: list[str]) -> list[MemoRow]:
        return await self._read(lambda: self._store.cached(keys))

    async def once(self, command: c.Once) -> c.OnceReply:
        reply = await self._commit(self.committer, command)
        assert isinstance(reply, c.OnceReply)
        return reply

    async def array(self, run_no: int, pos: int, generation: int) -> Any:
        return await self._read(lambda: self._store.array_of(run_no, pos, generation))

    def read_workflow(self, hash: str) -> Workflow:
        found = self.committer.workflows.get(hash)
        if found is not None:
            return found
        with self._store.transaction() as transaction:
            assert transaction is not None
            return self.committer.workflow(transaction, hash)

    def contended(self) -> int:
        return self.committer.contended + self._exchanges.contended

    def on_commit(self, heard: Callable[[], None]) -> Callable[[], None]:
        """Call this after every COMMIT of this process, in the thread that made it; returns how to stop that."""
        self.committer.committed = self._exchanges.committed = heard

        def stop() -> None:
            if self.committer.committed is heard:
                self.committer.committed = self._exchanges.committed = None

        return stop

    def listen(self, woken: Woken, rest: RestingLease | None = None) -> Callable[[], None]:
        return self.wakeups.listen(woken)

    async def _read(self, work: Callable[[], T]) -> T:
        """A few rows: on the loop's own thread if nobody writes right now. A hop to a thread and back costs more."""
        if self._store.busy:
            return await self._in_thread(work)
        with lost_if_busy:
            return work()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        with lost_if_busy:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        self._thread.shutdown()
        self._renewals.shutdown()
        self._output.shutdown()
        self.wakeups.close()


class LocalChores:
    """What the leader needs besides, on the same store."""

    def __init__(self, link: LocalLink) -> None:
        self._link = link

    async def commit(self, command: c.Command) -> Any:
        return await self._link._commit_in_thread(command)

    async def watch(self, *, late: bool = False) -> Watch:
        return await self._link._read(lambda: self._link._store.watch(late=late))

    async def expire_dead(self, own: str) -> int:
        return await self._link._in_thread(lambda: self._link.end_gone(own))

    async def place(self, term: int | None) -> int:
        if not await self._link._read(self._link._store.placing_waits):
            return 0
        reply: c.Reply = await self._link._in_thread(lambda: self._link.committer.commit(c.Place(term)))
        return reply.changed

    async def due_triggers(self) -> tuple[int, int | None, bool, list[TriggerRow]]:
        return await self._link._read(self._link._store.due_triggers)

    async def backfills_to_step(self, limit: int) -> list[tuple[BackfillRow, TriggerRow]]:
        return await self._link._read(lambda: self._link._store.backfills_to_step(limit))

    async def outbox(self, term: int, limit: int) -> OutboxLook:
        return await self._link._read(lambda: self._link._store.outbox(term, limit))

    async def ends_to_follow(self, limit: int) -> list[tuple[Any, ...]]:
        return await self._link._read(lambda: self._link._store.ends_to_follow(limit))

    async def triggers_behind(self, lag: int) -> tuple[int, list[TriggerRow]]:
        return await self._link._read(lambda: self._link._store.triggers_behind(lag))


def _committers(store: Store, wake_all: Woken, wake_others: Woken) -> tuple[Committer, Committer]:
    """For what people and chores ask for, and for exchanges, after which only other nodes are woken."""
    if store.kind == "etcd":
        from weft.node.log_committer import log_committer  # not above: few processes need it

        both = log_committer(store, wake_all, wake_others)
        return both, both
    committer, exchanges = Committer(store, wake_all), Committer(store, wake_others)
    exchanges.workflows = committer.workflows
    return committer, exchanges


class LostIfBusy:
    """A block in which a busy store is a lost link. Every exchange is in one, so it is no generator."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, (StoreFull, StoreCrowded)):
            raise LinkFull(str(error)) from error
        if isinstance(error, StoreBusy):
            raise LinkLost(str(error)) from error


def run_facts(store: Store, run_nos: list[int], *, wait: bool = True) -> list[RunFacts]:
    return [
        RunFacts(no, id, name, workflow, msgspec.json.decode(inputs), source, bool(fresh), generation)
        for no, id, name, workflow, inputs, source, fresh, generation in store.run_facts(run_nos, wait=wait)
    ]


lost_if_busy = LostIfBusy()
