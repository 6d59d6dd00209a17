"""Types of request fields that several operations share: names, cursors, limits and filters."""

from typing import Annotated, Final

from msgspec import Meta

from weft.core.states import RunState, TaskState

LIMIT_MAX: Final = 1000
TIME_MAX: Final = 2**53
ID_MAX: Final = 2**62
TASK_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[0-9]{1,9})?$"
RUN_PATTERN: Final = r"^[0-9a-z-]{1,64}$"
NODE_PATTERN: Final = r"^[^/\x00-\x1f\x7f]{1,64}$"

RunRef = Annotated[str, Meta(pattern=RUN_PATTERN, description="A run's id, a unique beginning of one, or `last`")]
TaskRef = Annotated[
    str,
    Meta(pattern=TASK_PATTERN, description="A task's name, or that of an element of a mapped task (`transform.3`)"),
]
NodeRef = Annotated[
    str, Meta(pattern=NODE_PATTERN, description="A node's name, its session, or a unique beginning of the session")
]
WorkflowName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,128}$", description="A workflow's name")]
TriggerName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="A trigger's name in its workflow")]
PoolName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$", description="A pool's name")]
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{4,64}$", description="A version's hash, or a unique beginning of it")]
WholeHash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", description="A version's hash")]
TokenId = Annotated[str, Meta(pattern=r"^[0-9a-f]{4,16}$", description="A token's id, or a unique beginning of it")]

#: Where a list goes on: the keys of the last line that was shown, so that new lines shift nothing.
NumberCursor = Annotated[
    str, Meta(pattern=r"^(0|[1-9][0-9]{0,17})$", description="`next` of the page before; without it, the first page")
]
NameCursor = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9_./-]{1,200}$", description="`next` of the page before; without it, the first page"),
]
MomentCursor = Annotated[
    str,
    Meta(
        pattern=r"^(0|[1-9][0-9]{0,15})-[0-9a-z-]{1,64}$",
        description="`next` of the page before; without it, the first page",
    ),
]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="At most so many lines")]
Moment = Annotated[int, Meta(ge=0, le=TIME_MAX, description="A moment of the store's clock, in ms since 1970")]
RunStates = Annotated[list[RunState], Meta(description="Only runs in this state; may be repeated")]
TaskStates = Annotated[list[TaskState], Meta(description="Only tasks in this state; may be repeated")]
Reason = Annotated[str, Meta(max_length=1000, description="Kept in the history")]
AttemptNumber = Annotated[int, Meta(ge=1, le=1_000_000, description="Of this attempt, not of the last")]


def moment_cursor(at: int, key: str) -> str:
    return f"{at}-{key}"


def moment_keys(cursor: str) -> tuple[int, str]:
    at, _, key = cursor.partition("-")
    return int(at), key
