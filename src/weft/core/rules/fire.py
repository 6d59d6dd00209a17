"""What becomes of a trigger's fires: one run for each cause at most, whoever asks and however often.

Two things keep that: the trigger's row, which is locked and must still stand where the asker saw it, and the fires'
own key. Which of the times that passed are made up for, and what happens beside an earlier run, is decided here.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from weft.core.commands import Fire, Firing, Refused, Reply, Submit
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import FiresByCause, FiresSince, QueuedFires, Runs, Trigger, UnfinishedRunsOfTrigger
from weft.core.definition.inputs import resolve_inputs
from weft.core.expressions import ExpressionError, resolve_value
from weft.core.rows import FireRow, TriggerRow
from weft.core.rules.apply import trigger_of
from weft.core.rules.leader import require_term
from weft.core.rules.settle import settle
from weft.core.rules.stopping import stop_run
from weft.core.rules.submit import submit
from weft.core.workflow import TriggerDef

#: A time that is no older was not missed, only a little late: the leader changed, or was busy.
LATE_MS = 60_000
QUEUE_MAX = 1000


def fire(draft: Draft, command: Fire) -> Rule:
    if command.term is not None:
        yield from require_term(draft, command.term)
    (rows,) = yield (Trigger(command.trigger),)
    if not rows or not rows[0].active:
        raise Refused("not_found", f"there is no trigger {command.trigger}")
    row: TriggerRow = rows[0]
    if command.term is not None and (row.paused or (row.since_ms, row.cursor) != (command.since, command.cursor)):
        return Reply(existing=True)
    causes = [firing.cause for firing in command.firings]
    known, queued, unfinished = yield (
        FiresByCause(row.id, causes), QueuedFires(row.id, QUEUE_MAX), UnfinishedRunsOfTrigger(row.id),
    )  # fmt: skip
    work = _Work(draft, row, {fire.cause: fire for fire in known}, queued, unfinished)
    if queued and not unfinished and command.run_id is not None:
        yield from work.start_queued(command.run_id)
        left = command.firings  # they have their turn in the next transaction: one run in each
    else:
        left = yield from work.decide(command.firings)
    if command.term is not None:
        work.stand(command, left)
    return work.reply or Reply()


class _Work:
    """One trigger within one transaction."""

    def __init__(
        self, draft: Draft, row: TriggerRow, known: dict[str, FireRow], queued: list[FireRow], unfinished: list[Any]
    ) -> None:
        self.draft = draft
        self.row = row
        self.definition: TriggerDef = trigger_of(row)
        self.known = known
        self.queued = len(queued)
        self.oldest = queued[0] if queued else None
        self.unfinished = unfinished
        self.reply: Reply | None = None

    def decide(self, firings: list[Firing]) -> Rule:
        """Through the firings until one has started a run; those that are left."""
        missed = self._missed(firings)
        if missed:
            self._record(missed[-1], "missed", reason=_missed_text(missed))
        for at, firing in enumerate(firings[len(missed) :], len(missed) + 1):
            if firing.cause in self.known:
                self._set_reply(self.known[firing.cause], existing=True)
                continue
            if not _wanted(self.definition, firing):
                continue
            yield from self._one(firing)
            if self.draft.created.runs:
                return firings[at:]
        return []

    def _missed(self, firings: list[Firing]) -> list[Firing]:
        late = [f for f in firings if f.due_at is not None and f.due_at < self.draft.now - LATE_MS]
        if self.definition.catch_up == "all":
            return []
        if self.definition.catch_up == "last" and len(late) == len(firings):
            return late[:-1]
        return late

    def _one(self, firing: Firing) -> Rule:
        definition = self.definition
        if definition.rate is not None:
            (counts,) = yield (FiresSince(self.row.id, self.draft.now - definition.rate[1]),)
            if counts[0][0] >= definition.rate[0]:
                raise Refused("rate_limited", f"{self.row.id} fires at most {_rate_text(definition.rate)}")
        busy = bool(self.unfinished or self.queued)
        if busy and definition.overlap == "skip":
            self._record(firing, "skipped", reason=self._busy_text())
        elif busy and definition.overlap == "queue":
            if self.queued >= QUEUE_MAX:
                self._record(firing, "skipped", reason=f"{QUEUE_MAX} fires of it are queued already")
            else:
                self._record(firing, "queued", names=msgspec.json.encode(firing.names).decode())
        else:
            yield from self._start(firing, None)

    def _busy_text(self) -> str:
        return f"run {self.unfinished[0][1]} of it has not ended" if self.unfinished else "earlier fires are queued"

    def start_queued(self, run_id: str) -> Rule:
        """The run before has ended: the oldest queued fire has its turn."""
        waiting = self.oldest
        assert waiting is not None
        assert waiting.names is not None
        names = msgspec.json.decode(waiting.names)
        yield from self._start(Firing(waiting.cause, run_id, names, waiting.due_at), waiting)

    def _start(self, firing: Firing, waiting: FireRow | None) -> Rule:
        """A run with the version that is current now; the fire tells why if there can be none."""
        row, draft = self.row, self.draft
        workflow = draft.workflows[row.hash]
        inputs, reason = inputs_of_fire(workflow.inputs, self.definition, firing)
        if reason is None:
            if self.definition.overlap == "replace" and self.unfinished:
                yield from self._end_earlier()
            order = Submit(
                firing.run_id, row.hash, row.workflow, b"", msgspec.json.encode(inputs).decode(), source=row.source,
                trigger=row.id, cause=firing.cause,
            )  # fmt: skip
            try:
                yield from submit(draft, order)
            except Refused as refused:  # a pool is missing, say: nothing of the run is in the draft yet
                reason = refused.message
        self._record(
            firing, "failed" if reason else "started", run=None if reason else firing.run_id, reason=reason,
            waiting=waiting,
        )  # fmt: skip

    def _end_earlier(self) -> Rule:
        (runs,) = yield (Runs([no for no, _ in self.unfinished]),)
        for run in self.draft.add_loaded_runs(runs):
            if run.stop is None and run.finished_at is None:
                ended = yield from stop_run(self.draft, run, "cancel", f"replaced by the next fire of {self.row.id}")
                yield from settle(self.draft, ended)

    def _record(
        self, firing: Firing, outcome: str, *, run: str | None = None, reason: str | None = None,
        names: str | None = None, waiting: FireRow | None = None,
    ) -> None:  # fmt: skip
        fire = FireRow(self.row.id, firing.cause, firing.due_at, self.draft.now, outcome, run, reason, names)
        (self.draft.triggers.fires if waiting is None else self.draft.triggers.unqueued).append(fire)
        if outcome == "queued":
            self.queued += 1
            self.draft.wake = True
        data = {"trigger": self.row.id, "cause": firing.cause, "reason": reason}
        if outcome == "missed":
            self.draft.cluster_event("fire_missed", None, data)
        elif outcome == "failed":
            self.draft.cluster_event("fire_failed", None, data)
        self._set_reply(fire)

    def _set_reply(self, fire: FireRow, *, existing: bool = False) -> None:
        data = {"trigger": fire.trigger, "cause": fire.cause, "outcome": fire.outcome, "reason": fire.reason}
        self.reply = Reply(run_id=fire.run, state=fire.outcome, existing=existing, changed=1, data=data)

    def stand(self, command: Fire, left: list[Firing]) -> None:
        """Where the trigger stands now, for whoever looks at it next."""
        row = self.row
        fresh = msgspec.structs.replace(row)
        if left:
            assert self.reply is not None
            self.reply.more = True
            if len(left) == len(command.firings):
                return
            decided = command.firings[-len(left) - 1]
            if decided.seq is not None:
                fresh.cursor = decided.seq
            elif decided.due_at is not None:
                fresh.since_ms = decided.due_at
        elif command.until is not None:
            if row.kind == "after":
                fresh.cursor = max(row.cursor, command.until)
            else:
                fresh.since_ms, fresh.next_ms = max(row.since_ms, command.until), command.next_ms
        if fresh != row:
            self.draft.triggers.changed.append((fresh, row.since_ms))


def _wanted(definition: TriggerDef, firing: Firing) -> bool:
    """Whether a run that ended so is one to follow."""
    return firing.state is None or definition.after_state in ("finished", firing.state)


def inputs_of_fire(
    declared: Any, definition: TriggerDef, firing: Firing, others: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], str | None]:
    """A run's inputs, or why it can have none. `others` are given instead of the trigger's own."""
    try:
        given = {**resolve_value(definition.inputs, {"trigger": firing.names}), **(others or {})}
    except ExpressionError as error:
        return {}, f"inputs: {error.message}"
    values, problems = resolve_inputs(declared, given)
    return values, "; ".join(problem.message for problem in problems) or None


def _missed_text(missed: list[Firing]) -> str:
    what = "this time" if len(missed) == 1 else f"{len(missed)} times up to this one"
    return f"{what} passed while nobody could fire, and catch_up says to leave it at that"


def _rate_text(rate: tuple[int, int]) -> str:
    return f"{rate[0]} times in {rate[1] // 1000} s"
