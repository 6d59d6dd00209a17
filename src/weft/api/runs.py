"""Runs: start them, look at them, change their course."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import Header, Query
from starlette.responses import Response

from weft.api import replies as r
from weft.api.paging import Cursor, Limit, cursor, keys
from weft.api.parameters import Moment, Run, RunStates
from weft.api.problems import trouble_of
from weft.api.routes import BODY, LATE, Actor, Asking, CommandId, Late, Routes, Shared, reply
from weft.api.served import Served
from weft.api.submitting import SubmitBody
from weft.control.records import Verification
from weft.core.commands import Refused, Reply, Submit

routes = Routes("runs")
BATCH_MAX = 1000
TASKS_SHOWN = 200
WHOLE_MAX = 64 * 1024 * 1024  # of artifacts, in one output: they are held in memory
CLOCK_SLACK_MS = 60_000  # runs are numbered as they come; their times may be out of order by no more than this

Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=256, description="One run per key, for ever"),
]


@routes(
    "POST", "/v1/runs", role="operator", reply=r.Started, status=(201, 200), refused=(404, 409),
    example={"definition": {"name": "hello", "tasks": {"a": {"run": "echo hello"}}}, "priority": 5, "key": "hello-1"},
)  # fmt: skip
async def submit_run(
    served: Shared, command_id: CommandId, actor: Actor, body: Annotated[Late[SubmitBody], LATE], key: Key = None
) -> Response:
    """Start a run: of a definition, of a workflow that the store knows, or of one task alone.

    201: a new run. 200: there was one with this key, and it is this one."""

    return await started(served, body.size, body.decoded, key, command_id, actor)


async def started(
    served: Served,
    size: int,
    body: Callable[[], SubmitBody],
    key: str | None,
    command_id: str | None,
    actor: str | None,
) -> Response:
    """`body` is decoded where the command is made."""
    warnings: list[str] = []

    def make() -> Submit:
        command, found = served.submitting.command(body(), key, command_id)
        warnings.extend(found)
        return command

    command, done = await served.submit(make, size, command_id, actor)
    value = r.Started(
        run=done.run_id or "", name=command.name, workflow=command.workflow, state=done.state,
        existing=done.existing, warnings=warnings,
    )  # fmt: skip
    return reply(value, 200 if done.existing else 201, {"Location": f"/v1/runs/{value.run}"})


class BatchBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    runs: Annotated[list[SubmitBody], msgspec.Meta(min_length=1, max_length=BATCH_MAX)]


@routes(
    "POST", "/v1/runs:batch", role="operator", reply=r.Batch,
    example={"runs": [{"workflow": "nightly", "inputs": {"day": "2026-01-31"}}, {"task": {"run": "make"}}]},
)  # fmt: skip
def submit_runs(control: Asking, served: Shared, command_id: CommandId, body: Annotated[BatchBody, BODY]) -> r.Batch:
    """Start many runs in one transaction. What is wrong with one is told in its place and hinders no other."""
    items: list[r.BatchItem | list[str]] = []  # refused, or to be started with these warnings
    commands = []
    for number, one in enumerate(body.runs):
        try:
            own_id = None if command_id is None else f"{command_id}.{number}"
            command, warnings = served.submitting.command(one, None, own_id)
            commands.append(command)
            items.append(warnings)
        except Exception as error:
            items.append(_refused(error))
    replies = iter(control.submit_each(commands) if commands else [])
    told = [item if isinstance(item, r.BatchItem) else _told(next(replies), item) for item in items]
    count = sum(item.run is not None for item in told)
    return r.Batch(runs=told, started=count, refused=len(told) - count)


def _told(done: Reply | Refused, warnings: list[str]) -> r.BatchItem:
    if isinstance(done, Refused):
        return _refused(done)
    return r.BatchItem(run=done.run_id, existing=done.existing, warnings=warnings)


def _refused(error: Exception) -> r.BatchItem:
    trouble = trouble_of(error)
    if trouble.problem.status >= 500:
        raise trouble  # not this run's fault
    return r.BatchItem(code=trouble.problem.code, detail=trouble.problem.detail, errors=trouble.problem.errors)


@routes("GET", "/v1/runs", role="viewer", reply=r.RunPage)
def list_runs(
    control: Asking,
    state: RunStates = None,
    name: Annotated[str | None, Query(max_length=128, description="Only runs of this workflow")] = None,
    since: Moment = None,
    children: Annotated[bool, Query(description="Also runs that tasks of other runs started")] = False,
    cursor_: Cursor = None,
    limit: Limit = 50,
) -> r.RunPage:
    """List runs, newest first. `since`: only those that were submitted at or after this moment."""
    before = keys(cursor_, "runs", int)
    wanted = None if state is None else [str(one) for one in state]
    at = None if before is None else before[0]
    found = control.runs(states=wanted, name=name, before=at, limit=limit, children=children)
    more = len(found) == limit and (since is None or found[-1].created_at >= since - CLOCK_SLACK_MS)
    shown = [run for run in found if since is None or run.created_at >= since]
    return r.RunPage(runs=shown, next=cursor("runs", found[-1].no) if more else None)


@routes("GET", "/v1/runs/{run}", role="viewer", reply=r.RunDetail, refused=(404, 409))
def get_run(
    control: Asking,
    run: Run,
    tasks: Annotated[int, Query(ge=0, le=TASKS_SHOWN, description="At most so many of its tasks")] = TASKS_SHOWN,
) -> r.RunDetail:
    """A run, with the first of its tasks."""
    info = control.run(run)
    found, after = control.tasks(info.id, limit=tasks) if tasks else ([], 0)
    return r.RunDetail(
        run=info,
        tasks=found,
        next=None if after is None else cursor("tasks", after),
        resting=control.resting(info.id),
    )


class CancelBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = "cancelled by request"


class CancelRunBody(CancelBody, kw_only=True, forbid_unknown_fields=True):
    now: bool = False  # skip its handlers, too


@routes(
    "POST", "/v1/runs/{run}/cancel", role="operator", reply=r.Changed, refused=(404, 409),
    example={"reason": "not needed"},
)  # fmt: skip
def cancel_run(control: Asking, run: Run, body: Annotated[CancelRunBody, BODY]) -> r.Changed:
    """Stop a run: what runs is stopped, and nothing more starts but handlers (`when: always`). With `now`, not even
    those, and handlers that run after an earlier cancel are stopped."""
    return changed(control.cancel(run, None, body.reason, now=body.now))


@routes("POST", "/v1/runs/{run}/resume", role="operator", reply=r.Changed, refused=(404, 409))
def resume_run(control: Asking, run: Run) -> r.Changed:
    """Run again what did not succeed, as a new generation. A run that has not ended just goes on."""
    return changed(control.resume(run))


class RerunBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    fresh: bool = False  # tasks with `cache` run all the same


@routes(
    "POST", "/v1/runs/{run}/rerun", role="operator", reply=r.Changed, status=(201,), refused=(404, 409),
    example={"fresh": True},
)  # fmt: skip
def rerun_run(control: Asking, run: Run, body: Annotated[RerunBody, BODY]) -> Response:
    """Start a new run with the same definition and inputs."""
    done = control.rerun(run, fresh=body.fresh)
    return reply(changed(done), 201, {"Location": f"/v1/runs/{done.run_id}"})


class AdvanceBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    by_task: bool = False  # by one task instead of by one level


@routes(
    "POST", "/v1/runs/{run}/advance", role="operator", reply=r.Changed, refused=(404, 409),
    example={"by_task": False},
)  # fmt: skip
def advance_run(control: Asking, run: Run, body: Annotated[AdvanceBody, BODY]) -> r.Changed:
    """Move a run that rests between its levels on."""
    return changed(control.advance(run, by_task=body.by_task))


class SignalBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`data` becomes the wait's output; `reject` fails it, with this reason. At most one of them."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    data: Any = None
    reject: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)] | None = None


@routes(
    "POST", "/v1/runs/{run}/signal", role="operator", reply=r.Changed, refused=(404, 409),
    example={"name": "approve", "data": {"by": "me"}},
)  # fmt: skip
def signal_run(control: Asking, run: Run, body: Annotated[SignalBody, BODY]) -> r.Changed:
    """Answer a task that waits for a signal, now or before it is reached. Each signal is applied once."""
    if body.data is not None and body.reject is not None:
        raise Refused("invalid", "data and reject exclude each other")
    return changed(control.signal(run, body.name, body.data, body.reject))


@routes("POST", "/v1/runs/{run}/tidy", role="operator", reply=r.Changed, refused=(404, 409))
def tidy_run(control: Asking, run: Run) -> r.Changed:
    """Do what is left over of a run that was stopped, where no node is there to do it."""
    info = control.run(run)
    control.tidy(info.id)
    return r.Changed(run=info.id, state=control.run(info.id).state, existing=False, changed=0)


@routes("GET", "/v1/runs/{run}/workflows", role="viewer", reply=r.RunWorkflows, refused=(404, 409))
def list_run_workflows(control: Asking, run: Run) -> r.RunWorkflows:
    """The run's own workflow, and those that its tasks run."""
    return r.RunWorkflows(workflows=[workflow.hash for workflow in control.workflows(run)])


