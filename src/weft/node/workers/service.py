"""The server's side of workers over HTTP, without HTTP in it: a call of a token is checked, and carried out on the
store like that of a node that has the store itself.

What a worker may claim is worked out here, from what its session registered with and what its token is bound to: its
own list of demands can only narrow that. It reads only of runs of which its session has claimed tasks.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import msgspec

from weft.core import commands as c
from weft.core.artifacts import KeptFiles, kept_files, reference_of
from weft.core.expressions.run_names import Ended
from weft.core.placement.worker_binding import allows
from weft.core.rows import ORDINAL_BITS, MemoRow
from weft.core.workflow import Workflow
from weft.node.local import ORPHANS_MAX, lost_if_busy, run_facts
from weft.node.ports import LinkFull, LinkLost, Renewal, RunFacts
from weft.node.workers import messages as m
from weft.node.workers.checks import (
    CLAIMS_MAX,
    REFUSED_KINDS,
    WorkerToken,
    check_exchange,
    check_shipment,
    check_ttl,
    checked_registration,
)
from weft.node.workers.renewals import Renewals
from weft.node.workers.sessions import SENT, Catalog, KnownSessions, WorkerSession, session_of
from weft.node.workers.waiting import Waiter, WaitingWorkers, WorkFound
from weft.store.artifact_files import ArtifactError, ArtifactFiles
from weft.store.kept_files import FilesError, FileStorage
from weft.store.protocol import LeaseRenewal, Look, Reader, Store, StoreError, Woken
from weft.store.shipment import Shipment

T = TypeVar("T")
FACTS_MAX = 256 * 1024
LISTED_MAX = 10_000
PART_MAX = 1 << 20  # bytes of a file in one answer
LARGE = ("put_artifact",)  # calls that may have more than
REQUEST_MAX = 24 * 2**20


class UnknownSession(m.Rejected):
    """It never was, or ended so long ago that it was removed."""


class NotHeld(LinkLost):
    """The session does not hold what it asks about, or not any more: then its node learns by its lease what became of
    it, and asks until then."""


class WorkerStore(Protocol):
    """How a service reaches the store. `in_thread` runs what takes time; a simulation runs it at once."""

    store: Store

    def commit(self, command: c.Command) -> Any: ...
    def reader(self) -> Reader: ...
    def workflow(self, hash: str) -> Workflow: ...
    async def in_thread(self, work: Callable[[], T]) -> T: ...
    def listen(self, woken: Woken) -> Callable[[], None]: ...


class ServiceLimits(msgspec.Struct, frozen=True):
    result_max: int = 2**20
    files_max: int = 256 * 2**20
    output_max: int = 64 * 2**20
    refused_kinds: tuple[str, ...] = REFUSED_KINDS


class WorkerService:
    """`name` is what the server is called in lists; `files` has the files that tasks kept, by where they are."""

    def __init__(
        self,
        reach: WorkerStore,
        name: str,
        artifacts: ArtifactFiles | None = None,
        files: Callable[[KeptFiles], FileStorage] | None = None,
        limits: ServiceLimits = ServiceLimits(),  # noqa: B008  it is frozen
    ) -> None:
        self._reach = reach
        self._store = reach.store
        self.name = name
        self._artifacts = artifacts
        self._files = files
        self._limits = limits
        self._sessions = KnownSessions()
        self._catalog = Catalog()
        self._unlisten: Callable[[], None] | None = None
        self.waiting = WaitingWorkers(self._look_for_all, self._renew_each)
        self._renewals = Renewals(self._renew_each)
        self._calls: dict[str, Callable[[WorkerToken, Any], Awaitable[Any]]] = {
            call: getattr(self, f"_{call}") for call in m.CALLS
        }

    async def answer(self, token: WorkerToken, call: str, data: bytes) -> bytes:
        """The answer to a call, also where that is an error. BadMessage: it cannot be read at all."""
        if self._unlisten is None:  # a server without workers has no part in this
            self._unlisten = self._reach.listen(self.waiting.wake)
        request = m.decode_request(call, data, m.INFLATED_MAX if call in LARGE else REQUEST_MAX)
        try:
            return m.encode_answer(await self._calls[call](token, request))
        except LinkFull as error:
            return m.encode_failure(m.CallFailure("full", str(error)))
        except LinkLost as error:
            return m.encode_failure(m.CallFailure("lost", str(error)))
        except c.Refused as error:
            return m.encode_failure(m.CallFailure("refused", error.message, error.code))
        except (m.Rejected, ArtifactError, StoreError) as error:
            return m.encode_failure(m.CallFailure("rejected", str(error)))

    def close(self) -> None:
        """On the event loop: the server goes. Those that wait are answered."""
        self.waiting.close()
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    async def _run(self, work: Callable[[], T]) -> T:
        with lost_if_busy:
            return await self._reach.in_thread(work)

    async def _renew_each(self, renewals: list[LeaseRenewal]) -> list[tuple[int, int, int] | None]:
        return await self._run(lambda: self._store.renew_each(renewals))

    async def _commit(self, command: c.Command) -> Any:
        return await self._run(lambda: self._reach.commit(command))

    def _read(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._reach.reader().read(name, *parameters)

    # -- sessions ----------------------------------------------------------------------------------------

    async def _session(self, token: WorkerToken, id: str) -> WorkerSession:
        found = self._sessions.get(id)
        if found is None:
            rows = await self._run(lambda: self._read("session_of_worker", id))
            if not rows or rows[0][0] is None:
                raise UnknownSession(f"no worker has registered the session {id[:100]}")
            found = self._sessions.add(session_of(id, *rows[0]))
        if found.token != token.id:
            raise m.Rejected(f"the session {id[:100]} is not one of this token")
        return found

    async def _register(self, token: WorkerToken, asked: c.Register) -> c.Reply:
        command = checked_registration(token, asked, self.name, self._limits.refused_kinds)
        try:
            reply: c.Reply = await self._commit(command)
        except c.Refused as refused:
            if refused.code != "conflict":
                raise
            await self._session(token, command.session)  # else it is another one's
            reply = c.Reply(state="live", existing=True)  # the request came twice
        session = self._sessions.add(session_of(command.session, token.id, command.node, command.body))
        reply.data = {**reply.data, "node": command.node, "labels": session.facts.labels}
        return reply

    async def _renew(self, token: WorkerToken, asked: m.RenewCall) -> Renewal:
        check_ttl(asked.ttl_ms)
        try:
            await self._session(token, asked.session)
        except UnknownSession:
            return Renewal(False)
        facts = asked.facts if asked.facts is None else self._measured(asked.facts)
        return await self._renewals.renew(asked.session, asked.ttl_ms, facts, asked.digest)

    def _measured(self, text: str) -> str:
        """What the worker measured, with the server that it came through last."""
        try:
            facts = msgspec.json.decode(text, type=dict[str, Any]) if len(text) <= FACTS_MAX else None
        except (msgspec.MsgspecError, RecursionError):
            facts = None
        if facts is None:
            raise m.Rejected(f"what a node measured is a JSON object of at most {FACTS_MAX:,} bytes")
        return msgspec.json.encode({**facts, "server": self.name}).decode()

    async def _reconcile(self, token: WorkerToken, command: c.Reconcile) -> c.Reply:
        await self._session(token, command.session)
        reply: c.Reply = await self._commit(command)
        return reply

    async def _drain(self, token: WorkerToken, command: c.Drain) -> c.Reply:
        await self._session(token, command.session)
        reply: c.Reply = await self._commit(
            c.Drain(command.session, max(0, command.deadline_ms), command.reason[:200])
        )
        return reply

    async def _leave(self, token: WorkerToken, asked: m.SessionCall) -> None:
        await self._session(token, asked.session)
        await self._commit(c.Expire(asked.session, "left"))
        self._sessions.forget(asked.session)

    # -- exchanges ---------------------------------------------------------------------------------------

    async def _exchange(self, token: WorkerToken, asked: c.Exchange) -> c.ExchangeReply:
        try:
            session = await self._session(token, asked.session)
        except UnknownSession:
            return c.ExchangeReply([], [], [], None, False, dead=True)
        if asked.reports:
            await self._know_runs(session, {report.task_id >> ORDINAL_BITS for report in asked.reports})
        check_exchange(asked, session.run_ids, self._limits.result_max)
        demands = await self._claimable(session, asked.demands)
        slotless = await self._claimable(session, asked.slotless)
        command = msgspec.structs.replace(
            asked, demands=demands, slotless=slotless, scope=None, want=min(asked.want, CLAIMS_MAX),
            want_slotless=min(asked.want_slotless, CLAIMS_MAX), costs=self._catalog.costs([*demands, *slotless]),
            free=self._catalog.free(session, [*demands, *slotless], asked.free),
            adopt=await self._own_orphans(token, asked.adopt), workflows=list(token.binding.workflows),
            spends=True if asked.spent else asked.spends,
        )  # fmt: skip
        for report in command.reports:
            if report.keep is not None:
                report.keep = (self._cache_key(token, report.keep[0]), report.keep[1])
        reply: c.ExchangeReply = await self._commit(command)
        self._catalog.learn(reply.demands)
        session.claimed(claim.run_no for claim in reply.claims)
        if reply.claims:
            self.waiting.holds_something(session.id)
        return reply

    async def _claimable(self, session: WorkerSession, demands: list[str]) -> list[str]:
        self._check_listed(demands)
        if self._catalog.unknown(demands):
            await self._learn_demands()
        return self._catalog.eligible(session, demands)

    @staticmethod
    def _check_listed(demands: list[str]) -> None:
        if len(demands) > LISTED_MAX:
            raise m.Rejected(f"a worker may name {LISTED_MAX:,} demands")

    async def _learn_demands(self) -> None:
        above = self._catalog.newest
        self._catalog.learn(await self._run(lambda: self._read("demands_above", above)))

    async def _own_orphans(self, token: WorkerToken, asked: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """What workers of this token have left on engines: others' handles it neither adopts nor removes."""
        if not asked:
            return []
        own = {tuple(row) for row in await self._run(lambda: self._read("handles_of_token", token.id))}
        return [one for one in asked if one in own]

    @staticmethod
    def _cache_key(token: WorkerToken, key: str) -> str:
        """A token that is bound to workflows has a cache of its own: it can neither read nor fill that of others."""
        return f"{token.id}:{key}" if token.binding.workflows else key

    async def _look(self, token: WorkerToken, asked: m.WaitCall) -> Look:
        session = await self._session(token, asked.session)
        demands = await self._claimable(session, asked.demands)
        return await self._run(lambda: self._store.look(session.id, demands, asked.known_demands))

    async def _wait(self, token: WorkerToken, asked: m.WaitCall) -> m.WaitReply:
        session = await self._session(token, asked.session)
        self._check_listed(asked.demands)
        if asked.rest is not None:
            check_ttl(asked.rest.ttl_ms)
            if asked.rest.facts is not None:
                asked.rest.facts = self._measured(asked.rest.facts)
        waiter = Waiter(session, asked.demands, token.binding.workflows, asked.known_demands, asked.rest)
        self._judge(waiter)
        return await self.waiting.wait(waiter)

    def _judge(self, waiter: Waiter) -> None:
        """What it may claim of, with demands that its worker has not heard of; one that has no room asks for none."""
        waiter.demands = self._catalog.eligible(waiter.session, waiter.asked)
        if waiter.asked and self._catalog.newest > waiter.known_demands:
            waiter.demands += self._catalog.all_eligible(waiter.session)

    async def _look_for_all(self, waiters: list[Waiter]) -> WorkFound:
        """Three reads, however many workers wait."""
        asked: dict[tuple[str, ...], dict[str, None]] = {}
        for waiter in waiters:
            asked.setdefault(waiter.workflows, {}).update(dict.fromkeys(waiter.demands))
        above = self._catalog.newest

        def work() -> tuple[list[Any], dict[tuple[str, ...], frozenset[str]], frozenset[str]]:
            new = self._read("demands_above", above)
            if new:
                return new, {}, frozenset()
            waiting = {workflows: self._waiting(workflows, list(demands)) for workflows, demands in asked.items()}
            return [], waiting, frozenset(id for (id,) in self._read("sessions_to_wake"))

        new, waiting, concerned = await self._run(work)
        if new:
            self._catalog.learn(new)
            for waiter in waiters:
                self._judge(waiter)
            return await self._look_for_all(waiters)
        claimable = (
            waiter.session.id for waiter in waiters if not waiting[waiter.workflows].isdisjoint(waiter.demands)
        )
        return WorkFound(frozenset(claimable), concerned)

    def _waiting(self, workflows: tuple[str, ...], demands: list[str]) -> frozenset[str]:
        """Demands under which tasks wait. In a thread."""
        listed = msgspec.json.encode(demands).decode()
        if workflows:
            patterns = msgspec.json.encode(workflows).decode()
            rows = self._read("demands_waiting_of_workflows", listed, patterns)
        else:
            rows = self._read("demands_waiting", listed)
        return frozenset(demand for (demand,) in rows)

    async def _once(self, token: WorkerToken, command: c.Once) -> c.OnceReply:
        await self._session(token, command.session)
        if len(command.key) + len(command.value or "") > self._limits.result_max:
            raise m.Rejected(f"weft.once: a key and its value may have {self._limits.result_max:,} characters")
        reply: c.OnceReply = await self._commit(command)
        return reply

    # -- engines -----------------------------------------------------------------------------------------

    async def _open_handle(self, token: WorkerToken, command: c.OpenHandle) -> c.HandleReply:
        await self._session(token, command.session)
        reply: c.HandleReply = await self._commit(command)
        return reply

    async def _orphans(self, token: WorkerToken, asked: m.OrphansCall) -> list[Any]:
        await self._session(token, asked.session)
        found = await self._run(lambda: self._store.orphans(asked.engines, ORPHANS_MAX))
        own = frozenset(await self._own_orphans(token, [(handle.task_id, handle.attempt) for handle, _ in found]))
        return [one for one in found if (one[0].task_id, one[0].attempt) in own]

    async def _close_handles(self, token: WorkerToken, asked: m.GoneCall) -> c.Reply:
        await self._session(token, asked.session)
        reply: c.Reply = await self._commit(c.CloseHandles(await self._own_orphans(token, asked.gone)))
        return reply

    # -- reading -----------------------------------------------------------------------------------------

    async def _know_runs(self, session: WorkerSession, run_nos: "set[int]") -> None:
        """Their ids and workflows, of those that the session has claimed tasks of."""
        if any(no not in session.runs for no in run_nos):
            held = await self._run(lambda: self._read("runs_of_session", session.id))
            session.claimed(no for no, _ in held)
        missing = sorted(no for no in run_nos if no in session.runs and session.runs[no] is None)
        if missing:
            for facts in await self._run(lambda: run_facts(self._store, missing)):
                session.runs[facts.no] = facts

    async def _of_runs(self, token: WorkerToken, id: str, run_nos: list[int]) -> WorkerSession:
        session = await self._session(token, id)
        await self._know_runs(session, set(run_nos))
        if any(no not in session.runs for no in run_nos):
            raise NotHeld("a worker reads only of runs of which its session has claimed tasks")
        return session

    async def _facts(self, token: WorkerToken, asked: m.FactsCall) -> list[RunFacts]:
        session = await self._of_runs(token, asked.session, asked.run_nos)
        found = await self._run(lambda: run_facts(self._store, asked.run_nos))
        for facts in found:  # those that it knew may be of an earlier generation
            session.runs[facts.no] = facts
        return found

    async def _document(self, token: WorkerToken, asked: m.DocumentCall) -> bytes:
        session = await self._session(token, asked.session)
        if asked.hash not in session.workflows:
            await self._know_runs(session, {no for no, _ in await self._held(session)})
        if asked.hash not in session.workflows:
            raise NotHeld("a worker reads only workflows of which its session has claimed tasks")
        rows = await self._run(lambda: self._read("workflow_document", asked.hash))
        return bytes(rows[0][0])

    async def _held(self, session: WorkerSession) -> list[tuple[Any, ...]]:
        return await self._run(lambda: self._read("runs_of_session", session.id))

    async def _ends(self, token: WorkerToken, asked: m.EndsCall) -> list[Ended]:
        await self._of_runs(token, asked.session, [asked.run_no])
        return await self._run(lambda: [Ended(*row) for row in self._store.ends_at(asked.run_no, asked.positions)])

    async def _context(self, token: WorkerToken, asked: m.RunCall) -> dict[str, Any]:
        await self._of_runs(token, asked.session, [asked.run_no])
        return await self._run(lambda: self._store.context_of(asked.run_no))

    async def _array(self, token: WorkerToken, asked: m.ArrayCall) -> Any:
        await self._of_runs(token, asked.session, [asked.run_no])
        return await self._run(lambda: self._store.array_of(asked.run_no, asked.pos, asked.generation))

    async def _cached(self, token: WorkerToken, asked: m.CachedCall) -> list[MemoRow]:
        """None that refers to files: those are of another task, and this worker reads of its own runs only."""
        await self._session(token, asked.session)
        keys = {self._cache_key(token, key): key for key in asked.keys}
        found = await self._run(lambda: self._store.cached(sorted(keys)))
        plain = [memo for memo in found if kept_files(memo.value) is None and reference_of(memo.value) is None]
        return [msgspec.structs.replace(memo, key=keys[memo.key]) for memo in plain]

    async def _run_states(self, token: WorkerToken, asked: m.RunStatesCall) -> dict[str, str]:
        """Of runs of workflows that its token allows."""
        await self._session(token, asked.session)
        ids = msgspec.json.encode(asked.ids[:LISTED_MAX]).decode()
        rows = await self._run(lambda: self._read("run_states", ids))
        return {id: state for id, state, name in rows if allows(token.binding.workflows, name)}

    # -- output, artifacts and files ---------------------------------------------------------------------

    async def _ship(self, token: WorkerToken, asked: m.ShipCall) -> list[tuple[int, int]]:
        check_shipment(asked, self._limits.files_max)
        for id in sorted({asked.session, *(chunk.session for chunk in asked.chunks)}):
            session = await self._session(token, id)
            if not session.may_ship([one for one in asked.chunks if one.session == id], self._limits.output_max):
                raise m.Rejected(
                    f"an attempt may send output of {SENT} × output_max ({self._limits.output_max:,} bytes)"
                )
        return await self._run(lambda: self._store.keep_output(Shipment(asked.chunks)))

    async def _own_run(self, token: WorkerToken, session_id: str, run_id: str) -> WorkerSession:
        session = await self._session(token, session_id)
        if run_id not in session.run_ids.values():
            await self._know_runs(session, {no for no, _ in await self._held(session)} | set(session.runs))
        if run_id not in session.run_ids.values():
            raise m.Rejected("a worker reads and writes artifacts of runs of which its session has claimed tasks")
        return session

    async def _put_artifact(self, token: WorkerToken, asked: m.PutArtifactCall) -> Any:
        await self._own_run(token, asked.session, asked.run_id)
        artifacts = self._place()
        return await self._run(lambda: artifacts.write(asked.run_id, asked.data))

    async def _read_artifact(self, token: WorkerToken, asked: m.ReadArtifactCall) -> bytes:
        """Of a result in its own run: the reference is looked up there."""
        session = await self._own_run(token, asked.session, asked.run_id)
        artifacts = self._place()
        run_no = next(no for no, id in session.run_ids.items() if id == asked.run_id)

        def work() -> bytes:
            for ended in self._all_ends(run_no):
                reference = reference_of(ended.result)
                if reference is not None and reference.sha256 == asked.sha256:
                    return artifacts.read(asked.run_id, reference)
            raise ArtifactError("no task of the run has such an artifact")

        return await self._run(work)

    def _place(self) -> ArtifactFiles:
        if self._artifacts is None:
            raise ArtifactError("the server has no place for artifacts")
        return self._artifacts

    def _all_ends(self, run_no: int) -> list[Ended]:
        """Of a run, in a thread."""
        (facts,) = run_facts(self._store, [run_no])
        positions = list(range(len(self._reach.workflow(facts.workflow).tasks)))
        return [Ended(*row) for row in self._store.ends_at(run_no, positions)]

    async def _read_file(self, token: WorkerToken, asked: m.ReadFileCall) -> bytes:
        session = await self._session(token, asked.session)
        await self._know_runs(session, {no for no, _ in await self._held(session)})
        runs = list(session.runs)

        def work() -> bytes:
            for run_no in reversed(runs):
                for ended in self._all_ends(run_no):
                    kept = kept_files(ended.result)
                    if kept is not None and (kept.task, kept.attempt) == (asked.task_id, asked.attempt):
                        return self._part(kept, asked)
            raise FilesError(f"{asked.path} is not a file of a run of which this session has claimed tasks")

        return await self._run(work)

    def _part(self, kept: KeptFiles, asked: m.ReadFileCall) -> bytes:
        file = kept.find(asked.path)
        if file is None or self._files is None or not 0 <= asked.start <= file.bytes:
            raise FilesError(f"{asked.path} was not kept")
        parts, size = [], 0
        for data in self._files(kept).parts(kept, file, asked.start):
            parts.append(data)
            size += len(data)
            if size >= PART_MAX:
                break
        return b"".join(parts)
