"""The replica of a node: it follows the log in one thread and appends in another.

The revision of the last applied entry is part of the same SQLite transaction. A commit is answered when its entry was
applied here: then this process reads what it wrote.
"""

import fcntl
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from weft.core.decision.draft import Hint
from weft.store.etcd.log import EtcdLog, LogCompacted, LogSilent
from weft.store.etcd.url import EtcdUrl
from weft.store.private_files import make_private_directory, open_private
from weft.store.protocol import StoreBusy, StoreError, StoreFull, StoreUnusable
from weft.store.replicated import comparison
from weft.store.replicated import entry as e
from weft.store.replicated.appender import Appender
from weft.store.replicated.applier import Applied, ApplyCommand, Group, groups
from weft.store.replicated.care import Care
from weft.store.replicated.local_socket import CommandServer
from weft.store.replicated.log_clock import LogClock
from weft.store.replicated.log_store import LogStore
from weft.store.replicated.output.copies import OutputCopies, ReadOutput
from weft.store.replicated.output.file import StoredPiece, StreamsFile
from weft.store.replicated.output.peers import PeerChannel, PeerServer, take_snapshot
from weft.store.replicated.tables import ReplicaPosition, live_origins, make_tables, set_standing, standing
from weft.store.replicated.versions import HERE, active_version
from weft.store.shipment import FILES, Shipment
from weft.store.sqlite.migrate import latest, migrate, version
from weft.store.sqlite.output import not_held
from weft.store.sqlite.transaction import SqliteTransaction

LOCK_FILE = "owner.lock"
OUTPUT_FILE = "output.db"
SEED = "seed"  # the key of a log that begins with a copy of another store
CATCH_UP_SAID_S = 2.0
BEHIND_S = 1.5  # an entry of ours that the watch does not bring in this time: another member is asked
RETRY_S = 0.1
SNAPSHOT_RETRY_S = 2.0
FULL_RETRY_S = 1.0

#: Called after COMMIT: what is left to do for nodes; `own`: by the exchange of a node of this process.
Heard = Callable[[Hint, bool], None]


