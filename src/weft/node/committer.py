"""Carries commands to the store: one transaction, loads while the rule decides, guarded writes, then wake-ups.

Nothing outside the store happens before COMMIT. Wake-ups come after it, and may be lost or repeated.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from weft.core import commands as c
from weft.core.artifacts import File, Files, FilesNeeded
from weft.core.decision.decide import decide
from weft.core.decision.draft import RULES_VERSION, Draft, Hint
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import decode_document
from weft.core.rows import RunRow, StoredWorkflow, TriggerRow
from weft.core.workflow import Workflow
from weft.node.attempts.artifacts import read_files
from weft.node.points import ARMED, reach
from weft.store.artifact_files import ArtifactFiles
from weft.store.protocol import Remembered, Store, StoreError, StoreSlow, Superseded, Transaction

T = TypeVar("T")
KNOWN_MAX = 1000
KNOWN_TASKS_MAX = 1_000_000
TRIES_MAX = 5  # a row that changed between its load and its write is loaded anew


class KnownWorkflows(dict[str, Workflow]):
    """Compiled ones, so that none is compiled for every transaction. A server is given many in the course of time:
    the oldest go when there are too many of them, or when they are too large together; the store has them all."""

    tasks = 0

    def __setitem__(self, hash: str, workflow: Workflow) -> None:
        if hash not in self:
            self.tasks += len(workflow.tasks)
        super().__setitem__(hash, workflow)

    def trim(self) -> None:
        """Only where a transaction begins: within one, rules rely on what they have loaded."""
        if len(self) <= KNOWN_MAX and self.tasks <= KNOWN_TASKS_MAX:
            return
        for hash in list(self)[: max(1, len(self) // 2)]:
            self.pop(hash, None)
        self.tasks = sum(len(workflow.tasks) for workflow in list(self.values()))


class Committer:
    """`wake` is called after a COMMIT that other nodes should hear of."""

    def __init__(self, store: Store, wake: Callable[[Hint], None] = lambda hint: None) -> None:
        self.store = store
        self.workflows = KnownWorkflows()
        self._wake = wake
        self.artifacts: ArtifactFiles | None = None  # where a `map` finds outputs that are not in the store
        self.rules = RULES_VERSION
        self.contended = 0  # how often another writer was at it, or had changed a row
        self.failed = False  # the last transaction, because of the store
        self.committed: Callable[[], None] | None = None  # called after every COMMIT, in whatever thread

    def commit(self, command: c.Command, *, command_id: str | None = None, actor: str | None = None) -> Any:
        """Apply a command and give its reply. With an id, a repetition gets the first reply. `actor` is who asks, for
        the history."""
        return self._retried(lambda files: self._commit(command, command_id, actor, files))

    def _retried(self, commit: Callable[[Files], T]) -> T:
        """Again after a row had changed, or with artifacts that the rules ask for. Those are read outside of the
        transaction: nobody shall wait for the store while this process waits for a disk."""
        files: dict[tuple[str, str], File] = {}
        tries = 1
        while True:
            try:
                return commit(files)
            except FilesNeeded as needed:
                files |= read_files(self.artifacts, needed.run_id, needed.references)
            except Superseded:
                if tries == TRIES_MAX:
                    raise
                tries += 1
                self.contended += 1

    def _commit(self, command: c.Command, command_id: str | None, actor: str | None, files: Files) -> Any:
        with self._transaction() as transaction:
            assert transaction is not None
            if command_id is None:
                reply, wake = self.apply(transaction, command, files, actor)
            else:
                reply, wake = self.apply_once(transaction, command, command_id, files, actor)
            reach_commit(command, "before_commit")
        reach_commit(command, "committed")
        self._wake_nodes(wake)
        return reply

    def commit_each(self, commands: Sequence[c.Command], ids: Sequence[str], actor: str | None = None) -> list[Any]:
        """Several commands of people in one transaction: the reply of each, or its refusal, which stops no other."""
        return self._retried(lambda files: self._commit_each(commands, ids, actor, files))

    def _commit_each(
        self, commands: Sequence[c.Command], ids: Sequence[str], actor: str | None, files: Files
    ) -> list[Any]:
        replies: list[Any] = []
        wake = Hint()
        with self._transaction() as transaction:
            assert transaction is not None
            for command, command_id in zip(commands, ids, strict=True):
                try:
                    reply, wakes = self.apply_once(transaction, command, command_id, files, actor)
                except c.Refused as refused:  # the rules said no before anything was written
                    replies.append(refused)
                    continue
                replies.append(reply)
                wake |= wakes
        self._wake_nodes(wake)
        return replies

    def try_commit(self, command: c.Command) -> Any | None:
        """The same, but None at once if another writer is at it, or if a file has to be read. None also if the store
        was slow: then whether it was applied is not known, and it must be one that can be said again."""
        try:
            with self._transaction(wait=False) as transaction:
                if transaction is None:
                    self.contended += 1
                    return None
                reply, wake = self.apply(transaction, command, {})
                reach_commit(command, "before_commit")
        except FilesNeeded:
            return None
        except (StoreSlow, Superseded):
            self.contended += 1
            return None
        reach_commit(command, "committed")
        self._wake_nodes(wake)
        return reply

    @contextmanager
    def _transaction(self, *, wait: bool = True) -> Iterator[Transaction | None]:
        try:
            with self.store.transaction(wait=wait) as transaction:
                yield transaction
            self.failed = self.failed and transaction is None
        except StoreError as error:
            self.failed = self.failed or not isinstance(error, (Superseded, StoreSlow))
            raise

    def _wake_nodes(self, wake: Hint) -> None:
        if wake:
            self._wake(wake)
        if self.committed is not None:
            self.committed()

    def workflow(self, transaction: Transaction, hash: str) -> Workflow:
        found = self.workflows.get(hash)
        if found is None:
            found = compile_workflow(decode_document(transaction.document(hash)), hash)
            self.workflows[hash] = found
        return found

    def know(self, workflow: Workflow) -> None:
        """Spare the reading and compiling of a workflow that was just loaded from a file."""
        if workflow.hash not in self.workflows:
            self.workflows[workflow.hash] = workflow

    def apply(
        self, transaction: Transaction, command: c.Command, files: Files, actor: str | None = None
    ) -> tuple[Any, Hint]:
        self.workflows.trim()
        if isinstance(command, (c.Submit, c.CorrectRun)):
            self._learn(command)
        draft = Draft(0, self.workflows)
        draft.files = files
        draft.rules = self.rules
        rule = decide(draft, command)
        try:
            needs = next(rule)
            while True:
                loaded = transaction.load(needs)
                draft.now = transaction.now  # under the locks of the first load; the same from then on
                for rows in loaded:
                    if not rows:
                        continue
                    if isinstance(rows[0], (RunRow, StoredWorkflow)):
                        for row in rows:
                            self.workflow(transaction, row.workflow)
                    elif isinstance(command, c.Fire | c.StepBackfill) and isinstance(rows[0], TriggerRow):
                        for trigger in rows:
                            if trigger.active:
                                self.workflow(transaction, trigger.hash)
                needs = rule.send(loaded)
        except StopIteration as done:
            reply = done.value
        if actor is not None:
            draft.sign(actor, *_described(command))
        transaction.write(draft)
        return reply, draft.hint()

    def _learn(self, command: c.Submit | c.CorrectRun) -> None:
        children = command.children if isinstance(command, c.Submit) else ()
        for hash, _, document in ((command.workflow, command.name, command.document), *children):
            if hash not in self.workflows:
                self.workflows[hash] = compile_workflow(decode_document(document), hash)

    def apply_once(
        self, transaction: Transaction, command: c.Command, command_id: str, files: Files, actor: str | None
    ) -> tuple[Any, Hint]:
        body_hash = _body_hash(command)
        try:
            transaction.remember(command_id, body_hash)
            reply, wake = self.apply(transaction, command, files, actor)
        except Remembered as known:
            return msgspec.json.decode(known.reply, type=c.Reply), Hint()
        transaction.keep_reply(command_id, body_hash, msgspec.json.encode(reply).decode())
        return reply, wake


def _body_hash(command: c.Command) -> str:
    """Of a command with an id, to refuse another one with that id. The documents of a submission, which may be large,
    are in it as their hashes."""
    if isinstance(command, c.Submit):
        children = [(hash, name, b"") for hash, name, _ in command.children]
        command = msgspec.structs.replace(command, document=b"", children=children)
    elif isinstance(command, (c.Apply, c.CorrectRun)):
        command = msgspec.structs.replace(command, document=b"")
    return hashlib.sha256(msgspec.json.encode([type(command).__name__, command])).hexdigest()


def _described(command: c.Command) -> tuple[str, dict[str, Any]]:
    """A command's name and its plain fields, for the history."""
    name = re.sub("(?<=[a-z])(?=[A-Z])", "_", type(command).__name__).lower()
    fields = {key: getattr(command, key) for key in command.__struct_fields__}
    return name, {key: value for key, value in fields.items() if isinstance(value, (str, int))}


def reach_commit(command: c.Command, moment: str) -> None:
    """Places where tests kill a process."""
    if not ARMED:
        return
    if isinstance(command, c.Exchange):
        reach(f"exchange.{moment}")
    elif isinstance(command, c.Submit):
        reach(f"submit.{moment}")
    elif isinstance(command, c.Fire) and command.firings:
        reach(f"fire.{moment}")
    elif isinstance(command, c.Once) and command.ending is not None:
        reach(f"once.{moment}")