@routes("GET", "/v1/runs/{run}/family", role="viewer", reply=r.Family, refused=(404, 409))
def list_family(control: Asking, run: Run, cursor_: Cursor = None, limit: Limit = 100) -> r.Family:
    """The run and all that its tasks started, at any depth."""
    at = keys(cursor_, "family", int)
    found = [one for one in control.family(run) if at is None or one[0] > at[0]][: limit + 1]
    return r.Family(
        runs=[r.Member(no=no, id=id) for no, id in found[:limit]],
        next=cursor("family", found[limit - 1][0]) if len(found) > limit else None,
    )


@routes("GET", "/v1/runs/{run}/starter", role="viewer", reply=r.Starter, refused=(404, 409))
def get_starter(control: Asking, run: Run) -> r.Starter:
    """The task that started this run, if one did."""
    return r.Starter(task=control.starter(run))


@routes("GET", "/v1/runs/{run}/waiting", role="viewer", reply=r.WantedSignals, refused=(404, 409))
def list_waiting(control: Asking, run: Run, limit: Limit = 100) -> r.WantedSignals:
    """The signals that tasks wait for in runs that this one's tasks started."""
    return r.WantedSignals(signals=control.waiting_below(run, limit))


@routes("GET", "/v1/runs/{run}/output", role="viewer", reply=r.RunOutput, refused=(404, 409))
def get_run_output(
    control: Asking,
    run: Run,
    whole: Annotated[bool, Query(description="Large outputs in their places, not references to their files")] = False,
) -> r.RunOutput:
    """What the run's workflow says is its `output`; null if it says nothing. 409 while it is under way. Large outputs
    stand there as `{"$artifact": {…}}`; with `whole` they are read, 64 MiB of them together."""
    info = control.run(run)
    try:
        return r.RunOutput(output=control.output(info.id, artifacts_max=WHOLE_MAX if whole else 0))
    except Refused as refused:
        if refused.code != "invalid":
            raise
        return r.RunOutput(output=None, error=refused.message)


