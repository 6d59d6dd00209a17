"""A log in this process, and replicas that follow it: real entries, the real committer and applier, no etcd.

An append is applied by every open replica before it is answered, so that a test sees at once what it wrote. A witness
beside them gets the same entries later and in groups of other sizes, and must have the same tables at the end.
"""

import pickle
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from weft.core.decision.draft import Hint
from weft.node.log_committer import LogCommitter
from weft.store.etcd.log import EtcdLog
from weft.store.etcd.url import EtcdUrl
from weft.store.replicated import entry as e
from weft.store.replicated.appender import WaitingCommands
from weft.store.replicated.applier import ApplyCommand
from weft.store.replicated.replica import Heard, ReplicaStore
from weft.store.replicated.table_hash import table_hashes
from weft.store.sqlite.transaction import SqliteTransaction

URL = EtcdUrl("etcd://127.0.0.1:1/simulated")


class ToldReplica(ReplicaStore):
    """Entries come when a test says so: no threads, and nothing is asked of etcd."""

    def __init__(self, directory: Path) -> None:
        super().__init__(URL, directory, EtcdLog(URL))
        LogCommitter(self, lambda hint: None, lambda hint: None)

    def follow(self, apply: ApplyCommand, heard: Heard) -> None:
        self._apply, self._heard = apply, heard

    def hashes(self) -> dict[str, str]:
        return table_hashes(self._writer)


class Transacted(msgspec.Struct):
    """What a test did in a transaction of its own: calls with their arguments, and what loads gave."""

    calls: bytes


e.KINDS["Transacted"] = Transacted  # as if it were one more command


class RecordedTransaction:
    def __init__(self, transaction: SqliteTransaction) -> None:
        self._transaction = transaction
        self.calls: list[tuple[str, bytes, bytes]] = []
        self.document = transaction.document

    @property
    def now(self) -> int:
        return self._transaction.now

    def load(self, needs: Sequence[Any]) -> tuple[list[Any], ...]:
        found: tuple[list[Any], ...] = self._call("load", needs)
        return found

    def write(self, draft: Any) -> None:
        self._call("write", draft)

    def remember(self, command_id: str, body_hash: str) -> None:
        self._transaction.remember(command_id, body_hash)

    def keep_reply(self, command_id: str, body_hash: str, reply: str) -> None:
        self._call("keep_reply", command_id, body_hash, reply)

    def _call(self, name: str, *arguments: Any) -> Any:
        given = pickle.dumps(arguments)  # before the call: a draft that was written is marked as such
        found = getattr(self._transaction, name)(*arguments)
        self.calls.append((name, given, pickle.dumps(found)))
        return found


class InProcessLog:
    """`directory`: of the replicas, one folder each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.lock = threading.RLock()
        self.values: list[tuple[int, bytes]] = []
        self.open_replicas: dict[str, InProcessReplica] = {}

    def open(self) -> "InProcessReplica":
        """Another node: with the first replica that nobody has, or with a new one."""
        with self.lock:
            name = next(f"r{at}" for at in range(99) if f"r{at}" not in self.open_replicas)
            replica = InProcessReplica(self, self._directory / name)
            self.open_replicas[name] = replica
            self.bring(replica)
            return replica

    def bring(self, replica: ReplicaStore, at_once: int = 50) -> None:
        left = [(revision, value) for revision, value in self.values if revision > replica.revision]
        for at in range(0, len(left), at_once):
            replica.apply_entries(left[at : at + at_once])

    def append(self, entry: e.Entry) -> None:
        for value in e.values_of(entry):
            self.values.append((len(self.values) + 1, value))
        for replica in list(self.open_replicas.values()):
            self.bring(replica)

    def closed(self, replica: "InProcessReplica") -> None:
        with self.lock:
            self.open_replicas = {name: one for name, one in self.open_replicas.items() if one is not replica}

    def check_equal(self) -> None:
        """All replicas there ever were, and the witness, which gets all of it now, have the same tables."""
        folders = [path for path in sorted(self._directory.glob("r*")) if path.is_dir()]
        found = {}
        for folder, at_once in [*((folder, 50) for folder in folders), (self._directory / "witness", 7)]:
            replica = InProcessReplica(self, folder)
            self.bring(replica, at_once)
            found[folder.name] = replica.hashes()
            replica.close()
        witness = found["witness"]
        for name, hashes in found.items():
            assert hashes == witness, (name, sorted(set(hashes.items()) ^ set(witness.items())))


class InProcessReplica(ToldReplica):
    def __init__(self, log: InProcessLog, directory: Path) -> None:
        self.in_process = log
        self._numbers = 0
        super().__init__(directory)

    def follow(self, apply: ApplyCommand, heard: Heard) -> None:
        super().follow(_also_transacted(apply), heard)

    def send(self, commands: Sequence[e.Sent]) -> list[Any]:
        return self._send(commands, None)

    def _send(self, commands: Sequence[e.Sent], now: int | None) -> list[Any]:
        with self.in_process.lock:
            self._numbers += 1
            waiting = WaitingCommands(commands)
            self._appender._under_way[self._numbers] = [waiting]
            entry = self._entry(self._numbers, list(commands))
            entry.time = entry.civil = entry.time if now is None else now
            self.in_process.append(entry)
            return waiting.outcomes.result(0)

    @contextmanager
    def transaction(self, *, wait: bool = True, marked: bool = False) -> Iterator[Any]:
        """A test's own: it is tried here, undone, and comes again as an entry for all replicas."""
        with self.in_process.lock:
            with self._explained, self._lock:
                self._begin()
                try:
                    tried = RecordedTransaction(SqliteTransaction(self._writer, self.clock.now(), self.remembered))
                    yield tried
                finally:
                    self._writer.execute("ROLLBACK")
                    self.remembered.forget()
            if tried.calls:
                (outcome,) = self._send([e.Sent.of(Transacted(pickle.dumps(tried.calls)))], tried.now)
                if isinstance(outcome, Exception):
                    raise outcome

    def close(self) -> None:
        self.in_process.closed(self)
        super().close()


def _also_transacted(apply: ApplyCommand) -> ApplyCommand:
    def applied(transaction: SqliteTransaction, command: Any, sent: e.Sent, rules: int) -> tuple[Any, Hint]:
        if not isinstance(command, Transacted):
            return apply(transaction, command, sent, rules)
        for name, given, before in pickle.loads(command.calls):
            found = getattr(transaction, name)(*pickle.loads(given))
            assert found == pickle.loads(before), (name, found, pickle.loads(before))
        return None, Hint()

    return applied


def log_committer(store: ReplicaStore) -> LogCommitter:
    return LogCommitter(store, lambda hint: None, lambda hint: None)
