"""The verbs on a store within reach. Reads go to connections of their own and change nothing."""

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

from weft.client.following import EventFollower, PollingSource
from weft.client.verbs import Connection
from weft.core import commands as c
from weft.core.artifacts import ArtifactReference
from weft.core.workflow import Workflow
from weft.executors.output import StreamName
from weft.node.local import LocalLink
from weft.operations.access import StoreAccess
from weft.operations.declare import Operation, Request
from weft.operations.on_demand import submissions, tokens
from weft.operations.reading.definition_diff import preview_of_apply
from weft.operations.reading.figures import Figures, figures
from weft.operations.reading.kept_files import open_kept_file
from weft.operations.reading.output.attempts import AttemptOutput, open_output
from weft.operations.reading.output.parts import read_output
from weft.operations.reading.results import open_artifact, output_of
from weft.operations.reading.runs import find_run
from weft.operations.replies import OutputPart, TokenInfo
from weft.operations.run_scope import RunScope, ScopeNeed, need_of
from weft.store.protocol import Store

if TYPE_CHECKING:
    from weft.authoring.load import Loaded
    from weft.operations.resources.submissions import AppliedWorkflow

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")
WHOLE_MAX = 1 << 62  # of artifacts in one output: a program that asks for them in its own process has the room


class StoreConnection(Connection):
    def __init__(self, access: StoreAccess) -> None:
        super().__init__()
        self.access = access

    def call(self, operation: Operation[Q, R], request: Q) -> R:
        self._check_scope(need_of(operation))
        self.check_names(operation, request)
        assert operation.run is not None, f"{operation.name} is for servers"
        return operation.run(self.access, request)

    def for_request(self, command_id: str | None, actor: str | None = None, scope: RunScope | None = None) -> Self:
        view = copy.copy(self)
        view.access = self.access.for_request(command_id, actor, scope)
        return view

    def _check_scope(self, need: ScopeNeed | None) -> None:
        if self.access.scope is not None:
            self.access.scope.check(need)

    @property
    def role(self) -> str:
        return self.access.role

    @property
    def store(self) -> Store:
        return self.access.store

    @property
    def link(self) -> LocalLink:
        return self.access.link

    def answers(self) -> bool:
        return self.store.answers()

    def check_writable(self) -> None:
        if self.role != "observer":
            self.link.check_writable()

    def find(self, ref: str) -> tuple[int, str]:
        return find_run(self.access, ref)

    def workflow_of_hash(self, hash: str) -> Workflow:
        return self.access.workflow(hash)  # the committer keeps it, too

    def output(self, ref: str, *, whole: bool = False) -> Any:
        return output_of(self.access, ref, WHOLE_MAX if whole else 0)

    def read_output(
        self, ref: str, task: str, attempt: int, stream: StreamName, *, offset: int = 0, limit: int = 65536
    ) -> OutputPart:
        return read_output(self.access, ref, task, attempt, stream, offset, limit)

    def open_output(self, ref: str, task: str, attempt: int, stream: StreamName) -> AttemptOutput:
        no, run_id = self.find(ref)
        return open_output(self.access, no, run_id, task, attempt, stream)

    def open_artifact(self, ref: str, task: str, attempt: int | None = None) -> tuple[ArtifactReference, BinaryIO]:
        return open_artifact(self.access, ref, task, attempt)

    def open_file(self, ref: str, task: str, path: str) -> tuple[ArtifactReference, BinaryIO]:
        return open_kept_file(self.access, ref, task, path)

    def follow(self, ref: str | None, *, after: int = 0, **filters: Any) -> EventFollower:
        run_id = None if ref is None else self.find(ref)[1]
        return EventFollower(self, PollingSource(self, run_id), run_id, after, filters)

    def submit(self, command: c.Submit, workflow: Workflow | None = None) -> c.Reply:
        self._check_scope("submit")
        if workflow is not None:
            self.link.committer.know(workflow)
        return self.access.commit(command)

    def submit_each(
        self, commands: Sequence[c.Submit], ids: Sequence[str] | None = None
    ) -> list[c.Reply | c.Refused]:
        self._check_scope("submit")
        return self.access.commit_each(commands, ids)

    def apply(
        self, loaded: "Loaded", source: str | None = None, by: str | None = None, *, preview: bool = False
    ) -> "AppliedWorkflow":
        self._check_scope(None)
        workflow = loaded.workflow
        if workflow.triggers and loaded.children:
            named = ", ".join(sorted(loaded.children))
            raise c.Refused(
                "invalid",
                f"{workflow.name} runs {named} by file, and what a trigger starts has no file to look in; apply"
                " that one too, and name it: `workflow: NAME`",
            )
        if preview:
            return preview_of_apply(self.access, loaded)
        self.link.committer.know(workflow)
        command = c.Apply(workflow.hash, workflow.name, loaded.encoded, source, workflow.triggers, by)
        reply = self.access.commit(command)
        return submissions.AppliedWorkflow(existing=reply.existing, **reply.data)

    def token_holder(self, token: str) -> TokenInfo | None:
        """Whose token this is, if it can be used now; for servers."""
        return tokens.holder(self.access, token)

    def figures(self) -> Figures:
        """For a monitor."""
        return figures(self.access)

    def expire_dead(self) -> None:
        self.link.end_gone()

    def close(self) -> None:
        self.access.close()
