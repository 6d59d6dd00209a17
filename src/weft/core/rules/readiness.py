"""When may a task start? The trigger rules, from counters alone.

A dependent keeps counts of what it needs (open, failed, skipped, tolerated), so judging it costs the same
whether it needs one task or ten thousand. `explain` and `replay` use these same functions.
"""

from typing import Literal

from weft.core.rows import RunRow, TaskRow
from weft.core.workflow import TaskDef

Verdict = Literal["wait", "start", "skip", "skip_upstream"]
Ending = Literal["ok", "failed", "skipped"]


def ending_of(state: str, upstream: bool, allow_failure: bool) -> Ending:
    """What a dependent takes a task's end for."""
    if state == "succeeded":
        return "ok"
    if state == "skipped":
        return "failed" if upstream else "skipped"
    if allow_failure and state in ("failed", "dead_letter"):
        return "ok"
    return "failed"


def judge(when: str, needs: int, open_: int, failed: int, skipped: int) -> Verdict:
    """What the rule says about a task with that many needs. Needs whose state its condition asks about are
    in neither `failed` nor `skipped`: they are accepted as they come."""
    if open_ > 0:
        return "wait"
    no: Verdict = "skip_upstream" if failed else "skip"
    if when == "all_success":
        return no if failed or skipped else "start"
    if when == "none_failed":
        return no if failed else "start"
    if when == "any_success":
        return "start" if needs == 0 or needs - failed - skipped > 0 else no  # without needs it starts with the run
    if when == "on_failure":
        return "start" if failed else "skip"
    return "start"  # always


def judge_task(task: TaskRow, definition: TaskDef) -> Verdict:
    when = definition.when
    if when == "on_failure" and not definition.needs:
        return "wait" if task.open else ("start" if task.failed else "skip")
    return judge(when, len(definition.needs), task.open, task.failed, task.skipped)


def goes_on(definition: TaskDef, halted: bool, stop: str | None, handlers: bool) -> bool:
    """May a task like this start, or run on, in a run that was halted or stopped? After a stop only handlers may, as
    long as `handlers` says so."""
    if stop is None:
        return not halted or definition.survives_halt
    return handlers and (definition.when == "always" or (stop == "timeout" and definition.when == "on_failure"))


def can_still_start(run: RunRow, definition: TaskDef) -> bool:
    return goes_on(definition, run.halted, run.stop, run.deadline_at is not None)


def is_over(run: RunRow) -> bool:
    """It was stopped, and not even handlers start any more."""
    return run.stop is not None and run.deadline_at is None


def failures_of(run: RunRow) -> int:
    """What a handler of the whole run takes for failures: more than 0 if there is one."""
    return run.broken + run.cancelled + (run.stop == "timeout")


def handles_failure(task: TaskRow, definition: TaskDef) -> bool:
    """In a halted run only failure handlers start: `always`, what accepts a failed need and has one, and
    what follows a handler (those accept no failure themselves, so their rule has been true without one)."""
    if definition.when == "always" or not definition.accepts_failure:
        return definition.survives_halt
    return task.failed > 0 or task.tolerated > 0


def run_state(stopped: str | None, broken: int, cancelled: int) -> Literal["succeeded", "failed", "cancelled"]:
    """The state of a run whose tasks have all ended."""
    if stopped == "timeout":
        return "failed"
    if stopped and cancelled:
        return "cancelled"
    if broken:
        return "failed"
    return "cancelled" if cancelled else "succeeded"
