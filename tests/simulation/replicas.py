"""A replicated log in a simulated world: every node has a replica of its own, and every command is an entry.

Entries, committer, applier, clocks, snapshots and files of replicas are the production code. The log is a list:
appends are late, lost, or carried out without a reply and then made again; each replica gets entries late and in
groups. A node that comes back continues with its replica, which a power cut may have left without its tail, and the
log forgets entries that live replicas keep, so that others need a snapshot. One replica gets every entry at once:
all checks of the world look at that one.
"""

import asyncio
import contextvars
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.replicated.in_process import ToldReplica
from tests.simulation.loop import OWNER
from tests.simulation.violations import Violation
from weft.core import commands as c
from weft.core.decision.draft import Hint
from weft.core.decision.needs import Leadership
from weft.core.rows import LeadershipRow
from weft.node.log_committer import LogCommitter
from weft.store.protocol import StoreFull
from weft.store.replicated import entry as e
from weft.store.replicated.appender import WaitingCommands
from weft.store.replicated.applier import Applied, ApplyCommand
from weft.store.replicated.log_clock import LogClock
from weft.store.replicated.log_store import LateSessions
from weft.store.replicated.output.peers import take_snapshot
from weft.store.replicated.replica import Heard
from weft.store.replicated.tables import live_origins
from weft.store.sqlite.transaction import SqliteTransaction

if TYPE_CHECKING:
    from tests.simulation.world import World

PATIENCE_S = 1.5  # of a command, until its outcome counts as not known
RETRY_S = 0.1
WALL_S = 0.4  # by which wall clocks are wrong
TWICE, DURABLE, COMPACT, SAME_MACHINE, POWER_CUT = 0.03, 0.05, 0.01, 0.7, 0.5  # chances


class Observed(NamedTuple):
    """A command that was applied, and what the world wants to know about that moment."""

    command: Any
    leader_before: LeadershipRow
    leader_after: LeadershipRow
    lease: int | None  # until when that of a session lasted which this ended
    reply: Any
    now: int


class SimulatedLogClock(LogClock):
    def __init__(self, world: "World", wall_s: float, last: LogClock, *, rebooted: bool) -> None:
        self._world, self._wall_s = world, wall_s
        super().__init__(last.time_ms)
        if not rebooted:
            self._at_ms = last._at_ms

    def here_ms(self) -> int:
        return int(self._world.loop.time() * 1000)

    def civil_ms(self) -> int:
        return int((self._world.loop.time() + self._wall_s) * 1000)


class SimulatedReplica(ToldReplica):
    synchronous = "OFF"

    def __init__(self, log: "SimulatedLog", machine: Path, *, rebooted: bool = True) -> None:
        self._log_of_world = log
        self._shared_reader: Any = None
        super().__init__(machine)
        world = log.world
        self.origin = f"origin-{log.next_number()}"
        self.clock = self.log_clock = SimulatedLogClock(
            world, world.random.uniform(-WALL_S, WALL_S), self.log_clock, rebooted=rebooted
        )
        self._late = LateSessions(world.loop.time)
        self.machine = machine

    def reader(self) -> Any:
        """One for all: a new one for each look takes most of the time."""
        if self._shared_reader is None:
            self._shared_reader = super().reader()
        return self._shared_reader

    def close(self) -> None:
        if self._shared_reader is not None:
            self._shared_reader.close()
        super().close()


class Observer(SimulatedReplica):
    """Where people send their commands, and checks look: it has each entry as soon as the log has it."""

    def __init__(self, log: "SimulatedLog", machine: Path) -> None:
        super().__init__(log, machine)
        self._numbers = 0
        self.seen: list[Observed] = []
        self._entries: set[tuple[str, int]] = set()

    def follow(self, apply: ApplyCommand, heard: Heard) -> None:
        def observing(tx: SqliteTransaction, command: Any, sent: e.Sent, rules: int) -> tuple[Any, Hint]:
            before = tx.load([Leadership()])[0][0]
            lease = None
            if isinstance(command, c.Expire):
                sql = "SELECT expires_at FROM leases WHERE session = ?"
                lease = self._writer.execute(sql, (command.session,)).get
            try:
                reply, hint = apply(tx, command, sent, rules)
            except c.Refused as refused:
                self._log_of_world.world.refused_terms += refused.code == "stale_term"
                raise
            self.seen.append(Observed(command, before, tx.load([Leadership()])[0][0], lease, reply, tx.now))
            return reply, hint

        super().follow(observing, heard)

    def _report(self, applied: list[Applied]) -> None:
        for one in applied:
            entry = (one.entry.origin, one.entry.number)
            if entry in self._entries:
                self._log_of_world.world.violations.append(Violation("repeated", f"entry {entry} was applied again"))
            self._entries.add(entry)
        super()._report(applied)

    def send(self, commands: Sequence[e.Sent]) -> list[Any]:
        self._numbers += 1
        waiting = WaitingCommands(commands)
        self._appender._under_way[self._numbers] = [waiting]
        for value in e.values_of(self._entry(self._numbers, list(commands))):
            self._log_of_world.append(value)
        return waiting.outcomes.result(0)


