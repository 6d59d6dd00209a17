"""The states of runs and tasks and the only moves between them.

    run    pending ──► running ──► succeeded | failed | cancelled
           (a finished run moves again only with generation + 1: resume, dead-letter retry)

    task   pending ──► queued ──► running ──► succeeded | failed | dead_letter | cancelled
              │  ▲        │         │  │
              │  │        │         │  └────► queued      lost lease, drain: no backoff
              │  │        │         └───────► pending     the same for a held result, when the run has no room
              │  └────────┼── scheduled ◄──   retry with backoff, delay
              ├──► waiting┤                   waits hold no slot
              └──► skipped | cancelled        its rule was false; the run stopped

`TRANSITIONS` is the truth: SQL CHECKs, docs and the terminal's labels are tested against it.
"""

from typing import Final, Literal, get_args

RunState = Literal["pending", "running", "succeeded", "failed", "cancelled"]
TaskState = Literal[
    "pending", "queued", "scheduled", "waiting", "running",
    "succeeded", "failed", "cancelled", "skipped", "dead_letter",
]  # fmt: skip

RUN_STATES: Final[tuple[RunState, ...]] = get_args(RunState)
TASK_STATES: Final[tuple[TaskState, ...]] = get_args(TaskState)

RUN_TERMINAL: Final[frozenset[str]] = frozenset({"succeeded", "failed", "cancelled"})
TERMINAL: Final[frozenset[str]] = frozenset({"succeeded", "failed", "cancelled", "skipped", "dead_letter"})
#: Admitted to run: what `max_parallel` counts.
ACTIVE: Final[frozenset[str]] = frozenset({"queued", "running"})
#: What a dependent takes for a failure (a skip counts by its cause, see rules/readiness).
FAILED: Final[frozenset[str]] = frozenset({"failed", "dead_letter", "cancelled"})

#: (from, to) -> why a task may make this move.
TRANSITIONS: Final[dict[tuple[TaskState, TaskState], str]] = {
    ("pending", "queued"): "what it needs is done, its rule is true and the run has room",
    ("pending", "scheduled"): "ready, with a delay",
    ("pending", "waiting"): "a wait task is reached",
    ("pending", "running"): "a mapped task opens, or the run of another workflow begins: it holds no slot",
    ("pending", "succeeded"): "a mapped task over nothing, a signal that had come before, or a person marked it",
    ("pending", "skipped"): "its rule or condition is false, or a person skipped it",
    ("pending", "failed"): "its condition could not be evaluated",
    ("pending", "cancelled"): "the run stopped before it was ready",
    ("queued", "running"): "a node claimed it",
    ("queued", "failed"): "its run has spent too much of its budget to start it",
    ("queued", "cancelled"): "the run stopped before a node claimed it",
    ("queued", "pending"): "the run was paused before a node claimed it",
    ("queued", "succeeded"): "a person marked it, without an attempt",
    ("queued", "skipped"): "a person skipped it",
    ("scheduled", "queued"): "its wake-up time came and the run has room",
    ("scheduled", "pending"): "its wake-up time came, the run has no room yet",
    ("scheduled", "cancelled"): "the run stopped during the delay",
    ("scheduled", "succeeded"): "a person marked it during the delay",
    ("scheduled", "skipped"): "a person skipped it during the delay",
    ("waiting", "succeeded"): "its signal or time came",
    ("waiting", "failed"): "its signal rejected it, or it timed out",
    ("waiting", "cancelled"): "the run stopped while it waited",
    ("waiting", "skipped"): "a person skipped it while it waited",
    ("running", "succeeded"): "the attempt succeeded",
    ("running", "failed"): "the attempt failed and no retry applies",
    ("running", "dead_letter"): "retries, or the bound of lost leases, are used up",
    ("running", "cancelled"): "the attempt was stopped by a cancel",
    ("running", "scheduled"): "retry with backoff",
    ("running", "queued"): "lost lease, drain, or a level that a new owner works on again",
    ("running", "pending"): "its level is worked on again by a new owner, and the run has no room yet",
}

RUN_TRANSITIONS: Final[dict[tuple[RunState, RunState], str]] = {
    ("pending", "running"): "its first task is queued or ended",
    ("pending", "succeeded"): "it has no tasks left to run",
    ("pending", "failed"): "its tasks ended without one being queued",
    ("pending", "cancelled"): "cancelled before anything started",
    ("running", "succeeded"): "all tasks ended well",
    ("running", "failed"): "all tasks ended, some in failed or dead_letter",
    ("running", "cancelled"): "it was cancelled, and at least one task with it",
    ("succeeded", "running"): "resume: a new generation",
    ("failed", "running"): "resume or dead-letter retry: a new generation",
    ("cancelled", "running"): "resume: a new generation",
}
