"""The methods of the service, each with its operation of the table: role, scope, validation and errors come from
there. Most are exactly their operation; those that are not have a function here."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from weft.api.streams.handlers import followed_cluster, followed_output, followed_run
from weft.api.streams.topic_reader import Followed
from weft.api.submissions import started
from weft.core.definition.suggest import nearest
from weft.grpc_api.calls import Method, RpcCall, carried_out, converted
from weft.grpc_api.definitions import task_run, workflow_run
from weft.grpc_api.messages import message_of, object_in, values_of
from weft.grpc_api.weft_pb2 import CallReply, Event, OutputPart
from weft.operations.declare import Operation
from weft.operations.errors import NotFound
from weft.operations.replies import EventInfo, RunInfo, TaskInfo
from weft.operations.resources import nodes, run_changes, runs, streams, submissions, tasks
from weft.operations.resources.submissions import RunRequest
from weft.operations.table import OPERATIONS

_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS if operation.run is not None}


async def _submitted(call: RpcCall, operation: Operation[Any, Any], values: Callable[[Any], dict[str, Any]]) -> bytes:
    """In one transaction with what else is submitted then."""
    key = call.headers(operation).get("idempotency_key")

    def request() -> tuple[RunRequest, str | None]:
        given = {**values(call.message()), **({} if key is None else {"key": key})}
        return converted(given, RunRequest), None

    found = await started(call.state, request, len(call.data), call.command_id, call.actor)
    return bytes(message_of(call.gives, found).SerializeToString())


class RunStatus(NamedTuple):
    """As WorkflowStatus has it."""

    id: str
    name: str
    state: str
    task_statuses: list[TaskInfo]
    context: dict[str, Any]
    run: RunInfo
    next: str | None
    last_event: int


async def _run_status(call: RpcCall) -> bytes:
    def work() -> bytes:
        connection = call.connection
        found = connection.call(runs.get_run, call.request(runs.get_run))
        context = connection.call(runs.get_run_context, runs.OneRunRequest(run=found.run.id)).context
        run = found.run
        value = RunStatus(run.id, run.name, run.state, found.tasks, context, run, found.next, found.last_event)
        return bytes(message_of(call.gives, value).SerializeToString())

    return await call.state.off_loop(work)


async def _any_operation(call: RpcCall) -> bytes:
    message = call.message()
    operation = _BY_NAME.get(message.operation)
    if operation is None:
        meant = nearest(message.operation, list(_BY_NAME))
        fix = f"; did you mean {meant}?" if meant else ""
        raise NotFound(f"there is no operation {message.operation[:64]!r} that takes and gives JSON{fix}")
    await call.admit(operation)

    def work() -> bytes:
        request = call.request(operation, object_in("request_json", message.request_json))
        reply = msgspec.json.encode(call.connection.call(operation, request))
        return bytes(CallReply(reply_json=reply.decode()).SerializeToString())

    return await call.state.off_loop(work)


def encoded_event(event: EventInfo) -> bytes:
    return bytes(message_of(Event, event).SerializeToString())


def encoded_output(attempt: int, offset: int, end: int, data: bytes) -> bytes:
    return bytes(OutputPart(attempt=attempt, offset=offset, next=end, data=data).SerializeToString())


async def _output(call: RpcCall) -> Followed:
    values = {"stream": "stdout", **values_of(call.message())}
    after = values.pop("after", None)
    if after is not None:
        values["last_id"] = f"{after.get('attempt', 0)}.{after.get('offset', 0)}"
    request = call.request(streams.stream_task_output, values)
    return await followed_output(call.state, call.connection, request, encoded_output)


async def _run_events(call: RpcCall) -> Followed:
    return await followed_run(call.state, call.connection, call.request(streams.stream_run_events), encoded_event)


async def _cluster_events(call: RpcCall) -> Followed:
    return await followed_cluster(call.state, call.request(streams.stream_events), encoded_event)


def _plain(operation: Operation[Any, Any]) -> Method:
    return Method(operation, partial(carried_out, operation=operation))


#: By the names that weft.proto has.
METHODS: Final[dict[str, Method]] = {
    "SubmitTask": Method(
        submissions.submit_task, partial(_submitted, operation=submissions.submit_task, values=task_run)
    ),
    "SubmitWorkflow": Method(
        submissions.submit_run, partial(_submitted, operation=submissions.submit_run, values=workflow_run)
    ),
    "GetTaskStatus": _plain(tasks.get_task),
    "GetWorkflowStatus": Method(runs.get_run, _run_status),
    "ListTasks": _plain(tasks.list_tasks),
    "ListWorkflowTasks": _plain(tasks.list_run_tasks),
    "ListWorkflows": _plain(runs.list_runs),
    "CancelTask": _plain(run_changes.cancel_task),
    "CancelWorkflow": _plain(run_changes.cancel_run),
    "ResumeWorkflow": _plain(run_changes.resume_run),
    "SignalWorkflow": _plain(run_changes.signal_run),
    "ListDeadLetters": _plain(tasks.list_dead),
    "RetryDeadLetters": _plain(run_changes.retry_dead),
    "ListNodes": _plain(nodes.list_nodes),
    "DrainNode": _plain(nodes.drain_node),
    "StreamOutput": Method(streams.stream_task_output, stream=_output),
    "StreamWorkflowEvents": Method(streams.stream_run_events, stream=_run_events),
    "StreamEvents": Method(streams.stream_events, stream=_cluster_events),
    "Call": Method(None, _any_operation),
}
