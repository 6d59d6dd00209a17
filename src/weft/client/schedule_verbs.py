"""The verbs about what happens by itself: triggers, backfills, notifications. And what all verbs are made of: one
operation each, or pages of one."""

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from weft.core.commands import BY_REQUEST
from weft.operations import parameters as p
from weft.operations.declare import NoArguments, Operation, Request
from weft.operations.on_demand import backfills, notifications, triggers
from weft.operations.replies import FireInfo, NotificationInfo, TriggerInfo

if TYPE_CHECKING:
    from weft.operations.resources.backfills import BackfillInfo, BackfillStarted
    from weft.operations.resources.triggers import TriggerDone

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")
PAGE: Final = p.LIMIT_MAX
ALL: Final = 1 << 62


class ScheduleVerbs:
    def call(self, operation: Operation[Q, R], request: Q) -> R:
        """Carry out an operation. Errors are those of the table (operations/errors.py), wherever it is done."""
        raise NotImplementedError

    def _pages(
        self, operation: Operation[Q, Any], request: Q, field: str, limit: int
    ) -> tuple[list[Any], str | None]:
        """As many pages as it takes, and where the list goes on. A page that comes short ends it: filters that few
        lines pass are not to be waited for."""
        found: list[Any] = []
        while True:
            asked = min(PAGE, limit - len(found))
            page = self.call(operation, msgspec.structs.replace(request, limit=asked))
            lines = getattr(page, field)
            found += lines
            if page.next is None or len(lines) < asked or len(found) >= limit:
                return found, page.next
            request = msgspec.structs.replace(request, cursor=page.next)

    def triggers(self, workflow: str | None = None) -> list[TriggerInfo]:
        request = triggers.ListTriggersRequest(workflow=workflow)
        return self._pages(triggers.list_triggers, request, "triggers", ALL)[0]

    def trigger(self, ref: str) -> TriggerInfo:
        """By its id (workflow/name), or by its workflow's or its own name where that is only one's."""
        return triggers.trigger_named(self.triggers(), ref)

    def fires(self, ref: str, limit: int = 20) -> list[FireInfo]:
        """What became of a trigger's fires, newest first."""
        found = self.trigger(ref)
        request = triggers.ListFiresRequest(name=found.workflow, trigger=found.name, limit=limit)
        return self.call(triggers.list_fires, request).fires

    def next_times(self, ref: str, count: int = 5) -> list[dict[str, Any]]:
        found = self.trigger(ref)
        request = triggers.ListNextTimesRequest(name=found.workflow, trigger=found.name, count=count)
        return self.call(triggers.list_next_times, request).times

    def pause_trigger(self, ref: str, *, paused: bool = True) -> "TriggerDone":
        found = self.trigger(ref)
        operation = triggers.pause_trigger if paused else triggers.resume_trigger
        return self.call(operation, triggers.OneTriggerRequest(name=found.workflow, trigger=found.name))

    def fire(self, ref: str, body: Any = None) -> "TriggerDone":
        """Fire a trigger now, by hand."""
        found = self.trigger(ref)
        return self.call(
            triggers.fire_trigger, triggers.FireTriggerRequest(name=found.workflow, trigger=found.name, body=body)
        )

    def start_backfill(self, ref: str, first: int, last: int, **options: Any) -> "BackfillStarted":
        """One run for each fire time of a trigger from one moment to another. `options`: parallel, reverse, again,
        inputs, preview."""
        request = backfills.StartBackfillRequest(trigger=ref, first=first, last=last, **options)
        return self.call(backfills.start_backfill, request)

    def backfills(self, limit: int = 20) -> list["BackfillInfo"]:
        return self.call(backfills.list_backfills, backfills.ListBackfillsRequest(limit=limit)).backfills

    def backfill(self, id: str) -> "BackfillInfo":
        return self.call(backfills.get_backfill, backfills.OneBackfillRequest(backfill=id))

    def cancel_backfill(self, id: str, reason: str = BY_REQUEST) -> "BackfillInfo":
        """Start no more runs of it, and cancel those that have not ended."""
        return self.call(backfills.cancel_backfill, backfills.CancelBackfillRequest(backfill=id, reason=reason))

    def notifications(self, *, state: Any = None, run: str | None = None, limit: int = 100) -> list[NotificationInfo]:
        """Newest first; only those in a state (pending, delivered, failed), or of a run."""
        request = notifications.ListNotificationsRequest(state=state, run=run)
        return self._pages(notifications.list_notifications, request, "notifications", limit)[0]

    def retry_notifications(self, ids: list[str] | None = None) -> int:
        """Deliver these again, or all that are no longer tried; how many."""
        request = notifications.RetryNotificationsRequest(ids=ids, failed=ids is None)
        return self.call(notifications.retry_notifications, request).changed

    def notify_default(self) -> list[dict[str, Any]]:
        """The targets that the runs of all workflows have, as `notify` of a definition has them."""
        return self.call(notifications.get_notify_default, NoArguments()).notify

    def set_notify_default(self, targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
        request = notifications.SetNotifyDefaultRequest(notify=targets)
        return self.call(notifications.set_notify_default, request).notify
