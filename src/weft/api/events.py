"""Events: what happened to a run, or in the whole cluster."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query

from weft.api import replies as r
from weft.api.paging import Cursor, Limit, cursor, keys
from weft.api.parameters import TASK_PATTERN, Moment, Run
from weft.api.routes import Asking, Routes
from weft.core.events import EventKind

routes = Routes("events")

KindFilter = Annotated[
    list[EventKind] | None,
    Query(alias="kind", max_length=50, description="Only of this kind; may be repeated"),
]
TaskFilter = Annotated[
    str | None, Query(pattern=TASK_PATTERN, description="Only of tasks of this name, or of one element")
]
NodeFilter = Annotated[
    str | None, Query(min_length=1, max_length=64, description="Only what this node did, or what befell it")
]
After = Annotated[int | None, Query(ge=0, le=2**53, description="Only events with a higher number")]


@dataclass
class Asked:
    """Which events: the same of a run and of the whole cluster."""

    kind: KindFilter = None
    task: TaskFilter = None
    node: NodeFilter = None
    since: Moment = None
    until: Moment = None
    after: After = None
    cursor_: Cursor = None
    limit: Limit = 100

    def page(self, control: Asking, run: str | None) -> r.EventPage:
        at = keys(self.cursor_, "events", int)
        begin = self.after or 0 if at is None else at[0]
        kinds = None if self.kind is None else [str(kind) for kind in self.kind]
        found = control.events(
            run, after=begin, limit=self.limit, kinds=kinds, task=self.task, node=self.node, since=self.since,
            until=self.until,
        )  # fmt: skip
        last = found[-1].seq if found else begin
        return r.EventPage(events=found, next=cursor("events", last) if found else None, last=last)


Which = Annotated[Asked, Depends()]


@routes("GET", "/v1/events", role="viewer", reply=r.EventPage, refused=(404,))
def list_events(control: Asking, which: Which) -> r.EventPage:
    """What happened in the whole cluster: to runs, to nodes, to the leader. In the order of their numbers."""
    return which.page(control, None)


@routes("GET", "/v1/runs/{run}/events", role="viewer", reply=r.EventPage, refused=(404, 409))
def list_run_events(control: Asking, run: Run, which: Which) -> r.EventPage:
    """What happened to a run."""
    return which.page(control, run)
