"""What a plugin imports to add a type of task: an entry point of the group `weft.executors` names the class.

    [project.entry-points."weft.executors"]
    greeting = "weft_greeting:GreetingExecutor"

`AsyncExecutor` is enough for work that one async function does, `PolledExecutor` for what another service runs. A
class with the methods of `Executor`, `CheckedExecutor` or `RemoteExecutor` can do all that Weft's own executors can.
"""

from weft.executors.protocol import (
    CheckedExecutor,
    Ended,
    Executor,
    Handle,
    Launch,
    Outcome,
    RemoteExecutor,
    StopReason,
    Usage,
)
from weft.plugins.async_executor import AsyncAttempt, AsyncExecutor, AttemptFailed
from weft.plugins.polled_executor import PolledExecutor, RemoteState

__all__ = [
    "AsyncAttempt",
    "AsyncExecutor",
    "AttemptFailed",
    "CheckedExecutor",
    "Ended",
    "Executor",
    "Handle",
    "Launch",
    "Outcome",
    "PolledExecutor",
    "RemoteExecutor",
    "RemoteState",
    "StopReason",
    "Usage",
]
