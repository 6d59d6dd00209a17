"""Events: what happened to a run, or in the whole cluster."""

from typing import Annotated

from fastapi import Query

from weft.api import replies as r
from weft.api.paging import Cursor, Limit, cursor, keys
from weft.api.parameters import TASK_PATTERN, Moment, Run
from weft.api.routes import Asking, Routes

routes = Routes("events")

KindFilter = Annotated[
    list[Annotated[str, Query(max_length=64)]] | None,
    Query(alias="kind", max_length=50, description="Only of this kind; may be repeated"),
]
TaskFilter = Annotated[
    str | None, Query(pattern=TASK_PATTERN, description="Only of tasks of this name, or of one element")
]
NodeFilter = Annotated[
    str | None, Query(min_length=1, max_length=64, description="Only what this node did, or what befell it")
]
After = Annotated[int | None, Query(ge=0, le=2**53, description="Only events with a higher number")]


@routes("GET", "/v1/events", role="viewer", reply=r.EventPage, refused=(404,))
def list_events(
    control: Asking,
    kind: KindFilter = None,
    task: TaskFilter = None,
    node: NodeFilter = None,
    since: Moment = None,
    until: Moment = None,
    after: After = None,
    cursor_: Cursor = None,
    limit: Limit = 100,
) -> r.EventPage:
    """What happened in the whole cluster: to runs, to nodes, to the leader. In the order of their numbers."""
    return _page(control, None, kind, task, node, since, until, after, cursor_, limit)


@routes("GET", "/v1/runs/{run}/events", role="viewer", reply=r.EventPage, refused=(404, 409))
def list_run_events(
    control: Asking,
    run: Run,
    kind: KindFilter = None,
    task: TaskFilter = None,
    node: NodeFilter = None,
    since: Moment = None,
    until: Moment = None,
    after: After = None,
    cursor_: Cursor = None,
    limit: Limit = 100,
) -> r.EventPage:
    """What happened to a run."""
    return _page(control, run, kind, task, node, since, until, after, cursor_, limit)


def _page(
    control: Asking,
    run: str | None,
    kinds: list[str] | None,
    task: str | None,
    node: str | None,
    since: int | None,
    until: int | None,
    after: int | None,
    given: str | None,
    limit: int,
) -> r.EventPage:
    at = keys(given, "events", int)
    begin = after or 0 if at is None else at[0]
    found = control.events(run, after=begin, limit=limit, kinds=kinds, task=task, node=node, since=since, until=until)
    last = found[-1].seq if found else begin
    return r.EventPage(events=found, next=cursor("events", last) if found else None, last=last)
