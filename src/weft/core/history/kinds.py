"""Events: every kind there is, which is what a filter may ask for, and the canonical lines of a run's level records.

A test compares the kinds with what the rules leave.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, get_args

import msgspec

EventKind = Literal[
    # of runs and their tasks
    "submitted", "assigned", "begun", "started", "finished", "lost", "returned", "overdue", "promoted", "admitted",
    "unverified", "adopted", "released", "progress", "skipped", "refused", "cancelled", "expanded", "closed",
    "placed", "reopened", "halted", "stopped", "waiting", "answered", "signalled", "context_conflict",
    "decided", "paused", "unpaused", "taken_over", "late",
    "resumed", "concluded", "owned", "disowned", "began", "merged", "level", "voided", "dropped", "advanced",
    "run_finished",
    # of the cluster
    "node_joined", "drain_started", "node_left", "node_dead", "workflow_applied", "trigger_paused", "trigger_resumed",
    "fire_missed", "fire_failed", "backfill_started",
    "backfill_ended", "leader_elected", "leader_resigned", "token_created", "token_revoked", "asked",
    "budget", "trigger_late", "notification_failed", "notifications_retried", "notify_default_set",
]  # fmt: skip
EVENT_KINDS: Final[tuple[str, ...]] = get_args(EventKind)

RECORD_KINDS = ("merged", "level", "resumed")


def canonical_lines(events: Iterable[tuple[str, str | None, dict[str, Any]]]) -> list[str]:
    """The level records of a run: the same bytes whatever order its tasks finished in, whichever nodes ran them.

    `events` are (kind, task, data) in their order. Time, node, session and attempt are left out. A resume takes back
    the records of the levels that it works on again.
    """
    records: list[dict[str, Any]] = []
    for kind, task, data in events:
        if kind == "merged":
            records.append({"level": data["level"], "task": task, "state": data["state"], "hash": data.get("hash")})
        elif kind == "level":
            records.append({"level": data["level"], "tasks": data["tasks"], "hash": data["hash"]})
        elif kind == "resumed" and "level" in data:
            records = [record for record in records if record["level"] < data["level"]]
    return [msgspec.json.encode(record).decode() for record in records]
