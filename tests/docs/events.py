"""docs/reference/events.md, made from this table. A test compares it with what rules leave and replay understands."""

from typing import NamedTuple

_MADE = "<!-- Made by make docs from tests/docs/events.py. -->"


class Event(NamedTuple):
    about: str  # a run, a task, or tasks named in its data
    meaning: str
    fields: dict[str, str]


_TASKS = "positions and indexes, as `[position, index]`; an index of -1 is the whole task"
_ATTEMPT = "the attempt's number"

EVENTS = {
    "submitted": Event(
        "run", "a run and all its tasks were stored", {
            "workflow": "the definition's hash", "tasks": "how many",
            "trigger": "what made the run, if a trigger did",
            "cause": "what that fired for",
            "backfill": "that the run is part of",
            "taken_from": "the run whose results it takes over, if it is a rerun from a task",
            "paused": "true, if the run is paused whose task starts it",
        },
    ),
    "assigned": Event("task", "a node took it", {"attempt": _ATTEMPT}),
    "begun": Event(
        "task", "the run of another workflow began, or goes on after a resume",
        {"attempt": _ATTEMPT, "run": "its id", "generation": "of that run"},
    ),
    "started": Event(
        "task", "its process began; told on its own only if it lasts longer than 250 ms",
        {"attempt": _ATTEMPT, "started_at": "when, by the store's clock"},
    ),
    "finished": Event(
        "task", "an attempt ended, and the task is now in this state",
        {
            "attempt": _ATTEMPT,
            "state": "the task's state; `scheduled` if it is tried again; `held` if it counts when its level commits",
            "end": "of a held one: the state it will have then",
            "started_at": "when its process began", "exitCode": "the process's", "error": "why it failed",
            "hash": "of its result, which is kept with the attempt",
            "cached": "nothing ran: the `run`, `task` and `attempt` whose result it took (`cache`)",
            "wake_at": "when it is tried again", "cause": "`oom`: it ran out of memory",
            "memory": "bytes that the next attempt requires (`retry.memory`)",
        },
    ),
    "lost": Event(
        "task", "its node is gone; it goes back to the queue, or is given up",
        {"attempt": _ATTEMPT, "session": "the session that is over", "state": "the task's state", "reason": "why",
         "end": "if that is `held`: what it will be"},
    ),
    "returned": Event(
        "task", "its node handed it back: requeued without using a retry",
        {"attempt": _ATTEMPT, "session": "the session that had it", "state": "the task's state", "reason": "why"},
    ),
    "decided": Event(
        "task", "a person skipped it, or marked it as succeeded",
        {"attempt": _ATTEMPT, "state": "`skipped` or `succeeded`", "reason": "why", "by": "who",
         "hash": "of the output that it was given"},
    ),
    "taken_over": Event(
        "task", "a rerun took over its end and its result",
        {"run": "the run that it was taken over from", "state": "`succeeded` or `skipped`", "attempt": _ATTEMPT,
         "hash": "of the result", "elements": "of a mapped task: `[state, attempt, hash]` of each",
         "array": "hash of what it maps over, if that comes from the context",
         "labels": "hash of what its elements are called"},
    ),
    "paused": Event(
        "run", "a person paused it: nothing more starts",
        {"reason": "why", "by": "who", "tasks": f"those that were queued: {_TASKS}"},
    ),
    "unpaused": Event("run", "a person let it go on", {"reason": "why", "by": "who"}),
    "overdue": Event(
        "task", "timeout, grace and 30 s more have passed, and it has not ended: its node is told to stop it",
        {"attempt": _ATTEMPT, "taken": "the node did not for another 30 s: the attempt is taken from it (`lost`)"},
    ),
    "budget": Event(
        "run or task",
        "a run may spend so much from now on; of a task: it did not start, because its run has too little left",
        {"usd": "US dollars", "tokens": "tokens", "state": "of a task: `failed`", "error": "of a task: why"},
    ),
    "unverified": Event(
        "task", "its node is lost, and its engine has not said that the attempt is gone: the task waits for that",
        {"attempt": "the attempt that its engine may still run", "engine": "where", "name": "its name there"},
    ),
    "adopted": Event(
        "task", "another node goes on watching what a lost node left on its engine (`retry.on_lost: adopt`)",
        {"attempt": _ATTEMPT, "from": "the attempt that started it", "engine": "where", "name": "its name there"},
    ),
    "released": Event(
        "task", "a person lets it go on without the proof that the attempt is gone (`weft release`)",
        {"attempt": "the attempt that its engine may still run", "engine": "where", "name": "its name there",
         "reason": "why"},
    ),
    "progress": Event(
        "task", "what an attempt on an engine waits for: an image, a place, the engine's answer",
        {"attempt": _ATTEMPT, "note": "in words"},
    ),
    "promoted": Event("tasks", "their wake-up time came", {"tasks": _TASKS}),
    "admitted": Event("tasks", "the run has room for them (`max_parallel`)", {"tasks": _TASKS}),
    "skipped": Event(
        "task", "its rule or condition is false",
        {"upstream": "because of an earlier failure", "reason": "which need, or which rule"},
    ),
    "refused": Event(
        "task", "its condition could not be evaluated", {"state": "always `failed`", "error": "why"}
    ),
    "late": Event(
        "run or task", "a deadline has passed, and it had not started, or ended, by then",
        {"by": "`start_by` or `finish_by`", "at": "that moment"},
    ),
    "concluded": Event(
        "run", "all tasks have ended but the handlers of the run, one of which reads how",
        {"state": "`run.state`", "reason": "`run.reason`", "failed": "`run.failed`: names of tasks"},
    ),
    "cancelled": Event("tasks", "they were cancelled before they started", {"tasks": _TASKS, "reason": "why"}),
    "expanded": Event(
        "task", "a mapped task opened",
        {
            "elements": "how many", "again": "after a resume: those that run again, the others are kept",
            "array": "the hash of what it maps over, if that came from the context",
            "labels": "the hash of the labels of its elements, if they have any",
        },
    ),
    "closed": Event(
        "task", "all elements of a mapped task have ended",
        {"state": "the mapped task's state", "reason": "why", "end": "if that is `held`: what it will be"},
    ),
    "placed": Event(
        "task", "the leader gave it to a node, which alone may claim it until then (`placement: scored`)",
        {"on": "the node's name", "to": "its session", "wake_at": "until when"},
    ),
    "reopened": Event("task", "its node did not claim it in time: any eligible node may", {}),
    "halted": Event(
        "run", "a failure stopped the run; failure handlers go on",
        {"task": "which one failed", "now": "running tasks are stopped too (`halt_now`)"},
    ),
    "stopped": Event(
        "run", "nothing more starts but handlers, until their time is over",
        {
            "why": "`cancel` or `timeout`", "reason": "in words",
            "handlers_until": "when handlers must be over; without it, none start",
        },
    ),
    "waiting": Event(
        "task", "a wait task was reached; it holds no slot",
        {"signal": "the signal that it waits for", "wake_at": "when it stops waiting"},
    ),
    "answered": Event(
        "task", "a wait is over",
        {
            "state": "the task's state", "reason": "why it failed", "end": "if that is `held`: what it will be",
            "hash": "of what came with it",
        },
    ),
    "signalled": Event(
        "run", "a signal came, perhaps before its wait was reached", {"signal": "its name", "rejected": "the reason"}
    ),
    "context_conflict": Event(
        "run", "two tasks with no path between them wrote the same key of the context",
        {"key": "which", "writers": "the tasks' names"},
    ),
    "resumed": Event(
        "run", "a new generation began",
        {"generation": "its number", "tasks": "positions that run again", "level": "in levels: where it begins",
         "workflow": "the hash of the corrected definition that it goes on with", "by": "who corrected it"},
    ),
    "owned": Event("run", "a node took the whole run", {"session": "its session"}),
    "disowned": Event("run", "its owner's session is over; any node may take it", {"session": "that session"}),
    "began": Event("run", "its tasks of this level may start (`mode: levels`)", {"level": "which, from 0"}),
    "merged": Event(
        "task", "its level committed, in the order of names and indexes: from now on its end counts",
        {"level": "which", "state": "the task's state", "hash": "of its result"},
    ),
    "level": Event(
        "run", "a level committed, and the cursor moved",
        {"level": "which", "tasks": "how many", "hash": "of their names, states and results"},
    ),
    "voided": Event(
        "tasks", "their level failed, or the run was stopped: what they had done does not count",
        {"tasks": f"cancelled: {_TASKS}", "failed": "elements that failed and stay so", "reason": "why"},
    ),
    "dropped": Event(
        "tasks", "they had finished, but their run's owner was lost before the level committed: they run again",
        {"tasks": _TASKS, "later": "elements that wait for their map's `max_parallel`"},
    ),
    "advanced": Event("run", "a run paused between levels was continued", {"by": "`level` or `task`"}),
    "run_finished": Event(
        "run", "all its tasks have ended", {"state": "the run's state", "reason": "the first failure"}
    ),
}  # fmt: skip