@routes("GET", "/v1/runs/{run}/context", role="viewer", reply=r.RunContext, refused=(404, 409))
def get_run_context(control: Asking, run: Run) -> r.RunContext:
    """The run's context, by key, as it is now."""
    return r.RunContext(context=control.context(run))


@routes("GET", "/v1/runs/{run}/why", role="viewer", reply=r.Explanations, refused=(404, 409))
def explain_run(control: Asking, run: Run) -> r.Explanations:
    """What the tasks that have not ended wait for; of a run that has ended, why they ended as they did."""
    return r.Explanations(explanations=control.why(run))


@routes("GET", "/v1/runs/{run}/verify", role="viewer", reply=Verification, refused=(404, 409))
def verify_run(control: Asking, run: Run) -> Verification:
    """Rebuild the run's state from its events and compare it with what is stored."""
    return control.verify(run)


@routes("GET", "/v1/runs/{run}/records", role="viewer", reply=r.Records, refused=(404, 409))
def get_run_records(control: Asking, run: Run) -> r.Records:
    """The records of a run in levels, the same whatever order its tasks ended in."""
    return r.Records(lines=control.canonical(run))


def changed(done: Reply) -> r.Changed:
    return r.Changed(run=done.run_id, state=done.state, existing=done.existing, changed=done.changed)
