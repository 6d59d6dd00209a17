"""Streams (server-sent events): of a run, of the whole cluster, of what a task prints.

Every message has an `id`; a reader that lost its connection sends the last one as Last-Event-ID and misses nothing.
The last message of a stream is `event: end` with a reason: `finished`, `stopping` (the server goes), `gone` (the run
was removed), `unauthorized` (the token was revoked or expired).
"""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Header, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from weft.api.event_stream import MEDIA_TYPE, EventStream
from weft.api.events import After, KindFilter
from weft.api.followed import Events, Output
from weft.api.hub import Piece, Position
from weft.api.parameters import Run, Task
from weft.api.problems import Trouble
from weft.api.routes import Routes, Shared
from weft.control.records import NotFound

routes = Routes("streams")
LastId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", max_length=64, description="Go on after the message with this id"),
]
_NUMBER = re.compile(r"[0-9]{1,16}")
_PLACE = re.compile(r"([0-9]{1,7})\.([0-9]{1,16})")


def _after(last_id: str | None, after: int | None, otherwise: int, newest: int) -> Position:
    """What the reader saw last wins: a browser sends it by itself when it comes back to the same address. Nobody has
    seen what has not happened."""
    if last_id is None or last_id == "":
        return (min(otherwise if after is None else after, newest),)
    if _NUMBER.fullmatch(last_id) is None:
        raise _no_id()
    return (min(int(last_id), newest),)


def _no_id() -> Trouble:
    return Trouble(422, "last_event_id", "this is no id of a message of this stream", "send the last `id` as it is")


@routes("GET", "/v1/events/stream", role="viewer", media=MEDIA_TYPE)
async def stream_events(
    served: Shared, request: Request, kind: KindFilter = None, after: After = None, last_id: LastId = None
) -> Response:
    """Follow what happens in the whole cluster, from now on or from where you stopped."""
    newest = await served.carry_out(served.control.last_event)
    at = _after(last_id, after, newest, newest)
    return EventStream(request, "events", Events(served.control, None), at, _of(kind))


@routes("GET", "/v1/runs/{run}/events/stream", role="viewer", status=(200, 204), refused=(404, 409), media=MEDIA_TYPE)
async def stream_run_events(
    served: Shared, request: Request, run: Run, kind: KindFilter = None, after: After = None, last_id: LastId = None
) -> Response:
    """Follow a run, from its beginning or from where you stopped, until it has ended. To somebody who comes back
    after that and has seen everything, the answer is 204, which tells a browser not to come again."""
    _, run_id = await served.carry_out(lambda: served.control.find(run))
    at = _after(last_id, after, 0, await served.carry_out(served.control.last_event))
    source = Events(served.control, run_id)
    if last_id:
        found = await served.carry_out(lambda: source.read(at))
        if found.ended and not found.pieces:
            return Response(status_code=204)
    return EventStream(request, ("events", run_id), source, at, _of(kind))


def _of(kinds: Sequence[str] | None) -> "Wanted":
    return Wanted(None if kinds is None else frozenset(kinds))


class Wanted:
    def __init__(self, kinds: frozenset[str] | None) -> None:
        self._kinds = kinds

    def __call__(self, piece: Piece) -> bool:
        return self._kinds is None or piece.kind in self._kinds


@routes(
    "GET", "/v1/runs/{run}/tasks/{task}/output/{stream}/stream", role="viewer", status=(200, 204),
    refused=(404, 409), media=MEDIA_TYPE,
)  # fmt: skip
async def stream_task_output(
    served: Shared,
    request: Request,
    run: Run,
    task: Task,
    stream: Annotated[Literal["stdout", "stderr"], Path(description="Which of the two")],
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000, description="Only of this attempt")] = None,
    last_id: LastId = None,
) -> Response:
    """Follow what a task prints, from the beginning of its last attempt on, through those that follow, until it has
    ended. Each message has `attempt`, `offset`, `next`, and the bytes: `text`, or `base64` where they are none."""
    _, run_id = await served.carry_out(lambda: served.control.find(run))
    info = await served.carry_out(lambda: served.control.task(run_id, task))
    if attempt is not None and attempt > info.attempt:
        raise NotFound(f"{info.name} has no attempt {attempt}; its last is {info.attempt}")
    source = Output(served.control, run_id, info.name, stream, attempt)
    at: Position = (attempt or info.attempt, 0)
    if last_id:
        place = _PLACE.fullmatch(last_id)
        if place is None or int(place[1]) > info.attempt or (attempt is not None and int(place[1]) != attempt):
            raise _no_id()
        at = (int(place[1]), int(place[2]))
        found = await served.carry_out(lambda: source.read(at))
        if found.ended and not found.pieces:
            return Response(status_code=204)
    return EventStream(request, ("output", run_id, info.name, stream, attempt), source, at)
