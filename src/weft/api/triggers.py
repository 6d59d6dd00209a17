"""Triggers: what starts runs by itself. They come with the workflow that is applied (`PUT /v1/workflows/{name}`)."""

from typing import Annotated, Any

import msgspec
from fastapi import Path, Query

from weft.api import replies as r
from weft.api.paging import Cursor, Limit, page_of
from weft.api.parameters import WorkflowName
from weft.api.routes import BODY, Asking, Routes
from weft.control.records import TriggerInfo
from weft.core.commands import Reply

routes = Routes("triggers")

TriggerName = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="A trigger's name in its workflow")]


@routes("GET", "/v1/triggers", role="viewer", reply=r.TriggerList)
def list_triggers(
    control: Asking,
    workflow: Annotated[str | None, Query(max_length=128, description="Only those of this workflow")] = None,
    cursor_: Cursor = None,
    limit: Limit = 100,
) -> r.TriggerList:
    """List all triggers that are active, by workflow and name."""
    found = control.triggers(workflow)
    triggers, more = page_of(found, "triggers", lambda one: (one.id,), cursor_, limit, str)
    return r.TriggerList(triggers=triggers, next=more)


@routes("GET", "/v1/triggers/{name}/{trigger}", role="viewer", reply=TriggerInfo, refused=(404,))
def get_trigger(control: Asking, name: WorkflowName, trigger: TriggerName) -> TriggerInfo:
    """One trigger: when it fires next, and what became of its last fire."""
    return control.trigger(f"{name}/{trigger}")


@routes("GET", "/v1/triggers/{name}/{trigger}/fires", role="viewer", reply=r.FireList, refused=(404,))
def list_fires(
    control: Asking,
    name: WorkflowName,
    trigger: TriggerName,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most")] = 20,
) -> r.FireList:
    """The last fires of a trigger, newest first."""
    return r.FireList(fires=control.fires(f"{name}/{trigger}", limit))


@routes("GET", "/v1/triggers/{name}/{trigger}/next", role="viewer", reply=r.TimeList, refused=(404,))
def list_next_times(
    control: Asking,
    name: WorkflowName,
    trigger: TriggerName,
    count: Annotated[int, Query(ge=1, le=100, description="How many")] = 5,
) -> r.TimeList:
    """When a trigger fires next; nothing for one that no clock fires."""
    return r.TimeList(times=control.next_times(f"{name}/{trigger}", count))


@routes("POST", "/v1/triggers/{name}/{trigger}/pause", role="operator", reply=r.TriggerDone, refused=(404, 409))
def pause_trigger(control: Asking, name: WorkflowName, trigger: TriggerName) -> r.TriggerDone:
    """Let a trigger fire no more until it is resumed; a new version of its workflow leaves it paused."""
    return r.TriggerDone(trigger=f"{name}/{trigger}", **_told(control.pause_trigger(f"{name}/{trigger}")))


@routes("POST", "/v1/triggers/{name}/{trigger}/resume", role="operator", reply=r.TriggerDone, refused=(404, 409))
def resume_trigger(control: Asking, name: WorkflowName, trigger: TriggerName) -> r.TriggerDone:
    """Let a paused trigger fire again, from now on."""
    return r.TriggerDone(
        trigger=f"{name}/{trigger}", **_told(control.pause_trigger(f"{name}/{trigger}", paused=False))
    )


class FireBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`body` is what a webhook's caller would have sent."""

    body: Any = None


@routes(
    "POST", "/v1/triggers/{name}/{trigger}/fire", role="operator", reply=r.TriggerDone, refused=(404, 409),
    example={"body": {"ref": "refs/tags/v1"}},
)  # fmt: skip
def fire_trigger(
    control: Asking, name: WorkflowName, trigger: TriggerName, body: Annotated[FireBody, BODY]
) -> r.TriggerDone:
    """Fire a trigger now, by hand, paused or not."""
    return r.TriggerDone(trigger=f"{name}/{trigger}", **_told(control.fire(f"{name}/{trigger}", body.body)))


def _told(reply: Reply) -> dict[str, Any]:
    return {"outcome": reply.state, "run": reply.run_id, "existing": reply.existing,
            "reason": reply.data.get("reason")}  # fmt: skip
