"""The verbs on a server: the same records, the same errors and the same messages as on a store.

What is followed comes by the server's streams (`follow`).
"""

import copy
import hashlib
import io
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, TypeVar, cast

import msgspec

from weft.client.following import EventFollower
from weft.client.http_connection import HttpConnection, path_of
from weft.client.remote_submission import submit_body
from weft.client.server_following import ServerSource
from weft.client.verbs import Connection
from weft.core.artifacts import ArtifactReference
from weft.core.commands import Refused, Reply, Submit
from weft.core.workflow import Workflow
from weft.executors.output import StreamName
from weft.operations.declare import NoArguments, Operation, Request
from weft.operations.errors import NotFound
from weft.operations.ids import new_id
from weft.operations.reading.output.attempts import AttemptOutput, Piece
from weft.operations.reading.output.parts import PART_MAX
from weft.operations.replies import CallerInfo, OutputPart
from weft.operations.resources import server
from weft.operations.resources.streams import (
    GetTaskArtifactRequest,
    GetTaskFileRequest,
    GetTaskOutputRequest,
    get_task_artifact,
    get_task_file,
    get_task_output,
)
from weft.operations.resources.submissions import AppliedWorkflow, Batch, BatchItem, Started
from weft.operations.run_scope import RunScope
from weft.store.artifact_files import ArtifactError
from weft.store.protocol import StoreError, StoreUnusable
from weft.store.shipment import CHUNK_MAX

if TYPE_CHECKING:
    from weft.authoring.load import Loaded

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")
BATCH: Final = 1000
FILE_PART: Final = 4 * 2**20  # bytes of a file that are asked for at once


