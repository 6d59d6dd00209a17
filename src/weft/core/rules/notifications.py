"""Who is told what: rows of the outbox, written in the transaction of the event that they are about.

Rules note what happened (`draft.notifications.notices`). Once all else is decided, `write_notifications` finds the
targets: those of the workflow, and those that the store has for all workflows. An id is a hash of the event and the
target, so that the same event never leaves two rows for one target.

The leader delivers outside any transaction. `BeginDelivery` carries its term; the number of the try is the fence of
what is said about its end. A row whose leader has lost its term is due at once for the next one: at least once.
"""

import hashlib
from typing import Final

import msgspec

from weft.core.commands import BeginDelivery, EndDelivery, Refused, Reply, RetryNotifications, SetNotifyDefault
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.groups import Notice
from weft.core.decision.needs import FailedNotifications, Notifications, NotifyState
from weft.core.rows import NotificationRow, RunRow, TaskRow
from weft.core.rules.leader import require_term
from weft.core.rules.names import failed_positions
from weft.core.workflow import NotifyTarget

DEFAULT: Final = "default"  # the key of the targets for all workflows, in notify_state
TRIES_MAX: Final = 8
BACKOFF_FACTOR: Final = 3
BACKOFF_MS_MAX: Final = 3_600_000
NAMES_MAX: Final = 20  # failed tasks that a notification names
RETRY_MAX: Final = 1000
#: Of these the targets for all workflows hear only if no task started the run: that one's own end says it.
_OF_ROOTS: Final = ("failed", "recovered")


def failed_key(workflow: str) -> str:
    """Of notify_state: the workflow's last run failed; the body is that run's id."""
    return f"failed:{workflow}"


def note_end(draft: Draft, run: RunRow) -> None:
    if run.state in ("failed", "succeeded"):
        notice = Notice(run.state, f"{run.state}:{run.generation}", run.workflow, run.no)
        draft.notifications.notices.append(notice)


def note_wait(draft: Draft, run: RunRow, task: TaskRow, name: str, signal: str) -> None:
    facts = {"task": name, "signal": signal}
    cause = f"waiting:{task.pos}:{task.idx}:{task.generation}"
    draft.notifications.notices.append(Notice("waiting", cause, run.workflow, run.no, task.pos, facts))


def write_notifications(draft: Draft) -> Rule:
    """Turn what was noted into rows of the outbox. Where nobody is to hear of anything, it costs nothing."""
    changes = draft.notifications
    notices, changes.notices = changes.notices, []
    if changes.stored is False:
        notices = [one for one in notices if one.event != "succeeded" and draft.workflows[one.workflow].notify]
    if not notices:
        return
    keys = sorted({failed_key(draft.workflows[one.workflow].name) for one in notices if one.event in _ENDS})
    (stored,) = yield (NotifyState([DEFAULT, *keys]),)
    state = dict(stored)
    default = targets_of(state.pop(DEFAULT, None))
    for notice in notices:
        yield from _write(draft, notice, default, state)


_ENDS: Final = ("failed", "succeeded")


def targets_of(text: str | None) -> tuple[NotifyTarget, ...]:
    return () if text is None else msgspec.json.decode(text, type=tuple[NotifyTarget, ...])


def _write(draft: Draft, notice: Notice, default: tuple[NotifyTarget, ...], state: dict[str, str]) -> Rule:
    workflow = draft.workflows[notice.workflow]
    run = None if notice.run_no is None else draft.runs[notice.run_no]
    event, key = notice.event, failed_key(workflow.name)
    if event == "succeeded":
        if state.pop(key, None) is None:
            return
        event = "recovered"
        draft.notifications.state[key] = None
    is_root = run is None or run.parent is None
    everywhere = default if is_root or event not in _OF_ROOTS else ()
    targets = dict.fromkeys([*map(_encoded, workflow.notify), *map(_encoded, everywhere)])
    wanted = [(text, msgspec.json.decode(text, type=NotifyTarget)) for text in targets]
    if event == "failed" and run is not None and any("recovered" in target.on for _, target in wanted):
        draft.notifications.state[key] = state[key] = run.id
    chosen = [text for text, target in wanted if event in target.on]
    if not chosen:
        return
    facts, pos = dict(notice.facts), notice.pos
    if run is not None:
        facts |= {"state": run.state, "reason": run.reason, "generation": run.generation}
    if run is not None and event == "failed":
        failed = yield from failed_positions(draft, run)
        broken = [pos for pos in failed if not workflow.tasks[pos].allow_failure]
        facts["failed"] = [workflow.tasks[pos].name for pos in broken[:NAMES_MAX]]
        pos = broken[0] if broken else None
    for text in chosen:
        draft.notifications.new.append(
            NotificationRow(
                _id(workflow.name if run is None else run.id, notice.cause, text), notice.run_no,
                None if run is None else run.id, pos, workflow.name, event, text,
                msgspec.json.encode(facts).decode(), draft.now, next_at=draft.now,
            )
        )  # fmt: skip


