"""Which failures are tried again, after how long, and with how much memory."""

import hashlib
import math

from weft.core.commands import Report
from weft.core.decision.draft import Draft
from weft.core.placement.demands import MEMORY_MAX, memory_of, open_to_all, with_memory
from weft.core.rows import TaskRow
from weft.core.workflow import Retry, TaskDef


def retried(retry: Retry, report: Report) -> bool:
    """Whether `on` and `not_on` let this failure be tried again. What was lost is no failure: see `on_lost`."""
    if _among(retry.not_on, report):
        return False
    return report.retryable if retry.on is None else _among(retry.on, report)


def _among(failures: tuple[int | str, ...], report: Report) -> bool:
    """An exception is meant by its name, or by its name with the module as the report has it."""
    if not failures:
        return False
    known: list[int | str | None] = [report.exit_code, report.cause]
    if report.stopped == "timeout":
        known = ["timeout"]  # what its process ended with says nothing about it
    elif report.error_type is not None:
        known += [report.error_type, report.error_type.rpartition(".")[2]]
    return any(one is not None and one in failures for one in known)


def delay_ms(retry: Retry, failures: int, task_id: int, attempt: int, asked_ms: int = 0) -> int:
    """backoff × multiplier^(failures − 1), capped, then spread by the jitter share; at least what the other side has
    asked for, up to the cap.

    The jitter is a hash of (task, attempt), not a random number: the same history gives the same delays.
    """
    exponent = min(failures - 1, 64)  # past that any multiplier above 1 is over every cap
    delay = min(retry.backoff_ms * retry.multiplier**exponent, retry.max_backoff_ms)
    if retry.jitter:
        digest = hashlib.blake2b(f"{task_id}.{attempt}".encode(), digest_size=8).digest()
        share = int.from_bytes(digest) / 2**64  # 0 … 1
        delay *= 1 + retry.jitter * (2 * share - 1)
    return int(max(delay, min(asked_ms, retry.max_backoff_ms)))


def raise_memory(draft: Draft, task: TaskRow, definition: TaskDef) -> None:
    """The next attempt requires more memory than the one that ran out of it. If no node has as much, it waits."""
    if definition.retry.memory is None or "memory" not in definition.requires or _owned(draft, task):
        return
    before = memory_of(task.demand) or definition.requires["memory"]
    demand, body = with_memory(definition, min(MEMORY_MAX, math.ceil(before * definition.retry.memory)))
    draft.created.demands[demand] = body
    if definition.scored:
        draft.created.demands[open_to_all(demand)] = body  # should no node be picked in time
    draft.touch(task)
    task.demand = demand
    draft.replaced[task.id] = None


def _owned(draft: Draft, task: TaskRow) -> bool:
    """Of a run that one node owns nothing is counted for each task."""
    return draft.workflows[draft.runs[task.run_no].workflow].own is not None
