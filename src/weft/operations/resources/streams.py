"""Streams (server-sent events), outputs and artifacts: declared here, carried out by hand in api/.

Every message of a stream has an `id`; a reader that lost its connection sends the last one as Last-Event-ID and
misses nothing. The last message of a stream is `event: end` with a reason: `finished`, `stopping` (the server goes),
`gone` (the run was removed), `unauthorized` (the token was revoked or expired).
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource, header
from weft.operations.errors import FINDABLE, NotFound
from weft.operations.parameters import RUN_PATTERN, AttemptNumber, RunRef, TaskRef
from weft.operations.reading.output.attempts import open_output
from weft.operations.reading.output.parts import PART_MAX
from weft.operations.reading.output.search import OutputMatch, SearchState, search_output
from weft.operations.reading.runs import find_run, one_task
from weft.operations.resources.events import After, KindFilter

resource = Resource("streams")
EVENT_STREAM: Final = "text/event-stream"
BYTES: Final = "application/octet-stream"
STREAM_RUNS_MAX: Final = 64

Stream = Annotated[Literal["stdout", "stderr"], Meta(description="Which of the two")]
LastEvent = Annotated[
    str,
    header("Last-Event-ID", pattern=r"^([0-9]{1,16})?$", description="Go on after the message with this id"),
]
LastByte = Annotated[
    str,
    header(
        "Last-Event-ID", pattern=r"^([0-9]{1,7}\.[0-9]{1,16})?$", description="Go on after the message with this id"
    ),
]


class StreamEventsRequest(Request):
    kind: KindFilter | None = None
    after: After | None = None
    last_id: LastEvent | None = None


class StreamClusterEventsRequest(StreamEventsRequest, kw_only=True):
    run: (
        Annotated[
            list[Annotated[str, Meta(pattern=RUN_PATTERN)]],
            Meta(max_length=STREAM_RUNS_MAX, description="Only of the run with this id; may be repeated"),
        ]
        | None
    ) = None


stream_events = resource.handwritten(
    "stream_events", "GET", "/v1/events/stream",
    "Follow what happens in the whole cluster, or to some runs, from now on or from where you stopped.",
    role="viewer", request=StreamClusterEventsRequest, media=EVENT_STREAM, errors=("too_many_readers",),
)  # fmt: skip


class StreamRunEventsRequest(StreamEventsRequest, kw_only=True):
    run: RunRef


stream_run_events = resource.handwritten(
    "stream_run_events", "GET", "/v1/runs/{run}/events/stream",
    """
    Follow a run, from its beginning or from where you stopped, until it has ended. To a reader that comes back after
    that and has seen everything, the answer is 204, which tells a browser not to come again.
    """,
    role="viewer", request=StreamRunEventsRequest, statuses=(200, 204), media=EVENT_STREAM,
    errors=(*FINDABLE, "too_many_readers"),
)  # fmt: skip


class StreamTaskOutputRequest(Request):
    run: RunRef
    task: TaskRef
    stream: Stream
    attempt: AttemptNumber | None = None
    last_id: LastByte | None = None


stream_task_output = resource.handwritten(
    "stream_task_output", "GET", "/v1/runs/{run}/tasks/{task}/output/{stream}/stream",
    """
    Follow what a task prints, from the beginning of its last attempt on, through those that follow, until it has
    ended. Each message has `attempt`, `offset`, `next`, and the bytes: `text`, or `base64` where they are not UTF-8.
    """,
    role="viewer", request=StreamTaskOutputRequest, statuses=(200, 204), media=EVENT_STREAM,
    errors=(*FINDABLE, "too_many_readers"),
)  # fmt: skip


class GetTaskOutputRequest(Request):
    run: RunRef
    task: TaskRef
    stream: Stream
    attempt: AttemptNumber | None = None
    offset: Annotated[int, Meta(ge=-(2**53), le=2**53, description="From this byte; below 0: before the end")] = 0
    limit: Annotated[int, Meta(ge=1, le=PART_MAX, description="At most so many bytes")] = 65536


get_task_output = resource.handwritten(
    "get_task_output", "GET", "/v1/runs/{run}/tasks/{task}/output/{stream}",
    """
    What an attempt printed, by range. The headers say where the bytes stand (Weft-Offset), where to go on
    (Weft-Next), how much there is by now (Weft-Size), and whether the attempt is over (Weft-Ended).
    """,
    role="viewer", request=GetTaskOutputRequest, media=BYTES, errors=FINDABLE,
)  # fmt: skip


class SearchTaskOutputRequest(Request):
    run: RunRef
    task: TaskRef
    stream: Stream
    text: Annotated[
        str,
        Meta(min_length=1, max_length=200, pattern=r"^[^\r\n]+$", description="What to look for, as written"),
    ]
    ignore_case: Annotated[bool, Meta(description="A to Z are as a to z")] = False
    attempt: AttemptNumber | None = None
    cursor: (
        Annotated[str, Meta(pattern=r"^m([0-9]{1,16}\.){3}[01]$", description="`next` of the page before, as it is")]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most so many lines")] = 100


class OutputMatches(msgspec.Struct, kw_only=True):
    """Lines with the text, in their order, at most one match a line. `next`: the search goes on from there; it may be
    that there is nothing more. `scanned` is the next byte that would be looked at."""

    attempt: int
    matches: list[OutputMatch]
    scanned: int
    next: str | None


@resource.operation("GET", "/v1/runs/{run}/tasks/{task}/output/{stream}/search", role="viewer", errors=FINDABLE)
def search_task_output(access: StoreAccess, request: SearchTaskOutputRequest) -> OutputMatches:
    """Look for a text in what an attempt printed: lines with their numbers and offsets in bytes. One request looks at
    256 MiB at the most."""
    no, run_id = find_run(access, request.run)
    task = one_task(access, run_id, request.task)
    attempt = request.attempt or task.attempt
    if not 1 <= attempt <= task.attempt:
        raise NotFound(f"{task.name} has no attempt {attempt}; its last is {task.attempt}")
    offset, line, line_offset, found = (request.cursor or "m0.1.0.0")[1:].split(".")
    state = SearchState(int(offset), int(line), int(line_offset), found == "1")
    opened = open_output(access, no, run_id, task.name, attempt, request.stream)
    try:
        matches, over = search_output(opened, request.text, request.ignore_case, state, request.limit)
    finally:
        opened.close()
    after = f"m{state.offset}.{state.line}.{state.line_offset}.{int(state.found)}"
    return OutputMatches(attempt=attempt, matches=matches, scanned=state.offset, next=None if over else after)


class GetTaskArtifactRequest(Request):
    run: RunRef
    task: TaskRef
    attempt: AttemptNumber | None = None
    range: Annotated[str, header("Range", description="Some bytes of it: bytes=0-99")] | None = None
    if_range: Annotated[str, header("If-Range", description="Only if this is its ETag")] | None = None


get_task_artifact = resource.handwritten(
    "get_task_artifact", "GET", "/v1/runs/{run}/tasks/{task}/artifact",
    """
    A large output as its file has it: JSON, by range if asked. Its hash is the ETag; Weft-Artifact is what the result
    says of it. 409 (`artifact_elsewhere`) if this server cannot read the file.
    """,
    role="viewer", request=GetTaskArtifactRequest, statuses=(200, 206), media=BYTES,
    errors=(*FINDABLE, "artifact_elsewhere", "range"),
)  # fmt: skip


class GetTaskFileRequest(Request):
    run: RunRef
    task: TaskRef
    path: Annotated[str, Meta(min_length=1, max_length=4096, description="Its path, as the list has it")]
    range: Annotated[str, header("Range", description="Some bytes of it: bytes=0-99")] | None = None
    if_range: Annotated[str, header("If-Range", description="Only if this is its ETag")] | None = None


get_task_file = resource.handwritten(
    "get_task_file", "GET", "/v1/runs/{run}/tasks/{task}/file",
    """
    A file that a task has kept (`artifacts`), by range if asked. Its hash is the ETag. 409 (`artifact_elsewhere`) if
    this server cannot read it.
    """,
    role="viewer", request=GetTaskFileRequest, statuses=(200, 206), media=BYTES,
    errors=(*FINDABLE, "artifact_elsewhere", "range"),
)  # fmt: skip
