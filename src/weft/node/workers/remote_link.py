"""The link of a node that has no store: every call goes to a server as a message.

Nothing is sent again in here but to another server. What was lost is LinkLost, and the node says it again, under the
same number. Wake-ups come by calls that a server answers late, beside all others: an exchange is never held open.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from weft.core import commands as c
from weft.core.decision.draft import Hint
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import decode_document
from weft.core.expressions.run_names import Ended
from weft.core.rows import HandleRow, MemoRow
from weft.core.workflow import Workflow
from weft.node.committer import KnownWorkflows
from weft.node.ports import LinkLost, Renewal, RestingLease, RestRenewal, RunFacts
from weft.node.workers import messages as m
from weft.node.workers.waiting import WAIT_MAX_S, wait_max_s
from weft.store.protocol import EVERYONE, Look, Woken
from weft.store.shipment import Shipment

CALL: Final = 1 / 4  # of the lease: with a server that does not answer, less than a third of it is lost
LONG_S: Final = 60.0  # for output, files and artifacts: nothing waits for them
WAIT_APART_S: Final = 0.25  # between the beginnings of two waits: an exchange may change nothing about their reason
WAIT_RETRY_S: Final = 1.0
REST_LATE: Final = 2 / 3  # of a call's time: so much later than it should a wait that renews may be answered
PATIENCE: Final = ("ship", "put_artifact", "read_artifact", "read_file", "document")  # calls that may take long


class TokenRefused(LinkLost):
    """The server does not know the token, or not any more. A node that works goes on until its lease has passed."""


class Transport(Protocol):
    """The way to one of several servers, the same one as long as it answers."""

    async def send(self, call: str, data: bytes, timeout_s: float) -> bytes:
        """LinkLost: no answer came, or none of a server that works. TokenRefused, Rejected: the server said no."""
        ...

    def changed(self, woken: Callable[[], None]) -> None:
        """Call this when another server is asked from now on."""
        ...

    async def close(self) -> None: ...


class RemoteLink:
    off_loop = True

    def __init__(self, transport: Transport, ttl_s: float, log: Callable[[str, dict[str, Any]], None]) -> None:
        self._transport = transport
        self._call_s = ttl_s * CALL
        self._log = log
        self._session = ""
        self._workflows = KnownWorkflows()
        self._demands: tuple[list[str], int] = ([], 0)  # those of the last look or exchange
        self._waiting: asyncio.Task[None] | None = None
        self._waited_for: frozenset[str] = frozenset()
        self._again = asyncio.Event()  # the wait under way is for too little, or at a server that is gone
        self._elsewhere = False
        self._given_up: set[asyncio.Task[m.WaitReply]] = set()  # waits that others have taken the place of
        self.hears = False
        transport.changed(self._server_changed)

    @property
    def session(self) -> str:
        return self._session

    async def call(self, name: str, request: Any) -> Any:
        timeout_s = LONG_S if name in PATIENCE else self._call_s
        return await self._ask(name, request, timeout_s)

    async def _ask(self, name: str, request: Any, timeout_s: float) -> Any:
        try:
            return m.decode_answer(name, await self._transport.send(name, m.encode(request), timeout_s))
        except m.BadMessage as error:
            raise LinkLost(str(error)) from None

    # -- sessions ----------------------------------------------------------------------------------------

    async def register(self, command: c.Register) -> c.Reply:
        self._session, self._demands = command.session, ([], 0)
        try:
            reply: c.Reply = await self.call("register", command)
        except TokenRefused as error:
            raise m.Rejected(str(error)) from None
        return reply

    async def renew(
        self, session: str, ttl_ms: int, facts: str | None, digest: tuple[int, int, int] | None, *, own: bool = False
    ) -> Renewal:
        renewal: Renewal = await self.call("renew", m.RenewCall(session, ttl_ms, facts, digest))
        return renewal

    async def reconcile(self, command: c.Reconcile) -> c.Reply:
        reply: c.Reply = await self.call("reconcile", command)
        return reply

    async def drain(self, command: c.Drain) -> c.Reply:
        reply: c.Reply = await self.call("drain", command)
        return reply

    async def leave(self, session: str) -> None:
        await self.call("leave", m.SessionCall(session))

    def forget(self, session: str) -> None:
        """Nothing is kept of it here."""

    # -- work --------------------------------------------------------------------------------------------

    async def exchange(self, command: c.Exchange, *, alone: bool = False) -> c.ExchangeReply:
        reply: c.ExchangeReply = await self.call("exchange", msgspec.structs.replace(command, costs={}))
        room = command.want + command.want_slotless > len(reply.claims)
        self._would_claim([*command.demands, *command.slotless] if room else [], command.known_demands)
        return reply

    def _would_claim(self, demands: list[str], known_demands: int) -> None:
        """A wait that is under way for less than these begins anew: the server answers the one before then."""
        self._demands = (demands, known_demands)
        if not self._waited_for.issuperset(demands):
            self._again.set()

    async def look(self, session: str, demands: list[str], known_demands: int) -> Look:
        """While wake-ups arrive, the server looks for all of its workers, and this one need not ask."""
        self._would_claim(demands, known_demands)
        if self.hears:
            return Look(False, None, True)
        look: Look = await self.call("look", m.WaitCall(session, demands, known_demands))
        return look

    async def once(self, command: c.Once) -> c.OnceReply:
        reply: c.OnceReply = await self.call("once", command)
        return reply

    async def open_handle(self, command: c.OpenHandle) -> c.HandleReply:
        reply: c.HandleReply = await self.call("open_handle", command)
        return reply

    async def orphans(self, engines: list[str]) -> list[tuple[HandleRow, bool]]:
        found: list[tuple[HandleRow, bool]] = await self.call("orphans", m.OrphansCall(self._session, engines))
        return found

    async def close_handles(self, command: c.CloseHandles) -> c.Reply:
        reply: c.Reply = await self.call("close_handles", m.GoneCall(self._session, command.gone))
        return reply

    # -- reading -----------------------------------------------------------------------------------------

    async def facts(self, run_nos: list[int]) -> list[RunFacts]:
        found: list[RunFacts] = await self.call("facts", m.FactsCall(self._session, run_nos))
        return found

    async def workflow(self, hash: str) -> Workflow:
        found = self._workflows.get(hash)
        if found is None:
            self._workflows.trim()
            document: bytes = await self.call("document", m.DocumentCall(self._session, hash))
            found = self._workflows[hash] = compile_workflow(decode_document(document), hash)
        return found

    async def ends(self, run_no: int, positions: list[int]) -> list[Ended]:
        found: list[Ended] = await self.call("ends", m.EndsCall(self._session, run_no, positions))
        return found

    async def context(self, run_no: int) -> dict[str, Any]:
        found: dict[str, Any] = await self.call("context", m.RunCall(self._session, run_no))
        return found

    async def cached(self, keys: list[str]) -> list[MemoRow]:
        found: list[MemoRow] = await self.call("cached", m.CachedCall(self._session, keys))
        return found

    async def array(self, run_no: int, pos: int, generation: int) -> Any:
        return await self.call("array", m.ArrayCall(self._session, run_no, pos, generation))

    async def run_states(self, ids: list[str]) -> dict[str, str]:
        found: dict[str, str] = await self.call("run_states", m.RunStatesCall(self._session, ids))
        return found

    async def ship(self, shipment: Shipment) -> list[tuple[int, int]]:
        try:
            refused: list[tuple[int, int]] = await self.call("ship", m.ShipCall(self._session, shipment.chunks))
        except m.Rejected as error:
            self._log("the server does not take output", {"error": str(error)})
            return shipment.without(set())
        return refused

    # -- wake-ups ----------------------------------------------------------------------------------------

    def listen(self, woken: Woken, rest: RestingLease | None = None) -> Callable[[], None]:
        waiting = self._waiting = asyncio.get_running_loop().create_task(self._keep_waiting(woken, rest))

        def stop() -> None:
            waiting.cancel()
            self.hears = False

        return stop

    async def _keep_waiting(self, woken: Woken, lease: RestingLease | None) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            self._again.clear()
            demands, known = self._demands
            self._waited_for = frozenset(demands)
            renewal = None if lease is None else lease.rest()
            asking = loop.create_task(self._wait(demands, known, renewal))
            again = loop.create_task(self._again.wait())
            self.hears = True
            try:
                await asyncio.wait({asking, again}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                asking.cancel()
                raise
            finally:
                again.cancel()
            if not asking.done():
                self._given_up.add(asking)
                asking.add_done_callback(self._forget)
                if self._elsewhere:  # whatever the server before had to say is lost
                    asking.cancel()
                    self._elsewhere = False
                    woken(EVERYONE)
            else:
                reply = None if asking.exception() is not None else asking.result()
                if lease is not None and renewal is not None:
                    lease.rested(renewal, renewed=reply is not None and reply.renewed)
                if reply is None:
                    self.hears = False
                    await asyncio.sleep(WAIT_RETRY_S)
                elif reply.woken != "nothing":
                    woken(EVERYONE if reply.woken == "everyone" else Hint(queued=1))
            await asyncio.sleep(max(0.0, began + WAIT_APART_S - loop.time()))

    async def _wait(self, demands: list[str], known: int, renewal: RestRenewal | None) -> m.WaitReply:
        request = m.WaitCall(self._session, demands, known)
        timeout_s = WAIT_MAX_S + self._call_s
        if renewal is not None:
            request.rest = m.Rest(*renewal[1:])
            timeout_s = wait_max_s(renewal.ttl_ms / 1000) + self._call_s * REST_LATE
        reply: m.WaitReply = await self._ask("wait", request, timeout_s)
        return reply

    def _forget(self, asking: "asyncio.Task[m.WaitReply]") -> None:
        self._given_up.discard(asking)
        if not asking.cancelled():
            asking.exception()  # nothing waits for it any more

    def _server_changed(self) -> None:
        """A wait at a server that answers no more is given up."""
        self._elsewhere = True
        self._again.set()

    async def close(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._waiting
        await self._transport.close()
