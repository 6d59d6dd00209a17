"""docs/reference/states.md, made from the tables in weft.core.states."""

from weft.core.states import (
    ACTIVE,
    RUN_STATES,
    RUN_TERMINAL,
    RUN_TRANSITIONS,
    TASK_STATES,
    TERMINAL,
    TRANSITIONS,
)

_MADE = "<!-- Made by make docs from src/weft/core/states.py. -->"

#: What a person should think of when they read a state.
MEANING = {
    "pending": "it waits for what it needs, or for room (`max_parallel`)",
    "queued": "admitted; the next node with a free slot takes it",
    "scheduled": "it has a wake-up time: the delay before a retry",
    "waiting": "it waits for a signal or a time, and holds no slot",
    "running": "a node has it; of a mapped task: its elements are under way",
    "succeeded": "done",
    "failed": "it failed, and no retry applied",
    "cancelled": "it was stopped, or never started because its run was",
    "skipped": "its `when` or `if` said no, and the reason says why",
    "dead_letter": "it used up its retries, or lost its node too often; `weft dead retry` tries it again",
}
RUN_MEANING = {
    "pending": "stored; nothing of it has been queued yet",
    "running": "under way",
    "succeeded": "all tasks ended well; those marked `allow_failure` may have failed",
    "failed": "a task failed or is a dead letter, or the run's timeout passed",
    "cancelled": "it was cancelled, and at least one task with it",
}


def states_reference() -> str:
    lines = ["# States", "", _MADE, "", "## Tasks", ""]
    lines += ["| state | ended | takes room | meaning |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{state}` | {_yes(state in TERMINAL)} | {_yes(state in ACTIVE)} | {MEANING[state]} |"
        for state in TASK_STATES
    ]
    lines += ["", "A task moves only like this; everything else is refused by the engine.", ""]
    lines += ["| from | to | why |", "| --- | --- | --- |"]
    lines += [f"| `{start}` | `{end}` | {why} |" for (start, end), why in TRANSITIONS.items()]
    lines += [
        "",
        "What has ended stays as it is. `weft resume` and `weft dead retry` make new rows, in a new generation, for",
        "what did not succeed and for what follows it. Attempt numbers go on where they were; the retry budget",
        "starts anew.",
        "",
        "## Runs",
        "",
        "| state | ended | meaning |",
        "| --- | --- | --- |",
    ]
    lines += [f"| `{state}` | {_yes(state in RUN_TERMINAL)} | {RUN_MEANING[state]} |" for state in RUN_STATES]
    lines += ["", "| from | to | why |", "| --- | --- | --- |"]
    lines += [f"| `{start}` | `{end}` | {why} |" for (start, end), why in RUN_TRANSITIONS.items()]
    return "\n".join(lines) + "\n"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
