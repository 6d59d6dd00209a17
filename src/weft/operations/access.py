"""A store as operations use it: reads on connections of their own, and commands through the committer."""

import copy
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from weft.core import commands as c
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import decode_document
from weft.core.workflow import Workflow
from weft.node.local import LocalLink
from weft.operations.errors import NotFound, Observing
from weft.operations.history.run_replay import RunReplays
from weft.operations.ids import new_id
from weft.operations.reading import nodes as node_reading
from weft.operations.run_scope import RunScope
from weft.store.protocol import Reader, Store, StoreBusy

T = TypeVar("T")
WAIT_S = 30.0  # for a store that does not answer
RETRY_S = 0.2


class StoreAccess:
    """`root` is where this process keeps its files, such as the output of its nodes: beside a store that is a file.
    The access of an observer (`role`) changes nothing."""

    def __init__(
        self,
        store: Store,
        link: LocalLink | None = None,
        root: Path | None = None,
        *,
        role: str = "auto",
        artifacts: Path | None = None,
        workspaces: Path | None = None,
    ) -> None:
        self.store = store
        self.role = role
        self.link = link or LocalLink(store)
        self.home = root or (store.path.parent if store.path is not None else Path.cwd() / ".weft")
        self.output_root = self.home / "output"
        self.artifact_root = artifacts or self.home / "artifacts"
        self.workspace_root = self.workspaces(workspaces)
        self.link.read_artifacts_in(self.artifact_root, "here")
        self.wait_s = WAIT_S
        self.command_id: str | None = None  # of the request that is carried out
        self.actor: str | None = None  # who asked, for the history
        self.scope: RunScope | None = None  # the token of an attempt asks: it sees its own run
        self.replays = RunReplays()
        self._commands = 0
        self._readers = threading.local()

    def workspaces(self, chosen: str | Path | None) -> Path:
        """Where the workspaces of this store's runs are. Stores that share the directory do not know each other's
        runs, so each has a part of it."""
        path = self.store.path
        part = path.name if path is not None else hashlib.sha256(self.store.name.encode()).hexdigest()[:12]
        return (self.home / "workspaces" if chosen is None else Path(chosen)) / part

    # Reading

    def run_states(self, run_ids: list[str]) -> dict[str, str]:
        """Of those of the runs that there are, by id."""
        return {id: state for id, state, _ in self.read("run_states", msgspec.json.encode(run_ids).decode())}

    def read(self, name: str, *parameters: Any) -> list[Any]:
        return self.reader().read(name, *parameters)

    def reader(self) -> Reader:
        """This thread's own."""
        reader: Reader | None = getattr(self._readers, "reader", None)
        if reader is None:
            reader = self._readers.reader = self.store.reader()
        return reader

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one moment of the store."""
        with self.reader().snapshot():
            yield

    def now(self) -> int:
        return self.reader().now()

    def workflow(self, hash: str) -> Workflow:
        known = self.link.committer.workflows.get(hash)
        if known is None:
            known = compile_workflow(self.document(hash), hash)
            self.link.committer.know(known)
        return known

    def document(self, hash: str) -> dict[str, Any]:
        rows = self.read("workflow_document", hash)
        if not rows:
            raise NotFound(f"there is no workflow {hash}")
        return decode_document(rows[0][0])

    # Writing

    def for_request(self, command_id: str | None, actor: str | None, scope: RunScope | None = None) -> Self:
        """The same access for one request: its commands carry this id and are applied once, however often the request
        is sent; the history names `actor`. A scope that was set stays."""
        view = copy.copy(self)
        view.command_id, view._commands, view.actor = command_id, 0, actor
        view.scope = scope or self.scope
        return view

    def next_command_id(self) -> str:
        if self.command_id is None:
            return new_id(20)
        self._commands += 1
        return self.command_id if self._commands == 1 else f"{self.command_id}.{self._commands}"

    def commit(self, command: c.Command) -> c.Reply:
        """After a lost reply it is asked for again under the same id: the command is applied once."""
        self.refuse_if_observing()
        command_id = self.next_command_id()
        try:
            reply: c.Reply = self._retried(
                lambda: self.link.committer.commit(command, command_id=command_id, actor=self.actor)
            )
        except c.Refused as refused:
            if refused.code == "not_found":  # the same error whether an operation or a rule found it out
                raise NotFound(refused.message) from None
            raise
        return reply

    def commit_each(
        self, commands: Sequence[c.Submit], ids: Sequence[str] | None = None
    ) -> list[c.Reply | c.Refused]:
        """Many runs in one transaction, under these command ids. A refusal stands in its place and stops no other."""
        self.refuse_if_observing()
        given = [self.next_command_id() for _ in commands] if ids is None else ids
        return self._retried(lambda: self.link.committer.commit_each(commands, given, self.actor))

    def finish(self, reply: c.Reply) -> c.Reply:
        """A large run is cancelled a thousand tasks at a time: go on until that is done."""
        more = reply.more
        while more:
            more = self._retried(lambda: self.link.committer.commit(c.Tidy(reply.run_no))).more
        return reply

    def refuse_if_observing(self) -> None:
        if self.role == "observer":
            raise Observing(node_reading.leader(self))

    def _retried(self, work: Callable[[], T]) -> T:
        until = time.monotonic() + self.wait_s
        notified = False
        while True:
            try:
                return work()
            except StoreBusy as error:
                if self.store.kind == "sqlite" or time.monotonic() > until:
                    raise  # SQLite has waited by itself
                if not notified:
                    self.store.log(f"waiting for the store: {error}")
                    notified = True
                time.sleep(RETRY_S)

    def close(self) -> None:
        self.link.close()
        self.store.close()
