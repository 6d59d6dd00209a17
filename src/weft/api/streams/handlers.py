"""Streams: of a run, of the whole cluster, of what a task prints. What is followed, and from where; and the handlers
over HTTP (server-sent events)."""

from collections.abc import Callable, Sequence

from starlette.responses import Response

from weft.api.app_state import AppState
from weft.api.calls import OperationCall, handles
from weft.api.streams.event_stream import EventStream
from weft.api.streams.followed_runs import Events, Output, sent_event, sent_output
from weft.api.streams.hub import Position, StreamPiece
from weft.api.streams.topic_reader import Followed
from weft.client.verbs import Connection
from weft.operations.errors import NotFound
from weft.operations.replies import EventInfo
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


async def followed_cluster(
    state: AppState, request: StreamClusterEventsRequest, encode: Callable[[EventInfo], bytes] = sent_event
) -> Followed:
    newest = await state.off_loop(state.connection.last_event)
    source = Events(state.connection, None, encode)
    wanted = Wanted(request.kind, request.run)
    return Followed(("events", encode), source, _after(request, newest, newest), wanted)


async def followed_run(
    state: AppState,
    connection: Connection,
    request: StreamRunEventsRequest,
    encode: Callable[[EventInfo], bytes] = sent_event,
) -> Followed:
    """`connection` is the caller's: it says whether there is such a run for it."""
    _, run_id = await state.off_loop(lambda: connection.find(request.run))
    at = _after(request, 0, await state.off_loop(state.connection.last_event))
    source = Events(state.connection, run_id, encode)
    return Followed(("events", run_id, encode), source, at, Wanted(request.kind))


async def followed_output(
    state: AppState,
    connection: Connection,
    request: StreamTaskOutputRequest,
    encode: Callable[[int, int, int, bytes], bytes] = sent_output,
) -> Followed:
    _, run_id = await state.off_loop(lambda: connection.find(request.run))
    info = await state.off_loop(lambda: connection.task(run_id, request.task))
    at: Position = (request.attempt or info.attempt, 0)
    if request.last_id:
        attempt, _, offset = request.last_id.partition(".")
        at = (int(attempt), int(offset))
    attempts = [at[0]] if request.attempt is None else [request.attempt, at[0]]
    if max(attempts) > info.attempt or min(attempts) != max(attempts):
        raise NotFound(f"{info.name} has no attempt {max(attempts)}; its last is {info.attempt}")
    source = Output(state.connection, run_id, info.name, request.stream, request.attempt, encode)
    return Followed(("output", run_id, info.name, request.stream, request.attempt, encode), source, at)


@handles(stream_events)
async def follow_cluster(call: OperationCall) -> Response:
    followed = await followed_cluster(call.state, call.request(StreamClusterEventsRequest))
    return EventStream(call.http, call.state, followed)


@handles(stream_run_events)
async def follow_run(call: OperationCall) -> Response:
    request = call.request(StreamRunEventsRequest)
    return await _streamed(call, await followed_run(call.state, call.connection, request), request.last_id)


@handles(stream_task_output)
async def follow_output(call: OperationCall) -> Response:
    request = call.request(StreamTaskOutputRequest)
    return await _streamed(call, await followed_output(call.state, call.connection, request), request.last_id)


async def _streamed(call: OperationCall, followed: Followed, last_id: str | None) -> Response:
    if last_id:
        found = await call.state.off_loop(lambda: followed.source.read(followed.at))
        if found.ended and not found.pieces:
            return Response(status_code=204)
    return EventStream(call.http, call.state, followed)


class Wanted:
    """Which pieces of a stream a reader gets: of these kinds, of these runs."""

    def __init__(self, kinds: Sequence[str] | None, runs: Sequence[str] | None = None) -> None:
        self._kinds = None if kinds is None else frozenset(kinds)
        self._runs = None if runs is None else frozenset(runs)

    def __call__(self, piece: StreamPiece) -> bool:
        return (self._kinds is None or piece.kind in self._kinds) and (self._runs is None or piece.run in self._runs)