_NODE = "its name"
_TERM = "the number of the term"
_TRIGGER = "its id: workflow/name"
_CAUSE = "what it fired for: a time in ms, the run that ended, a delivery"
#: Of the first event that came of a request to a server.
ANY = {"actor": "who asked: a token's id and label, `WEFT_TOKEN`, or `local` for the one in `.weft/token`"}
#: What happens to nodes, to the leader, to triggers and tokens belongs to no run.
CLUSTER_EVENTS = {
    "node_joined": Event(
        "node", "a session began",
        {"node": _NODE, "role": "its role", "scope": "the run it works for",
         "gave_up": "its process's session before, given up because the store did not answer: what was lost with "
         "that one does not count"},
    ),
    "drain_started": Event(
        "node", "it claims nothing more",
        {"node": _NODE, "deadline_ms": "how long running tasks may go on", "reason": "why"},
    ),
    "node_left": Event("node", "a session ended in peace", {"node": _NODE, "lost": "attempts that it still held"}),
    "node_dead": Event(
        "node", "a session was ended by others",
        {
            "node": _NODE, "proof": "`process`: it is provably gone; `lease`: its lease has passed",
            "lost": "attempts that it held, queued again",
        },
    ),
    "workflow_applied": Event(
        "workflow", "a version of a workflow is current, and its triggers active",
        {
            "workflow": "its name", "hash": "the version", "by": "who said so",
            "added": "triggers that are active now",
            "changed": "triggers that were changed", "removed": "triggers that are active no more",
        },
    ),
    "trigger_paused": Event("trigger", "it fires no more until it is resumed", {"trigger": _TRIGGER}),
    "trigger_resumed": Event("trigger", "it fires from now on", {"trigger": _TRIGGER}),
    "fire_missed": Event(
        "trigger", "times passed while nobody could fire, and `catch_up` leaves it at that",
        {"trigger": _TRIGGER, "cause": "the last of these times", "reason": "how many"},
    ),
    "fire_failed": Event(
        "trigger", "no run could be made for a fire", {"trigger": _TRIGGER, "cause": _CAUSE, "reason": "why"}
    ),
    "backfill_started": Event(
        "trigger", "runs are made for fire times that have passed",
        {"backfill": "its id", "trigger": _TRIGGER, "times": "how many", "by": "who asked for it"},
    ),
    "backfill_ended": Event(
        "trigger", "all its times have been looked at, or it was cancelled",
        {"backfill": "its id", "trigger": _TRIGGER, "state": "`complete` or `cancelled`", "reason": "why"},
    ),
    "leader_elected": Event(
        "node", "it leads from now on", {"term": _TERM, "after": "who led before and did not resign"}
    ),
    "token_created": Event(
        "token", "somebody may use the server from now on",
        {"id": "the token's", "label": "what it is for", "role": "what it may", "expires_at": "when it ends"},
    ),
    "trigger_late": Event(
        "trigger", "no run was started for some of its times within `start_by`",
        {"trigger": "workflow/name", "first": "the first of these times", "last": "the last of them",
         "times": "how many", "start_by_ms": "how long after each a run should have started",
         "reason": "why, of the last one"},
    ),
    "notification_failed": Event(
        "notification", "it could not be delivered, and is no longer tried",
        {"notification": "its id", "run": "the run it is about", "event": "what it is about", "tries": "how many",
         "error": "of the last try"},
    ),
    "notifications_retried": Event(
        "notification", "a person had notifications delivered again", {"notifications": "their ids"}
    ),
    "notify_default_set": Event(
        "notification", "the targets for all workflows were changed", {"targets": "how many there are"}
    ),
    "token_revoked": Event("token", "nobody may use it any more", {"id": "the token's", "label": "what it was for"}),
    "asked": Event(
        "command", "somebody changed what leaves no event of its own",
        {
            "command": "which: `set_pool`, `prune`, `cancel_task`", "run_id": "of this run", "task": "of this task",
            "reason": "why", "name": "the pool's", "size": "the pool's", "finished_before": "runs that ended earlier",
            "limit": "so many at a time", "cache": "kept results too",
            "usd": "that the pool's tasks may spend, in millionths",
            "tokens": "that they may spend", "renew": "what they have spent no longer counts",
        },
    ),
    "leader_resigned": Event("node", "it leads no more, and nobody does yet", {"term": _TERM, "reason": "why"}),
}  # fmt: skip


