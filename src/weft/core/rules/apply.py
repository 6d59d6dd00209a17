"""Which version of a workflow is current, and which triggers are active. A run never changes that; `weft apply` does.

A trigger that stays keeps its place in time and its pause. One that is new, was gone or has other times begins now:
what passed before is nobody's to make up for.
"""

import msgspec

from weft.core.commands import Apply, PauseTrigger, Refused, Reply
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import (
    AppliedVersion,
    ApplyLock,
    LastEvent,
    Trigger,
    TriggersByKey,
    TriggersOf,
    Workflows,
)
from weft.core.rows import TriggerRow
from weft.core.workflow import TriggerDef

CHAIN_MAX = 1000  # workflows that follow each other


def trigger_of(row: TriggerRow) -> TriggerDef:
    return msgspec.json.decode(row.body, type=TriggerDef)


def apply(draft: Draft, command: Apply) -> Rule:
    _, current, rows, stored, newest = yield (
        ApplyLock(), AppliedVersion(command.name), TriggersOf(command.name),
        Workflows([command.workflow]), LastEvent(),
    )  # fmt: skip
    yield from _check_hooks(draft, command)
    yield from _check_chain(draft, command)
    if not stored:
        draft.created.workflows = [(command.workflow, command.name, command.document)]
    draft.triggers.applied = (command.name, command.workflow, command.source, command.by)
    known: dict[str, TriggerRow] = {row.id: row for row in rows}
    changed: dict[str, list[str]] = {"added": [], "changed": [], "removed": []}
    for one in command.triggers:
        id = f"{command.name}/{one.name}"
        how = _activate(draft, command, one, id, known.pop(id, None), newest[0][0])
        if how is not None:
            changed[how].append(one.name)
    for row in known.values():
        if row.active:
            draft.triggers.changed.append((msgspec.structs.replace(row, active=False, next_ms=None), row.since_ms))
            draft.triggers.dropped_queues.append(row.id)
            changed["removed"].append(row.id.removeprefix(f"{command.name}/"))
    same = bool(current) and current[0][0] == command.workflow
    if not same or any(changed.values()):
        data = {"workflow": command.name, "hash": command.workflow, "by": command.by, **changed}
        draft.cluster_event("workflow_applied", None, data)
    return Reply(
        existing=same, changed=sum(len(names) for names in changed.values()),
        data={"workflow": command.name, "hash": command.workflow, "triggers": len(command.triggers), **changed},
    )  # fmt: skip


def _activate(
    draft: Draft, command: Apply, one: TriggerDef, id: str, row: TriggerRow | None, newest: int
) -> str | None:
    """Makes a trigger active; how it differs from what was there, if it does."""
    body = msgspec.json.encode(one, order="deterministic").decode()
    fresh = TriggerRow(
        id=id, workflow=command.name, kind=one.kind, key=one.key, body=body, hash=command.workflow,
        source=command.source, active=True, paused=one.paused, since_ms=draft.now,
        next_ms=draft.now if one.timed else None, cursor=newest,
        checked_ms=draft.now, check_ms=None if one.start_by_ms is None else draft.now,
    )  # fmt: skip
    if row is None:
        draft.triggers.changed.append((fresh, None))
        return "added"
    was = trigger_of(row)
    fresh.paused = row.paused if row.active and was.paused == one.paused else one.paused
    if row.active and _same_times(was, one):
        fresh.since_ms, fresh.next_ms, fresh.cursor = row.since_ms, row.next_ms, row.cursor
        if was.start_by_ms is not None and one.start_by_ms is not None:
            fresh.checked_ms = row.checked_ms
            fresh.check_ms = row.check_ms if was.start_by_ms == one.start_by_ms else draft.now
    else:  # what was decided stays so, should the store's clock have been set back
        fresh.since_ms, fresh.cursor = max(row.since_ms, draft.now), max(row.cursor, newest)
    if fresh != row:
        draft.triggers.changed.append((fresh, row.since_ms))
    if not row.active:
        return "added"
    return None if was == one else "changed"


def _same_times(was: TriggerDef, now: TriggerDef) -> bool:
    keys = ("kind", "cron", "timezone", "every_ms", "jitter_ms", "after", "after_state")
    return all(getattr(was, key) == getattr(now, key) for key in keys)


def _check_hooks(draft: Draft, command: Apply) -> Rule:
    """A webhook's name stands in its address, so it belongs to one trigger."""
    hooks: dict[str, str] = {}
    for one in command.triggers:
        if one.hook is not None:
            if one.hook in hooks:
                raise Refused("conflict", f"two triggers of {command.name} have the webhook {one.hook}")
            hooks[one.hook] = one.name
    if not hooks:
        return
    (others,) = yield (TriggersByKey("webhook", sorted(hooks)),)
    for row in others:
        if row.workflow != command.name:
            raise Refused("conflict", f"the webhook {row.key} belongs to the trigger {row.id}: give it another name")


def _check_chain(draft: Draft, command: Apply) -> Rule:
    """Workflows that follow each other in a circle would start runs for ever."""
    if all(one.after is None for one in command.triggers):
        return
    came_from: dict[str, str] = {command.name: ""}
    ahead = [command.name]
    while ahead and len(came_from) < CHAIN_MAX:
        (rows,) = yield (TriggersByKey("after", sorted(ahead)),)
        ahead = []
        for row in rows:
            if row.workflow not in came_from:
                came_from[row.workflow] = row.key or ""
                ahead.append(row.workflow)
    for one in command.triggers:
        if one.after is not None and one.after in came_from:
            path = [one.after]
            while came_from[path[-1]]:
                path.append(came_from[path[-1]])
            shown = " -> ".join([*reversed(path), command.name])
            raise Refused("conflict", f"these workflows would follow each other for ever: {shown}")


def pause_trigger(draft: Draft, command: PauseTrigger) -> Rule:
    rows, newest = yield (Trigger(command.trigger), LastEvent())
    if not rows or not rows[0].active:
        raise Refused("not_found", f"there is no trigger {command.trigger}")
    row: TriggerRow = rows[0]
    if row.paused == command.paused:
        return Reply(existing=True)
    fresh = msgspec.structs.replace(row, paused=command.paused)
    if not command.paused:
        fresh.since_ms, fresh.cursor = max(row.since_ms, draft.now), max(row.cursor, newest[0][0])
        fresh.next_ms = None if row.next_ms is None else draft.now
    draft.triggers.changed.append((fresh, row.since_ms))
    if command.paused:
        draft.cluster_event("trigger_paused", None, {"trigger": row.id})
    else:
        draft.cluster_event("trigger_resumed", None, {"trigger": row.id})
    return Reply(changed=1)
