"""Triggers: what starts runs by itself. They come with the workflow that is applied (`PUT /v1/workflows/{name}`)."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from weft.core import commands as c
from weft.core.definition.field_types.text_formats import format_duration
from weft.core.definition.suggest import nearest
from weft.core.rows import FireRow, TriggerRow
from weft.core.rules.apply import trigger_of
from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource, ToolHints
from weft.operations.errors import REFUSABLE, NotFound
from weft.operations.ids import id_from, new_id
from weft.operations.parameters import Limit, TriggerCursor, TriggerName, WorkflowName, name_in, page_of
from weft.operations.replies import FireInfo, TriggerInfo
from weft.store.queries import FIRE_COLUMNS, TriggerView
from weft.triggers.protocol import BadTrigger
from weft.triggers.timetable import local_text, upcoming

resource = Resource("triggers")


class OneTriggerRequest(Request):
    name: WorkflowName
    trigger: TriggerName

    @property
    def id(self) -> str:
        return f"{self.name}/{self.trigger}"


class TriggerList(msgspec.Struct, kw_only=True):
    triggers: list[TriggerInfo]
    next: str | None


class ListTriggersRequest(Request):
    workflow: Annotated[str, Meta(max_length=128, description="Only those of this workflow")] | None = None
    cursor: TriggerCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/triggers", role="viewer")
def list_triggers(access: StoreAccess, request: ListTriggersRequest) -> TriggerList:
    """List all triggers that are active, by workflow and name."""
    found = all_triggers(access, request.workflow)
    shown, last = page_of(found, lambda one: one.id, name_in(request.cursor), request.limit)
    return TriggerList(triggers=shown, next=None if last is None else f"g.{last.id}")


@resource.operation("GET", "/v1/triggers/{name}/{trigger}", role="viewer", errors=("not_found",))
def get_trigger(access: StoreAccess, request: OneTriggerRequest) -> TriggerInfo:
    """One trigger: when it fires next, and what became of its last fire."""
    return _find(access, request)


class FireList(msgspec.Struct, kw_only=True):
    fires: list[FireInfo]


class ListFiresRequest(OneTriggerRequest):
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many at most")] = 20


@resource.operation("GET", "/v1/triggers/{name}/{trigger}/fires", role="viewer", errors=("not_found",))
def list_fires(access: StoreAccess, request: ListFiresRequest) -> FireList:
    """The last fires of a trigger, newest first."""
    return FireList(fires=fires_of(access, _find(access, request).id, request.limit))


class TimeList(msgspec.Struct, kw_only=True):
    """`time` in the trigger's own zone, `due_at` the same in ms since 1970, `at` with its jitter."""

    times: list[dict[str, Any]]


class ListNextTimesRequest(OneTriggerRequest):
    count: Annotated[int, Meta(ge=1, le=100, description="How many")] = 5


@resource.operation("GET", "/v1/triggers/{name}/{trigger}/next", role="viewer", errors=("not_found",))
def list_next_times(access: StoreAccess, request: ListNextTimesRequest) -> TimeList:
    """When a trigger fires next; nothing for one that no clock fires."""
    row = trigger_row(access, _find(access, request).id)
    definition = trigger_of(row)
    if not definition.timed:
        return TimeList(times=[])
    after = max(row.since_ms, access.now())
    times = [
        {"trigger": row.id, "time": local_text(definition, due_at), "due_at": due_at, "at": at}
        for due_at, at in upcoming(row.id, definition, after, request.count)
    ]
    return TimeList(times=times)


class TriggerDone(msgspec.Struct, kw_only=True):
    """What became of it; of a fire: started, queued, skipped or failed, and the run if there is one."""

    trigger: str
    outcome: str | None
    run: str | None
    existing: bool
    reason: str | None


def _done(trigger: str, reply: c.Reply) -> TriggerDone:
    return TriggerDone(
        trigger=trigger, outcome=reply.state, run=reply.run_id, existing=reply.existing,
        reason=reply.data.get("reason"),
    )  # fmt: skip


@resource.operation(
    "POST", "/v1/triggers/{name}/{trigger}/pause", role="operator", errors=REFUSABLE,
    tool=ToolHints(destructive=True, idempotent=True),
)  # fmt: skip
def pause_trigger(access: StoreAccess, request: OneTriggerRequest) -> TriggerDone:
    """Let a trigger fire no more until it is resumed; a new version of its workflow leaves it paused."""
    id = _find(access, request).id
    return _done(id, access.commit(c.PauseTrigger(id, True)))