def events_reference() -> str:
    lines = [
        "# Events", "", _MADE, "",
        "Every change of a run leaves an event, in the same transaction as the change: `weft verify RUN` rebuilds",
        "the run from its events alone and compares. `weft events RUN` lists them; with `--json`, one object a line.",
        "Times are the store's clock in milliseconds.", "",
        "| event | about | meaning | data |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    for kind, event in EVENTS.items():
        fields = "; ".join(f"`{name}`: {meaning}" for name, meaning in event.fields.items())
        lines.append(f"| `{kind}` | {event.about} | {event.meaning} | {fields} |")
    lines += [
        "",
        f"The first event that came of a request to a server also has `actor`: {ANY['actor'].partition(': ')[2]}.",
        "",
        "What happens to nodes, to the leader and to tokens belongs to no run. `weft events` without a run shows",
        "these too.",
        "",
        "| event | meaning | data |", "| --- | --- | --- |",
    ]  # fmt: skip
    for kind, event in CLUSTER_EVENTS.items():
        fields = "; ".join(f"`{name}`: {meaning}" for name, meaning in event.fields.items())
        lines.append(f"| `{kind}` | {event.meaning} | {fields} |")
    lines += [
        "",
        "An ordinary task leaves two: `assigned` and `finished`. What a mapped task or a halt does to many tasks is",
        "one event, not one each. Results are not in here: they stand once, with the attempt, and the event has",
        "their hash.",
    ]
    return "\n".join(lines) + "\n"