class SimulatedLog:
    def __init__(self, world: "World") -> None:
        self.world = world
        self.directory = Path(tempfile.mkdtemp(prefix="weft-simulated-log-"))
        self.values: list[tuple[int, bytes]] = []
        self.revision = self.compacted = self._number = 0
        self.replicas: dict[int, SimulatedReplica] = {}  # by owner
        self.left: list[Path] = []  # machines of nodes that crashed
        self.snapshots = self.repeated = self.cut_off_tails = self.returned = 0
        self.observer = Observer(self, self.directory / "observer")

    def next_number(self) -> int:
        self._number += 1
        return self._number

    # -- the log -----------------------------------------------------------------------------------------

    def append(self, value: bytes) -> None:
        chance = self.world.random
        self.revision += chance.randint(1, 3)
        self.values.append((self.revision, value))
        self.observer.apply_entries([self.values[-1]])
        seen, self.observer.seen = self.observer.seen, []
        self.world.applied(seen)
        for owner in list(self.replicas):
            self._deliver(owner)
        if chance.random() < COMPACT:
            self._compact()

    def _compact(self) -> None:
        kept = [
            found.durable for found in live_origins(self.observer._writer) if found.origin != self.observer.origin
        ]
        target = min(kept, default=0)
        if target > self.compacted:
            self.compacted = target
            self.values = [found for found in self.values if found[0] > target]

    def _deliver(self, owner: int) -> None:
        context = contextvars.Context()
        context.run(OWNER.set, owner)
        self.world.loop.call_later(self.world.delay(), self._pull, owner, context=context)

    def _pull(self, owner: int) -> None:
        replica = self.replicas.get(owner)
        if replica is not None:
            try:
                self.bring(replica)
            except Exception as error:
                self.world.violations.append(Violation("replica", f"that of node {owner} stops: {error!r}"))

    def bring(self, replica: SimulatedReplica) -> None:
        """What it lacks, as one or several groups; from a snapshot, if the log no longer has it."""
        chance = self.world.random
        if replica.revision < self.compacted:
            self._restore(replica)
        left = [found for found in self.values if found[0] > replica.revision]
        while left:
            size = chance.choice((1, 3, 50))
            replica.apply_entries(left[:size])
            left = left[size:]
        if chance.random() < DURABLE:
            self._note_durable(replica)

    def _restore(self, replica: SimulatedReplica) -> None:
        peers = [one for one in self.replicas.values() if one is not replica and one.revision >= self.compacted]
        peer = self.world.random.choice(peers) if peers else self.observer
        self.snapshots += 1
        file = self.directory / "snapshot.db"
        assert peer.path is not None
        take_snapshot(peer.path, file)
        replica.restore(file)
        file.unlink()

    def _note_durable(self, replica: SimulatedReplica) -> None:
        """What a power cut would leave."""
        kept = replica.machine / "durable.db"
        kept.unlink(missing_ok=True)
        assert replica.path is not None
        take_snapshot(replica.path, kept)
        replica.durable = replica.revision

    # -- machines ----------------------------------------------------------------------------------------

    def start(self, owner: int) -> SimulatedReplica:
        chance = self.world.random
        rebooted = True
        if self.left and chance.random() < SAME_MACHINE:
            machine = self.left.pop(chance.randrange(len(self.left)))
            self.returned += 1
            rebooted = self._cut_power(machine) if chance.random() < POWER_CUT else False
        else:
            machine = self.directory / f"machine-{owner}"
        replica = SimulatedReplica(self, machine, rebooted=rebooted)
        LogCommitter(replica, lambda hint: self.world.wake(owner, hint), lambda hint: None)
        self.bring(replica)  # a node begins when it has what the log had
        self.replicas[owner] = replica
        return replica

    def _cut_power(self, machine: Path) -> bool:
        kept = machine / "durable.db"
        for suffix in ("-wal", "-shm"):
            (machine / f"replica.db{suffix}").unlink(missing_ok=True)
        if kept.exists():
            shutil.copy(kept, machine / "replica.db")
            self.cut_off_tails += 1
        else:
            (machine / "replica.db").unlink()
        return True

    def crash(self, owner: int) -> None:
        replica = self.replicas.pop(owner)
        replica.close()
        self.left.append(replica.machine)

    def check_equal(self) -> None:
        """All replicas, those of crashed nodes too, have the observer's tables when they have its entries."""
        for machine in self.left:
            self.replicas[-self.next_number()] = SimulatedReplica(self, machine)
        wanted = self.observer.hashes()
        for owner, replica in self.replicas.items():
            self.bring(replica)
            found = replica.hashes()
            if found != wanted:
                text = f"tables of {owner} differ: {sorted(set(found.items()) ^ set(wanted.items()))}"
                self.world.violations.append(Violation("replica", text))
        self.left = []

    def close(self) -> None:
        for replica in (*self.replicas.values(), self.observer):
            replica.close()
        self.replicas = {}
        shutil.rmtree(self.directory, ignore_errors=True)