class ServerConnection(Connection):
    """One for all threads: each has a connection of its own. What the caller may change, the server knows."""

    def __init__(self, url: str, token: str | None = None, **more: Any) -> None:
        super().__init__()
        self._wire = HttpConnection(url, token, **more)
        self._command_id: str | None = None
        self._commands = 0

    @property
    def url(self) -> str:
        return self._wire.url

    def notify(self, notify: Callable[[str], None]) -> None:
        """What is called when the server has to be waited for."""
        self._wire.notify = notify

    def call(self, operation: Operation[Q, R], request: Q) -> R:
        self.check_names(operation, request)
        path, query, headers, body = operation.split(request)
        answer = self._wire(
            operation.method, path_of(operation.path, path), query, body if operation.writes else None,
            self._next_command_id() if operation.writes else None, headers,
        )  # fmt: skip
        found: R = answer.value(operation.reply)
        return found

    def for_request(self, command_id: str | None, actor: str | None = None, scope: RunScope | None = None) -> Self:
        """Who asked, and what they may, is known by the token: the server says that."""
        view = copy.copy(self)
        view._command_id, view._commands = command_id, 0
        return view

    def _next_command_id(self) -> str:
        if self._command_id is None:
            return new_id(20)
        self._commands += 1
        return self._command_id if self._commands == 1 else f"{self._command_id}-{self._commands}"

    def check_writable(self) -> None:
        self._wire("GET", "/readyz")

    def answers(self) -> bool:
        try:
            self.check_writable()
        except StoreError:
            return False
        return True

    def caller(self) -> CallerInfo:
        found: CallerInfo = self.call(server.get_caller, NoArguments())
        return found

    def read_output(
        self, ref: str, task: str, attempt: int, stream: StreamName, *, offset: int = 0, limit: int = 65536
    ) -> OutputPart:
        if attempt < 1:
            last = self.task(ref, task)
            raise NotFound(f"{last.name} has no attempt {attempt}; its last is {last.attempt}")
        request = GetTaskOutputRequest(
            run=ref, task=task, stream=stream, attempt=attempt, offset=offset, limit=min(limit, PART_MAX)
        )
        self.check_names(get_task_output, request)
        path, query, _, _ = get_task_output.split(request)
        answer = self._wire("GET", path_of(get_task_output.path, path), query)
        headers = answer.headers
        return OutputPart(
            data=answer.body, offset=int(headers["weft-offset"]), next=int(headers["weft-next"]),
            size=int(headers["weft-size"]), ended=headers["weft-ended"] == "true",
        )  # fmt: skip

    def open_output(self, ref: str, task: str, attempt: int, stream: StreamName) -> AttemptOutput:
        return RemoteOutput(self, self.find(ref)[1], task, attempt, stream)

    def open_artifact(self, ref: str, task: str, attempt: int | None = None) -> tuple[ArtifactReference, BinaryIO]:
        request = GetTaskArtifactRequest(run=ref, task=task, attempt=attempt)
        self.check_names(get_task_artifact, request)
        path, query, _, _ = get_task_artifact.split(request)
        answer = self._wire("GET", path_of(get_task_artifact.path, path), query)
        reference = msgspec.json.decode(answer.headers["weft-artifact"], type=ArtifactReference)
        if hashlib.sha256(answer.body).hexdigest() != reference.sha256:
            raise ArtifactError(f"what the server gave is not what node {reference.node} wrote to {reference.path}")
        return reference, io.BytesIO(answer.body)

    def open_file(self, ref: str, task: str, path: str) -> tuple[ArtifactReference, BinaryIO]:
        """Fetched by parts, into a file without a name."""
        request = GetTaskFileRequest(run=ref, task=task, path=path)
        self.check_names(get_task_file, request)
        out = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
        try:
            reference = self._fetch_file(request, out)
        except BaseException:
            out.close()
            raise
        out.seek(0)
        return reference, cast(BinaryIO, out)

    def _fetch_file(self, request: GetTaskFileRequest, out: Any) -> ArtifactReference:
        digest, at = hashlib.sha256(), 0
        while True:
            request = msgspec.structs.replace(request, range=f"bytes={at}-{at + FILE_PART - 1}")
            named, query, headers, _ = get_task_file.split(request)
            answer = self._wire("GET", path_of(get_task_file.path, named), query, more_headers=headers)
            reference = msgspec.json.decode(answer.headers["weft-artifact"], type=ArtifactReference)
            digest.update(answer.body)
            out.write(answer.body)
            at += len(answer.body)
            if at >= reference.bytes or not answer.body:
                break
        if digest.hexdigest() != reference.sha256:
            raise ArtifactError(f"what the server gave is not what {request.task} kept as {request.path}")
        return reference

    def follow(self, ref: str | None, *, after: int = 0, **filters: Any) -> EventFollower:
        run_id = None if ref is None else self.find(ref)[1]
        return EventFollower(self, ServerSource(self, self._wire, run_id, filters), run_id, after, filters)

    def _write(self, method: str, path: str, body: Any) -> Any:
        return self._wire(method, path, (), body, self._next_command_id())

    def submit(self, command: Submit, workflow: Workflow | None = None) -> Reply:
        started: Started = self._write("POST", "/v1/runs", submit_body(command)).value(Started)
        return Reply(started.run, None, started.state, started.existing, data={"warnings": started.warnings})

    def submit_each(self, commands: Sequence[Submit], ids: Sequence[str] | None = None) -> list[Reply | Refused]:
        replies: list[Reply | Refused] = []
        if ids is not None:  # a batch has one id for all of it
            for command, command_id in zip(commands, ids, strict=True):
                try:
                    replies.append(self.for_request(command_id).submit(command))
                except Refused as refused:
                    replies.append(refused)
            return replies
        for begin in range(0, len(commands), BATCH):
            bodies = [submit_body(command) for command in commands[begin : begin + BATCH]]
            batch: Batch = self._write("POST", "/v1/runs:batch", {"runs": bodies}).value(Batch)
            replies += [_of_batch(item) for item in batch.runs]
        return replies

    def apply(
        self, loaded: "Loaded", source: str | None = None, by: str | None = None, *, preview: bool = False
    ) -> AppliedWorkflow:
        path = path_of("/v1/workflows/{name}", {"name": loaded.name})
        body = {"definition": msgspec.Raw(loaded.encoded), "source": source, "preview": preview}
        found: AppliedWorkflow = self._write("PUT", path, body).value(AppliedWorkflow)
        return found

    def close(self) -> None:
        self._wire.close()


def _of_batch(item: BatchItem) -> Reply | Refused:
    if item.run is not None:
        return Reply(item.run, existing=item.existing)
    return Refused(item.code or "invalid", item.detail or "")  # type: ignore[arg-type]


class RemoteOutput:
    """One stream of an attempt, a piece for a request."""

    def __init__(
        self, connection: ServerConnection, run_id: str, task: str, attempt: int, stream: StreamName
    ) -> None:
        self._connection = connection
        self._of = (run_id, task, attempt, stream)

    def read(self, offset: int, limit: int = CHUNK_MAX) -> Piece:
        try:
            part = self._connection.read_output(*self._of, offset=offset, limit=limit)
        except StoreUnusable:
            return Piece(offset, b"", "away")
        if part.data:
            return Piece(part.offset, part.data, "more")
        # Whether its node runs it or only still sends what it wrote makes no difference here: more may come.
        return Piece(part.offset, b"", "whole" if part.ended else "sending")

    def over(self) -> None:
        pass

    def close(self) -> None:
        pass
