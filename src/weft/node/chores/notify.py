"""A chore of the leader: report what is late, and deliver notifications.

Deliveries go on beside the looks, a few at a time. Each is begun in the store under the leader's term, which counts
the try, then sent, then ended there. A leader that is gone in between leaves a row that the next leader delivers
again, under the same id: at least once.
"""

import asyncio

from weft.core.commands import BeginDelivery, CheckStarts, EndDelivery, Reply, ReportLate
from weft.core.rows import NotificationRow, TriggerRow
from weft.core.rules.apply import trigger_of
from weft.node.points import reach
from weft.node.ports import Delivery, LinkLost, NodeSettings, Ports
from weft.store.protocol import OutboxLook
from weft.triggers.protocol import BadTrigger
from weft.triggers.timetable import due_times

AT_ONCE = 8
HOLD = 2  # times the longest try: so long nobody else of this term delivers it
RETRY_S = 0.5  # between two tries to say how a delivery ended
RETRIES_MAX = 20


class Deliveries:
    """Those that one leader has under way, by id."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def notify(self, ports: Ports, settings: NodeSettings, term: int) -> None:
        box = await ports.chore_link.outbox(term, AT_ONCE + len(self._tasks))
        await _report_late(ports, term, box)
        if ports.notifier is not None and box.due:
            await self._begin(ports, settings, term, box)

    async def notify_all(self, ports: Ports, settings: NodeSettings, term: int) -> None:
        """What is due now, until each has been tried."""
        await _report_late(ports, term, await ports.chore_link.outbox(term, 1))
        while True:
            await self.notify(ports, settings, term)
            if not self._tasks:
                return
            await asyncio.wait(list(self._tasks.values()))

    async def _begin(self, ports: Ports, settings: NodeSettings, term: int, box: OutboxLook) -> None:
        rows = {row.id: (row, result) for row, result in box.due if row.id not in self._tasks}
        ids = list(rows)[: max(0, AT_ONCE - len(self._tasks))]
        if not ids:
            return
        hold_ms = int(HOLD * settings.notify_timeout_s * 1000)
        reply: Reply = await ports.chore_link.commit(BeginDelivery(term, ids, hold_ms))
        for id, tries in reply.data["begun"]:
            task = asyncio.create_task(_deliver(ports, settings, *rows[id], tries))
            self._tasks[id] = task
            task.add_done_callback(lambda _, id=id: self._tasks.pop(id, None))  # type: ignore[misc] # of a default

    async def stop(self) -> None:
        """Whatever is under way ends here; the next leader delivers it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _deliver(
    ports: Ports, settings: NodeSettings, row: NotificationRow, result: str | None, tries: int
) -> None:
    assert ports.notifier is not None
    try:
        async with asyncio.timeout(settings.notify_timeout_s):
            delivery = await ports.notifier.send(row, result)
    except TimeoutError:
        delivery = Delivery(f"not delivered within {settings.notify_timeout_s:g} s")
    except Exception as error:
        ports.log("a notification cannot be delivered", {"notification": row.id, "error": repr(error)})
        delivery = Delivery(f"the delivery failed: {type(error).__name__}")
    reach("notify.sent")
    backoff_ms = int(settings.notify_backoff_s * 1000)
    for _ in range(RETRIES_MAX):  # past that the row is due again, when its hold is over
        try:
            await ports.chore_link.commit(EndDelivery(row.id, tries, delivery.error, delivery.final, backoff_ms))
            break
        except LinkLost:
            await asyncio.sleep(RETRY_S)
    if delivery.error is not None:
        fields = {"notification": row.id, "run": row.run, "try": tries, "error": delivery.error}
        ports.log("a notification was not delivered", fields)


async def _report_late(ports: Ports, term: int, box: OutboxLook) -> None:
    more = box.late
    while more:
        reply: Reply = await ports.chore_link.commit(ReportLate(term))
        if reply.changed:
            ports.log("deadlines have passed", {"late": reply.changed, "term": term})
        more = reply.more
    for row in box.starts:
        try:
            await ports.chore_link.commit(_check(term, row, box.now))
        except BadTrigger as error:
            ports.log("a trigger's times are not known here", {"trigger": row.id, "error": error.message})


def _check(term: int, row: TriggerRow, now: int) -> CheckStarts:
    """Its times up to so long ago that their runs should have started, and when the next one is as old."""
    definition = trigger_of(row)
    start_by_ms = definition.start_by_ms or 0
    times, next_ms = due_times(row.id, definition, row.checked_ms, now - start_by_ms)
    until = times[-1] if times else row.checked_ms
    return CheckStarts(term, row.id, row.checked_ms, times, until, None if next_ms is None else next_ms + start_by_ms)