class SimulatedAppender:
    """What one process appends: one entry is on its way, and commands that come meanwhile gather."""

    def __init__(self, log: SimulatedLog, replica: SimulatedReplica) -> None:
        self._log = log
        self._world = log.world
        self._replica = replica
        self._queue: list[WaitingCommands] = []
        self._number = 0
        self._busy = False
        self._wire = contextvars.Context()  # what was sent arrives, whatever becomes of the node

    async def send(self, command: Any) -> Any:
        """TimeoutError: what came of it is not known."""
        loop = self._world.loop
        waiting = WaitingCommands([e.Sent.of(command)])
        done: asyncio.Future[list[Any]] = loop.create_future()

        def applied(found: Any) -> None:
            if not done.done():
                done.set_result(_outcome(found))

        waiting.outcomes.add_done_callback(applied)
        self._queue.append(waiting)
        self._next()
        try:
            (outcome,) = await asyncio.wait_for(done, PATIENCE_S)
        except TimeoutError:
            waiting.given_up = True
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _next(self) -> None:
        self._queue = [waiting for waiting in self._queue if not waiting.given_up]
        if self._busy or not self._queue:
            return
        self._busy = True
        self._number += 1
        batch, self._queue = self._queue, []
        self._replica._appender._under_way[self._number] = batch
        entry = self._replica._entry(self._number, [sent for one in batch for sent in one.commands])
        self._later(self._world.delay(), self._arrive, e.values_of(entry), batch)

    def _arrive(self, values: list[bytes], batch: list[WaitingCommands]) -> None:
        world = self._world
        now, chance, faults = world.loop.time(), world.random, world.faults
        if now < world.full_until:
            self._replica._appender._under_way.pop(self._number, None)
            for one in batch:
                if not one.outcomes.done():
                    one.outcomes.set_exception(StoreFull("no space left"))
            self._answered([], batch)
        elif now < world.away_until or chance.random() < faults.lose_request:
            self._later(RETRY_S, self._arrive, values, batch)
        else:
            self._log.append(values[0])
            if chance.random() < TWICE:  # a retry of ours that had been on its way all the time
                self._log.repeated += 1
                self._later(world.delay(), self._log.append, values[0])
            if chance.random() < faults.lose_reply:
                self._log.repeated += 1
                self._later(RETRY_S, self._arrive, values, batch)
            else:
                self._later(world.delay(), self._answered, values[1:], batch)

    def _answered(self, left: list[bytes], batch: list[WaitingCommands]) -> None:
        if left:
            self._arrive(left, batch)
            return
        self._busy = False
        self._next()

    def _later(self, seconds: float, work: Any, *given: Any) -> None:
        self._world.loop.call_later(seconds, work, *given, context=self._wire)


def _outcome(found: Any) -> list[Any]:
    error = found.exception()
    return [error] if error is not None else list(found.result())