def _encoded(target: NotifyTarget) -> str:
    return msgspec.json.encode(target).decode()


def _id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def begin_delivery(draft: Draft, command: BeginDelivery) -> Rule:
    yield from require_term(draft, command.term)
    (rows,) = yield (Notifications(command.ids),)
    begun = []
    for row in rows:
        taken_over = row.term is not None and row.term != command.term
        if row.state != "pending" or row.next_at is None or (row.next_at > draft.now and not taken_over):
            continue
        fresh = msgspec.structs.replace(row, tries=row.tries + 1)
        if row.tries >= TRIES_MAX:  # its leaders were gone each time before they could say how it ended
            _give_up(draft, fresh, row.error or "nothing is known of the last try")
        else:
            fresh.term, fresh.next_at = command.term, draft.now + command.hold_ms
            begun.append([row.id, fresh.tries])
        draft.notifications.changed.append((fresh, row.tries))
    return Reply(changed=len(begun), data={"begun": begun})


def end_delivery(draft: Draft, command: EndDelivery) -> Rule:
    (rows,) = yield (Notifications([command.id]),)
    if not rows or rows[0].state != "pending" or rows[0].tries != command.tries:
        return Reply(existing=True)
    row: NotificationRow = rows[0]
    fresh = msgspec.structs.replace(row, term=None, error=command.error)
    if command.error is None:
        fresh.state, fresh.next_at, fresh.delivered_at = "delivered", None, draft.now
    elif command.final or row.tries >= TRIES_MAX:
        _give_up(draft, fresh, command.error)
    else:
        fresh.next_at = draft.now + min(command.backoff_ms * BACKOFF_FACTOR ** (row.tries - 1), BACKOFF_MS_MAX)
    draft.notifications.changed.append((fresh, row.tries))
    return Reply(state=fresh.state, changed=1)


def _give_up(draft: Draft, row: NotificationRow, error: str) -> None:
    row.state, row.next_at, row.term, row.error = "failed", None, None, error
    data = {"notification": row.id, "run": row.run, "event": row.event, "tries": row.tries, "error": error}
    draft.cluster_event("notification_failed", None, data)


def retry_notifications(draft: Draft, command: RetryNotifications) -> Rule:
    """Under their old ids: a receiver that has one already can tell. One that waits for its next try is sent now; one
    that is being delivered is left alone."""
    if command.ids is None:
        (rows,) = yield (FailedNotifications(RETRY_MAX),)
    else:
        (rows,) = yield (Notifications(sorted(dict.fromkeys(command.ids))),)
        known = [row.id for row in rows]
        for id in command.ids:
            if id not in known:
                raise Refused("not_found", f"there is no notification {id}")
    again = [row for row in rows if row.state != "pending" or (row.term is None and (row.next_at or 0) > draft.now)]
    for row in again:
        fresh = msgspec.structs.replace(
            row, state="pending", tries=0, next_at=draft.now, term=None, error=None, delivered_at=None
        )
        draft.notifications.changed.append((fresh, row.tries))
    if again:
        draft.cluster_event("notifications_retried", None, {"notifications": [row.id for row in again]})
    return Reply(changed=len(again), more=command.ids is None and len(rows) == RETRY_MAX)


def set_notify_default(draft: Draft, command: SetNotifyDefault) -> Rule:
    (rows,) = yield (NotifyState([DEFAULT]),)
    text = msgspec.json.encode(command.targets).decode() if command.targets else None
    if text == (rows[0][1] if rows else None):
        return Reply(existing=True)
    draft.notifications.state[DEFAULT] = text
    draft.cluster_event("notify_default_set", None, {"targets": len(command.targets)})
    return Reply(changed=1)
