"""Starting runs: single ones share transactions (submission_batcher.py), batches are one each. Applying; dry runs."""

from collections.abc import Callable

from starlette.responses import Response

from weft.api.app_state import AppState
from weft.api.calls import OperationCall, decoded, handles
from weft.api.responses import reply
from weft.client.plan import plan_of
from weft.core.commands import Refused, Reply, Submit
from weft.core.definition.inputs import resolve_inputs
from weft.operations.errors import ApiError, api_error_of, bad_inputs
from weft.operations.resources.definitions import PlanRunRequest, plan_run
from weft.operations.resources.submissions import (
    ApplyWorkflowRequest,
    Batch,
    BatchItem,
    RunRequest,
    Started,
    SubmitRunRequest,
    SubmitRunsRequest,
    apply_workflow,
    submit_run,
    submit_runs,
    submit_task,
)


@handles(submit_run)
async def start_run(call: OperationCall) -> Response:
    def request() -> tuple[RunRequest, str | None]:
        found = call.request(SubmitRunRequest)
        return found, found.idempotency_key

    return await _started(call, request)


@handles(submit_task)
async def start_task(call: OperationCall) -> Response:
    def request() -> tuple[RunRequest, str | None]:
        key: str | None = call.parameters()["idempotency_key"]
        return RunRequest(task=decoded(call.body, call.operation.body_type)), key

    return await _started(call, request)


async def _started(call: OperationCall, request: Callable[[], tuple[RunRequest, str | None]]) -> Response:
    value = await started(call.state, request, len(call.body), call.command_id, call.actor)
    return reply(value, 200 if value.existing else 201, {"Location": f"/v1/runs/{value.run}"})


async def started(
    state: AppState,
    request: Callable[[], tuple[RunRequest, str | None]],
    size: int,
    command_id: str | None,
    actor: str | None,
) -> Started:
    """`request` gives what to run and its idempotency key; it is called where the command is built."""
    warnings: list[str] = []

    def build() -> Submit:
        body, key = request()
        command, found = state.definitions.command(body, key, command_id)
        warnings.extend(found)
        return command

    command, done = await state.submit(build, size, command_id, actor)
    return Started(
        run=done.run_id or "", name=command.name, workflow=command.workflow, state=done.state,
        existing=done.existing, warnings=warnings,
    )  # fmt: skip


@handles(submit_runs)
def start_runs(call: OperationCall) -> Response:
    items: list[BatchItem | list[str]] = []  # refused, or to be started with these warnings
    commands = []
    for number, one in enumerate(call.request(SubmitRunsRequest).runs):
        try:
            own_id = None if call.command_id is None else f"{call.command_id}.{number}"
            command, warnings = call.state.definitions.command(one, None, own_id)
            commands.append(command)
            items.append(warnings)
        except Exception as error:
            items.append(_refused(error))
    replies = iter(call.connection.submit_each(commands) if commands else [])
    runs = [item if isinstance(item, BatchItem) else _item(next(replies), item) for item in items]
    count = sum(item.run is not None for item in runs)
    return reply(Batch(runs=runs, started=count, refused=len(runs) - count))


def _item(done: Reply | Refused, warnings: list[str]) -> BatchItem:
    if isinstance(done, Refused):
        return _refused(done)
    return BatchItem(run=done.run_id, existing=done.existing, warnings=warnings)


def _refused(error: Exception) -> BatchItem:
    found = api_error_of(error)
    if found.problem.status >= 500:
        raise found  # not this run's fault
    return BatchItem(code=found.problem.code, detail=found.problem.detail, errors=found.problem.errors)


@handles(apply_workflow)
def apply(call: OperationCall) -> Response:
    request = call.request(ApplyWorkflowRequest)
    loaded, source = call.state.definitions.applied(request)
    if loaded.workflow.name != request.name:
        detail = f"the definition calls itself {loaded.workflow.name!r}"
        raise ApiError("conflict", detail, "use one name in both")
    return reply(call.connection.apply(loaded, source, "the API", preview=request.preview))


@handles(plan_run)
def plan(call: OperationCall) -> Response:
    request = call.request(PlanRunRequest)
    body = RunRequest(
        definition=request.definition, format=request.format, workflow=request.workflow, version=request.version
    )
    workflow = call.state.definitions.loaded(body).workflow
    values, problems = resolve_inputs(workflow.inputs, request.inputs)
    if problems:
        raise bad_inputs(problems)
    return reply(plan_of(call.connection, workflow, values, after=request.after, limit=request.limit))
