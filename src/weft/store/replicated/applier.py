"""Applies entries of the log to the replica, in their order, each once.

Several entries share a transaction while there are many, and each command has a savepoint: one that its rule refuses,
or whose rule raises an error, changes nothing on any replica.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import apsw

from weft.core import commands as c
from weft.core.artifacts import FilesNeeded
from weft.core.decision.draft import Hint
from weft.store.protocol import CommandUsed, StoreError, StoreUnusable, Superseded
from weft.store.replicated import entry as e
from weft.store.replicated.tables import (
    is_repeated,
    keep_part,
    note_hash,
    note_origin,
    note_session,
)
from weft.store.replicated.time_vote import time_of
from weft.store.replicated.versions import (
    HERE,
    Applicable,
    LogVersion,
    active_version,
    advertise,
    nodes_behind,
    set_active,
    switch_schema,
)
from weft.store.sqlite.output import keep_output
from weft.store.sqlite.statements import SQL
from weft.store.sqlite.transaction import SqliteTransaction

GROUP_MAX = 200  # entries of one transaction

#: Applies a command of the rules inside a transaction: its reply, and what is left to do for nodes. The number is
#: that of the rules to go by.
ApplyCommand = Callable[[SqliteTransaction, Any, e.Sent, int], tuple[Any, Hint]]


class Applied(NamedTuple):
    """An entry that was applied. `own_exchange`: of this process, and of no concern to its own node."""

    entry: e.Entry
    revision: int
    outcomes: list[Any]
    hint: Hint


class Group:
    """Entries that are applied in one transaction, from where the replica stands."""

    def __init__(
        self,
        connection: apsw.Connection,
        transaction: SqliteTransaction,
        apply: ApplyCommand,
        time_ms: int,
        applicable: Applicable = HERE,
    ):
        self._connection = connection
        self._applicable = applicable
        self.active = active_version(connection)
        self._transaction = transaction
        self._apply = apply
        self.time_ms = time_ms
        self.applied: list[Applied] = []
        self.compare = False  # the last entry asks for a hash of the tables as they are now
        self.compared = 0  # the newest revision of which a replica has said its hash

    def apply(self, revision: int, value: bytes) -> None:
        read = e.read_value(value)
        if is_repeated(self._connection, read, revision):
            return
        if isinstance(read, e.Part):
            whole = keep_part(self._connection, read)
            if whole is None:
                return
            read = e.read_value(whole)
            assert isinstance(read, e.Entry)
        active = self._active(read, revision)
        now = time_of(self._connection, read, self.time_ms)
        self.time_ms = self._transaction.now = now
        note_origin(self._connection, read, revision, read.civil - now)
        if read.newest is not None:
            advertise(self._connection, read.origin, LogVersion(*read.newest))
        hint = Hint()
        outcomes = []
        for sent in read.commands:
            outcome, wake = self._outcome(read, sent, active)
            if sent.kind == "Compare":
                outcome = revision
            elif sent.kind == "Activate" and outcome is True:
                active = self._switched(sent.command(), active, revision)
            outcomes.append(outcome)
            hint |= wake
        self.applied.append(Applied(read, revision, outcomes, hint))

    def _outcome(self, entry: e.Entry, sent: e.Sent, active: LogVersion) -> tuple[Any, Hint]:
        """Under a savepoint: a rule may refuse after loads that write (a run's number, an exchange's), or fail."""
        self._connection.execute("SAVEPOINT command")
        try:
            found = self._applied(entry, sent, active)
            self._connection.execute("RELEASE command")
        except (c.Refused, FilesNeeded, CommandUsed) as error:
            found = self._undone(error)
        except Exception as error:
            if _is_local(error):
                raise
            found = self._undone(e.Failed(f"{sent.kind}: {type(error).__name__}: {error}"))
        return found

    def _undone(self, outcome: Exception) -> tuple[Any, Hint]:
        self._connection.execute("ROLLBACK TO command; RELEASE command")
        self._transaction.forget()
        return outcome, Hint()

    def _applied(self, entry: e.Entry, sent: e.Sent, active: LogVersion) -> tuple[Any, Hint]:
        if e.SINCE.get(sent.kind, 0) > active.rules:
            raise KeyError(sent.kind)
        command = sent.command()
        if sent.kind in e.OF_LOG:
            return self._of_log(entry, command, active), Hint()
        reply, hint = self._apply(self._transaction, command, sent, active.rules)
        self._transaction.take_in()
        if isinstance(command, c.Register):
            note_session(self._connection, command.session, entry.origin)
        return reply, hint

    def _of_log(self, entry: e.Entry, command: Any, active: LogVersion) -> Any:
        if isinstance(command, e.Renew):
            return self._renew(command)
        if isinstance(command, e.KeepOutput):
            return keep_output(self._connection, command.shipment)
        if isinstance(command, e.Compared):
            note_hash(self._connection, entry.origin, command.revision, command.hash)
            self.compared = command.revision
        elif isinstance(command, e.Compare):
            self.compare = True
        elif isinstance(command, e.Activate):
            wanted = LogVersion(command.rules, command.schema)
            return wanted > active and not nodes_behind(self._connection, wanted)
        return None

    def _active(self, entry: e.Entry, revision: int) -> LogVersion:
        """What the log runs at this entry. One that was made before its origin had applied an activation is applied
        by what was activated."""
        if self.active is None:
            self._activate(LogVersion(*entry.version), revision)
        assert self.active is not None
        if tuple(entry.version) > self.active:
            raise StoreUnusable(
                f"the log's entry {revision}, of node {entry.node}, was made while the log ran"
                f" {LogVersion(*entry.version)}, but here it runs {self.active}: this replica lacks an entry."
                " Move it away, and its node fetches a new one"
            )
        return self.active

    def _activate(self, version: LogVersion, revision: int) -> None:
        self._applicable.refuse_other(version, f"entry {revision}")
        set_active(self._connection, version, revision)
        self.active = version

    def _switched(self, command: e.Activate, old: LogVersion, revision: int) -> LogVersion:
        new = LogVersion(command.rules, command.schema)
        self._activate(new, revision)
        switch_schema(self._connection, old, new)
        self._transaction.forget()
        return new

    def _renew(self, command: e.Renew) -> tuple[int, int, int] | None:
        execute, now = self._connection.execute, self._transaction.now
        if not execute(SQL["lease_renew_if_live"], (command.session, command.ttl_ms, now)).fetchall():
            return None
        if command.facts is not None:
            execute(SQL["node_facts_set_if_live"], (command.session, now, command.facts))
        rows: list[Any] = execute(SQL["held_digest"], (command.session,)).fetchall()
        ((number, count, checksum),) = rows
        return int(number), int(count), int(checksum)


def _is_local(error: Exception) -> bool:
    """This machine's own trouble, such as a full disk: nothing of the entry counts, and it is applied again."""
    if isinstance(error, Superseded | apsw.ConstraintError):
        return False
    return isinstance(error, StoreError | apsw.Error | MemoryError)


def groups(batch: Sequence[tuple[int, bytes]]) -> list[Sequence[tuple[int, bytes]]]:
    return [batch[at : at + GROUP_MAX] for at in range(0, len(batch), GROUP_MAX)]
