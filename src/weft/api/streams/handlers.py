"""Streams (server-sent events): of a run, of the whole cluster, of what a task prints."""

from collections.abc import Sequence

from starlette.responses import Response

from weft.api.calls import OperationCall, handles
from weft.api.streams.event_stream import EventStream
from weft.api.streams.followed_runs import Events, Output
from weft.api.streams.hub import Position, StreamPiece
from weft.operations.errors import NotFound
from weft.operations.resources.streams import (
    StreamClusterEventsRequest,
    StreamEventsRequest,
    StreamRunEventsRequest,
    StreamTaskOutputRequest,
    stream_events,
    stream_run_events,
    stream_task_output,
)


def _after(request: StreamEventsRequest, otherwise: int, newest: int) -> Position:
    """What the reader saw last wins: a browser sends it by itself when it comes back to the same address. Nobody has
    seen what has not happened."""
    if request.last_id:
        return (min(int(request.last_id), newest),)
    return (min(otherwise if request.after is None else request.after, newest),)


@handles(stream_events)
async def follow_cluster(call: OperationCall) -> Response:
    state = call.state
    request = call.request(StreamClusterEventsRequest)
    newest = await state.off_loop(state.connection.last_event)
    at = _after(request, newest, newest)
    wanted = Wanted(request.kind, request.run)
    return EventStream(call.http, state, "events", Events(state.connection, None), at, wanted)


@handles(stream_run_events)
async def follow_run(call: OperationCall) -> Response:
    state = call.state
    request = call.request(StreamRunEventsRequest)
    _, run_id = await state.off_loop(lambda: call.connection.find(request.run))
    at = _after(request, 0, await state.off_loop(state.connection.last_event))
    source = Events(state.connection, run_id)
    if request.last_id:
        found = await state.off_loop(lambda: source.read(at))
        if found.ended and not found.pieces:
            return Response(status_code=204)
    return EventStream(call.http, state, ("events", run_id), source, at, Wanted(request.kind))


class Wanted:
    """Which pieces of a stream a reader gets: of these kinds, of these runs."""

    def __init__(self, kinds: Sequence[str] | None, runs: Sequence[str] | None = None) -> None:
        self._kinds = None if kinds is None else frozenset(kinds)
        self._runs = None if runs is None else frozenset(runs)

    def __call__(self, piece: StreamPiece) -> bool:
        return (self._kinds is None or piece.kind in self._kinds) and (self._runs is None or piece.run in self._runs)


@handles(stream_task_output)
async def follow_output(call: OperationCall) -> Response:
    state = call.state
    request = call.request(StreamTaskOutputRequest)
    _, run_id = await state.off_loop(lambda: call.connection.find(request.run))
    info = await state.off_loop(lambda: call.connection.task(run_id, request.task))
    at: Position = (request.attempt or info.attempt, 0)
    if request.last_id:
        attempt, _, offset = request.last_id.partition(".")
        at = (int(attempt), int(offset))
    attempts = [at[0]] if request.attempt is None else [request.attempt, at[0]]
    if max(attempts) > info.attempt or min(attempts) != max(attempts):
        raise NotFound(f"{info.name} has no attempt {max(attempts)}; its last is {info.attempt}")
    source = Output(state.connection, run_id, info.name, request.stream, request.attempt)
    if request.last_id:
        found = await state.off_loop(lambda: source.read(at))
        if found.ended and not found.pieces:
            return Response(status_code=204)
    key = ("output", run_id, info.name, request.stream, request.attempt)
    return EventStream(call.http, state, key, source, at)
