"""The committer of a replicated store: commands go to the log, and the reply comes from applying their entry here.

Rules run when the entry is applied, on every replica alike: with the entry's time, and with no file but those that
the entry carries. A rule that asks for an artifact is refused everywhere; the origin reads it and appends the
command again.
"""

from collections.abc import Callable, Sequence
from typing import Any

from weft.core import commands as c
from weft.core.artifacts import File, FilesNeeded
from weft.core.decision.draft import Hint
from weft.node.attempts.artifacts import read_files
from weft.node.committer import Committer, reach_commit
from weft.store.protocol import Store, StoreError, Transaction
from weft.store.replicated.entry import Sent
from weft.store.replicated.log_store import LogStore
from weft.store.replicated.replica import ReplicaStore


def log_committer(store: Store, wake: Callable[[Hint], None], wake_others: Callable[[Hint], None]) -> "LogCommitter":
    assert isinstance(store, LogStore)
    return LogCommitter(store, wake, wake_others)


class LogCommitter(Committer):
    """`wake_others` is called after the exchange of a node of this process, which knows what it did."""

    def __init__(self, store: LogStore, wake: Callable[[Hint], None], wake_others: Callable[[Hint], None]) -> None:
        super().__init__(store, wake)
        self._log_store = store
        self._wake_others = wake_others
        if isinstance(store, ReplicaStore):
            store.follow(self._apply_sent, self._heard)

    def commit(self, command: c.Command, *, command_id: str | None = None, actor: str | None = None) -> Any:
        reach_commit(command, "before_commit")
        (outcome,) = self._outcomes([Sent.of(command, command_id, actor)])
        reach_commit(command, "committed")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def commit_each(self, commands: Sequence[c.Command], ids: Sequence[str], actor: str | None = None) -> list[Any]:
        outcomes = self._outcomes([Sent.of(command, id, actor) for command, id in zip(commands, ids, strict=True)])
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, c.Refused):
                raise outcome
        return outcomes

    def try_commit(self, command: c.Command) -> Any | None:
        return None  # it waits for the network

    def _outcomes(self, commands: list[Sent]) -> list[Any]:
        try:
            outcomes = self._log_store.send(commands)
            self.failed = False
        except StoreError:
            self.failed = True
            raise
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, FilesNeeded):
                outcomes[at] = self._with_files(commands[at], outcome)
        return outcomes

    def _with_files(self, sent: Sent, needed: FilesNeeded) -> Any:
        """Append it again with what its rule asks for, which may be more each time."""
        files: dict[tuple[str, str], File] = {}
        outcome: Any = needed
        while isinstance(outcome, FilesNeeded):
            files |= read_files(self.artifacts, outcome.run_id, outcome.references)
            sent.files = [(run, hash, file) for (run, hash), file in files.items()]
            (outcome,) = self._log_store.send([sent])
        return outcome

    def _apply_sent(self, transaction: Transaction, command: c.Command, sent: Sent, rules: int) -> tuple[Any, Hint]:
        self.rules = rules
        files = {(run, hash): file for run, hash, file in sent.files}
        if sent.id is None:
            return self.apply(transaction, command, files, sent.actor)
        return self.apply_once(transaction, command, sent.id, files, sent.actor)

    def _heard(self, hint: Hint, own: bool) -> None:
        if hint:
            (self._wake_others if own else self._wake)(hint)
        if self.committed is not None:
            self.committed()
