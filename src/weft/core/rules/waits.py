"""Wait tasks: for a signal, for a while, until a time. They hold no slot and no node.

A signal that comes early is kept, and taken when its wait is reached. Each signal is applied once: names are unique
in a run, and a second signal of the same name is refused. A rejection is forgotten when its wait runs again.
"""

import hashlib
from datetime import UTC, datetime
from typing import Any

import msgspec

from weft.core.commands import Refused, Reply, Signal
from weft.core.decision import needs
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import RunById, TasksAt
from weft.core.definition.field_types.text_formats import parse_duration_ms
from weft.core.expressions import ExpressionError, resolve_value
from weft.core.rows import WHOLE, AttemptRow, RunRow, TaskRow
from weft.core.rules.levels import end_in_level
from weft.core.rules.names import names_of
from weft.core.rules.notifications import note_wait
from weft.core.states import RUN_TERMINAL
from weft.core.workflow import TaskDef, Workflow

_ENDED = {"succeeded": "succeeded", "failed": "failed", "cancelled": "been cancelled"}


def begin_wait(
    draft: Draft, run: RunRow, workflow: Workflow, task: TaskRow, definition: TaskDef, following: list[TaskRow]
) -> Rule:
    """Its needs are done: take the signal that is there already, or wait."""
    draft.touch(task)
    task.started_at = draft.now
    spec = definition.spec
    if "signal" in spec:
        (rows,) = yield (needs.SignalOfRun(run.no, spec["signal"]),)
        if rows and (run.no, spec["signal"]) not in draft.values.forgotten_signals:
            data, rejected = rows[0]
            draft.move(task, "waiting")
            draft.event(run.no, "waiting", {"signal": spec["signal"], "wake_at": None}, task)
            answer(draft, task, data, rejected, following)
            return
        if spec.get("timeout_ms") is not None:
            task.wake_at = draft.now + spec["timeout_ms"]
    else:
        try:
            task.wake_at = yield from _moment(draft, run, workflow, definition)
        except (ExpressionError, ValueError) as error:
            task.reason = f"wait: {getattr(error, 'message', error)}"
            draft.move(task, "failed")
            draft.event(run.no, "refused", {"state": "failed", "error": task.reason}, task)
            following.append(task)
            return
    draft.move(task, "waiting")
    draft.event(run.no, "waiting", {"signal": spec.get("signal"), "wake_at": task.wake_at}, task)
    if "signal" in spec:
        note_wait(draft, run, task, definition.called(task.idx), spec["signal"])
    draft.wake = True


def forget_rejections(draft: Draft, run: RunRow, workflow: Workflow, positions: list[int]) -> Rule:
    """These tasks run again: a wait that was rejected is asked again."""
    signals = [workflow.tasks[pos].spec.get("signal") for pos in positions if workflow.tasks[pos].kind == "wait"]
    for name in dict.fromkeys(signals):
        if name is not None:
            (rows,) = yield (needs.SignalOfRun(run.no, name),)
            draft.values.forgotten_signals += [(run.no, name) for _, rejected in rows if rejected is not None]


def _moment(draft: Draft, run: RunRow, workflow: Workflow, definition: TaskDef) -> Rule:
    names = yield from names_of(draft, run, workflow, definition, definition.template_reads)
    spec = definition.spec
    if "for" in spec:
        value = resolve_value(spec["for"], names)
        if type(value) not in (str, int, float):
            raise ValueError("for: a duration is needed, text like 10m or a number of seconds")
        return draft.now + parse_duration_ms(value)
    text = resolve_value(spec["until"], names)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"until: {str(text)[:60]!r} is no time like 2026-01-31T08:00:00Z") from None


def signal(draft: Draft, command: Signal) -> Rule:
    (runs,) = yield (RunById(command.run_id),)
    if not runs:
        raise Refused("not_found", f"there is no run {command.run_id}")
    run = draft.add_loaded_runs(runs)[0]
    workflow = draft.workflows[run.workflow]
    waits = [pos for pos, d in enumerate(workflow.tasks) if d.kind == "wait" and d.spec.get("signal") == command.name]
    if not waits:
        known = sorted({d.spec["signal"] for d in workflow.tasks if d.kind == "wait" and "signal" in d.spec})
        hint = f"; it waits for {', '.join(known)}" if known else "; it waits for none"
        raise Refused("not_found", f"run {run.id} knows no signal {command.name!r}{hint}")
    (before,) = yield (needs.SignalOfRun(run.no, command.name),)
    if before:  # asked first: the one that was said again may have ended the run
        if before[0] == (command.data, command.rejected):
            return Reply(run.id, run.no, run.state, existing=True)
        raise Refused("conflict", f"the signal {command.name!r} has come already")
    if run.state in RUN_TERMINAL:
        raise Refused("conflict", f"run {run.id} has {_ENDED[run.state]}")
    draft.values.signals.append((run.no, command.name, command.data, command.rejected))
    draft.event(run.no, "signalled", {"signal": command.name, "rejected": command.rejected})
    (rows,) = yield (TasksAt([(run.no, pos, WHOLE) for pos in waits]),)
    draft.add_loaded(rows)
    following: list[TaskRow] = []
    for pos in waits:
        task = draft.at[(run.no, pos, WHOLE)]
        if task.state == "waiting" and task.held is None:
            answer(draft, task, command.data, command.rejected, following)
    return (run, following)


def answer(draft: Draft, task: TaskRow, data: str | None, rejected: str | None, following: list[TaskRow]) -> None:
    """End a wait. What came with it is the task's output."""
    if rejected is not None:
        task.reason = f"rejected: {rejected}"
    _end(draft, task, "failed" if rejected is not None else "succeeded", data, following)


def due(draft: Draft, task: TaskRow, following: list[TaskRow]) -> None:
    """Its time has come: a wait for a time succeeds, a signal that did not come gives the default or fails."""
    spec = draft.definition(task).spec
    if "signal" not in spec:
        _end(draft, task, "succeeded", None, following)
    elif "default" in spec:
        _end(draft, task, "succeeded", msgspec.json.encode(spec["default"]).decode(), following)
    else:
        task.reason = f"the signal {spec['signal']!r} did not come in time"
        _end(draft, task, "failed", None, following)


def _end(draft: Draft, task: TaskRow, state: Any, data: str | None, following: list[TaskRow]) -> None:
    result = None if data is None else f'{{"output":{data}}}'
    hash = None if result is None else hashlib.sha256(result.encode()).hexdigest()[:32]
    draft.touch(task)
    draft.attempts.append(
        AttemptRow(
            task_id=task.id, attempt=task.attempt, generation=task.generation, session="", outcome=state,
            exit_code=None, error=task.reason if state == "failed" else None,
            claimed_at=task.started_at, started_at=task.started_at, finished_at=draft.now,
            result=result, result_hash=hash,
        )
    )  # fmt: skip
    run = draft.runs[task.run_no]
    if run.level is None:
        draft.move(task, state)
    else:
        end_in_level(draft, run, task, state)
    facts: dict[str, Any] = {"state": task.state, "reason": task.reason}
    if task.held is not None:
        facts["state"], facts["end"] = "held", task.held
    if hash is not None:
        facts["hash"] = hash
    draft.event(task.run_no, "answered", facts, task)
    following.append(task)