@resource.operation(
    "POST", "/v1/triggers/{name}/{trigger}/resume", role="operator", errors=REFUSABLE,
    tool=ToolHints(destructive=True, idempotent=True),
)  # fmt: skip
def resume_trigger(access: StoreAccess, request: OneTriggerRequest) -> TriggerDone:
    """Let a paused trigger fire again, from now on."""
    id = _find(access, request).id
    return _done(id, access.commit(c.PauseTrigger(id, False)))


class FireTriggerRequest(OneTriggerRequest):
    """`body` is what a webhook's caller would have sent."""

    body: Annotated[Any, Meta(description="For a webhook's trigger: what its caller would have sent")] = None


@resource.operation(
    "POST", "/v1/triggers/{name}/{trigger}/fire", role="operator", errors=(*REFUSABLE, "rate_limited"),
    example={"body": {"ref": "refs/tags/v1"}}, tool=ToolHints(destructive=True, open_world=True),
)  # fmt: skip
def fire_trigger(access: StoreAccess, request: FireTriggerRequest) -> TriggerDone:
    """Fire a trigger now, by hand, paused or not, but with the trigger's own way about overlaps."""
    row = trigger_row(access, _find(access, request).id)
    definition = trigger_of(row)
    names: dict[str, Any] = {"time": local_text(definition, access.now())}
    body = request.body
    if row.kind == "webhook":
        names["body"] = body
    if row.kind == "after":
        names["run"] = body if isinstance(body, dict) else {"id": None, "name": definition.after, "state": None}
    # Sent again under one command id it is one and the same fire. The names hold the time, so that no two requests
    # are alike: the cause is what is compared, not the command's id.
    run_id = new_id() if access.command_id is None else id_from(access.command_id)
    fire = c.Fire(row.id, [c.Firing(f"hand-{run_id}", run_id, names)])
    return _done(row.id, access.for_request(None, access.actor).commit(fire))


def _find(access: StoreAccess, request: OneTriggerRequest) -> TriggerInfo:
    return trigger_named(all_triggers(access, None), request.id)


def trigger_named(known: list[TriggerInfo], ref: str) -> TriggerInfo:
    """By its id; or by its workflow's name or its own, where that is only one's."""
    for wanted in ("id", "workflow", "name"):
        found = [one for one in known if getattr(one, wanted) == ref]
        if len(found) == 1:
            return found[0]
        if found:
            raise NotFound(f"{ref} could be any of {', '.join(one.id for one in found)}")
    close = nearest(ref, [one.id for one in known])
    raise NotFound(f"there is no trigger {ref}" + (f"; did you mean {close}?" if close else ""))


def all_triggers(access: StoreAccess, workflow: str | None) -> list[TriggerInfo]:
    now = access.now()
    out = []
    for values in access.read("triggers_all", workflow):
        row, cause, due_at, at, outcome, run, reason, queued, unfinished = TriggerView.of(values)
        last = None
        if cause is not None and at is not None and outcome is not None:
            last = FireInfo(row.id, cause, due_at, at, outcome, run, reason)
        definition = trigger_of(row)
        next_at, problem = None, None
        if definition.timed and not row.paused:
            try:
                ahead = upcoming(row.id, definition, max(row.since_ms, now), 1)
                next_at = ahead[0][1] if ahead else None
            except BadTrigger as error:
                problem = error.message
        out.append(
            TriggerInfo(
                id=row.id, workflow=row.workflow, name=definition.name, kind=row.kind, hash=row.hash,
                what=described(row), paused=bool(row.paused), overlap=definition.overlap,
                catch_up=definition.catch_up, next_at=next_at, last=last, queued=queued, unfinished=unfinished,
                problem=problem,
            )
        )  # fmt: skip
    return out


def described(row: TriggerRow) -> str:
    definition = trigger_of(row)
    if definition.kind == "cron":
        return f"{definition.cron} {definition.timezone}"
    if definition.kind == "every":
        return f"every {format_duration(definition.every_ms or 0)}"
    if definition.kind == "webhook":
        return f"webhook {definition.hook}"
    return f"after {definition.after} {definition.after_state}"


def fires_of(access: StoreAccess, trigger: str, limit: int) -> list[FireInfo]:
    width = len(FIRE_COLUMNS)
    out = []
    for values in access.read("fires_page", trigger, limit):
        row = FireRow(*values[:width])
        out.append(FireInfo(row.trigger, row.cause, row.due_at, row.at, row.outcome, row.run, row.reason))
    return out


def trigger_row(access: StoreAccess, id: str) -> TriggerRow:
    rows = access.read("trigger_now", id)
    if not rows:
        raise NotFound(f"there is no trigger {id}")
    return TriggerRow(*rows[0])
