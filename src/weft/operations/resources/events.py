"""Events: of one run, or of everything that happens in the store, with filters."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from weft.core.history.batches import expanded
from weft.core.history.kinds import EventKind
from weft.core.rows import WHOLE
from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource
from weft.operations.errors import FINDABLE, NotFound
from weft.operations.parameters import TASK_PATTERN, TIME_MAX, EventCursor, Limit, Moment, RunRef, number_in
from weft.operations.reading import nodes as node_reading
from weft.operations.reading.labels import Labels
from weft.operations.reading.runs import find_run
from weft.operations.replies import EventInfo

resource = Resource("events")

AUDIT_WINDOW, AUDIT_WINDOWS = 2000, 10  # events of the history that one page looks through at the most
ROWS_FIRST, ROWS_MAX = 50, 500  # of history: one may have a thousand events, and most pages are short

KindFilter = Annotated[list[EventKind], Meta(max_length=50, description="Only of this kind; may be repeated")]
After = Annotated[int, Meta(ge=0, le=TIME_MAX, description="Only events with a higher number")]


class EventPage(msgspec.Struct, kw_only=True):
    events: list[EventInfo]
    next: str | None  # also of the last page, as long as more may happen: ask again later
    last: int  # the number of the newest event shown, to be followed from


class ListEventsRequest(Request):
    kind: KindFilter | None = None
    task: (
        Annotated[str, Meta(pattern=TASK_PATTERN, description="Only of tasks of this name, or of one element")] | None
    ) = None
    node: (
        Annotated[
            str, Meta(min_length=1, max_length=64, description="Only what this node did, or what happened to it")
        ]
        | None
    ) = None
    since: Moment | None = None
    until: Moment | None = None
    after: After | None = None
    cursor: EventCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/events", role="viewer", errors=("not_found",))
def list_events(access: StoreAccess, request: ListEventsRequest) -> EventPage:
    """What happened in the whole cluster: to runs, to nodes, to the leader. In the order of their numbers."""
    return _page(access, None, request)


class ListRunEventsRequest(ListEventsRequest, kw_only=True):
    run: RunRef


@resource.operation("GET", "/v1/runs/{run}/events", role="viewer", errors=FINDABLE)
def list_run_events(access: StoreAccess, request: ListRunEventsRequest) -> EventPage:
    """What happened to a run."""
    return _page(access, request.run, request)


class AuditPage(msgspec.Struct, kw_only=True):
    """Newest first. `next` goes on with older ones; a page may be short, or empty, while there is a `next`."""

    events: list[EventInfo]
    next: str | None


class ListAuditRequest(Request):
    actor: Annotated[str, Meta(max_length=200, description="Only what this one asked for")] | None = None
    cursor: EventCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/audit", role="admin")
def list_audit(access: StoreAccess, request: ListAuditRequest) -> AuditPage:
    """Who did what: events that a caller asked for, each with its `actor`, the newest first."""
    found: list[EventInfo] = []
    end = number_in(request.cursor, int(access.read("event_last")[0][0]) + 1)
    for _ in range(AUDIT_WINDOWS):
        begin = max(0, end - AUDIT_WINDOW)
        events = events_page(access, None, begin, end - begin) if end > 0 else []
        for one in reversed([event for event in events if event.seq < end and "actor" in event.data]):
            if request.actor in (None, one.data["actor"]):
                found.append(one)
                if len(found) == request.limit:
                    return AuditPage(events=found, next=f"e{one.seq}")
        end = begin + 1 if begin else 0
        if not end:
            return AuditPage(events=found, next=None)
    return AuditPage(events=found, next=f"e{end}")


def _page(access: StoreAccess, run: str | None, request: ListEventsRequest) -> EventPage:
    start = number_in(request.cursor, request.after or 0)
    found = events_page(
        access, run, start, request.limit, kinds=request.kind, task=request.task, node=request.node,
        since=request.since, until=request.until,
    )  # fmt: skip
    last = found[-1].seq if found else start
    return EventPage(events=found, next=f"e{last}" if found else None, last=last)


def events_page(
    access: StoreAccess,
    ref: str | None,
    after: int,
    limit: int,
    *,
    node: str | None = None,
    task: str | None = None,
    kinds: list[Any] | None = None,
    since: int | None = None,
    until: int | None = None,
) -> list[EventInfo]:
    """In the order of their numbers. `since` and `until` are moments of the store's clock, `node` is a node's name or
    a session's id, `task` a task's name, or one element's."""
    sessions = None if node is None else _sessions(access, node)
    given = [after, _json(kinds), _json(sessions), since, until]
    run_no = None if ref is None else find_run(access, ref)[0]
    settled = access.store.settled_event()
    found: list[EventInfo] = []
    labels = Labels(access)
    most = min(limit, ROWS_FIRST) if task is None else ROWS_MAX
    while True:
        if run_no is None:
            rows = access.read("events_found", *given, most, settled)
        else:
            rows = access.read("events_found_of_run", *given, most, settled, run_no)
        for row in rows:
            for info in _infos(access, row, labels):
                if info.seq > after and (task is None or (info.task is not None and _is(info.task, task))):
                    found.append(info)
                    if len(found) == limit:
                        return found
        if len(rows) < most:
            return found
        given[0], most = rows[-1][0], ROWS_MAX


def _sessions(access: StoreAccess, node: str) -> list[str]:
    found = [n.session for n in node_reading.nodes(access, True) if node == n.node or n.session.startswith(node)]
    if not found:
        raise NotFound(f"there is no node {node}, and none has been here")
    return found


def _is(name: str, wanted: str) -> bool:
    return name == wanted or name.rpartition(".")[0] == wanted


def _json(value: list[Any] | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _infos(access: StoreAccess, row: Any, labels: Labels) -> Iterator[EventInfo]:
    last, at, run_no, pos, idx, kind, session, many, text, node, run_id, workflow = row
    tasks = () if workflow is None else access.workflow(workflow).tasks
    for seq, of_pos, of_idx, data in expanded((last, at, pos, idx, kind, many, text)):
        name = label = None
        if of_pos is not None and tasks:
            of_idx = WHOLE if of_idx is None else of_idx
            name = tasks[of_pos].called(of_idx)
            label = labels.of(run_no, tasks[of_pos], of_pos, of_idx)
        yield EventInfo(
            seq=seq, at=at, run_id=run_id, kind=kind, task=name, node=node, session=session, data=data, label=label
        )  # fmt: skip
