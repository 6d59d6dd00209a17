"""Backfills: one run for each fire time of a range that has passed."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from weft.core import commands as c
from weft.core.commands import Firing
from weft.core.rows import BackfillRow
from weft.core.rules.apply import trigger_of
from weft.core.rules.fire import inputs_of_fire
from weft.core.workflow import TIMED
from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource, ToolHints
from weft.operations.errors import REFUSABLE, NotFound
from weft.operations.ids import id_from, new_id
from weft.operations.parameters import RUN_PATTERN, TIME_MAX, Reason
from weft.operations.resources.triggers import all_triggers, trigger_named, trigger_row
from weft.store.queries import BACKFILL_COLUMNS
from weft.triggers.timetable import local_text, times_between

resource = Resource("backfills")
TIMES_MAX: Final = 10_000  # of one backfill
TIMES_SHOWN: Final = 1000
PARALLEL_MAX: Final = 1000
BackfillId = Annotated[str, Meta(pattern=RUN_PATTERN, description="A backfill's id")]


class BackfillInfo(msgspec.Struct, kw_only=True):
    """`left` times have not been looked at; the runs that were started are counted by their states."""

    id: str
    trigger: str
    first_ms: int
    last_ms: int
    parallel: int
    reverse: bool
    again: bool
    inputs: dict[str, Any]
    created_at: int
    by: str | None
    state: str  # active, complete (all times have been looked at), cancelled
    reason: str | None
    total: int
    left: int
    started: int
    existing: int  # times that had a run already
    not_started: int  # times for which no run could be made: `reason` says why
    succeeded: int
    failed: int
    cancelled: int
    running: int


class BackfillTime(msgspec.Struct, kw_only=True):
    time: str  # in the trigger's own zone
    due_at: int
    has_run: bool
    run: str | None  # that the time has already


class BackfillStarted(msgspec.Struct, kw_only=True):
    """`times` are the first ones, in the order in which they run; `existing` of all have a run already."""

    trigger: str
    total: int
    existing: int
    times: list[BackfillTime]
    backfill: BackfillInfo | None  # none: it was a preview, or there is nothing to do


class StartBackfillRequest(Request):
    trigger: Annotated[
        str, Meta(min_length=1, max_length=200, description="workflow/name; or one of the two, where that is enough")
    ]
    first: Annotated[int, Meta(ge=0, le=TIME_MAX, description="Fire times from this moment on, in ms since 1970")]
    last: Annotated[int, Meta(ge=0, le=TIME_MAX, description="Up to this one, included; not in the future")]
    parallel: Annotated[
        int, Meta(ge=1, le=PARALLEL_MAX, description="So many of its runs may be unfinished at a time")
    ] = 1
    reverse: Annotated[bool, Meta(description="The newest time first")] = False
    again: Annotated[bool, Meta(description="Also for times that have a run already")] = False
    inputs: Annotated[dict[str, Any], Meta(description="Instead of what the trigger gives")] = msgspec.field(
        default_factory=dict
    )
    preview: Annotated[bool, Meta(description="Only list the times")] = False


@resource.operation(
    "POST", "/v1/backfills", role="operator", errors=REFUSABLE, tool=ToolHints(destructive=True, open_world=True),
    example={"trigger": "nightly/cron", "first": 1_769_821_200_000, "last": 1_769_907_600_000, "preview": True},
)  # fmt: skip
def start_backfill(access: StoreAccess, request: StartBackfillRequest) -> BackfillStarted:
    """Make one run for each fire time of a range, as its trigger would have then. Times that already have
    a run are left out. The leader starts the runs, `parallel` at a time."""
    timed = [one for one in all_triggers(access, None) if one.kind in TIMED]
    row = trigger_row(access, trigger_named(timed, request.trigger).id)
    definition = trigger_of(row)
    last = min(request.last, access.now())
    times = times_between(definition, request.first, last, TIMES_MAX + 1, reverse=request.reverse)
    if len(times) > TIMES_MAX:
        raise c.Refused("invalid", f"the range has more than {TIMES_MAX:,} fire times of {row.id}: take a part of it")
    if times:
        first = Firing("", "", {"time": local_text(definition, times[0])})
        _, wrong = inputs_of_fire(access.workflow(row.hash).inputs, definition, first, request.inputs)
        if wrong is not None:
            raise c.Refused("invalid", wrong)
    runs = dict(access.read("fires_with_runs", row.id, request.first, last))
    shown = [
        BackfillTime(time=local_text(definition, at), due_at=at, has_run=at in runs, run=runs.get(at))
        for at in times[:TIMES_SHOWN]
    ]
    existing = sum(at in runs for at in times)
    made = None
    if times and not request.preview and (request.again or existing < len(times)):
        id = new_id() if access.command_id is None else id_from(access.command_id)
        inputs = msgspec.json.encode(request.inputs, order="deterministic").decode()
        access.commit(
            c.StartBackfill(
                id, row.id, request.first, last, len(times), request.parallel, request.reverse, request.again, inputs,
                access.actor,
            )
        )  # fmt: skip
        made = _one(access, id)
    return BackfillStarted(trigger=row.id, total=len(times), existing=existing, times=shown, backfill=made)


class BackfillList(msgspec.Struct, kw_only=True):
    backfills: list[BackfillInfo]


class ListBackfillsRequest(Request):
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many at most")] = 20


@resource.operation("GET", "/v1/backfills", role="viewer", tool=ToolHints(idempotent=True))
def list_backfills(access: StoreAccess, request: ListBackfillsRequest) -> BackfillList:
    """List backfills, newest first."""
    return BackfillList(backfills=[_info(row) for row in access.read("backfills_page", None, request.limit)])


class OneBackfillRequest(Request):
    backfill: BackfillId


@resource.operation(
    "GET", "/v1/backfills/{backfill}", role="viewer", errors=("not_found",), tool=ToolHints(idempotent=True)
)
def get_backfill(access: StoreAccess, request: OneBackfillRequest) -> BackfillInfo:
    """How far a backfill has come. Its runs: `GET /v1/runs?backfill=`."""
    return _one(access, request.backfill)


class CancelBackfillRequest(OneBackfillRequest):
    reason: Reason = c.BY_REQUEST


@resource.operation(
    "POST", "/v1/backfills/{backfill}/cancel", role="operator", errors=REFUSABLE, example={"reason": "wrong range"},
    tool=ToolHints(destructive=True, idempotent=True),
)  # fmt: skip
def cancel_backfill(access: StoreAccess, request: CancelBackfillRequest) -> BackfillInfo:
    """Start no more runs of a backfill, and cancel those that have not ended."""
    access.commit(c.CancelBackfill(request.backfill, request.reason))
    for _, run_id in access.read("backfill_unfinished", request.backfill):  # after the commit: no more begin
        access.finish(access.commit(c.CancelRun(run_id, request.reason)))
    return _one(access, request.backfill)


def _one(access: StoreAccess, id: str) -> BackfillInfo:
    rows = access.read("backfills_page", id, 1)
    if not rows:
        raise NotFound(f"there is no backfill {id}")
    return _info(rows[0])


def _info(values: Any) -> BackfillInfo:
    width = len(BACKFILL_COLUMNS)
    row = BackfillRow(*values[:width])
    succeeded, failed, cancelled, running = values[width:]
    done = row.started + row.existing + row.failed
    return BackfillInfo(
        id=row.id, trigger=row.trigger, first_ms=row.first_ms, last_ms=row.last_ms, parallel=row.parallel,
        reverse=bool(row.reverse), again=bool(row.again), inputs=msgspec.json.decode(row.inputs),
        created_at=row.created_at, by=row.by, state=row.state, reason=row.reason, total=row.total,
        left=max(0, row.total - done) if row.state == "active" else 0, started=row.started, existing=row.existing,
        not_started=row.failed, succeeded=succeeded, failed=failed, cancelled=cancelled, running=running,
    )  # fmt: skip