class ReplicaStore(LogStore):
    """`copies`: how many peers keep a copy of what attempts of this machine print."""

    applicable = HERE

    def __init__(self, url: EtcdUrl, directory: Path, log: EtcdLog, copies: int = 1) -> None:
        make_private_directory(directory)
        self._owner = lock_of(directory)
        if self._owner is None:
            raise StoreBusy(f"{url.shown}: another process has the replica in {directory}")
        self.etcd = log
        self._apply: ApplyCommand | None = None
        self._heard: Heard = lambda hint, own: None
        self._stop = threading.Event()
        self._caught_up = threading.Event()
        self._head = 0
        self._seeded = False
        self.failure: StoreError | None = None
        self.origin = secrets.token_hex(8)
        self.durable = 0
        super().__init__(url, directory)
        self._appender = Appender(log, self._entry)
        self._server: CommandServer | None = None
        self._peer_server: PeerServer | None = None
        self._peers = PeerChannel(log, self.node)
        self._output_file = StreamsFile(directory / OUTPUT_FILE)
        self.output = OutputCopies(self._output_file, self._peers, copies)
        self._care: Care | None = None
        self._follower = threading.Thread(target=self._follow, name="weft-apply", daemon=True)

    def _open(self) -> None:
        super()._open()
        make_tables(self._writer)
        found = standing(self._writer)
        if not found.node:
            found = found._replace(node=secrets.token_hex(6))
            set_standing(self._writer, found)
        self.revision, self.node = found.revision, found.node
        self._learn_active()
        self.clock = self.log_clock = LogClock(found.time_ms, found.at_ms, found.boot)

    def _learn_active(self) -> None:
        self.active = active_version(self._writer)
        if self.active is not None:
            self.applicable.refuse_other(self.active, self.name)

    # Following

    def follow(self, apply: ApplyCommand, heard: Heard) -> None:
        """Begin, and return when everything was applied that was in the log before."""
        self._apply, self._heard = apply, heard
        self._head, self._seeded = self._asked_head()
        self._caught_up_if_there()
        self._appender.start()
        self._follower.start()
        began, said = time.monotonic(), 0.0
        while not self._caught_up.wait(0.2):
            if self.failure is not None:
                raise self.failure
            if time.monotonic() - began > CATCH_UP_SAID_S + said:
                said = time.monotonic() - began
                self.log(f"catching up with the log: entry {self.revision:,} of {self._head:,}")
        if self.failure is not None:
            raise self.failure
        assert self.path is not None
        self._peer_server = PeerServer(self.etcd, self.node, self.path, self._output_file)
        self._server = CommandServer(self.path.parent, self._send_for_guest)
        self._care = Care(self, self._peer_server.announce)

    def _asked_head(self) -> tuple[int, bool]:
        """The newest entry, and whether the log begins with a copy."""
        until = time.monotonic() + self.patience_ms / 1000
        while True:
            try:
                return self.etcd.head(), self.etcd.get(SEED) is not None
            except LogSilent as error:
                if time.monotonic() > until:
                    raise StoreBusy(f"{self.name}: {error}") from None
                time.sleep(RETRY_S)

    def _caught_up_if_there(self) -> None:
        if self.revision >= self._head and not self._lacks_seed:
            self._caught_up.set()

    @property
    def _lacks_seed(self) -> bool:
        return self._seeded and not self.revision

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow_once()
            except LogSilent:
                self._stop.wait(RETRY_S)
            except StoreFull as error:
                self.log(str(error))
                self._stop.wait(FULL_RETRY_S)
            except LogCompacted as error:
                if not self._fetch_snapshot(error.revision):
                    self._stop.wait(SNAPSHOT_RETRY_S)
            except Exception as error:
                self._fail(error if isinstance(error, StoreError) else StoreUnusable(f"{self.name}: {error!r}"))
                return

    def _fail(self, error: StoreError) -> None:
        self.failure = error
        self.log(str(error))
        self._appender.fail(error)
        self._caught_up.set()

    def _follow_once(self) -> None:
        if self._lacks_seed:
            raise LogCompacted(1)
        behind_since: float | None = None
        for batch in self.etcd.follow(self.revision + 1):
            if self._stop.is_set():
                return
            for group in groups(batch):
                self.apply_entries(group)
            if self.revision >= self._appender.last_revision:
                behind_since = None
            elif behind_since is None:
                behind_since = time.monotonic()
            elif not batch and time.monotonic() - behind_since > BEHIND_S:
                raise LogSilent("the member brings nothing new: it may be cut off from the others")
            self._caught_up_if_there()

    def _fetch_snapshot(self, first: int) -> bool:
        """From a peer, and in place of what is here: the log begins at this revision."""
        assert self.path is not None
        self.log(
            f"the log begins at entry {first:,}, and this replica is at {self.revision:,}: asking for a snapshot"
        )
        file = self._peers.fetch_snapshot(self.path.parent, lambda file: _fits(file, max(1, first - 1)))
        if file is None:
            self.log("no node that answers has a snapshot that is new enough, and of no newer Weft; trying again")
            return False
        self.restore(file)
        file.unlink()
        self.log(f"continuing from a snapshot at entry {self.revision:,}")
        return True

    def restore(self, snapshot: Path) -> None:
        """Hold what another replica held, and continue from there."""
        with self._explained, self._lock:
            source = apsw.Connection(str(snapshot), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                with self._writer.backup("main", source, "main") as backup:
                    backup.step(-1)
            finally:
                source.close()
            found = standing(self._writer)._replace(node=self.node, boot="")
            set_standing(self._writer, found)
            with self._writer:
                make_tables(self._writer)
                migrate(self._writer)  # the peer's node may be older
            self._learn_active()
            self.remembered.forget()
        self.revision = found.revision
        self.log_clock.applied(found.time_ms)

    def apply_entries(self, entries: Sequence[tuple[int, bytes]]) -> None:
        while entries:
            entries = entries[self._apply_some(entries) :]

    def _apply_some(self, entries: Sequence[tuple[int, bytes]]) -> int:
        """In one transaction; how many of them were applied."""
        assert self._apply is not None
        done = 0
        with self._group() as transaction:
            group = Group(self._writer, transaction, self._apply, self.log_clock.time_ms, self.applicable)
            for revision, value in entries:
                group.apply(revision, value)
                done += 1
                if group.compare:
                    break
            at = ReplicaPosition(entries[done - 1][0], *self.log_clock.mark(group.time_ms), self.node)
            set_standing(self._writer, at)
        self.revision = at.revision
        self.log_clock.applied(at.time_ms)
        if group.active != self.active:
            if self.active is not None:
                self.log(f"from entry {at.revision:,} on the log runs {group.active}")
            self.active = group.active
        self._report(group.applied)
        assert self.path is not None
        if group.compare:
            comparison.answer(self.path, at.revision, self.send_one)
        if group.compared:
            with self._lock:
                origins = live_origins(self._writer)
            comparison.refuse_if_other(origins, self.origin, group.compared, self.name)
        return done

    def _report(self, applied: list[Applied]) -> None:
        """After COMMIT: replies to those who wait, wake-ups for nodes."""
        others, ours = Hint(), Hint()
        for one in applied:
            if one.entry.origin != self.origin:
                others |= one.hint
                continue
            self._appender.applied(one.entry.number, one.outcomes)
            if all(sent.kind == "Exchange" for sent in one.entry.commands):
                ours |= one.hint
            else:
                others |= one.hint
        if others:
            self._heard(others, False)
        else:
            self._heard(ours, True)

    @contextmanager
    def _group(self) -> Iterator[SqliteTransaction]:
        with self._explained, self._lock:
            self._begin()
            try:
                if not self.remembered.begin(self._writer):
                    self.remembered.go_on(self._writer)
                yield SqliteTransaction(self._writer, self.clock.now(), self.remembered)
                self._refuse_if_gone()
                self._writer.execute("COMMIT")
                self.remembered.go_on(self._writer)  # what else was written is in no row that is remembered
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                self.remembered.forget()
                raise

    # Appending

    @property
    def is_full(self) -> bool:
        """etcd has reached its quota."""
        return self._appender.is_full

    @is_full.setter
    def is_full(self, full: bool) -> None:
        self._appender.is_full = full

    def send(self, commands: Sequence[e.Sent]) -> list[Any]:
        return self._appender.send(commands, self.patience_ms / 1000)

    def _entry(self, number: int, commands: list[e.Sent]) -> e.Entry:
        return e.Entry(
            self.origin, self.node, number, self.revision, self.durable, self.clock.now(), self.log_clock.civil_ms(),
            self.active or self.applicable.newest, commands, self.applicable.newest if number == 1 else None,
        )  # fmt: skip

    # Output

    def keep_output(self, shipment: Shipment) -> list[tuple[int, int]]:
        """The log has what must be agreed on: files that attempts keep, and the sizes of streams that have ended.
        What is printed is kept here and on peers before that."""
        refused = set(self._not_held(shipment))
        if refused:
            self.wait_for_head()  # an attempt whose claim was not applied here yet
            refused = set(self._not_held(shipment))
        chunks = [chunk for chunk in shipment.chunks if (chunk.task_id, chunk.attempt) not in refused]
        self.output.keep([chunk for chunk in chunks if chunk.stream != FILES], self.revision)
        agreed = [
            chunk if chunk.stream == FILES else msgspec.structs.replace(chunk, data=b"", drop=None)
            for chunk in chunks
            if chunk.stream == FILES or chunk.size is not None
        ]
        if agreed:
            refused |= set(self.send_one(e.KeepOutput(Shipment(agreed))))
        return sorted(refused)

    def _not_held(self, shipment: Shipment) -> list[tuple[int, int]]:
        with self._explained, self._lock:
            return not_held(self._writer, shipment)

    def find_output(self, asked: ReadOutput) -> StoredPiece | None:
        return self.output.read(asked)

    def copy_to(self, target: Path) -> None:
        """The replica and the output that is on this machine, as one file."""
        assert self.path is not None
        take_snapshot(self.path, target)
        self._output_file.copy_into(target)

    def _send_for_guest(self, commands: Sequence[e.Sent]) -> list[Any]:
        kind, body = commands[0].kind, commands[0].body
        if kind == ReadOutput.__name__:
            return [self.find_output(msgspec.msgpack.decode(body, type=ReadOutput))]
        if kind == e.KeepOutput.__name__:
            return [self.keep_output(msgspec.msgpack.decode(body, type=e.KeepOutput).shipment)]
        return self.send(commands)

    def close(self) -> None:
        for part in (self._care, self._peer_server, self._server, self.output):
            if part is not None:
                part.close()
        self._stop.set()
        if self._follower.ident is not None:
            self._follower.join()
        self._appender.close()
        self.etcd.close()
        super().close()
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None


def _fits(file: Path, first: int) -> bool:
    """A snapshot that goes at least up to this revision, and that this version of Weft can use."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return standing(connection).revision >= first and version(connection) <= latest()
    except apsw.Error:
        return False  # not a snapshot
    finally:
        connection.close()


def lock_of(directory: Path) -> int | None:
    """A descriptor that holds the replica's lock; None: another process has it."""
    fd = open_private(directory / LOCK_FILE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
