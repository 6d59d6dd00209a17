"""A backfill: one run for each fire time of a range, at most so many unfinished at a time, and each time once.

The backfill's row says how far it has come, and is locked by each of the leader's commands; the fires' own key keeps
a time from having two runs, whoever asked for it: the clock, another backfill, or this one again after its leader
died.
"""

from typing import Any

import msgspec

from weft.core.commands import CancelBackfill, Firing, Refused, Reply, StartBackfill, StepBackfill, Submit
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Backfill, FiresByCause, Trigger, UnfinishedRunsOfBackfill
from weft.core.rows import BackfillRow, FireRow, TriggerRow
from weft.core.rules.apply import trigger_of
from weft.core.rules.fire import inputs_of_fire
from weft.core.rules.leader import require_term
from weft.core.rules.submit import submit
from weft.core.workflow import TIMED


def backfill_cause(backfill: str, due_at: int, again: bool) -> str:
    """The same as that of the clock's fire for this time, unless the time shall have another run."""
    return f"{due_at}@{backfill}" if again else str(due_at)


def start_backfill(draft: Draft, command: StartBackfill) -> Rule:
    (rows,) = yield (Trigger(command.trigger),)
    if not rows or not rows[0].active:
        raise Refused("not_found", f"there is no trigger {command.trigger}")
    if rows[0].kind not in TIMED:
        raise Refused("conflict", f"{command.trigger} is fired by no clock: it has no times")
    if command.last_ms > draft.now:
        raise Refused("conflict", "the range ends in the future: times that are yet to come are fired by themselves")
    row = BackfillRow(
        command.backfill, command.trigger, command.first_ms, command.last_ms, command.parallel, command.reverse,
        command.again, command.inputs, command.total, draft.now, command.by,
    )  # fmt: skip
    draft.triggers.new_backfill = row
    data = {"backfill": row.id, "trigger": row.trigger, "times": row.total}
    draft.cluster_event("backfill_started", None, data if row.by is None else {**data, "by": row.by})
    draft.wake = True
    return Reply(changed=1, state=row.state)


def step_backfill(draft: Draft, command: StepBackfill) -> Rule:
    """Through the times until one has started a run."""
    yield from require_term(draft, command.term)
    (rows,) = yield (Backfill(command.backfill),)
    if not rows or rows[0].state != "active" or rows[0].cursor != command.cursor:
        return Reply(existing=True)
    row: BackfillRow = rows[0]
    causes = [firing.cause for firing in command.firings]
    triggers, known, unfinished = yield (
        Trigger(row.trigger), FiresByCause(row.trigger, causes), UnfinishedRunsOfBackfill(row.id),
    )  # fmt: skip
    if not triggers or not triggers[0].active:
        return _end(draft, row, row.cursor, "cancelled", "its trigger was removed")
    if len(unfinished) >= row.parallel:
        return Reply(existing=True)
    fires = {fire.cause: fire for fire in known}
    was, left = row.cursor, len(command.firings)
    for firing in command.firings:
        left -= 1
        row.cursor = firing.due_at
        before = fires.get(firing.cause)
        if before is not None and (before.run is not None or before.outcome == "queued"):
            row.existing += 1
            continue
        yield from _start(draft, row, triggers[0], firing, before)
        if draft.created.runs:
            break
    if not left and command.last:
        return _end(draft, row, was, "complete", row.reason)
    draft.triggers.backfill = (row, was)
    return Reply(changed=1, more=True, state=row.state)


def _start(draft: Draft, row: BackfillRow, trigger: TriggerRow, firing: Firing, before: FireRow | None) -> Rule:
    """A run like the one that the clock would have started then, with the version that is current now."""
    others = msgspec.json.decode(row.inputs)
    inputs, reason = inputs_of_fire(draft.workflows[trigger.hash].inputs, trigger_of(trigger), firing, others)
    if reason is None:
        order = Submit(
            firing.run_id, trigger.hash, trigger.workflow, b"", msgspec.json.encode(inputs).decode(),
            source=trigger.source, trigger=trigger.id, cause=firing.cause, backfill=row.id,
        )  # fmt: skip
        try:
            yield from submit(draft, order)
        except Refused as refused:  # a pool is missing, say: nothing of the run is in the draft yet
            reason = refused.message
    run = None if reason else firing.run_id
    outcome = "failed" if reason else "started"
    fire = FireRow(trigger.id, firing.cause, firing.due_at, draft.now, outcome, run, reason)
    (draft.triggers.fires if before is None else draft.triggers.remade).append(fire)
    if reason is None:
        row.started += 1
    else:
        row.failed, row.reason = row.failed + 1, reason
        data = {"trigger": trigger.id, "cause": firing.cause, "reason": reason}
        draft.cluster_event("fire_failed", None, data)


def cancel_backfill(draft: Draft, command: CancelBackfill) -> Rule:
    (rows,) = yield (Backfill(command.backfill),)
    if not rows:
        raise Refused("not_found", f"there is no backfill {command.backfill}")
    if rows[0].state != "active":
        return Reply(existing=True, state=rows[0].state)
    return _end(draft, rows[0], rows[0].cursor, "cancelled", command.reason)


def _end(draft: Draft, row: BackfillRow, was: int | None, state: Any, reason: str | None) -> Reply:
    """`was`: the cursor that the stored row has."""
    row.state, row.reason = state, reason
    draft.triggers.backfill = (row, was)
    data = {"backfill": row.id, "trigger": row.trigger, "state": state, "reason": reason}
    draft.cluster_event("backfill_ended", None, data)
    return Reply(changed=1, state=state)
