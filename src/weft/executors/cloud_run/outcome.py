"""From how an execution ended to the outcome of its attempt."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from weft.executors.boot_clock import boottime
from weft.executors.cloud_run.objects import Execution, ExecutionTask
from weft.executors.protocol import Launch, Outcome

if TYPE_CHECKING:
    from weft.executors.cloud_run.attempt import CloudRunStop

FAILURES_MAX = 20  # tasks of an execution whose failures a result names


class CloudRunEnding(msgspec.Struct):
    error: str | None
    execution: Execution | None = None
    failures: list[ExecutionTask] = []
    started: float | None = None
    stopped: "CloudRunStop | None" = None
    retryable: bool = True
    forgotten: bool = False
    cause: int | None = None
    gone: float | None = None  # when the service said that nothing of it runs


def ended(execution: Execution, failures: list[ExecutionTask], started: float | None) -> CloudRunEnding:
    condition = execution.completed
    assert condition is not None
    if condition.state == "CONDITION_SUCCEEDED":
        return CloudRunEnding(None, execution, started=started)
    text = condition.message or condition.execution_reason or condition.reason or "the execution failed"
    text += (
        f" ({execution.succeeded_count} of {execution.task_count} tasks succeeded)" if execution.task_count else ""
    )
    if failures:
        named = ", ".join(f"task {one.index}{_exit(one)}" for one in failures[:3])
        text += f": {named}{', …' if len(failures) > 3 else ''}"
    return CloudRunEnding(" ".join(text.split())[:500], execution, failures, started)


def _exit(task: ExecutionTask) -> str:
    result = task.last_attempt_result
    return f" exit code {result.exit_code}" if result is not None and result.exit_code else ""


def make_outcome(launch: Launch, ending: CloudRunEnding) -> Outcome:
    now = ending.gone or boottime()
    execution = ending.execution
    started = ending.started
    if started is None and execution is not None:
        started = now - _seconds(execution)
    error = f"stopped ({ending.stopped.reason})" if ending.stopped is not None else ending.error
    outcome = Outcome(
        launch.task_id, launch.attempt, error is None, None, started, now, error,
        retryable=ending.retryable, cause=ending.cause, forgotten=ending.forgotten,
    )  # fmt: skip
    codes = [one.last_attempt_result.exit_code for one in ending.failures if one.last_attempt_result is not None]
    outcome.exit_code = 0 if outcome.ok else next((code for code in codes if code), None)
    if execution is not None:
        outcome.result = _described(execution, ending.failures)
    if ending.stopped is not None:
        outcome.stopped = ending.stopped.reason
        after_s = round(now - ending.stopped.asked, 3)
        outcome.termination = {"asked": ending.stopped.reason, "after_s": after_s, "verified": True}
    return outcome


def _described(execution: Execution, failures: list[ExecutionTask]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "execution": execution.name,
        "tasks": {
            "count": execution.task_count, "succeeded": execution.succeeded_count, "failed": execution.failed_count,
            "cancelled": execution.cancelled_count, "retried": execution.retried_count,
        },
    }  # fmt: skip
    if execution.log_uri:
        result["logUri"] = execution.log_uri
    if failures:
        result["failures"] = [
            {
                "index": one.index,
                "exitCode": None if one.last_attempt_result is None else one.last_attempt_result.exit_code,
                "message": "" if one.last_attempt_result is None else one.last_attempt_result.status.message[:500],
            }
            for one in failures
        ]
    return result


def _seconds(execution: Execution) -> float:
    try:
        began, over = (
            datetime.fromisoformat(text[:19] + "+00:00") for text in (execution.start_time, execution.completion_time)
        )
    except ValueError:
        return 0.0
    return max(0.0, (over - began).total_seconds())
