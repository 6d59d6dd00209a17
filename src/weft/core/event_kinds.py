"""Every kind of event there is: what a filter may ask for. A test compares it with what the rules leave."""

from typing import Final, Literal, get_args

EventKind = Literal[
    # of runs and their tasks
    "submitted", "assigned", "begun", "started", "finished", "lost", "returned", "overdue", "promoted", "admitted",
    "skipped", "refused", "cancelled", "expanded", "closed", "placed", "reopened", "halted", "stopped", "waiting",
    "answered", "signalled", "context_conflict", "resumed", "owned", "disowned", "began", "merged", "level", "voided",
    "dropped", "advanced", "run_finished",
    # of the cluster
    "node_joined", "drain_started", "node_left", "node_dead", "workflow_applied", "trigger_paused", "trigger_resumed",
    "fire_missed", "fire_failed", "leader_elected", "leader_resigned", "token_created", "token_revoked", "asked",
]  # fmt: skip
EVENT_KINDS: Final[tuple[str, ...]] = get_args(EventKind)
