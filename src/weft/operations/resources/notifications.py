"""Notifications: what was sent to whom, what could not be, and the targets for all workflows."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from weft.core import commands as c
from weft.core.definition.field_types.notify_fields import define_targets
from weft.core.definition.fields import NOTIFY
from weft.core.definition.problems import ProblemCollector
from weft.core.rows import NotificationRow
from weft.core.rules.notifications import targets_of
from weft.core.workflow import NotifyTarget
from weft.operations.access import StoreAccess
from weft.operations.declare import NoArguments, Request, Resource, ToolHints
from weft.operations.errors import FINDABLE, REFUSABLE
from weft.operations.parameters import Limit, NotificationCursor, NotificationId, RunRef, moment_in
from weft.operations.reading.runs import find_run
from weft.operations.replies import NotificationInfo

resource = Resource("notifications")
NotificationState = Literal["pending", "delivered", "failed"]


class NotificationList(msgspec.Struct, kw_only=True, omit_defaults=True):
    notifications: list[NotificationInfo]
    next: str | None = None


class ListNotificationsRequest(Request):
    state: Annotated[NotificationState, Meta(description="Only those in this state")] | None = None
    run: Annotated[RunRef, Meta(description="Only those of this run")] | None = None
    cursor: NotificationCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/notifications", role="viewer", errors=FINDABLE, tool=ToolHints(idempotent=True))
def list_notifications(access: StoreAccess, request: ListNotificationsRequest) -> NotificationList:
    """List notifications, newest first: what they are about, where they go, and whether they got there. Addresses are
    shown without what may be secret in them."""
    run = None if request.run is None else find_run(access, request.run)[1]
    at, id = (None, None) if request.cursor is None else moment_in(request.cursor)
    rows = access.read("notifications_page", request.state, run, at, id, request.limit)
    found = [_shown(NotificationRow(*row)) for row in rows]
    more = len(found) == request.limit
    return NotificationList(notifications=found, next=f"o{found[-1].created_at}-{found[-1].id}" if more else None)


def _shown(row: NotificationRow) -> NotificationInfo:
    target = msgspec.json.decode(row.target, type=NotifyTarget)
    facts: dict[str, Any] = msgspec.json.decode(row.facts)
    return NotificationInfo(
        id=row.id, event=row.event, run=row.run, workflow=row.workflow, task=facts.get("task"),
        target=_described(target), state=row.state, tries=row.tries, next_at=row.next_at, error=row.error,
        created_at=row.created_at, delivered_at=row.delivered_at, facts=facts,
    )  # fmt: skip


def _described(target: NotifyTarget) -> str:
    """Of a URL only the host: its path is often a secret. All of it where the names of secrets stand in it."""
    if target.email is not None:
        return f"email {', '.join(target.email['to'])}"
    if target.command is not None:
        return f"command {target.command[0]}"
    url = target.webhook or target.slack or ""
    if "$" in url and "@" not in url and target.secrets:
        return f"{target.kind} {url}"
    host = "/".join(url.split("/")[:3])
    return f"{target.kind} {host.rpartition('@')[2]}{'/…' if len(url) > len(host) + 1 else ''}"


class NotificationsRetried(msgspec.Struct, kw_only=True):
    changed: int  # so many are delivered again


class RetryNotificationsRequest(Request):
    """`ids`, or with `failed` all that are no longer tried."""

    ids: Annotated[list[NotificationId], Meta(max_length=1000)] | None = None
    failed: bool = False


@resource.operation(
    "POST", "/v1/notifications/retry", role="operator", errors=REFUSABLE,
    tool=ToolHints(destructive=True, idempotent=True),
    example={"ids": ["6134cab031f25a1375cd"]},
)  # fmt: skip
def retry_notifications(access: StoreAccess, request: RetryNotificationsRequest) -> NotificationsRetried:
    """Deliver notifications again, under their old ids: those with these ids, or all that are no longer tried. One
    that waits for its next try is sent now."""
    if bool(request.ids) == request.failed:
        raise c.Refused("invalid", "give either ids, or failed")
    reply = access.commit(c.RetryNotifications(None if request.failed else request.ids))
    return NotificationsRetried(changed=reply.changed)


class NotifyDefault(msgspec.Struct, kw_only=True):
    """Targets as `notify` of a definition has them."""

    notify: list[dict[str, Any]]


@resource.operation("GET", "/v1/notifications/default", role="admin")
def get_notify_default(access: StoreAccess, request: NoArguments) -> NotifyDefault:
    """The targets that the runs of all workflows have, besides those of their definitions."""
    rows = access.read("notify_default")
    targets = targets_of(rows[0][0] if rows else None)
    return NotifyDefault(notify=[msgspec.to_builtins(target) for target in targets])


class SetNotifyDefaultRequest(Request):
    notify: Annotated[list[dict[str, Any]], Meta(max_length=20, description="As `notify` of a definition")]


@resource.operation(
    "PUT", "/v1/notifications/default", role="admin", errors=REFUSABLE,
    example={"notify": [{"on": ["failed"], "webhook": "https://example.com/hook"}]},
)  # fmt: skip
def set_notify_default(access: StoreAccess, request: SetNotifyDefaultRequest) -> NotifyDefault:
    """Set the targets that the runs of all workflows have; an empty list removes them."""
    collector = ProblemCollector()
    targets = NOTIFY.read(collector, request.notify)
    if collector.problems:
        first = collector.problems[0]
        place = ".".join(str(part) for part in first.path)
        text = f"notify{f'.{place}' if place else ''}: {first.message}"
        raise c.Refused("invalid", f"{text}; {first.fix}" if first.fix else text)
    access.commit(c.SetNotifyDefault(list(define_targets(targets))))
    return NotifyDefault(notify=targets)
